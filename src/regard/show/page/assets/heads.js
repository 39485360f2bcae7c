// Heads: all of them small, one large, and the measures by which they can be sorted.

const MEASURES = TEXTS.measures;
const THUMB = 96; // pixels of the longer side of a small picture

regard.view("heads", (root, data, { section }) => {
  const groups = data.groups.map(unpackedGroup);
  const state = { group: 0, layer: 0, head: 0, key: "", sign: -1, shown: 0 };
  const grid = el("div.head-grid", { role: "group", "aria-label": "All heads" });
  const table = el("div.head-table", { tabindex: "0", role: "region", "aria-label": "Measures of all heads" });
  const large = el("div.head-large");
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
    show = largeHead(large, own(), first, state, () => fillGrid(grid, own(), state, choose));
    choose(first);
  };
  const again = (group) => {
    state.group = group;
    state.shown = 0;
    start();
  };
  const names = groups.map(({ name }, k) => [k, bdi(name)]);
  const buttons = groups.length > 1 && regard.choices("Attention", names, state.group, again);
  const known = new Set(groups.flatMap(measuresOf));
  const meaning = [...known].map((key) => [el("b", `${MEASURES[key].name}: `), `${MEASURES[key].of}. `]);
  const head = "L is the layer, H the head. Each measure is the mean over the queries. ";
  const picture = (position) => ({ canvas: smallCanvas(own(), position, state), label: headName(own(), position) });
  const pictures = () => inOrder(own(), state).map(picture);
  const exported = regard.exportBar("all heads", () => ({
    svg: () => regard.canvasPicture(own().name, Math.min(8, own().count[1]), 96, pictures),
    table: () => measureTable(own(), state),
    titles: [document.title, own().name, "heads"],
  }));
  if (buttons) root.append(buttons.element);
  root.append(exported, el("div.heads-top", grid, table), el("p.soft.meaning", head, meaning), large);
  regard.onTheme(() => fillGrid(grid, own(), state, choose));
  start();
  keepHead(section, groups, state, () => {
    if (buttons) buttons.set(state.group);
    start(state);
  });
});

// The group and the head that are looked at.
function keepHead(section, groups, state, draw) {
  const { integer } = regard.CODES;
  const most = (axis) => Math.max(...groups.map(({ count }) => count[axis]));
  const layers = 1 + 2 * Math.max(...groups.map(({ importance }) => importance.length));
  const fields = {
    group: integer(groups.length),
    layer: integer(most(0)),
    head: integer(most(1)),
    shown: integer(layers),
  };
  const view = { state };
  const restored = () => {
    view.state = Object.assign(state, view.state);
    draw();
  };
  const fresh = () => ({ ...state, group: 0, layer: 0, head: 0, shown: 0 });
  regard.keepFields(section, view, fresh, fields, restored, Object.keys(fields));
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
  const position = (_, k) => ({ layer: Math.floor(k / heads), head: k % heads });
  const positions = Array.from({ length: layers * heads }, position);
  const head = ({ layer, head }) => {
    const k = layer * heads + head;
    const stored = data.subarray(k * size, (k + 1) * size);
    if (group.step === 1) return stored;
    const weights = new Float32Array(size);
    for (let i = 0; i < size; i++) weights[i] = stored[i] / group.step;
    return weights;
  };
  const blocks = (labels) => (group.block === 1 ? labels : spans(labels, group.block));
  const [rows, columns] = [blocks(group.rows), blocks(group.columns)];
  const parts = unpackedImportance(group.importance);
  // Of one head; what is the same for all heads is there once.
  const importance = ({ layer, head }) =>
    parts.map((part) => {
      const start = ((layer * heads + head) * size) % part.numbers.length;
      const of = (name) => part[name][layer][head];
      const [hits, rows, chance] = ["hits", "rows", "chance"].map(of);
      return { ...part, numbers: part.numbers.subarray(start, start + size), hits, rows, chance };
    });
  return { ...group, count: [layers, heads], n, m, positions, head, rows, columns, importanceOf: importance };
}

const measuresOf = (group) => Object.keys(MEASURES).filter((key) => group.measures[key]);

// Labels of blocks of tokens: the first and the last.
const spans = (labels, block) =>
  regard.parts(labels, block).map((part) => (part.length > 1 ? `${part[0]} \u2026 ${part.at(-1)}` : part[0]));

const measured = (group, key, { layer, head }) => group.measures[key][layer][head];

const measureText = (group, key, position) => regard.weight(measured(group, key, position), MEASURES[key].digits);

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
  const headings = ["", ...measuresOf(group)].map((key) => {
    const { name, unit, of } = MEASURES[key] ?? { name: "Head" };
    const direction = state.key !== key ? "none" : !key || state.sign > 0 ? "ascending" : "descending";
    const button = el("button", { "data-key": key, onclick: () => sortBy(key) }, name, unit && ` (${unit})`);
    regard.tooltip(button, () => of ?? "L: the layer, H: the head in it");
    return el("th", { scope: "col", "aria-sort": direction }, button);
  });
  const cell = (position) => (key) => el("td", { "data-measure": key }, measureText(group, key, position));
  const rows = inOrder(group, state).map((position) => {
    const name = el("th", { scope: "row" }, bdi(headName(group, position)));
    return el("tr", headAttributes(position, choose), name, measuresOf(group).map(cell(position)));
  });
  put(table, el("table", el("thead", el("tr", headings)), el("tbody", rows)));
}

const headAttributes = ({ layer, head }, choose) => ({
  "data-layer": layer,
  "data-head": head,
  onclick: () => choose({ layer, head }),
});

const headName = (group, { layer, head }) =>
  `${/^\d+$/.test(group.layers[layer]) ? "L" : ""}${group.layers[layer]} H${head + 1}`;
// Names of layers differ at their ends.
const ending = (name) => (name.length > 14 ? `\u2026${name.slice(-13)}` : name);
const longName = (group, { layer, head }) => `layer ${group.layers[layer]}, head ${head + 1}`;

function fillGrid(grid, group, state, choose) {
  const buttons = inOrder(group, state).map((position) => smallHead(group, position, state, choose));
  const across = group.count[1] > 2 || !state.key ? group.count[1] : Math.min(buttons.length, 8);
  grid.style.setProperty("--across", across);
  put(grid, buttons);
  regard.roving(regard.parts(buttons, across));
  markChosen(grid, state);
}

function smallHead(group, position, state, choose) {
  const { key } = state;
  const value = key ? measureText(group, key, position) : "";
  const label = `${longName(group, position)}${key && `, ${MEASURES[key].name} ${value}`}`;
  const onfocus = (event) => event.target.matches(":focus-visible") && choose(position);
  const attributes = { ...headAttributes(position, choose), "aria-label": label, onfocus };
  const name = el("span", bdi(ending(headName(group, position))), value && el("small", value));
  return el("button.small-head", attributes, smallCanvas(group, position, state), name);
}

const measureTable = (group, state) => ({
  rows: inOrder(group, state).map((position) => headName(group, position)),
  columns: measuresOf(group).map((key) => MEASURES[key].name),
  numbers: inOrder(group, state).map((at) => measuresOf(group).map((key) => Number(measured(group, key, at)))),
});

function smallCanvas(group, position, { shown }) {
  const { n, m } = group;
  const { numbers } = layerOf(shown, group.head(position), group.importanceOf(position), m);
  const block = Math.max(1, Math.ceil(Math.max(n, m) / THUMB));
  const canvas = blockPicture(el("canvas", { "aria-hidden": "true" }), numbers, n, m, block);
  canvas.style.setProperty("aspect-ratio", `${canvas.width} / ${canvas.height}`);
  return canvas;
}

// Build the large head of a group; return the function that shows another of its heads.
function largeHead(box, group, first, state, redraw) {
  let shown = first;
  const titles = () => [document.title, `${group.name} ${longName(group, shown)}`];
  const names = { row: "Queries", column: "keys", whole: "head", input: "key", outputs: "queries", ...BLUE };
  const data = { ...group, weights: group.head(first), importance: group.importanceOf(first), names };
  const view = regard.weightsView(data, { left: "row", warnings: group.warnings, titles, state, redraw });
  const heading = el("h3");
  const list = el("dl.measures");
  const note = `Each cell is the largest weight of ${group.block} \u00d7 ${group.block}; `;
  const blocks = group.block > 1 && el("p.note", note, "the measures are those of all weights.");
  put(box, heading, list, blocks, view.element);
  return (position) => {
    put(heading, bdi(group.name), ` ${longName(group, position)}`);
    put(
      list,
      measuresOf(group).map((key) => measure(group, key, position)),
    );
    const other = position.layer !== shown.layer || position.head !== shown.head;
    if (other) view.update(group.head(position), group.importanceOf(position));
    shown = { layer: position.layer, head: position.head };
  };
}

function measure(group, key, position) {
  const { name, unit, of } = MEASURES[key];
  const value = el("dd", measureText(group, key, position), unit && el("small", ` ${unit}`));
  return el("div.measure", { title: of }, el("dt", name), value);
}
