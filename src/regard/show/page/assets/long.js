// Long attention: summaries of blocks, from all of it down to the finest blocks that the page has.

const DECADES = 4; // below the largest weight, in the logarithmic scale
const CLOSEST = 8; // tokens across the view, at least

regard.view("long", (root, data) => {
  const model = longModel(data);
  const canvas = regard.element("canvas", { class: "long-canvas", tabindex: "0", role: "img", "aria-label": longName(data) });
  const map = regard.element("canvas", { class: "long-map", "aria-hidden": "true" });
  const line = regard.element("p", { class: "readout", "aria-live": "polite" });
  const legend = regard.element("p", { class: "colour-scale" });
  const row = regard.element("div", { class: "long-row" });
  const ticks = { rows: regard.element("div", { class: "ticks rows", "aria-hidden": "true" }), columns: regard.element("div", { class: "ticks columns", "aria-hidden": "true" }) };
  const view = { model, canvas, ticks, map, line, legend, row, window: fullViewport(data), at: null };
  view.redraw = regard.later(() => drawLong(view));
  root.append(
    longControls(view),
    line,
    regard.element("div", { class: "long-body" }, regard.element("div", { class: "long-axes" }, ticks.columns, ticks.rows, canvas), regard.element("div", { class: "long-side" }, map, legend, row)),
  );
  moveWithPointer(view);
  moveWithKeys(view);
  new ResizeObserver(view.redraw).observe(canvas);
  regard.onTheme(() => {
    model.painted.clear();
    view.redraw();
    if (view.picked !== undefined) pickRow(view, view.picked);
  });
  describe(view, null);
});

const longName = ({ queries, keys }) =>
  `Attention of ${regard.count(queries)} queries to ${regard.count(keys)} keys. The arrow keys move, plus and minus zoom, 0 shows all, Enter picks the query in the middle.`;

const fullViewport = ({ queries, keys }) => ({ top: 0, left: 0, height: queries, width: keys });

// -------------------------------------------------------------------------------------------------------- model

function longModel(data) {
  const { shape, data: maximum } = regard.array(data.maximum);
  const mean = regard.array(data.mean).data;
  const [heads, rows, columns] = shape;
  const size = rows * columns;
  const levels = Array.from({ length: heads }, (_, head) => {
    const part = (array) => array.subarray(head * size, (head + 1) * size);
    return [{ maximum: part(maximum), mean: part(mean), rows, columns, size: data.blocks }];
  });
  return { data, heads, levels, head: 0, kind: "maximum", scale: "log", painted: new Map() };
}

// A level of this head; each has blocks twice as large as the one before.
function levelOf(model, depth) {
  const levels = model.levels[model.head];
  while (levels.length <= depth) levels.push(coarser(levels.at(-1), model.data));
  return levels[depth];
}

function coarser(fine, { queries, keys }) {
  const [rows, columns] = [Math.ceil(fine.rows / 2), Math.ceil(fine.columns / 2)];
  const maximum = new Float32Array(rows * columns);
  const sums = new Float64Array(rows * columns);
  const covered = (length, size, k) => Math.min(size, length - k * size);
  for (let i = 0, k = 0; i < fine.rows; i++) {
    for (let j = 0; j < fine.columns; j++, k++) {
      const at = (i >> 1) * columns + (j >> 1);
      maximum[at] = Math.max(maximum[at], fine.maximum[k]);
      sums[at] += fine.mean[k] * covered(queries, fine.size[0], i) * covered(keys, fine.size[1], j);
    }
  }
  const size = fine.size.map((tokens) => 2 * tokens);
  const mean = new Float32Array(sums).map((_, at) => {
    return sums[at] / covered(queries, size[0], Math.floor(at / columns)) / covered(keys, size[1], at % columns);
  });
  return { maximum, mean, rows, columns, size };
}

// The largest weight of this head in the present summary.
function topOf(model) {
  const level = model.levels[model.head][0];
  level.tops ??= { maximum: regard.largest(level.maximum), mean: regard.largest(level.mean) };
  return level.tops[model.kind];
}

// What a weight is to the eye, from 0 to 1.
function strengths(weights, top, scale) {
  if (scale === "linear") return weights.map((weight) => weight / top);
  return weights.map((weight) => (weight > 0 ? Math.max(0.02, 1 + Math.log10(weight / top) / DECADES) : 0));
}

function paint(model, depth) {
  const key = [model.head, model.kind, model.scale, depth].join();
  if (!model.painted.has(key)) {
    const level = levelOf(model, depth);
    const top = topOf(model);
    model.painted.set(key, painted(level[model.kind], level.rows, level.columns, top, model.scale));
  }
  return model.painted.get(key);
}

function painted(weights, rows, columns, top, scale) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d");
  context.putImageData(regard.colours(strengths(weights, top, scale), context.createImageData(columns, rows)), 0, 0);
  return canvas;
}

// ------------------------------------------------------------------------------------------------------ drawing

function drawLong(view) {
  const { model, canvas, map, window: viewport } = view;
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.round(side * ratio));
  if (!width || !height) return;
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  const depth = depthFor(model, viewport, canvas);
  drawLevel(context, paint(model, depth), levelOf(model, depth), viewport, width, height);
  drawPicked(context, view, width, height);
  drawMap(map, model, viewport);
  showLegend(view);
  showTicks(view);
}

// The finest level whose blocks have a pixel each: a thinner row would be lost.
function depthFor(model, viewport, { width, height }) {
  const dots = Math.min(width / viewport.width, height / viewport.height);
  let depth = 0;
  while (levelOf(model, depth).size[0] * dots < 1 && levelOf(model, depth).rows > 1) depth++;
  return depth;
}

function drawLevel(context, picture, { size: [down, across] }, { top, left, height, width }, w, h) {
  context.drawImage(picture, left / across, top / down, width / across, height / down, 0, 0, w, h);
}

function drawPicked(context, { picked, window: viewport }, width, height) {
  if (picked === undefined) return;
  const y = ((picked + 0.5 - viewport.top) / viewport.height) * height;
  context.fillStyle = "rgb(255 140 60 / 0.75)";
  const thick = Math.max(1.5, Math.min(4, height / viewport.height));
  context.fillRect(0, y - thick / 2, width, thick);
}

function drawMap(map, model, viewport) {
  const { queries, keys } = model.data;
  const side = 150 / Math.max(queries, keys);
  [map.width, map.height] = [Math.max(2, keys * side), Math.max(2, queries * side)];
  const context = map.getContext("2d");
  let depth = 0;
  while (levelOf(model, depth).rows > map.height && levelOf(model, depth).rows > 1) depth++;
  drawLevel(context, paint(model, depth), levelOf(model, depth), fullViewport(model.data), map.width, map.height);
  context.strokeStyle = "rgb(255 140 60)";
  context.lineWidth = 2;
  const box = [viewport.left * side, viewport.top * side, viewport.width * side, viewport.height * side];
  context.strokeRect(box[0] + 1, box[1] + 1, Math.max(2, box[2] - 2), Math.max(2, box[3] - 2));
}

function showLegend({ model, legend }) {
  const top = topOf(model);
  const low = model.scale === "log" ? top / 10 ** DECADES : 0;
  const bar = regard.element("span", { class: "colour-bar", "aria-hidden": "true" });
  bar.style.background = regard.gradient();
  legend.replaceChildren(brief(low), bar, brief(top));
}

// Two digits of a weight, without an exponent where it can be read.
const brief = (weight) => String(Number(weight.toPrecision(2))).replace("e-", "e\u2212");

// The numbers of the queries and keys at the sides of the picture.
function showTicks({ ticks, model, window: { top, left, height, width } }) {
  const side = (name, ...range) => tickTexts(...range).map(([share, text]) => regard.element("span", { style: { [name]: `${100 * share}%` } }, text));
  ticks.rows.replaceChildren(...side("top", top, height, model.data.queries));
  ticks.columns.replaceChildren(...side("left", left, width, model.data.keys));
}

const tickTexts = (first, extent, most) => [0, 0.25, 0.5, 0.75, 1].map((share) => [share, regard.count(Math.min(most, Math.floor(first + share * extent) + (share < 1 ? 1 : 0)))]);

// What is seen at present, with the indices of queries and keys.
function longPicture({ model, canvas, window: viewport }) {
  const size = [canvas.clientWidth, canvas.clientHeight];
  const copy = regard.element("canvas", { width: 2 * size[0], height: 2 * size[1] });
  const context = copy.getContext("2d");
  context.imageSmoothingEnabled = false;
  model.painted.clear();
  drawLevel(context, paint(model, depthFor(model, viewport, copy)), levelOf(model, depthFor(model, viewport, copy)), viewport, copy.width, copy.height);
  model.painted.clear();
  const [x, y] = [80, 70];
  const { top, left, height, width } = viewport;
  const title = `Head ${model.head + 1}, ${model.kind === "mean" ? "mean" : "largest"} weight of a block`;
  return regard.element(
    "svg:svg",
    { viewBox: `0 0 ${x + size[0] + 40} ${y + size[1] + 20}`, "aria-label": title, ...FONT },
    pictureText(title, 12, 25, { "font-weight": 600 }),
    pictureText("Keys", x + size[0] / 2, 44, { "text-anchor": "middle" }),
    pictureText("Queries", 16, y + size[1] / 2, { "text-anchor": "middle", transform: `rotate(-90 16 ${y + size[1] / 2})` }),
    tickTexts(left, width, model.data.keys).map(([share, text]) => pictureText(text, x + share * size[0], y - 8, { "text-anchor": "middle" })),
    tickTexts(top, height, model.data.queries).map(([share, text]) => pictureText(text, x - 8, y + share * size[1] + 4.5, { "text-anchor": "end" })),
    regard.element("svg:image", { x, y, width: size[0], height: size[1], href: copy.toDataURL(), preserveAspectRatio: "none" }),
  );
}

// ----------------------------------------------------------------------------------------------------- controls

function longControls(view) {
  const { model } = view;
  const shown = (key) => (value) => {
    model[key] = value;
    view.redraw();
    describe(view, view.at);
  };
  const choice = (name, options, key) => regard.choices(name, options, model[key], shown(key)).element;
  const heads = Array.from({ length: model.heads }, (_, k) => `head ${k + 1}`);
  const zoom = [["\u2212", "zoom out", 2], ["+", "zoom in", 0.5], ["All", "show all", 0]].map(([sign, name, factor]) =>
    regard.element("button", { type: "button", "aria-label": name, onclick: () => zoomBy(view, factor) }, sign),
  );
  return regard.element(
    "div",
    { class: "chooser" },
    model.heads > 1 && regard.list("Head", heads, (head) => {
      shown("head")(head);
      if (view.picked !== undefined) pickRow(view, view.picked);
    }),
    choice("Summary of a block", [["maximum", "largest"], ["mean", "mean"]], "kind"),
    choice("Scale", [["log", "log"], ["linear", "linear"]], "scale"),
    regard.element("div", { class: "groups" }, zoom),
    regard.exports("this part", () => ({ svg: () => regard.onPaper(() => longPicture(view)), titles: [document.title, `head ${model.head + 1}`] })),
  );
}

// Zoom by a factor about a position in the view, given as shares of its sides; 0 shows all.
function zoomBy(view, factor, { x = 0.5, y = 0.5 } = {}) {
  const { queries, keys } = view.model.data;
  const old = view.window;
  if (!factor) view.window = fullViewport(view.model.data);
  else {
    const least = Math.max(Math.min(CLOSEST, queries) / old.height, Math.min(CLOSEST, keys) / old.width);
    const by = Math.max(factor, Math.min(1, least));
    view.window = { top: old.top + y * old.height * (1 - by), left: old.left + x * old.width * (1 - by), height: old.height * by, width: old.width * by };
  }
  keepInside(view);
  view.redraw();
}

function keepInside(view) {
  const { queries, keys } = view.model.data;
  const viewport = view.window;
  viewport.height = Math.min(viewport.height, queries);
  viewport.width = Math.min(viewport.width, keys);
  viewport.top = Math.min(Math.max(0, viewport.top), queries - viewport.height);
  viewport.left = Math.min(Math.max(0, viewport.left), keys - viewport.width);
}

function moveBy(view, down, across) {
  view.window.top += down * view.window.height;
  view.window.left += across * view.window.width;
  keepInside(view);
  view.redraw();
}

function moveWithKeys(view) {
  const actions = {
    ArrowUp: () => moveBy(view, -0.1, 0),
    ArrowDown: () => moveBy(view, 0.1, 0),
    ArrowLeft: () => moveBy(view, 0, -0.1),
    ArrowRight: () => moveBy(view, 0, 0.1),
    "+": () => zoomBy(view, 0.5),
    "=": () => zoomBy(view, 0.5),
    "-": () => zoomBy(view, 2),
    0: () => zoomBy(view, 0),
    Enter: () => pickRow(view, positionAt(view, { x: 0.5, y: 0.5 }).row),
  };
  view.canvas.addEventListener("keydown", (event) => {
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
    describe(view, { x: 0.5, y: 0.5 });
  });
}

// One pointer moves, two zoom, and so does the wheel while the picture has the focus or with Ctrl.
function moveWithPointer(view) {
  const { canvas } = view;
  const down = new Map();
  let moved = 0;
  const share = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  };
  const apart = () => {
    const [a, b] = [...down.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (!down.size) moved = 0;
    down.set(event.pointerId, share(event));
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = share(event);
    if (!down.has(event.pointerId)) return describe(view, now);
    const before = down.get(event.pointerId);
    const spread = down.size === 2 ? apart() : 0;
    down.set(event.pointerId, now);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (down.size === 2) zoomBy(view, spread / Math.max(apart(), 1e-3), now);
    else moveBy(view, before.y - now.y, before.x - now.x);
  });
  const up = (event) => {
    if (down.delete(event.pointerId) && event.type === "pointerup" && moved < 0.01) pickRow(view, positionAt(view, share(event)).row);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => describe(view, null));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoomBy(view, 2 ** (event.deltaY / 300), share(event));
  }, { passive: false });
}

// ------------------------------------------------------------------------------------------------------ readout

function positionAt({ window: viewport, model }, { x, y }) {
  const within = (token, most) => Math.min(most - 1, Math.max(0, Math.floor(token)));
  return {
    row: within(viewport.top + y * viewport.height, model.data.queries),
    column: within(viewport.left + x * viewport.width, model.data.keys),
  };
}

// The finest summary of a position.
function summaryAt({ model }, { row, column }) {
  const level = levelOf(model, 0);
  const i = Math.floor(row / level.size[0]);
  const j = Math.floor(column / level.size[1]);
  const at = i * level.columns + j;
  return { level, top: i * level.size[0], left: j * level.size[1], maximum: level.maximum[at], mean: level.mean[at] };
}

function describe(view, at) {
  view.at = at;
  const { line, model } = view;
  const { queries, keys, query_labels: rows, key_labels: columns } = model.data;
  if (!at) {
    line.replaceChildren(`${regard.count(queries)} queries, ${regard.count(keys)} keys. Drag to move; + and \u2212 zoom; a click picks a query.`);
    return;
  }
  const cell = summaryAt(view, positionAt(view, at));
  const [down, across] = cell.level.size;
  const number = (value) => regard.element("b", {}, regard.weight(value, 4));
  const ranges = [range("query", "queries", cell.top, down, queries, rows), " \u2192 ", range("key", "keys", cell.left, across, keys, columns), " "];
  const single = down === 1 && across === 1;
  line.replaceChildren(...ranges, ...(single ? [number(cell.maximum)] : ["largest ", number(cell.maximum), " mean ", number(cell.mean)]));
}

function range(one, many, start, size, length, labels) {
  const stop = Math.min(start + size, length);
  const name = stop - start === 1 ? `${one} ${regard.count(start + 1)}` : `${many} ${regard.count(start + 1)}\u2013${regard.count(stop)}`;
  if (!labels) return name;
  const own = stop - start === 1 ? [labels[start]] : [labels[start], labels[stop - 1]];
  return regard.element("span", {}, `${name} `, own.flatMap((label, k) => [k ? " \u2026 " : null, regard.label(label)]));
}

// ---------------------------------------------------------------------------------------------------- one query

function pickRow(view, row) {
  const { model, row: box } = view;
  view.picked = row;
  view.redraw();
  const level = levelOf(model, 0);
  const [rows, size] = level.size;
  const i = Math.floor(row / rows);
  const weights = level.maximum.subarray(i * level.columns, (i + 1) * level.columns);
  const { queries, keys, query_labels: queryLabels, key_labels: keyLabels } = model.data;
  const best = regard.best(weights.length, (k) => weights[k], 6);
  const items = best.map((k) =>
    regard.element("li", {}, regard.element("span", {}, range("key", "keys", k * size, size, keys, keyLabels)), regard.element("b", {}, regard.weight(weights[k], 4))),
  );
  const chart = regard.element("canvas", { class: "long-chart", role: "img", "aria-label": "Weights along the keys" });
  box.replaceChildren(
    regard.element("h3", {}, range("query", "queries", i * rows, rows, queries, queryLabels)),
    regard.element("p", { class: "soft" }, size === 1 && rows === 1 ? "All its weights, and the largest:" : "The largest weights of each block:"),
    chart,
    regard.element("ol", { class: "long-best" }, items),
  );
  drawChart(chart, weights);
}

// Bars of the largest weight in each pixel.
function drawChart(chart, weights) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [Math.round(chart.clientWidth * ratio), Math.round(chart.clientHeight * ratio)];
  [chart.width, chart.height] = [width, height];
  const context = chart.getContext("2d");
  const top = regard.largest(weights);
  context.fillStyle = getComputedStyle(chart).color;
  for (let x = 0; x < width; x++) {
    const from = Math.floor((x * weights.length) / width);
    const to = Math.max(from + 1, Math.floor(((x + 1) * weights.length) / width));
    let most = 0;
    for (let k = from; k < to; k++) most = Math.max(most, weights[k]);
    const bar = (most / top) * (height - 2);
    context.fillRect(x, height - bar, 1, bar);
  }
}
