// Long attention: summaries of blocks, from all of it down to the finest blocks that the page has.

const DECADES = 4; // below the largest weight, in the logarithmic scale
const CLOSEST = 8; // tokens across the view, at least

regard.view("long", (root, data) => {
  const model = longModel(data);
  const canvas = el("canvas.long-canvas", { tabindex: "0", role: "img", "aria-label": longDescription(data) });
  const map = el("canvas.long-map", { "aria-hidden": "true" });
  const line = el("p.readout", { "aria-live": "polite" });
  const legend = el("p.colour-scale");
  const row = el("div.long-row");
  const [rows, columns] = ["rows", "columns"].map((side) => el(`div.ticks.${side}`, { "aria-hidden": "true" }));
  const ticks = { rows, columns };
  const view = { model, canvas, ticks, map, line, legend, row, window: fullViewport(data), at: null };
  view.redraw = regard.later(() => drawLong(view));
  const picture = el("div.long-axes", columns, rows, canvas);
  root.append(longControls(view), line, el("div.beside.long-body", picture, el("div.long-side", map, legend, row)));
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

const longDescription = ({ queries, keys }) =>
  `Attention of ${regard.count(queries)} queries to ${regard.count(keys)} keys. ` +
  "The arrow keys move, plus and minus zoom, 0 shows all, Enter picks the query in the middle.";

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

function painted(model, depth) {
  const key = [model.head, model.kind, model.scale, depth].join();
  if (!model.painted.has(key)) {
    const { [model.kind]: weights, rows, columns } = levelOf(model, depth);
    const shares = strengths(weights, topOf(model), model.scale);
    model.painted.set(key, regard.paint(el("canvas"), shares, columns, rows));
  }
  return model.painted.get(key);
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
  drawLevel(context, model, depth, viewport);
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

function drawLevel(context, model, depth, { top, left, height, width }) {
  const [down, across] = levelOf(model, depth).size;
  const part = [left / across, top / down, width / across, height / down];
  context.drawImage(painted(model, depth), ...part, 0, 0, context.canvas.width, context.canvas.height);
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
  drawLevel(context, model, depth, fullViewport(model.data));
  context.strokeStyle = "rgb(255 140 60)";
  context.lineWidth = 2;
  const box = [viewport.left * side, viewport.top * side, viewport.width * side, viewport.height * side];
  context.strokeRect(box[0] + 1, box[1] + 1, Math.max(2, box[2] - 2), Math.max(2, box[3] - 2));
}

function showLegend({ model, legend }) {
  const top = topOf(model);
  const low = model.scale === "log" ? top / 10 ** DECADES : 0;
  put(legend, regard.colourBar(twoDigits(low), twoDigits(top)));
}

// Two digits of a weight, without an exponent where it can be read.
const twoDigits = (weight) => String(Number(weight.toPrecision(2))).replace("e-", "e\u2212");

// The numbers of the queries and keys at the sides of the picture.
function showTicks({ ticks, model, window: { top, left, height, width } }) {
  const side = (name, ...range) =>
    tickTexts(...range).map(([share, text]) => el("span", { style: { [name]: `${100 * share}%` } }, text));
  put(ticks.rows, side("top", top, height, model.data.queries));
  put(ticks.columns, side("left", left, width, model.data.keys));
}

function tickTexts(first, extent, most) {
  const token = (share) => Math.min(most, Math.floor(first + share * extent) + (share < 1 ? 1 : 0));
  return [0, 0.25, 0.5, 0.75, 1].map((share) => [share, regard.count(token(share))]);
}

// What is seen at present, with the indices of queries and keys.
const longPicture = ({ model, canvas, window: viewport }) =>
  pictured(`Head ${model.head + 1}, ${model.kind === "mean" ? "mean" : "largest"} weight of a block`, () => {
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    const copy = el("canvas", { width: 2 * wide, height: 2 * high });
    const context = copy.getContext("2d");
    context.imageSmoothingEnabled = false;
    model.painted.clear(); // what is on the screen may be dark
    drawLevel(context, model, depthFor(model, viewport, copy), viewport);
    model.painted.clear();
    const [x, y] = [80, 70];
    const { top, left, height, width } = viewport;
    const { queries, keys } = model.data;
    const across = ([share, text]) => pictureText(text, x + share * wide, y - 8, MIDDLE);
    const down = ([share, text]) => pictureText(text, x - 8, y + share * high + 4.5, { "text-anchor": "end" });
    const names = [pictureText("Keys", x + wide / 2, 44, MIDDLE), upright("Queries", 16, y + high / 2)];
    const texts = [names, tickTexts(left, width, keys).map(across), tickTexts(top, height, queries).map(down)];
    return [x + wide + 40, y + high + 20, texts, pictureCanvas(copy, [x, y, wide, high])];
  });

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
  const zooms = { "\u2212": ["zoom out", 2], "+": ["zoom in", 0.5], All: ["show all", 0] };
  const zoom = Object.entries(zooms).map(([sign, [name, factor]]) =>
    el("button", { "aria-label": name, onclick: () => zoomBy(view, factor) }, sign),
  );
  const head = regard.list(heads, model.head, (head) => {
    shown("head")(head);
    if (view.picked !== undefined) pickRow(view, view.picked);
  });
  return el(
    "div.chooser",
    model.heads > 1 && regard.named("Head", head),
    choice("Summary of a block", { maximum: "largest", mean: "mean" }, "kind"),
    choice("Scale", { log: "log", linear: "linear" }, "scale"),
    el("div.groups", zoom),
    regard.exports("this part", () => ({
      svg: () => longPicture(view),
      titles: [document.title, `head ${model.head + 1}`],
    })),
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
    const [top, left] = [old.top + y * old.height * (1 - by), old.left + x * old.width * (1 - by)];
    view.window = { top, left, height: old.height * by, width: old.width * by };
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
  const middle = { x: 0.5, y: 0.5 };
  const told = (act) => () => {
    act();
    describe(view, middle);
  };
  const move = (down, across) => told(() => moveBy(view, down, across));
  const zoom = (factor) => told(() => zoomBy(view, factor));
  onKeys(view.canvas, {
    ...{ ArrowUp: move(-0.1, 0), ArrowDown: move(0.1, 0), ArrowLeft: move(0, -0.1), ArrowRight: move(0, 0.1) },
    ...{ "+": zoom(0.5), "=": zoom(0.5), "-": zoom(2), 0: zoom(0) },
    Enter: told(() => pickRow(view, positionAt(view, middle).row)),
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
  on(canvas, "pointerdown", (event) => {
    if (!down.size) moved = 0;
    down.set(event.pointerId, share(event));
    canvas.setPointerCapture(event.pointerId);
  });
  on(canvas, "pointermove", (event) => {
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
    const clicked = down.delete(event.pointerId) && event.type === "pointerup" && moved < 0.01;
    if (clicked) pickRow(view, positionAt(view, share(event)).row);
  };
  on(canvas, "pointerup pointercancel", up);
  on(canvas, "pointerleave", () => describe(view, null));
  const wheel = (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoomBy(view, 2 ** (event.deltaY / 300), share(event));
  };
  on(canvas, "wheel", wheel, { passive: false });
}

// ------------------------------------------------------------------------------------------------------ readout

function positionAt({ window: viewport, model }, { x, y }) {
  const { queries, keys } = model.data;
  const [row, column] = [viewport.top + y * viewport.height, viewport.left + x * viewport.width].map(Math.floor);
  return { row: within(row, queries), column: within(column, keys) };
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
  const counts = `${regard.count(queries)} queries, ${regard.count(keys)} keys.`;
  if (!at) return put(line, `${counts} Drag to move; + and \u2212 zoom; a click picks a query.`);
  const cell = summaryAt(view, positionAt(view, at));
  const [down, across] = cell.level.size;
  const number = (value) => el("b", regard.weight(value, 4));
  const [row, column] = [
    range("query", "queries", cell.top, down, queries, rows),
    range("key", "keys", cell.left, across, keys, columns),
  ];
  const both = () => ["largest ", number(cell.maximum), " mean ", number(cell.mean)];
  return put(line, row, " \u2192 ", column, " ", down === 1 && across === 1 ? number(cell.maximum) : both());
}

function range(one, many, start, size, length, labels) {
  const stop = Math.min(start + size, length);
  const single = stop - start === 1;
  const [first, last] = [start + 1, stop].map(regard.count);
  const name = single ? `${one} ${first}` : `${many} ${first}\u2013${last}`;
  if (!labels) return name;
  return el("span", `${name} `, bdi(labels[start]), !single && [" \u2026 ", bdi(labels[stop - 1])]);
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
  const items = best.map((k) => {
    const name = el("span", range("key", "keys", k * size, size, keys, keyLabels));
    return el("li", name, el("b", regard.weight(weights[k], 4)));
  });
  const chart = el("canvas.long-chart", { role: "img", "aria-label": "Weights along the keys" });
  const exported = regard.exports("this query", () => ({
    svg: () => regard.canvasPicture(heading.textContent, 1, 600, () => [{ canvas: chart, label: "Keys" }]),
    table: () => ({ rows: [], columns: [], numbers: [[...weights]] }),
    written: false,
  }));
  const heading = el("h3", range("query", "queries", i * rows, rows, queries, queryLabels));
  const what = size === 1 && rows === 1 ? "All its weights, and the largest:" : "The largest weights of each block:";
  put(box, heading, el("p.soft", what, " ", exported), chart, el("ol.long-best", items));
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
