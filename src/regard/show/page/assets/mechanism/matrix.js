// A matrix of numbers that can be changed, of results, or of weights as a heat map. Its cells are made once and then
// filled again and again, so that the focus and a drag survive a change.

const MANY = 12; // columns from which weights are colours without numbers

// The digits of a set of numbers: whole ones have none.
const digitsOf = (numbers) =>
  numbers.every((x) => !Number.isFinite(x) || (Number.isInteger(x) && Math.abs(x) < 1e15)) ? 0 : regard.digits;

const rowHead = (text) => el("th", { scope: "row" }, bdi(text));
const columnHead = (text) => el("th", { scope: "col" }, bdi(text));

// {element, set(values, row, column)}. `cell(i, j, value)` makes {element, set(value, all, picked)} for one position, in
// which `all` has what the cells share: the digits, and the weight of the darkest colour. `picture` makes
// its SVG, `all` the numbers that are exported.
function matrix({ rowLabels = [], columnLabels = [], kind = "", cell, skip, pick, ...heading }) {
  const corner = rowLabels.length > 0 && el("td");
  const head = columnLabels.length > 0 && el("thead", el("tr", corner, columnLabels.map(columnHead)));
  const body = el("tbody");
  const table = el("table", { class: `matrix ${kind}` }, head, body);
  let present = [];
  let cells = null;
  const make = (values) => {
    cells = values.map((row, i) => row.map((x, j) => cell(i, j, x)));
    const elements = cells.map((row) => row.map((part) => part.element));
    elements.forEach((row, i) => {
      const name = rowLabels[i] !== undefined && rowHead(rowLabels[i]);
      const cells = row.map((element) => el("td", element));
      body.append(el("tr", pick ? { onclick: () => pick(i) } : {}, name, cells));
    });
    if (skip) regard.roving(elements, { skip });
  };
  const set = (values, row = null, column = null) => {
    present = values;
    if (!cells) make(values);
    const flat = values.flat();
    const all = { digits: digitsOf(flat), fine: regard.digits, top: regard.darkest(flat, values[0].length) };
    cells.forEach((line, i) => {
      body.rows[i].classList.toggle("picked", i === row);
      line.forEach((part, j) => part.set(values[i][j], all, i === row && j === column));
    });
  };
  const retint = () => cells?.flat().forEach((part) => part.retint?.());
  const caption = matrixCaption(heading, rowLabels, columnLabels, () => present);
  return { element: el("figure.card", caption, regard.scroller(heading.title, table)), set, retint };
}

// The title of a matrix and what exports it.
function matrixCaption({ title, note, titles, picture, all }, rows, columns, present) {
  const numbers = () => (all ?? present)().map((row) => row.map((x) => x ?? 0));
  const svg = picture && (() => picture(present()));
  const exported = () => ({ table: () => ({ rows, columns, numbers: numbers() }), svg, titles });
  const more = note && el("span.soft", " ", note);
  return el("figcaption", title, more, " ", regard.exports(title.replace("= ", ""), exported));
}

// A matrix of numbers that can be changed; change(i, j, value). One tab stop: left and right move between its numbers.
function editable({ values, change, ...options }) {
  const { title, rowLabels = [], columnLabels = [] } = options;
  const cell = (i, j, value) => {
    const { row, column, number } = TEXTS.computing;
    const columnName = columnLabels[j] ?? filled(column, { i: j + 1 });
    const name = [title, rowLabels[i] ?? filled(row, { i: i + 1 }), values[i].length > 1 ? columnName : number].join(
      ", ",
    );
    return regard.number({ value, name, change: (x) => change(i, j, x) });
  };
  const made = matrix({ ...options, kind: "editable", cell, skip: ["ArrowUp", "ArrowDown", "Home", "End"] });
  made.set(values);
  return { ...made, set: () => {} };
}

// A matrix of results, whose numbers have at most these `digits`.
function results({ digits = 4, ...options }) {
  const cell = () => {
    const element = el("span");
    const set = (x, all) => write(element, resultText(x, Math.min(digits, all.digits)));
    return { element, set };
  };
  return matrix({ ...options, cell });
}

const resultText = (x, digits) => {
  if (x === null) return "\u2013";
  return Math.abs(x) < 0.5 * 10 ** -digits ? regard.weight(Math.abs(x), digits) : regard.format(x, digits);
};

// Most changes leave most cells as they are, and what is not written needs no layout.
function write(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}

// The weights as a heat map whose cells pick a query and a key; a masked weight is null.
function heat({ rowLabels, columnLabels, pick, names = NAMES.general, ...rest }) {
  const kind = `heat ${columnLabels.length > MANY ? "plain" : ""}`;
  const cell = (i, j) => {
    const element = el("button", { "aria-pressed": "false", onclick: () => pick(i, j) });
    let [weight, top, fine] = [undefined, 1, 0];
    const text = () => (weight === null ? TEXTS.tools.hidden : regard.weight(weight, 4));
    regard.tooltip(element, () => el("span", bdi(rowLabels[i]), " \u2192 ", bdi(columnLabels[j]), COLON, text()));
    const retint = () => regard.tint(element, weight, top);
    const set = (x, all, picked) => {
      if (element.getAttribute("aria-pressed") !== String(picked)) element.setAttribute("aria-pressed", String(picked));
      if (x === weight && all.top === top && all.fine === fine) return;
      [weight, top, fine] = [x, all.top, all.fine];
      retint();
      element.textContent = regard.weight(x, regard.digits);
      const said = { query: rowLabels[i], key: columnLabels[j], weight: text() };
      element.setAttribute("aria-label", filled(TEXTS.computing.pair, said));
    };
    return { element, set, retint };
  };
  const labels = { rows: rowLabels, columns: columnLabels };
  const axes = { row: TEXTS.computing.axes[names.kind], column: TEXTS.computing.axes[names.of] };
  const picture = (weights) => {
    const top = regard.darkest(weights.flat(), columnLabels.length);
    const [weight, tone] = [(i, j) => weights[i][j], (x) => x / top];
    return regard.heatPicture({ title: rest.title, ...labels, weight, tone, names: axes });
  };
  const made = matrix({ ...rest, rowLabels, columnLabels, kind, cell, skip: [], picture });
  const key = regard.hatchKey(TEXTS.tools.hidden);
  made.element.append(key);
  const set = (weights, ...picked) => {
    made.set(weights, ...picked);
    key.hidden = !weights.flat().includes(null);
  };
  return { ...made, set };
}
