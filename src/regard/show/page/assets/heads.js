// Heads: all of them small, one large, and the measures by which they can be sorted.

const MEASURES = TEXTS.measures;
const HEADS = TEXTS.heads;
const THUMB = 96; // pixels of the longer side of a small picture

regard.view("heads", (root, data, { section }) => {
  const groups = data.groups.map(unpackedGroup);
  const fields = groupFields(groups);
  const view = regard.kept(
    section,
    () => freshHead(groups),
    fields,
    () => start(),
    Object.keys(fields),
  );
  const grid = el("div.head-grid", { role: "group", "aria-label": HEADS.all });
  const table = el("div.head-table", { tabindex: "0", role: "region", "aria-label": HEADS.measures });
  const large = el("div.head-large");
  const about = el("p.soft");
  const own = () => groups[view.state.group];
  let show = null;
  const choose = (position) => {
    Object.assign(view.state, position);
    markChosen(root, view.state);
    show(view.state);
    regard.changed();
  };
  const fill = () => fillGrid(grid, own(), view.state, choose);
  const order = () => {
    fill();
    fillTable(table, own(), view.state, choose, order);
    markChosen(root, view.state);
  };
  const start = () => {
    const { state } = view;
    const [layer, head] = ["layer", "head"].map((axis, k) => Math.min(state[axis], own().count[k] - 1));
    if (buttons) buttons.set(state.group);
    put(about, own().about ?? "");
    about.hidden = !own().about;
    order();
    show = largeHead(large, own(), { layer, head }, state, fill);
    choose({ layer, head });
  };
  const names = groups.map(({ name }, k) => [k, bdi(name)]);
  const again = (group) => view.change({ group, layer: 0, head: 0, shown: 0 });
  const buttons = groups.length > 1 && regard.choices(HEADS.attention, names, 0, again);
  const known = new Set(groups.flatMap(measuresOf));
  const meaning = [...known].map((key) => [el("b", MEASURES[key].name + COLON), `${MEASURES[key].of}. `]);
  const picture = (position) => ({
    canvas: smallCanvas(own(), position, view.state),
    label: headName(own(), position),
  });
  const pictures = () => inOrder(own(), view.state).map(picture);
  const exported = regard.exportBar(HEADS.exported, () => ({
    svg: () => regard.canvasPicture(own().name, Math.min(8, own().count[1]), 96, pictures),
    table: known.size > 0 && (() => measureTable(own(), view.state)),
    titles: [document.title, own().name, HEADS.heads],
  }));
  if (buttons) root.append(buttons.element);
  root.append(
    about,
    exported,
    el("div.heads-top", grid, table),
    el("p.soft.meaning", { hidden: !known.size }, HEADS.meaning, meaning),
    large,
  );
  regard.onTheme(fill);
  start();
});

// The group and the head that are looked at, the order of all, and the layer of weights; of blocks, colours stand for
// logarithms first.
function freshHead(groups) {
  const log = groups.some(({ blocks }) => Math.max(...blocks) > 1) && { log: true };
  return { group: 0, layer: 0, head: 0, key: "", sign: -1, shown: 0, ...log };
}

function groupFields(groups) {
  const { integer, flag } = regard.CODES;
  const most = (axis) => Math.max(...groups.map(({ count }) => count[axis]));
  const layers = 1 + 2 * Math.max(...groups.map(({ importance }) => importance.length));
  const fields = { group: groups.length, layer: most(0), head: most(1), shown: layers };
  const codes = Object.entries(fields).map(([name, below]) => [name, integer(below)]);
  return { ...Object.fromEntries(codes), ...(freshHead(groups).log && { log: flag() }) };
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
    for (let i = 0; i < size; i++) weights[i] = stored[i] > group.step ? -0 : stored[i] / group.step;
    return weights;
  };
  const parts = unpackedImportance(group.importance);
  // Of one head; what is the same for all heads is there once.
  const importance = ({ layer, head }) =>
    parts.map((part) => {
      const start = ((layer * heads + head) * size) % part.numbers.length;
      const of = (name) => part[name]?.[layer][head];
      const [hits, rows, chance] = ["hits", "rows", "chance"].map(of);
      return { ...part, numbers: part.numbers.subarray(start, start + size), hits, rows, chance };
    });
  return { ...group, count: [layers, heads], n, m, positions, head, importanceOf: importance };
}

const measuresOf = (group) => Object.keys(MEASURES).filter((key) => group.measures[key]);

const measured = (group, key, { layer, head }) => group.measures[key][layer][head];

const measureText = (group, key, position) => regard.weight(measured(group, key, position), MEASURES[key].digits);

function inOrder(group, { key, sign }) {
  if (!key) return group.positions;
  return [...group.positions].sort((a, b) => sign * (measured(group, key, a) - measured(group, key, b)));
}

// A table of the measures, whose headings sort it and the small pictures.
function fillTable(table, group, state, choose, order) {
  table.hidden = !measuresOf(group).length;
  const sortBy = (key) => {
    state.sign = key && state.key === key ? -state.sign : -1;
    state.key = key;
    order();
    table.querySelector(`[data-key="${key}"]`).focus();
  };
  const headings = ["", ...measuresOf(group)].map((key) => {
    const { name, unit, of } = MEASURES[key] ?? { name: HEADS.head };
    const direction = state.key !== key ? "none" : !key || state.sign > 0 ? "ascending" : "descending";
    const button = el("button.quiet", { "data-key": key, onclick: () => sortBy(key) }, name, unit && ` (${unit})`);
    regard.tooltip(button, () => of ?? HEADS.order);
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

const headName = ({ layers }, { layer, head }) => {
  const name = /^\d+$/.test(layers[layer]) ? filled(HEADS.layer, { i: layers[layer] }) : layers[layer];
  return filled(HEADS.short, { layer: name, i: head + 1 });
};
// Names of layers differ at their ends.
const ending = (name) => (name.length > 14 ? `\u2026${name.slice(-13)}` : name);
const longName = ({ layers }, { layer, head }) => filled(HEADS.long, { layer: layers[layer], i: head + 1 });

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

function smallCanvas(group, position, state) {
  const { n, m } = group;
  const layers = layersOf(group.head(position), group.importanceOf(position), m, state);
  const block = Math.max(1, Math.ceil(Math.max(n, m) / THUMB));
  const layer = (layers[state.shown] ?? layers[0])();
  const all = [n, m].map((last) => ({ first: 0, last }));
  const canvas = blockPicture(el("canvas", { "aria-hidden": "true" }), layer, m, all, block);
  canvas.style.setProperty("aspect-ratio", `${canvas.width} / ${canvas.height}`);
  return canvas;
}

// Build the large head of a group; return the function that shows another of its heads.
function largeHead(box, group, first, state, redraw) {
  let shown = first;
  const titles = () => [document.title, `${group.name} ${longName(group, shown)}`];
  const names = { ...HEADS.sides, ...HEADS.words, ...BLUE };
  const data = { ...group, weights: group.head(first), importance: group.importanceOf(first), names };
  const view = regard.weightsView(data, { left: "row", warnings: group.warnings, titles, state, redraw });
  const heading = el("h3");
  const list = el("dl.measures");
  const [down, across] = group.blocks;
  const measured = measuresOf(group).length > 0 && HEADS.whole;
  const size = `${down} \u00d7 ${across}`;
  const blocks = down * across > 1 && el("p.note", filled(HEADS.block, { size }), measured);
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
