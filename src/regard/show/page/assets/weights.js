// Two pictures of one array of weights (n, m): tokens joined by lines, and a matrix. Both show, and change, one
// selection {row, column}, where null stands for all.

const NOTHING = { row: null, column: null };
const LEVELS = 16; // strengths of lines: those of a level are one path, which is far faster than a path each
const FAINTEST = 0.03; // of the weight of the darkest colour: weaker lines are not drawn
const MOST_LINES = 3000; // at once: more are a surface to the eye, and stop a browser
const GOLDEN = (Math.sqrt(5) - 1) / 2;
const ROW = 28; // pixels of a token's line, as in weights.css

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

// The weight of the darkest colour: the largest, but at least four times that of uniform weights.
const scaleOf = (weights, m) => regard.largest(weights, Math.min(1, 4 / m));

// The readout, the lines and the matrix of one array; `update` shows another of the same tokens. `left` is the side that stands left: "row" or "column".
regard.weightsView = ({ rows, columns, weights, links = [], left = "column", names, warnings = [], titles = () => [document.title] }) => {
  const m = columns.length;
  const model = {
    rows,
    columns,
    links,
    left,
    names,
    at: (row, column) => model.weights[row * m + column],
    linked: new Set(links.map(([column, row]) => row * m + column)),
    selection: regard.selection(),
  };
  const take = (numbers) => {
    model.weights = numbers;
    model.scale = scaleOf(numbers, m);
    model.lines = strongest(model, NOTHING);
  };
  take(weights);
  const parts = [readout(model), pairs(model), matrix(model), colourScale(model)];
  const [line, lines, cells, scale] = parts.map((part) => part.element);
  const element = regard.element(
    "div",
    { class: "weights-view" },
    notWeights(warnings),
    line,
    regard.element("div", { class: "duo" }, regard.element("div", {}, exportedLines(model, titles), lines), regard.element("div", {}, exportedMatrix(model, titles), cells, scale)),
  );
  const layout = () => parts.forEach((part) => part.layout?.());
  new ResizeObserver(layout).observe(element);
  ["beforeprint", "afterprint"].forEach((name) => addEventListener(name, layout));
  // Other weights of the same tokens: elements stay, and so does the selection.
  const update = (numbers) => {
    take(numbers);
    parts.forEach((part) => part.refresh());
  };
  return { element, update };
};

// The colours and the weights that they stand for.
function colourScale(model) {
  const bar = regard.element("span", { class: "colour-bar", "aria-hidden": "true" });
  const paintBar = () => (bar.style.background = regard.gradient());
  regard.onTheme(paintBar);
  paintBar();
  const most = regard.element("span");
  const refresh = () => (most.textContent = regard.format(model.scale, 3));
  refresh();
  return { element: regard.element("p", { class: "colour-scale" }, "0", bar, most), refresh };
}

function notWeights(faults) {
  return faults.length ? regard.element("p", { class: "warning", role: "note" }, `These are not attention weights: ${faults.join("; ")}.`) : null;
}

// ------------------------------------------------------------------------------------------------------ readout

function readout(model) {
  const line = regard.element("p", { class: "readout", "aria-live": "polite" });
  const idle = `Hover, focus or tap a token: its weights appear. ${model.names.row} attend, ${model.names.column} are attended to.`;
  const update = ({ row, column }) => {
    line.replaceChildren(...(row === null && column === null ? [idle, linesLeft(model.lines)] : weightsAt(model, row, column)));
  };
  model.selection.onChange(update);
  const refresh = () => update(model.selection.get());
  refresh();
  return { element: line, refresh };
}

function linesLeft(levels) {
  const drawn = levels.reduce((sum, [rows]) => sum + rows.length, 0);
  return drawn < levels.all ? ` ${regard.count(drawn)} of ${regard.count(levels.all)} lines are drawn.` : "";
}

function weightsAt(model, row, column) {
  const number = (i, j) => regard.element("b", {}, weightText(model.at(i, j)));
  if (row !== null && column !== null) {
    const link = model.linked.has(row * model.columns.length + column) ? " \u00b7 a given link" : "";
    return [regard.label(model.rows[row]), " \u2192 ", regard.label(model.columns[column]), " ", number(row, column), link];
  }
  const [own, others] = row === null ? [model.columns[column], model.rows] : [model.rows[row], model.columns];
  const indices = (k) => (row === null ? [k, column] : [row, k]);
  const best = regard.best(others.length, (k) => model.at(...indices(k)), 5);
  const list = best.map((k) => regard.element("span", {}, regard.label(others[k]), " ", number(...indices(k))));
  return [regard.label(own), row === null ? " \u2190 " : " \u2192 ", ...list];
}

// A weight with three digits, without an exponent.
const weightText = (weight) => regard.weight(weight, 3);

// -------------------------------------------------------------------------------------------------------- lines

function pairs(model) {
  const right = model.left === "row" ? "column" : "row";
  const sides = { [model.left]: tokens(model, model.left, "left"), [right]: tokens(model, right, "right") };
  const canvas = regard.element("canvas", { "aria-hidden": "true" });
  const box = regard.element(
    "div",
    { class: "pairs" },
    sides[model.left].element,
    regard.element("div", { class: "between" }, canvas),
    sides[right].element,
  );
  const ends = [sides[model.left].buttons, sides[right].buttons];
  regard.roving(Array.from({ length: Math.max(...ends.map((end) => end.length)) }, (_, i) => ends.flatMap((end) => end[i] ?? [])));
  const draw = () => drawLines(canvas, box, model);
  const layout = () => {
    box.classList.toggle("printed", regard.printing());
    canvas.style.height = `${Math.min(box.clientHeight, ROW * Math.max(model.rows.length, model.columns.length))}px`;
    draw();
  };
  const later = regard.later(draw);
  box.addEventListener("scroll", later, { passive: true });
  const show = (selection) => {
    sides.row.show(selection);
    sides.column.show(selection);
    later();
  };
  model.selection.onChange(show);
  regard.onTheme(later);
  return { element: box, layout, refresh: () => show(model.selection.get()) };
}

// One side: a list of tokens as buttons, each with room for its weight.
function tokens(model, side, alignment) {
  const other = side === "row" ? "column" : "row";
  const labels = side === "row" ? model.rows : model.columns;
  const values = labels.map(() => regard.element("span", { class: "value" }));
  const buttons = labels.map((text, index) => {
    const content = alignment === "right" ? [regard.label(text), values[index]] : [values[index], regard.label(text)];
    return Object.assign(regard.element("button", { type: "button", class: "token", "data-side": side }, content), { index });
  });
  const show = (selection) => {
    const of = selection[other];
    buttons.forEach((button, index) => {
      const chosen = selection[side] === index;
      button.toggleAttribute("data-chosen", chosen);
      const weight = of === null ? null : side === "row" ? model.at(index, of) : model.at(of, index);
      const shown = weight !== null && (selection[side] === null || chosen);
      values[index].textContent = shown ? weightText(weight) : "";
      const strength = shown ? weight / model.scale : null;
      button.style.background = strength === null ? "" : regard.colour(strength);
      button.style.color = strength === null ? "" : regard.ink(strength);
    });
  };
  // Handlers of the list serve all its tokens: thousands of their own take a moment to make.
  const of = (event) => ({ [side]: event.target.closest(".token")?.index ?? null, [other]: null });
  const handlers = {
    onpointerover: (event) => event.pointerType !== "touch" && model.selection.show(of(event)),
    onpointerleave: (event) => event.pointerType !== "touch" && model.selection.leave(),
    onfocusin: (event) => event.target.matches(":focus-visible") && model.selection.show(of(event)),
    onfocusout: model.selection.leave,
    onclick: (event) => event.target.closest(".token") && model.selection.keep(of(event)),
  };
  const list = regard.element(
    "ul",
    { class: `tokens ${alignment}`, "aria-label": model.names[side], ...handlers },
    buttons.map((button) => regard.element("li", {}, button)),
  );
  return { element: list, buttons, show };
}

// The lines that can be seen of a selection, by level of strength: [[rows, columns], ...]. Of a level with too many for
// the eye, some that are spread evenly, and none of the weaker levels.
function strongest({ weights, scale, rows, columns }, { row, column }) {
  const [n, m] = [rows.length, columns.length];
  const first = (row ?? 0) * m + (column ?? 0);
  const step = column === null ? 1 : m;
  const end = first + step * (row === null ? (column === null ? n * m : n) : column === null ? m : 1);
  const levelOf = (weight) => (weight >= FAINTEST * scale ? Math.min(LEVELS, Math.max(1, Math.round((LEVELS * weight) / scale))) : 0);
  const counts = new Uint32Array(LEVELS + 1);
  for (let k = first; k < end; k += step) counts[levelOf(weights[k])]++;
  const most = new Uint32Array(LEVELS + 1);
  for (let k = LEVELS, room = MOST_LINES; k > 0; room -= most[k--]) most[k] = Math.min(counts[k], room);
  const levels = Array.from(counts, () => [[], []]);
  for (let k = first; k < end; k += step) {
    const level = levelOf(weights[k]);
    const own = levels[level];
    // Multiples of the golden ratio are spread evenly in every range, and follow no grid.
    const drawn = most[level] === counts[level] || (k * GOLDEN) % 1 < most[level] / counts[level];
    if (!drawn || own[0].length === most[level]) continue;
    own[0].push(Math.floor(k / m));
    own[1].push(k % m);
  }
  return Object.assign(levels, { all: counts.reduce((sum, count) => sum + count, 0) - counts[0] });
}

function drawLines(canvas, box, model) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height) return;
  const context = regard.sharp(canvas, width, height);
  const { row, column } = model.selection.get();
  const selected = row !== null || column !== null;
  const chosen = (i, j) => (row === null || row === i) && (column === null || column === j);
  const y = (index) => index * ROW + ROW / 2 - box.scrollTop;
  const line = (i, j) => {
    const [from, to] = model.left === "row" ? [y(i), y(j)] : [y(j), y(i)];
    if ((from < 0 && to < 0) || (from > height && to > height)) return;
    context.moveTo(0, from);
    context.bezierCurveTo(width * 0.4, from, width * 0.6, to, width, to);
  };
  context.strokeStyle = regard.themeColour("--accent");
  context.lineCap = "round";
  for (const [part, fade] of selected ? [[model.lines, 0.1], [strongest(model, { row, column }), 1]] : [[model.lines, 1]]) {
    part.forEach(([rows, columns], level) => {
      context.globalAlpha = fade * (0.08 + 0.92 * (level / LEVELS));
      context.lineWidth = 0.75 + 3.25 * (level / LEVELS);
      context.beginPath();
      rows.forEach((i, k) => line(i, columns[k]));
      context.stroke();
    });
  }
  drawLinks(context, model, line, selected, chosen);
}

function drawLinks(context, model, line, selected, chosen) {
  context.strokeStyle = regard.themeColour("--link");
  context.lineWidth = 1.75;
  context.setLineDash([5, 4]);
  for (const part of [true, false]) {
    context.globalAlpha = part || !selected ? 1 : 0.15;
    context.beginPath();
    model.links.forEach(([column, row]) => chosen(row, column) === part && line(row, column));
    context.stroke();
  }
}

// ------------------------------------------------------------------------------------------------------- matrix

const SMALLEST = 2; // pixels of a cell
const LARGEST = 40;
const LEGIBLE = 13; // between two labels
const PAPER = 660; // across a page of A4
const NUMBERED = 34; // of a cell that has its number in it

function matrix(model) {
  const n = model.rows.length;
  const m = model.columns.length;
  const canvas = regard.element("canvas", {
    tabindex: "0",
    role: "img",
    "aria-label": `Matrix of ${n} rows (${model.names.row}) and ${m} columns (${model.names.column}). The arrow keys move between its cells.`,
  });
  const left = regard.element("div", { class: "row-labels", "aria-hidden": "true" });
  const above = regard.element("div", { class: "column-labels", "aria-hidden": "true" });
  const inner = regard.element("div", { class: "matrix-inner" }, above, left, canvas);
  const box = regard.element("div", { class: "matrix" }, inner);
  const state = { cell: 0, canvas, left, above, box, inner, pixels: null };
  const draw = () => drawMatrix(state, model);
  const layout = () => (placeMatrix(state, model), draw());
  model.selection.onChange((selection) => {
    for (const label of left.children) label.toggleAttribute("data-chosen", label.index === selection.row);
    for (const label of above.children) label.toggleAttribute("data-chosen", label.index === selection.column);
    draw();
  });
  const refresh = () => {
    state.pixels = null;
    draw();
  };
  regard.onTheme(refresh);
  pointAtCells(state, model);
  moveAmongCells(state, model);
  return { element: box, layout, refresh };
}

// Choose the size of the cells, and place the labels beside them: where there is no room for all, of every k-th token.
function placeMatrix(state, model) {
  const { left, above, box, canvas, inner } = state;
  const [n, m] = [model.rows.length, model.columns.length];
  const width = (regard.printing() ? Math.min(box.clientWidth, PAPER) : box.clientWidth) - 2;
  const least = regard.printing() ? 0.1 : SMALLEST;
  const every = Math.max(1, Math.ceil(LEGIBLE / Math.max(least, (width - 130) / m)));
  if (every !== state.every) {
    state.every = every;
    [[left, model.rows], [above, model.columns]].forEach(([side, texts]) =>
      side.replaceChildren(...texts.flatMap((text, index) => (index % every ? [] : [Object.assign(regard.label(text), { index })]))),
    );
  }
  const wide = Math.min(Math.max(...[...left.children].map((label) => label.scrollWidth), 8) + 1, 120, width / 3);
  const high = Math.min(Math.max(...[...above.children].map((label) => label.scrollWidth), 8) + 1, 120);
  const slant = high * 0.6; // how far the last label leans to the right
  const fitting = (width - wide - 8 - slant) / m;
  const cell = (state.cell = fitting >= LEGIBLE ? Math.min(Math.floor(fitting), LARGEST) : Math.max(least, fitting));
  const [x, y] = [wide + 8, high * 0.8 + 16];
  inner.style.width = `${x + cell * m + slant}px`;
  inner.style.height = `${y + cell * n}px`;
  Object.assign(canvas.style, { left: `${x}px`, top: `${y}px`, width: `${cell * m}px`, height: `${cell * n}px` });
  for (const label of left.children) Object.assign(label.style, { width: `${wide}px`, top: `${y + cell * (label.index + 0.5)}px`, left: "0" });
  for (const label of above.children) Object.assign(label.style, { maxWidth: `${high}px`, left: `${x + cell * (label.index + 0.5)}px`, top: `${y - 6}px` });
}

function drawMatrix(state, model) {
  const { canvas, cell } = state;
  const [n, m] = [model.rows.length, model.columns.length];
  if (!cell || !n || !m) return;
  const context = regard.sharp(canvas, cell * m, cell * n);
  state.pixels ??= onePixelACell(model, n, m);
  context.imageSmoothingEnabled = false;
  context.drawImage(state.pixels, 0, 0, cell * m, cell * n);
  if (cell >= LEGIBLE) drawGaps(context, state, n, m);
  if (cell >= NUMBERED) writeNumbers(context, model, cell);
  drawSelection(context, state, model);
}

function onePixelACell(model, n, m) {
  const small = document.createElement("canvas");
  [small.width, small.height] = [m, n];
  const context = small.getContext("2d");
  context.putImageData(regard.colours(model.weights, context.createImageData(m, n), model.scale), 0, 0);
  return small;
}

function drawGaps(context, { cell }, n, m) {
  context.strokeStyle = regard.themeColour("--paper");
  context.lineWidth = 1;
  context.beginPath();
  for (let i = 1; i < n; i++) context.moveTo(0, i * cell), context.lineTo(m * cell, i * cell);
  for (let j = 1; j < m; j++) context.moveTo(j * cell, 0), context.lineTo(j * cell, n * cell);
  context.stroke();
}

function writeNumbers(context, model, cell) {
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  model.rows.forEach((_, i) =>
    model.columns.forEach((_, j) => {
      const weight = model.at(i, j);
      if (!(Math.abs(weight) >= 0.005)) return;
      context.fillStyle = regard.ink(weight / model.scale);
      context.fillText(regard.format(weight, 2), (j + 0.5) * cell, (i + 0.5) * cell + 0.5, cell - 2);
    }),
  );
}

function drawSelection(context, { cell }, model) {
  const { row, column } = model.selection.get();
  const [n, m] = [model.rows.length, model.columns.length];
  context.lineWidth = Math.min(2, cell / 4);
  context.strokeStyle = regard.themeColour("--link");
  const inset = context.lineWidth;
  model.links.forEach(([j, i]) => context.strokeRect(j * cell + inset, i * cell + inset, cell - 2 * inset, cell - 2 * inset));
  context.lineWidth = 2;
  context.strokeStyle = regard.themeColour("--accent");
  if (row !== null && column === null) context.strokeRect(1, row * cell, m * cell - 2, cell);
  if (column !== null && row === null) context.strokeRect(column * cell, 1, cell, n * cell - 2);
  if (row === null || column === null) return;
  context.globalAlpha = 0.45;
  context.strokeRect(1, row * cell, m * cell - 2, cell);
  context.strokeRect(column * cell, 1, cell, n * cell - 2);
  context.globalAlpha = 1;
  context.strokeRect(column * cell, row * cell, cell, cell);
}

function pointAtCells({ canvas }, model) {
  const cellOf = (event) => {
    const box = canvas.getBoundingClientRect();
    const index = (offset, size, count) => Math.min(count - 1, Math.max(0, Math.floor((offset / size) * count)));
    return {
      row: index(event.clientY - box.top, box.height, model.rows.length),
      column: index(event.clientX - box.left, box.width, model.columns.length),
    };
  };
  canvas.addEventListener("pointermove", (event) => event.pointerType !== "touch" && model.selection.show(cellOf(event)));
  canvas.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && model.selection.leave());
  canvas.addEventListener("click", (event) => model.selection.keep(cellOf(event)));
}

function moveAmongCells({ canvas }, model) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const within = (value, count) => Math.min(count - 1, Math.max(0, value));
  const move = (down, across) => {
    const { row, column } = model.selection.get();
    model.selection.show({
      row: within((row ?? 0) + down, model.rows.length),
      column: within((column ?? 0) + across, model.columns.length),
    });
  };
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && move(0, 0));
  canvas.addEventListener("blur", () => model.selection.leave());
  canvas.addEventListener("keydown", (event) => {
    if (steps[event.key]) move(...steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") model.selection.keep(model.selection.get());
    else return;
    event.preventDefault();
  });
}

// ------------------------------------------------------------------------------------------------------ pictures

const MOST_WRITTEN = 64; // rows or columns of a matrix in LaTeX

const exportBar = (name, of) => regard.element("div", { class: "exports" }, regard.exports(name, of));

const exportedLines = (model, titles) => exportBar("the lines", () => ({ svg: () => regard.onPaper(() => linesPicture(model, titles().at(-1))), titles: [...titles(), "lines"] }));

function exportedMatrix(model, titles) {
  const { rows, columns, names } = model;
  const numbers = () => ({ rows, columns, numbers: rows.map((_, i) => columns.map((_, j) => model.at(i, j))) });
  const svg = () => regard.heatPicture({ title: titles().at(-1), rows, columns, weight: model.at, top: model.scale, names: { row: names.row, column: names.column.replace(/^./, (x) => x.toUpperCase()) } });
  const fits = Math.max(rows.length, columns.length) <= MOST_WRITTEN;
  return exportBar("the weights", () => ({ svg, table: numbers, written: fits, titles: [...titles(), "weights"] }));
}

// The tokens of both sides, joined by lines.
function linesPicture(model, title) {
  const sides = model.left === "row" ? [model.rows, model.columns] : [model.columns, model.rows];
  const [first, second] = sides.map((texts) => 20 + Math.ceil(Math.max(0, ...texts.map((text) => textWidth(shortened(text), 13)))));
  const [left, right, wide] = [first, first + 240, Math.max(first + 240 + second, 24 + 1.15 * textWidth(title, 13))];
  const y = (k) => 44 + ROW * (k + 0.5);
  const path = (row, column) => {
    const [a, b] = model.left === "row" ? [y(row), y(column)] : [y(column), y(row)];
    return `M${left} ${a}C${left + 96} ${a} ${left + 144} ${b} ${right} ${b}`;
  };
  const accent = regard.themeColour("--accent");
  const lines = model.lines.map(([rows, columns], level) =>
    rows.length ? regard.element("svg:path", { d: rows.map((row, k) => path(row, columns[k])).join(""), fill: "none", stroke: accent, "stroke-opacity": 0.08 + (0.92 * level) / LEVELS, "stroke-width": 0.75 + (3.25 * level) / LEVELS, "stroke-linecap": "round" }) : [],
  );
  const links = model.links.map(([column, row]) => regard.element("svg:path", { d: path(row, column), fill: "none", stroke: regard.themeColour("--link"), "stroke-width": 1.75, "stroke-dasharray": "5 4" }));
  const side = (texts, x, anchor) => texts.map((text, k) => pictureText(shortened(text), x, y(k) + 4.5, { "text-anchor": anchor }));
  return regard.element(
    "svg:svg",
    { viewBox: `0 0 ${Math.ceil(wide)} ${Math.ceil(y(Math.max(model.rows.length, model.columns.length)))}`, "aria-label": title, ...FONT },
    pictureText(title, 12, 25, { "font-weight": 600 }),
    lines,
    links,
    side(sides[0], left - 8, "end"),
    side(sides[1], right + 8, "start"),
  );
}
