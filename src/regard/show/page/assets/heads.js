// Heads: all of them small, one large, and the measures by which they can be sorted.

const MEASURES = TEXTS.measures;
const THUMB = 96; // pixels of the longer side of a small picture

regard.view("heads", (root, data, { section }) => {
  const groups = data.groups.map(unpackedGroup);
  const state = { group: 0, layer: 0, head: 0, key: "", sign: -1 };
  const grid = regard.element("div", { class: "head-grid", role: "group", "aria-label": "All heads" });
  const table = regard.element("div", { class: "head-table", tabindex: "0", role: "region", "aria-label": "Measures of all heads" });
  const large = regard.element("div", { class: "head-large" });
  const own = () => groups[state.group];
  let show = null;
  const choose = (position) => {
    Object.assign(state, position);
    markChosen(root, state);
    show(state);
    regard.changed();
  };
  const order = () => {
    fillGrid(grid, own(), state, choose);
    fillTable(table, own(), state, choose, order);
    markChosen(root, state);
  };
  const start = ({ layer, head } = { layer: 0, head: 0 }) => {
    const [layers, heads] = own().count;
    const first = { layer: Math.min(layer, layers - 1), head: Math.min(head, heads - 1) };
    order();
    show = largeHead(large, own(), first);
    choose(first);
  };
  const buttons = groups.length > 1 ? groupButtons(groups, state, () => start()) : null;
  if (buttons) root.append(buttons.element);
  const meaning = Object.values(MEASURES).map(({ name, of }) => [regard.element("b", {}, `${name}: `), `${of}. `]);
  const head = "L is the layer, H the head. Each measure is the mean over the queries. ";
  const pictures = () => inOrder(own(), state).map((position) => ({ canvas: smallCanvas(own(), position), label: headName(own(), position) }));
  const svg = () => regard.onPaper(() => regard.canvasPicture(own().name, pictures(), Math.min(8, own().count[1]), 96));
  const exported = regard.element("div", { class: "exports" }, regard.exports("all heads", () => ({ svg, table: () => measureTable(own(), state), titles: [document.title, own().name, "heads"] })));
  root.append(exported, regard.element("div", { class: "heads-top" }, grid, table), regard.element("p", { class: "soft meaning" }, head, meaning), large);
  regard.onTheme(() => fillGrid(grid, own(), state, choose));
  start();
  keepHead(section, groups, state, () => {
    buttons?.set(state.group);
    start(state);
  });
});

// The group and the head that are looked at.
function keepHead(section, groups, state, draw) {
  const { integer } = regard.CODES;
  const most = (axis) => Math.max(...groups.map(({ count }) => count[axis]));
  const fields = { group: { path: "group", code: integer(groups.length) }, layer: { path: "layer", code: integer(most(0)) }, head: { path: "head", code: integer(most(1)) } };
  const view = { state };
  const restored = () => {
    view.state = Object.assign(state, view.state);
    draw();
  };
  regard.keepFields(section, view, () => ({ ...state, group: 0, layer: 0, head: 0 }), fields, restored, Object.keys(fields));
}

function markChosen(root, { layer, head }) {
  root.querySelectorAll("[data-head]").forEach((part) => {
    const chosen = +part.dataset.layer === layer && +part.dataset.head === head;
    if (part.tagName === "TR") part.toggleAttribute("data-chosen", chosen);
    else part.setAttribute("aria-pressed", String(chosen));
  });
}

function unpackedGroup(group) {
  const { shape, data } = regard.array(group.weights);
  const [layers, heads, n, m] = shape;
  const size = n * m;
  const positions = Array.from({ length: layers * heads }, (_, k) => ({ layer: Math.floor(k / heads), head: k % heads }));
  const head = ({ layer, head }) => {
    const k = layer * heads + head;
    const stored = data.subarray(k * size, (k + 1) * size);
    if (group.step === 1) return stored;
    const weights = new Float32Array(size);
    for (let i = 0; i < size; i++) weights[i] = stored[i] / group.step;
    return weights;
  };
  const blocks = (labels) => (group.block === 1 ? labels : spans(labels, group.block));
  return { ...group, count: [layers, heads], n, m, positions, head, rows: blocks(group.rows), columns: blocks(group.columns) };
}

// Labels of blocks of tokens: the first and the last.
function spans(labels, block) {
  return Array.from({ length: Math.ceil(labels.length / block) }, (_, k) => {
    const part = labels.slice(k * block, (k + 1) * block);
    return part.length > 1 ? `${part[0]} \u2026 ${part.at(-1)}` : part[0];
  });
}

function groupButtons(groups, state, show) {
  const options = groups.map(({ name }, k) => [k, regard.label(name)]);
  return regard.choices("Attention", options, state.group, (group) => {
    state.group = group;
    show();
  });
}

const measured = (group, key, { layer, head }) => group.measures[key][layer][head];

const measureText = (group, key, position) => regard.format(measured(group, key, position), MEASURES[key].digits);

function inOrder(group, { key, sign }) {
  if (!key) return group.positions;
  return [...group.positions].sort((a, b) => sign * (measured(group, key, a) - measured(group, key, b)));
}

// A table of the measures, whose headings sort it and the small pictures.
function fillTable(table, group, state, choose, order) {
  const sortBy = (key) => {
    state.sign = key && state.key === key ? -state.sign : -1;
    state.key = key;
    order();
    table.querySelector(`[data-key="${key}"]`).focus();
  };
  const headings = [["", { name: "Head" }], ...Object.entries(MEASURES)].map(([key, { name, unit, of }]) => {
    const direction = state.key !== key ? "none" : !key || state.sign > 0 ? "ascending" : "descending";
    const button = regard.element("button", { type: "button", "data-key": key, onclick: () => sortBy(key) }, name, unit && ` (${unit})`);
    regard.tooltip(button, () => of ?? "L: the layer, H: the head in it");
    return regard.element("th", { scope: "col", "aria-sort": direction }, button);
  });
  const rows = inOrder(group, state).map((position) =>
    regard.element(
      "tr",
      { "data-layer": position.layer, "data-head": position.head, onclick: () => choose(position) },
      regard.element("th", { scope: "row" }, regard.label(headName(group, position))),
      Object.keys(MEASURES).map((key) => regard.element("td", { "data-measure": key }, measureText(group, key, position))),
    ),
  );
  table.replaceChildren(
    regard.element("table", {}, regard.element("thead", {}, regard.element("tr", {}, headings)), regard.element("tbody", {}, rows)),
  );
}

const headName = (group, { layer, head }) => `${/^\d+$/.test(group.layers[layer]) ? "L" : ""}${group.layers[layer]} H${head + 1}`;
const longName = (group, { layer, head }) => `layer ${group.layers[layer]}, head ${head + 1}`;

function fillGrid(grid, group, state, choose) {
  const buttons = inOrder(group, state).map((position) => smallHead(group, position, state.key, choose));
  const across = group.count[1] > 2 || !state.key ? group.count[1] : Math.min(buttons.length, 8);
  grid.style.setProperty("--across", across);
  grid.replaceChildren(...buttons);
  regard.roving(Array.from({ length: Math.ceil(buttons.length / across) }, (_, k) => buttons.slice(k * across, (k + 1) * across)));
  markChosen(grid, state);
}

function smallHead(group, position, key, choose) {
  const canvas = smallCanvas(group, position);
  const value = key ? measureText(group, key, position) : "";
  return regard.element(
    "button",
    {
      type: "button",
      class: "small-head",
      "data-layer": position.layer,
      "data-head": position.head,
      "aria-label": [longName(group, position), key && `${MEASURES[key].name} ${value}`].filter(Boolean).join(", "),
      onclick: () => choose(position),
      onfocus: (event) => event.target.matches(":focus-visible") && choose(position),
    },
    canvas,
    regard.element("span", {}, regard.label(headName(group, position)), value && regard.element("small", {}, value)),
  );
}

const measureTable = (group, state) => ({
  rows: inOrder(group, state).map((position) => headName(group, position)),
  columns: Object.values(MEASURES).map(({ name }) => name),
  numbers: inOrder(group, state).map((position) => Object.keys(MEASURES).map((key) => Number(measured(group, key, position)))),
});

function smallCanvas(group, position) {
  const canvas = regard.element("canvas", { "aria-hidden": "true" });
  drawSmall(canvas, group.head(position), group.n, group.m);
  return canvas;
}

// A small picture has the largest weight of each of its pixels, so that thin lines stay visible.
function drawSmall(canvas, weights, n, m) {
  const block = Math.max(1, Math.ceil(Math.max(n, m) / THUMB));
  const [h, w] = [Math.ceil(n / block), Math.ceil(m / block)];
  const most = new Float32Array(h * w);
  for (let i = 0, k = 0; i < n; i++) {
    const row = Math.floor(i / block) * w;
    for (let j = 0; j < m; j++, k++) {
      const at = row + Math.floor(j / block);
      if (weights[k] > most[at]) most[at] = weights[k];
    }
  }
  [canvas.width, canvas.height] = [w, h];
  canvas.style.aspectRatio = `${w} / ${h}`;
  const context = canvas.getContext("2d");
  const scale = scaleOf(most, m);
  context.putImageData(regard.colours(most, context.createImageData(w, h), scale), 0, 0);
}

// Build the large head of a group; return the function that shows another of its heads.
function largeHead(box, group, first) {
  let shown = first;
  const view = regard.weightsView({
    rows: group.rows,
    columns: group.columns,
    weights: group.head(first),
    left: "row",
    names: { row: "Queries", column: "keys" },
    warnings: group.warnings,
    titles: () => [document.title, `${group.name} ${longName(group, shown)}`],
  });
  const heading = regard.element("h3");
  const list = regard.element("dl", { class: "measures" });
  const note = `Each cell is the largest weight of ${group.block} \u00d7 ${group.block}; the measures are those of all weights.`;
  box.replaceChildren(heading, list, ...(group.block > 1 ? [regard.element("p", { class: "note" }, note)] : []), view.element);
  return (position) => {
    heading.replaceChildren(regard.label(group.name), ` ${longName(group, position)}`);
    list.replaceChildren(...Object.keys(MEASURES).map((key) => measure(group, key, position)));
    if (position.layer !== shown.layer || position.head !== shown.head) view.update(group.head(position));
    shown = { layer: position.layer, head: position.head };
  };
}

function measure(group, key, position) {
  const { name, unit, of } = MEASURES[key];
  return regard.element(
    "div",
    { class: "measure", title: of },
    regard.element("dt", {}, name),
    regard.element("dd", {}, measureText(group, key, position), unit && regard.element("small", {}, ` ${unit}`)),
  );
}
