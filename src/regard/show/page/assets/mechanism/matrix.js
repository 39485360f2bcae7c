// A matrix of numbers that can be changed, of results, or of weights as a heat map. Its cells are made once and then
// filled again and again, so that the focus and a drag survive a change.

const MANY = 12; // columns from which weights are colours without numbers

// The digits of a set of numbers: whole ones have none.
const digitsOf = (numbers) => (numbers.every((x) => !Number.isFinite(x) || (Number.isInteger(x) && Math.abs(x) < 1e15)) ? 0 : 4);

const rowHead = (text) => regard.element("th", { scope: "row" }, regard.label(text));
const columnHead = (text) => regard.element("th", { scope: "col" }, regard.label(text));

// {element, set(values, row, column)}. `cell(i, j, value)` makes {element, set(value, all, picked)} for one position, in
// which `all` has what the cells share: the digits, and the weight of the darkest colour. `picture` makes
// its SVG, `all` are the numbers that are exported.
function matrix({ title, note, rowLabels = [], columnLabels = [], kind = "", cell, skip = null, pick = null, titles, picture = null, all = null }) {
  const head = columnLabels.length ? regard.element("tr", {}, rowLabels.length ? regard.element("td") : null, columnLabels.map(columnHead)) : null;
  const body = regard.element("tbody");
  const table = regard.element("table", { class: `matrix ${kind}` }, head ? regard.element("thead", {}, head) : null, body);
  let present = [];
  const numbers = () => ({ rows: rowLabels, columns: columnLabels, numbers: (all?.() ?? present).map((row) => row.map((x) => x ?? 0)) });
  const exported = regard.exports(title.replace("= ", ""), () => ({ table: numbers, svg: picture && (() => picture(present)), titles }));
  const heading = regard.element("figcaption", {}, title, note ? regard.element("span", { class: "soft" }, " ", note) : null, " ", exported);
  let cells = null;
  const make = (values) => {
    cells = values.map((row, i) => row.map((x, j) => cell(i, j, x)));
    cells.forEach((row, i) => {
      const own = row.map((part) => regard.element("td", {}, part.element));
      body.append(regard.element("tr", pick ? { onclick: () => pick(i) } : {}, rowLabels[i] === undefined ? null : rowHead(rowLabels[i]), own));
    });
    if (skip) regard.roving(cells.map((row) => row.map((part) => part.element)), { skip });
  };
  const set = (values, row = null, column = null) => {
    present = values;
    if (!cells) make(values);
    const flat = values.flat();
    const all = { digits: digitsOf(flat), top: darkest(flat, values[0].length) };
    cells.forEach((line, i) => {
      body.rows[i].classList.toggle("picked", i === row);
      line.forEach((part, j) => part.set(values[i][j], all, i === row && j === column));
    });
  };
  const retint = () => cells?.flat().forEach((part) => part.retint?.());
  return { element: regard.element("figure", { class: "card" }, heading, regard.scroller(title, table)), set, retint };
}

// A matrix of numbers that can be changed; change(i, j, value). One tab stop: left and right move between its numbers.
function editable({ title, note, values, rowLabels = [], columnLabels = [], change, titles }) {
  const cell = (i, j, value) => {
    const column = columnLabels[j] ?? `column ${j + 1}`;
    const name = `${title}, ${rowLabels[i] ?? `row ${i + 1}`}, ${values[i].length > 1 ? column : "number"}`;
    return regard.number({ value, name, change: (x) => change(i, j, x) });
  };
  const made = matrix({ title, note, rowLabels, columnLabels, kind: "editable", cell, titles, skip: ["ArrowUp", "ArrowDown", "Home", "End"] });
  made.set(values);
  return { ...made, set: () => {} };
}

// A matrix of results.
function results(options) {
  const cell = () => {
    const element = regard.element("span");
    return { element, set: (x, { digits }) => write(element, x === null ? "\u2013" : regard.format(x, x === 0 ? 0 : digits)) };
  };
  return matrix({ ...options, cell });
}

// Most changes leave most cells as they are, and what is not written needs no layout.
function write(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}

// The weights as a heat map whose cells pick a query and a key; a masked weight is null.
function heat({ rowLabels, columnLabels, pick, names = NAMES.general, ...rest }) {
  const kind = `heat ${columnLabels.length > MANY ? "plain" : ""}`;
  const cell = (i, j) => {
    const element = regard.element("button", { type: "button", "aria-pressed": "false", onclick: () => pick(i, j) });
    let [weight, top] = [undefined, 1];
    const text = () => (weight === null ? "hidden by the mask" : regard.weight(weight, 4));
    regard.tooltip(element, () => regard.element("span", {}, regard.label(rowLabels[i]), " \u2192 ", regard.label(columnLabels[j]), `: ${text()}`));
    const retint = () => {
      element.style.setProperty("background", weight === null ? "" : regard.colour(weight / top));
      element.style.setProperty("color", weight === null ? "" : regard.ink(weight / top));
    };
    const set = (x, all, picked) => {
      if (element.getAttribute("aria-pressed") !== String(picked)) element.setAttribute("aria-pressed", String(picked));
      if (x === weight && all.top === top) return;
      [weight, top] = [x, all.top];
      element.classList.toggle("masked", x === null);
      retint();
      element.textContent = regard.weight(x, 3);
      element.setAttribute("aria-label", `${rowLabels[i]} to ${columnLabels[j]}: ${text()}`);
    };
    return { element, set, retint };
  };
  const axes = { row: plural(names.query), column: plural(names.key) };
  const picture = (weights) => regard.heatPicture({ title: rest.title, rows: rowLabels, columns: columnLabels, weight: (i, j) => weights[i][j], top: darkest(weights.flat(), columnLabels.length), names: axes });
  return matrix({ ...rest, rowLabels, columnLabels, kind, cell, skip: [], picture });
}

const plural = (noun) => `${noun[0].toUpperCase()}${noun.slice(1)}s`.replace("Querys", "Queries");

// Equal weights are never dark where there are many keys: the darkest colour is four times their share, at least.
const darkest = (weights, m) => regard.largest(weights, Math.min(1, 4 / m));
