// Two pictures of one array (n, m): tokens joined by lines, and a matrix. The array is that of a layer: the weights, an
// importance of the same pairs, or what differs. Both pictures show, and change, one selection {row, column}, where null
// stands for all.

const NOTHING = { row: null, column: null };
const LEVELS = 16; // strengths of lines: those of a level are one path, which is far faster than a path each
const FAINTEST = 0.03; // of the number of the darkest colour: weaker lines are not drawn
const MOST_LINES = 3000; // at once: more are a surface to the eye, and stop a browser
const DECADES = 4; // of weights below the largest, where colours stand for logarithms
const GOLDEN = (Math.sqrt(5) - 1) / 2;
const ROW = 28; // pixels of a token's line, as in weights.css

const SHOWN = TEXTS.weights;

const sameSelection = (a, b) => a.row === b.row && a.column === b.column;

// The pointer or the focus shows a selection while it is there; a click or a tap keeps one, and a second lets it go.
regard.selection = () => {
  let pinned = NOTHING;
  let shown = NOTHING;
  const callbacks = [];
  const show = (next) => {
    if (sameSelection(next, shown)) return;
    shown = next;
    callbacks.forEach((callback) => callback(shown));
  };
  return {
    get: () => shown,
    show,
    leave: () => show(pinned),
    keep(next) {
      pinned = sameSelection(next, pinned) ? NOTHING : next;
      show(pinned);
    },
    onChange: (callback) => callbacks.push(callback),
  };
};

// Functions that make the layers of weights (n, m): they themselves, each importance {name, numbers, hits, rows, chance}, and
// what differs from it where rows were counted. state.log says whether colours stand for logarithms. A number that is `absent`
// stands for none.
function layersOf(weights, importance, m, state) {
  const { weights: text, difference, ...known } = TEXTS.layers;
  const made = (numbers, darkest, layer) => () => layerOf(numbers(), darkest, layer, state);
  const shares = (sizes) => regard.darkest(sizes, m);
  const hidden = { absent: (x) => Object.is(x, -0), absence: TEXTS.tools.hidden }; // as heads.py marks it
  const masked = importance.length > 0 && weights.some(hidden.absent);
  const unknown = { absent: Number.isNaN, absence: masked ? TEXTS.tools.either : TEXTS.tools.unknown };
  const all = importance.map((part) => {
    const own = Object.hasOwn(known, part.name) ? known[part.name] : { ...known.importance, name: part.name };
    const layer = { ...unknown, ...own, ...part, name: own.name, title: own.name };
    const name = `${text.name} \u2212 ${own.name}`;
    return { ...part, layer, differing: { ...layer, ...difference, name, title: name } };
  });
  const beside = all.map(({ numbers, rows, layer, differing }) => [
    made(() => numbers, regard.largest, layer),
    rows !== undefined && made(() => differences(weights, numbers, m), shares, differing),
  ]);
  const first = made(() => weights, shares, { ...all[0]?.layer, ...text, ...hidden, title: "" });
  return [first, ...beside.flat()].filter(Boolean);
}

// The darkest colour stands for the largest number; of shares, at least for some times uniform ones. tone(number) is what a
// number is to the eye, from -1 to 1: its share of that, or how many decades it lies below.
function layerOf(numbers, darkest, layer, state) {
  const signed = numbers.some((x) => x < 0);
  const scale = darkest(signed ? numbers.map(Math.abs) : numbers);
  const below = (x) => Math.max(0.02, 1 + Math.log10(x / scale) / DECADES);
  const tone = (x) => (!state.log ? x / scale : x === 0 ? 0 : Math.sign(x) * below(Math.abs(x)));
  return { ...layer, numbers, signed, scale, tone };
}

// Of each row, the shares of the weights less those of the importance, where that is known.
function differences(weights, importance, m) {
  const shares = new Float32Array(weights.length);
  for (let start = 0; start < weights.length; start += m) {
    let [all, needed] = [0, 0];
    for (let k = start; k < start + m; k++) {
      if (Number.isNaN(importance[k])) continue;
      all += Math.max(0, weights[k]);
      needed += Math.max(0, importance[k]);
    }
    for (let k = start; k < start + m; k++) {
      shares[k] = weights[k] / (all || 1) - Math.max(0, importance[k]) / (needed || 1);
    }
  }
  return shares;
}

const unpackedImportance = (parts = []) => parts.map((part) => ({ ...part, numbers: regard.array(part.numbers).data }));

const LOG = [
  [true, SHOWN.scales.log],
  [false, SHOWN.scales.linear],
];
const BLUE = SHOWN.signs; // the colours of numbers above and below 0

// The choice of a layer and of its colours, what it shows, and how often the weights agree with an importance. `unit` has the
// nouns of the view, and the colours of numbers above and below 0.
function layerBar(model, state, unit, redraw) {
  const [sentence, note] = [el("p.agreement"), el("p.soft")];
  const refresh = () => {
    const { name, of, most, hits, rows, chance } = model.layer;
    const [counted, guessed] = [hits, chance].map((x) => regard.format(x, Number.isInteger(x) ? 0 : 1));
    put(sentence, regard.rich(TEXTS.agreement, { ...unit, most, rows, hits: counted, chance: guessed }));
    put(note, el("b", name), COLON, regard.rich(of, unit), ".");
    sentence.hidden = !rows;
  };
  const choice = (name, options, part) => {
    const choose = (value) => {
      state[part] = value;
      redraw();
      regard.changed();
    };
    return regard.choices(name, options, state[part], choose).element;
  };
  const names = model.layers.map(({ name }, k) => [k, name]);
  const layers = names.length > 1 && choice(SHOWN.layer, names, "shown");
  const colours = Object.hasOwn(state, "log") && choice(SHOWN.colours, LOG, "log");
  return { element: (layers || colours) && el("div.layers", sentence, el("div.row", layers, colours), note), refresh };
}

// The readout, the lines and the matrix of one array; `update` shows others of the same tokens. `left` is the side that
// stands left: "row" or "column". `titles` makes the names of files; state.shown is the number of the layer.
regard.weightsView = (data, options) => {
  const { links = [], left = "column", warnings = [], titles, state, redraw = () => {} } = options;
  const { rows, columns, weights, importance, names } = data;
  const m = columns.length;
  const at = (row, column, { numbers, absent } = model.layer) => {
    const number = numbers[row * m + column];
    return absent(number) ? null : number;
  };
  const linked = new Set(links.map(([column, row]) => row * m + column));
  const model = { rows, columns, links, left, names, at, linked, selection: regard.selection() };
  const layers = (...numbers) => layersOf(...numbers, m, state).map((make) => make());
  model.layers = layers(weights, importance);
  model.titles = () => [...titles(), model.layer.title];
  model.title = () => model.titles().slice(1).filter(Boolean).join(COLON);
  const show = () => {
    model.layer = model.layers[state.shown] ?? model.layers[0];
    model.lines = strongest(model, NOTHING);
    parts.forEach((part) => part.refresh());
  };
  const bar = layerBar(model, state, names, () => [show, redraw].forEach((act) => act()));
  const parts = [
    bar,
    readout(model),
    pairs(model),
    canvasMatrix(model),
    colourScale(model, state),
    exportedMatrix(model),
  ];
  const [choice, line, lines, cells, scale, exported] = parts.map((part) => part.element);
  const leftSide = el("div", exportedLines(model), lines);
  const duo = el("div.beside.duo", leftSide, el("div", exported, cells, scale));
  const element = el("div.weights-view", notWeights(warnings), choice, line, duo);
  show();
  const layout = () => parts.forEach((part) => part.layout?.());
  new ResizeObserver(layout).observe(element);
  regard.onTheme(() => parts.forEach((part) => part.retint?.())); // of print, too
  // Other weights of the same tokens: elements stay, and so does the selection.
  const update = (numbers, needed) => {
    model.layers = layers(numbers, needed);
    show();
  };
  return { element, update };
};

// The colours and the numbers that they stand for.
function colourScale(model, state) {
  const element = el("p.colour-scale");
  const refresh = () => {
    const { scale, signed, numbers, absent, absence } = model.layer;
    const least = signed ? -scale : state.log ? scale / 10 ** DECADES : 0;
    const [low, high] = [least, scale].map((x) => regard.format(x, x ? digitsFor(model.columns) : 0));
    put(element, regard.colourBar(low, high, signed ? -1 : 0), numbers.some(absent) && regard.hatchKey(absence));
  };
  return { element, refresh, retint: refresh };
}

function notWeights(faults) {
  const text = filled(SHOWN.not, { faults: faults.join(SEMICOLON) });
  return faults.length > 0 && el("p.warning", { role: "note" }, text);
}

// ------------------------------------------------------------------------------------------------------ readout

function readout(model) {
  const line = el("p.readout", { "aria-live": "polite" });
  const idle = filled(SHOWN.idle, model.names);
  const update = ({ row, column }) => {
    const all = row === null && column === null;
    put(line, all ? [idle, linesLeft(model.lines)] : weightsAt(model, row, column));
  };
  model.selection.onChange(update);
  const refresh = () => update(model.selection.get());
  return { element: line, refresh };
}

function linesLeft(levels) {
  const drawn = levels.reduce((sum, [rows]) => sum + rows.length, 0);
  const counts = { drawn: regard.count(drawn), all: regard.count(levels.all) };
  return drawn < levels.all ? ` ${filled(SHOWN.drawn, counts)}` : "";
}

function weightsAt(model, row, column) {
  const number = (i, j, layer) => el("b", numberText(model, i, j, layer));
  if (row !== null && column !== null) {
    const link = model.linked.has(row * model.columns.length + column) ? ` \u00b7 ${SHOWN.link}` : "";
    const more = model.layers.filter((layer) => layer !== model.layer);
    const others = more.map((layer) => [layer.name, " ", number(row, column, layer)]);
    const list = listed([[number(row, column), link], ...others]);
    return [bdi(model.rows[row]), " \u2192 ", bdi(model.columns[column]), " ", list];
  }
  const [own, others] = row === null ? [model.columns[column], model.rows] : [model.rows[row], model.columns];
  const indices = (k) => (row === null ? [k, column] : [row, k]);
  const best = regard.best(others.length, (k) => Math.abs(model.at(...indices(k))), 5);
  const list = listed(best.map((k) => [bdi(others[k]), " ", number(...indices(k))]));
  return [bdi(own), row === null ? " \u2190 " : " \u2192 ", list];
}

// Parts of a readout, apart to the ear, too.
const listed = (parts) => parts.map((part) => [el("span", part), " "]);

// A number of a layer, without an exponent.
const numberText = (model, row, column, layer = model.layer) =>
  regard.weight(model.at(row, column, layer), digitsFor(model.columns));

// Three digits after the point, or as many as equal weights of these columns need.
const digitsFor = ({ length }) => Math.max(3, Math.ceil(Math.log10(length)) + 1);

// -------------------------------------------------------------------------------------------------------- lines

function pairs(model) {
  const right = model.left === "row" ? "column" : "row";
  const sides = { [model.left]: tokens(model, model.left, "left"), [right]: tokens(model, right, "right") };
  const canvas = el("canvas", { "aria-hidden": "true" });
  const box = el("div.pairs", sides[model.left].element, el("div.between", canvas), sides[right].element);
  const ends = [sides[model.left].buttons, sides[right].buttons];
  regard.roving(
    Array.from({ length: Math.max(...ends.map((end) => end.length)) }, (_, i) => ends.flatMap((end) => end[i] ?? [])),
  );
  const draw = () => drawLines(canvas, box, model);
  const layout = () => {
    box.classList.toggle("printed", regard.printing());
    canvas.style.height = `${Math.min(box.clientHeight, ROW * Math.max(model.rows.length, model.columns.length))}px`;
    draw();
  };
  const later = regard.later(draw);
  box.addEventListener("scroll", later, { passive: true });
  const mark = (selection) => Object.values(sides).forEach((side) => side.show(selection));
  const show = (selection) => {
    mark(selection);
    later();
  };
  const retint = () => {
    mark(model.selection.get());
    layout();
  };
  model.selection.onChange(show);
  return { element: box, layout, retint, refresh: () => show(model.selection.get()) };
}

// What the mouse or a pen points at, until it leaves; a finger has no such thing.
function pointing(model, of) {
  const but = (act) => (event) => event.pointerType !== "touch" && act(event);
  return [but((event) => model.selection.show(of(event))), but(model.selection.leave)];
}

// One side: a list of tokens as buttons, each with room for its weight.
function tokens(model, side, alignment) {
  const other = side === "row" ? "column" : "row";
  const labels = side === "row" ? model.rows : model.columns;
  const values = labels.map(() => el("span.value"));
  const buttons = labels.map((text, index) => {
    const content = alignment === "right" ? [bdi(text), values[index]] : [values[index], bdi(text)];
    return Object.assign(el("button.token", { "data-side": side }, content), { index });
  });
  const show = (selection) => {
    const of = selection[other];
    buttons.forEach((button, index) => {
      const chosen = selection[side] === index;
      button.toggleAttribute("data-chosen", chosen);
      const shown = of !== null && (selection[side] === null || chosen);
      const pair = side === "row" ? [index, of] : [of, index];
      const weight = shown ? model.at(...pair) : undefined;
      values[index].textContent = shown ? numberText(model, ...pair) : "";
      regard.tint(button, weight && model.layer.tone(weight));
    });
  };
  // Handlers of the list serve all its tokens: thousands of their own take a moment to make.
  const of = (event) => ({ [side]: event.target.closest(".token")?.index ?? null, [other]: null });
  const [onpointerover, onpointerleave] = pointing(model, of);
  const handlers = {
    ...{ onpointerover, onpointerleave, onfocusout: model.selection.leave },
    onfocusin: (event) => event.target.matches(":focus-visible") && model.selection.show(of(event)),
    onclick: (event) => event.target.closest(".token") && model.selection.keep(of(event)),
  };
  const items = buttons.map((button) => el("li", button));
  const list = el(`ul.tokens.${alignment}`, { "aria-label": model.names[side], ...handlers }, items);
  return { element: list, buttons, show };
}

// The lines that can be seen of a selection, by level of strength: [[rows, columns], ...]; even levels are of numbers above
// 0, odd ones of those below. Of a level with too many for the eye, some that are spread evenly, and none of the weaker
// levels.
function strongest({ layer: { numbers, scale }, rows, columns }, { row, column }) {
  const [n, m] = [rows.length, columns.length];
  const first = (row ?? 0) * m + (column ?? 0);
  const step = column === null ? 1 : m;
  const end = first + step * (row === null ? (column === null ? n * m : n) : column === null ? m : 1);
  const levelOf = (x) => {
    const size = Math.abs(x) / scale;
    if (!(size >= FAINTEST)) return 0;
    return 2 * Math.min(LEVELS, Math.max(1, Math.round(LEVELS * size))) - (x < 0);
  };
  const counts = new Uint32Array(2 * LEVELS + 1);
  for (let k = first; k < end; k += step) counts[levelOf(numbers[k])]++;
  const most = new Uint32Array(2 * LEVELS + 1);
  for (let k = 2 * LEVELS, room = MOST_LINES; k > 0; room -= most[k--]) most[k] = Math.min(counts[k], room);
  const levels = Array.from(counts, () => [[], []]);
  for (let k = first; k < end; k += step) {
    const level = levelOf(numbers[k]);
    const own = levels[level];
    // Multiples of the golden ratio are spread evenly in every range, and follow no grid.
    const drawn = most[level] === counts[level] || (k * GOLDEN) % 1 < most[level] / counts[level];
    if (!drawn || own[0].length === most[level]) continue;
    own[0].push(Math.floor(k / m));
    own[1].push(k % m);
  }
  return Object.assign(levels, { all: counts.reduce((sum, count) => sum + count, 0) - counts[0] });
}

// The path of the line between two tokens, from the left to the right of a picture; y(index) is the middle of a token.
const linePath = (model, left, right, y) => (row, column) => {
  const [from, to] = model.left === "row" ? [y(row), y(column)] : [y(column), y(row)];
  const bend = 0.4 * (right - left);
  return `M${left} ${from}C${left + bend} ${from} ${right - bend} ${to} ${right} ${to}`;
};

// Lines by level, and given links, as strokes {d, stroke, opacity, width, dashes}; path(row, column) is that of a line.
function strokes(levels, links, path) {
  const colours = [regard.themeColour("--accent"), regard.colour(-0.6)];
  const lines = levels.map(([rows, columns], level) => {
    const share = Math.ceil(level / 2) / LEVELS;
    const look = { stroke: colours[level % 2], opacity: 0.08 + 0.92 * share, width: 0.75 + 3.25 * share, dashes: [] };
    return { d: rows.map((row, k) => path(row, columns[k])).join(""), ...look };
  });
  const linked = links.map(([column, row]) => path(row, column)).join("");
  const link = { d: linked, stroke: regard.themeColour("--link"), opacity: 1, width: 1.75, dashes: [5, 4] };
  return [...lines, link].filter(({ d }) => d);
}

// The lines of what is selected, over all others, which are faint then.
function drawLines(canvas, box, model) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height) return;
  const context = regard.sharp(canvas, width, height);
  const y = (index) => index * ROW + ROW / 2 - box.scrollTop;
  const path = linePath(model, 0, width, y);
  const inView = (i, j) => Math.max(y(i), y(j)) >= 0 && Math.min(y(i), y(j)) <= height;
  const drawPart = (levels, links, fade) =>
    strokes(levels, links, (i, j) => (inView(i, j) ? path(i, j) : "")).forEach((look) => {
      Object.assign(context, { globalAlpha: fade * look.opacity, lineWidth: look.width, strokeStyle: look.stroke });
      context.setLineDash(look.dashes);
      context.stroke(new Path2D(look.d));
    });
  context.lineCap = "round";
  const { row, column } = model.selection.get();
  if (row === null && column === null) return drawPart(model.lines, model.links, 1);
  drawPart(model.lines, model.links, 0.1);
  const chosen = ([j, i]) => (row === null || row === i) && (column === null || column === j);
  drawPart(strongest(model, { row, column }), model.links.filter(chosen), 1);
}

// ------------------------------------------------------------------------------------------------------- matrix

const LARGEST = 40; // pixels of a cell
const LEGIBLE = 13; // of a cell that has its labels
const SPACED = 17; // between two labels, where there is no room for all
const PAPER = [660, 880]; // across and down a page of A4
const SCREEN = [0.9, 736]; // of the height of the window, and pixels, as in weights.css
const NUMBERED = 34; // of a cell that has its number in it

function canvasMatrix(model) {
  const [n, m] = [model.rows.length, model.columns.length];
  const label = filled(SHOWN.matrix, { n, m, ...model.names });
  const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": label });
  const left = el("div.row-labels", { "aria-hidden": "true" });
  const above = el("div.column-labels", { "aria-hidden": "true" });
  const stage = el("div.matrix-stage", above, left, canvas);
  const inner = el("div.matrix-inner", stage);
  const box = el("div.matrix", inner);
  const enlarge = el("button.quiet", { onclick: () => state.zoom(!state.close) });
  const state = { cell: 0, canvas, left, above, box, inner, stage, enlarge, pixels: null, close: false };
  const draw = () => {
    const { row, column } = model.selection.get();
    for (const label of left.children) label.toggleAttribute("data-chosen", label.index === row);
    for (const label of above.children) label.toggleAttribute("data-chosen", label.index === column);
    drawMatrix(state, model);
  };
  const place = () => {
    placeVisible(state, model);
    draw();
  };
  const layout = () => {
    placeMatrix(state, model);
    place();
  };
  state.zoom = (close) => {
    state.close = close;
    layout();
    scrollToCell(state, model.selection.get());
  };
  model.selection.onChange(draw);
  on(box, "scroll", regard.later(place), { passive: true });
  const refresh = () => {
    state.pixels = null;
    draw();
  };
  const retint = () => {
    state.pixels = null;
    layout();
  };
  pointAtCells(state, model);
  moveAmongCells(state, model);
  return { element: el("div", box, enlarge), layout, refresh, retint };
}

// Choose the size of the cells, all of which fit into the view unless they are enlarged.
function placeMatrix(state, model) {
  const { left, box, inner, enlarge } = state;
  const [n, m] = [model.rows.length, model.columns.length];
  const [across, down] = regard.printing() ? PAPER : [Infinity, Math.min(SCREEN[0] * innerHeight, SCREEN[1])];
  const width = Math.min(box.clientWidth, across) - 2;
  if (width <= 0) return; // not shown yet
  state.longest ??= [model.rows, model.columns].map((texts) => longestText(texts, getComputedStyle(left)));
  const [wide, high] = [Math.min(state.longest[0], 120, width / 3), Math.min(state.longest[1], 120)];
  const slant = high * 0.6; // how far the last label leans to the right
  const [x, y] = [wide + 8, high * 0.8 + 16];
  const whole = Math.min(LARGEST, (width - x - slant) / m, (down - y - LEGIBLE) / n);
  enlarge.hidden = regard.printing() || NUMBERED <= whole;
  put(enlarge, state.close ? SHOWN.whole : SHOWN.enlarge);
  const room = state.close && !regard.printing() ? Math.max(NUMBERED, whole) : whole;
  const cell = room >= LEGIBLE ? Math.floor(room) : room;
  const size = { width: x + cell * m + slant, height: y + cell * n + LEGIBLE / 2 };
  Object.assign(state, { cell, corner: [x, y], size, labelled: [wide, high] });
  sized(inner, size);
}

const sized = (element, sizes) =>
  Object.entries(sizes).forEach(([name, size]) => element.style.setProperty(name, `${size}px`));

// Place the canvas, which has the cells that are in view, and their labels.
function placeVisible(state, { rows, columns }) {
  const { left, above, box, canvas, stage, cell, size } = state;
  if (!cell || !box.clientWidth) return; // not shown
  const [x, y] = state.corner;
  const [wide, high] = state.labelled;
  const [across, down] = regard.printing() ? [Infinity, Infinity] : [box.clientWidth, box.clientHeight];
  const view = { width: Math.min(size.width, across), height: Math.min(size.height, down) };
  state.rows = inView(rows, cell, box.scrollTop, view.height - y);
  state.columns = inView(columns, cell, box.scrollLeft, view.width - x);
  sized(stage, view);
  sized(canvas, { left: x, top: y, width: state.columns.length, height: state.rows.length });
  put(left, state.rows.labels);
  put(above, state.columns.labels);
  for (const label of left.children) sized(label, { width: wide, top: y + label.at, left: 0 });
  for (const label of above.children) sized(label, { "max-width": high, left: x + label.at, top: y - 6 });
}

// The tokens of a side of which so many pixels are in view, from `start` on, and their labels: where there is no room for
// all, of every k-th token.
function inView(texts, cell, start, room) {
  const length = Math.min(cell * texts.length - start, room);
  const [first, last] = [Math.floor(start / cell), Math.min(texts.length, Math.ceil((start + length) / cell))];
  const every = cell >= LEGIBLE ? 1 : Math.ceil(SPACED / cell);
  const labels = [];
  for (let index = every * Math.ceil(first / every); index < last; index += every) {
    const at = cell * (index + 0.5) - start;
    if (at >= 0 && at <= length) labels.push(Object.assign(bdi(texts[index]), { index, at }));
  }
  return { start, length, room, first, last, labels };
}

const longestText = (texts, { fontSize, fontFamily }) =>
  regard.largest(
    texts.map((text) => textWidth(text, `${fontSize} ${fontFamily}`)),
    8,
  ) + 2;

// Scroll to a cell of an enlarged matrix.
function scrollToCell({ box, cell, rows, columns }, { row, column }) {
  const to = (index, { room }) => ((index ?? 0) + 0.5) * cell - room / 2;
  box.scrollTo(to(column, columns), to(row, rows));
}

function drawMatrix(state, model) {
  const { canvas, cell, rows, columns } = state;
  const [n, m] = [model.rows.length, model.columns.length];
  if (!cell || !n || !m) return;
  const context = regard.sharp(canvas, columns.length, rows.length);
  context.translate(-columns.start, -rows.start);
  const block = Math.ceil(1 / cell); // cells of a pixel
  const part = [rows.first, rows.last, columns.first, columns.last, block].join();
  if (part !== state.part) state.pixels = null;
  state.part = part;
  state.pixels ??= blockPicture(el("canvas"), model.layer, m, [rows, columns], block);
  canvas.classList.toggle("hatched", isHatched(state.pixels));
  context.imageSmoothingEnabled = false;
  const size = [state.pixels.width, state.pixels.height].map((pixels) => cell * block * pixels);
  context.drawImage(state.pixels, columns.first * cell, rows.first * cell, ...size);
  if (cell >= LEGIBLE) drawGaps(context, state);
  if (cell >= NUMBERED) writeNumbers(context, state, model);
  drawSelection(context, state, model);
}

// Of some rows and columns of numbers (n, m), the number of the largest size in each block as a pixel, so that thin lines
// stay visible; a hatch where there is none.
function blockPicture(canvas, { numbers, tone, absent, absence }, m, [rows, columns], block) {
  const [h, w] = [rows, columns].map(({ first, last }) => Math.ceil((last - first) / block));
  const most = new Float64Array(h * w).fill(NaN);
  for (let i = rows.first; i < rows.last; i++) {
    const row = Math.floor((i - rows.first) / block) * w;
    for (let j = columns.first; j < columns.last; j++) {
      const at = row + Math.floor((j - columns.first) / block);
      const number = numbers[i * m + j];
      if (!absent(number) && !(Math.abs(number) <= Math.abs(most[at]))) most[at] = number || 0;
    }
  }
  return Object.assign(regard.paint(canvas, most.map(tone), w, h), { absence });
}

function drawGaps(context, { cell, rows, columns }) {
  context.strokeStyle = regard.themeColour("--paper");
  context.lineWidth = 1;
  context.beginPath();
  const line = (x, y, toX, toY) => {
    context.moveTo(x, y);
    context.lineTo(toX, toY);
  };
  const ends = [rows, columns].map(({ first, last }) => [first * cell, last * cell]);
  for (let i = rows.first + 1; i < rows.last; i++) line(ends[1][0], i * cell, ends[1][1], i * cell);
  for (let j = columns.first + 1; j < columns.last; j++) line(j * cell, ends[0][0], j * cell, ends[0][1]);
  context.stroke();
}

function writeNumbers(context, { cell, rows, columns }, model) {
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let i = rows.first; i < rows.last; i++) {
    for (let j = columns.first; j < columns.last; j++) {
      const weight = model.at(i, j);
      if (!(Math.abs(weight) >= 0.005)) continue;
      context.fillStyle = regard.ink(model.layer.tone(weight));
      context.fillText(regard.format(weight, 2), (j + 0.5) * cell, (i + 0.5) * cell + 0.5, cell - 2);
    }
  }
}

function drawSelection(context, { cell }, model) {
  const { row, column } = model.selection.get();
  const [n, m] = [model.rows.length, model.columns.length];
  context.lineWidth = Math.min(2, cell / 4);
  context.strokeStyle = regard.themeColour("--link");
  const inset = context.lineWidth;
  const side = cell - 2 * inset;
  model.links.forEach(([j, i]) => context.strokeRect(j * cell + inset, i * cell + inset, side, side));
  context.lineWidth = 2;
  context.strokeStyle = regard.themeColour("--accent");
  const both = row !== null && column !== null;
  context.globalAlpha = both ? 0.45 : 1;
  if (row !== null) context.strokeRect(1, row * cell, m * cell - 2, cell);
  if (column !== null) context.strokeRect(column * cell, 1, cell, n * cell - 2);
  context.globalAlpha = 1;
  if (both) context.strokeRect(column * cell, row * cell, cell, cell);
}

const within = (index, count) => Math.min(count - 1, Math.max(0, index));

function pointAtCells(state, model) {
  const { canvas } = state;
  const cellOf = (event) => {
    const box = canvas.getBoundingClientRect();
    const index = (at, { start }, { length }) => within(Math.floor((start + at) / state.cell), length);
    const row = index(event.clientY - box.top, state.rows, model.rows);
    return { row, column: index(event.clientX - box.left, state.columns, model.columns) };
  };
  const [show, leave] = pointing(model, cellOf);
  on(canvas, "pointermove", show);
  on(canvas, "pointerleave", leave);
  on(canvas, "click", (event) => model.selection.keep(cellOf(event)));
}

function moveAmongCells(state, model) {
  const { canvas } = state;
  const { selection, rows, columns } = model;
  const move = (down, across) => () => {
    const { row, column } = selection.get();
    const to = { row: within((row ?? 0) + down, rows.length), column: within((column ?? 0) + across, columns.length) };
    selection.show(to);
    scrollToCell(state, to);
  };
  on(canvas, "focus", () => canvas.matches(":focus-visible") && move(0, 0)());
  on(canvas, "blur", selection.leave);
  const arrows = { ArrowUp: move(-1, 0), ArrowDown: move(1, 0), ArrowLeft: move(0, -1), ArrowRight: move(0, 1) };
  const keep = () => selection.keep(selection.get());
  const [larger, all] = [true, false].map((close) => () => state.zoom(close));
  onKeys(canvas, { ...arrows, Enter: keep, " ": keep, "+": larger, "=": larger, "-": all });
}

// ------------------------------------------------------------------------------------------------------ pictures

const MOST_WRITTEN = 64; // rows or columns of a matrix in LaTeX

const exportedName = (name) => filled(SHOWN.exported, { name });

const exportedLines = (model) =>
  regard.exportBar(exportedName(SHOWN.lines), () => ({
    svg: () => linesPicture(model),
    titles: [...model.titles(), SHOWN.lines],
  }));

function exportedMatrix(model) {
  const element = el("div");
  return { element, refresh: () => put(element, matrixBar(model)) };
}

function matrixBar(model) {
  const { rows, columns, layer } = model;
  const names = { ...model.names, column: model.names.column.replace(/^./, (x) => x.toUpperCase()) };
  const table = () => ({ rows, columns, numbers: regard.parts(Array.from(layer.numbers), columns.length) });
  const weight = (i, j) => model.at(i, j);
  const { tone, absence } = layer;
  const svg = () => regard.heatPicture({ title: model.title(), rows, columns, weight, tone, absence, names });
  const written = Math.max(rows.length, columns.length) <= MOST_WRITTEN;
  return regard.exportBar(exportedName(layer.name), () => ({
    svg,
    table,
    written,
    titles: [...model.titles().slice(0, 2), layer.name],
  }));
}

// The tokens of both sides, joined by lines.
const linesPicture = (model) =>
  pictured(model.title(), () => {
    const sides = model.left === "row" ? [model.rows, model.columns] : [model.columns, model.rows];
    const [left, wide] = sides.map((texts) => 20 + Math.ceil(widest(texts)));
    const right = left + 240;
    const y = (k) => 44 + ROW * (k + 0.5);
    const lines = strokes(model.lines, model.links, linePath(model, left, right, y)).map((look) => {
      const dashes = { "stroke-dasharray": look.dashes.join(" ") || null, "stroke-linecap": "round" };
      const { d, stroke, width, opacity } = look;
      return el("svg:path", { d, fill: "none", stroke, "stroke-width": width, "stroke-opacity": opacity, ...dashes });
    });
    const side = (texts, x, anchor) =>
      texts.map((text, k) => pictureText(clipped(text), x, y(k) + 4.5, { "text-anchor": anchor }));
    const texts = [side(sides[0], left - 8, "end"), side(sides[1], right + 8, "start")];
    return [right + wide, y(Math.max(model.rows.length, model.columns.length)), lines, texts];
  });
