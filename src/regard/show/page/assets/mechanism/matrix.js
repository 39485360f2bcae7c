// Matrices: of numbers that can be changed, of results, and of weights as a heat map. Each is made once for its shape
// and then filled again and again, so that the focus and a drag survive a change.

const MANY = 12; // columns from which weights are colours without numbers

// The digits of a set of numbers: whole ones have none.
const digitsOf = (numbers) => (numbers.every((x) => !Number.isFinite(x) || (Number.isInteger(x) && Math.abs(x) < 1e15)) ? 0 : 4);

function frame(title, note, rows, columns, kind = "") {
  const head = columns.length ? regard.element("tr", {}, rows.length ? regard.element("td") : null, columns) : null;
  const body = regard.element("tbody");
  const table = regard.element("table", { class: `matrix ${kind}` }, head ? regard.element("thead", {}, head) : null, body);
  const heading = regard.element("figcaption", {}, title, note ? regard.element("span", { class: "soft" }, " ", note) : null);
  return { body, table, element: regard.element("figure", { class: "card" }, heading, regard.scroller(title, table)) };
}

const rowHead = (text) => regard.element("th", { scope: "row" }, regard.label(text));
const columnHead = (text) => regard.element("th", { scope: "col" }, regard.label(text));

// A matrix of numbers that can be changed; change(i, j, value). One tab stop: left and right move between its numbers.
function editable({ title, note, name, values, rowLabels = [], change }) {
  const { body, element } = frame(title, note, rowLabels, []);
  const numbers = values.map((row, i) =>
    row.map((value, j) => {
      const position = `${rowLabels[i] ?? `row ${i + 1}`}, ${row.length > 1 ? `column ${j + 1}` : "number"}`;
      return regard.number({ value, name: `${name}, ${position}`, change: (x) => change(i, j, x) });
    }),
  );
  numbers.forEach((row, i) => {
    const cells = row.map(({ element: input }) => regard.element("td", {}, input));
    body.append(regard.element("tr", {}, rowLabels[i] === undefined ? null : rowHead(rowLabels[i]), cells));
  });
  regard.roving(numbers.map((row) => row.map((number) => number.element)), { skip: ["ArrowUp", "ArrowDown", "Home", "End"] });
  return { element, set: (rows) => rows.forEach((row, i) => row.forEach((x, j) => numbers[i][j].set(x))) };
}

// A matrix of results: set(rows, picked).
function results({ title, note, rowLabels, columnLabels = [], pick }) {
  const { body, element } = frame(title, note, rowLabels, columnLabels.map(columnHead));
  let cells = [];
  const make = (rows) => {
    cells = rows.map((row) => row.map(() => regard.element("td")));
    const picking = (i) => (pick ? { onclick: () => pick(i) } : {});
    body.replaceChildren(...cells.map((row, i) => regard.element("tr", picking(i), rowHead(rowLabels[i]), row)));
  };
  const set = (rows, picked) => {
    if (cells.length === 0) make(rows);
    const digits = digitsOf(rows.flat());
    rows.forEach((row, i) => {
      body.rows[i].classList.toggle("picked", i === picked);
      row.forEach((x, j) => write(cells[i][j], regard.format(x, x === 0 ? 0 : digits)));
    });
  };
  return { element, set };
}

// Most changes leave most cells as they are, and what is not written needs no layout.
function write(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}

// The weights as a heat map whose cells pick a query and a key: set(weights, row, key).
function heat({ title, note, rowLabels, columnLabels, pick }) {
  const plain = columnLabels.length > MANY ? "plain" : "";
  const { body, table, element } = frame(title, note, rowLabels, columnLabels.map(columnHead), `heat ${plain}`);
  let present = null;
  let top = 1;
  const cells = rowLabels.map((query, i) =>
    columnLabels.map((key, j) => {
      const cell = regard.element("button", { type: "button", "aria-pressed": "false", onclick: () => pick(i, j) });
      regard.tooltip(cell, () => regard.element("span", {}, regard.label(query), " \u2192 ", regard.label(key), `: ${regard.format(present[i][j], 4)}`));
      return cell;
    }),
  );
  cells.forEach((row, i) => body.append(regard.element("tr", {}, rowHead(rowLabels[i]), row.map((cell) => regard.element("td", {}, cell)))));
  regard.roving(cells);
  let chosen = null;
  const set = (weights, row, key) => {
    const [before, earlier] = [present, top];
    present = weights;
    top = darkest(weights);
    cells.forEach((line, i) => {
      body.rows[i].classList.toggle("picked", i === row);
      line.forEach((cell, j) => {
        if (before?.[i][j] !== weights[i][j] || top !== earlier) paint(cell, weights[i][j], [rowLabels[i], columnLabels[j]], top);
      });
    });
    chosen?.setAttribute("aria-pressed", "false");
    chosen = cells[row][key];
    chosen.setAttribute("aria-pressed", "true");
  };
  const retint = () => cells.forEach((line, i) => line.forEach((cell, j) => tint(cell, present[i][j] / top)));
  table.setAttribute("aria-label", title);
  return { element, set, retint };
}

function paint(cell, weight, [query, key], top) {
  tint(cell, weight / top);
  cell.textContent = regard.format(weight, weight === 0 || weight === 1 ? 0 : 3);
  cell.setAttribute("aria-label", `${query} to ${key}: ${regard.format(weight, 4)}`);
}

// Equal weights are never dark where there are many keys: the darkest colour is four times their share, at least.
function darkest(weights) {
  return Math.max(Math.min(1, 4 / weights[0].length), largest(weights.flat().filter(Number.isFinite)));
}

function tint(cell, share) {
  cell.style.setProperty("background", regard.colour(share));
  cell.style.setProperty("color", regard.ink(share));
}
