// Pictures as SVG and PNG, matrices as CSV and LaTeX: the menu that offers them, and what is written.

const TYPES = { html: "text/html", svg: "image/svg+xml", png: "image/png", csv: "text/csv", tex: "text/x-tex" };
const PNG_SCALE = 2; // pixels of a picture for one of the screen
const PADDING = 12;

// A file from this page; its name is made of titles.
regard.download = (kind, content, ...titles) => {
  const blob = content instanceof Blob ? content : new Blob([content], { type: `${TYPES[kind]};charset=utf-8` });
  const link = regard.element("a", { href: URL.createObjectURL(blob), download: `${fileName(titles)}.${kind}`, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};

const fileName = (titles) =>
  titles.filter(Boolean).join(" ").normalize("NFC").toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "attention";

// Copy a text, or show it where the browser does not let a page copy.
regard.copy = (text, noun) => {
  const said = (words) => regard.announce(words);
  const area = regard.element("textarea", { readonly: true, class: "copied", "aria-label": `The ${noun}` }, text);
  const back = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  back?.focus?.({ preventScroll: true });
  if (done) said(`The ${noun} is copied.`);
  else prompt(`Copy the ${noun}:`, text);
};

// A short message that is read out, and seen for some seconds below what has the focus.
regard.announce = (text) => {
  note ??= document.body.appendChild(regard.element("p", { class: "announcement", role: "status" }));
  note.textContent = text;
  note.hidden = false;
  const box = document.activeElement.getBoundingClientRect();
  note.style.setProperty("left", `${Math.max(8, Math.min(box.left, innerWidth - note.offsetWidth - 8)) + scrollX}px`);
  note.style.setProperty("top", `${box.bottom + 6 + scrollY}px`);
  clearTimeout(fading);
  fading = setTimeout(() => (note.hidden = true), 4000);
};
let [note, fading] = [null, null];

// --------------------------------------------------------------------------------------------------------- menus

let open = null;

// A button that opens a list of actions: items() returns [[text, action], ...].
regard.menu = (content, name, items, kind = "quiet") => {
  const button = regard.element("button", { type: "button", class: `${kind} opens`, "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": name === content ? null : name, title: name === content ? null : name }, content);
  button.addEventListener("click", () => (open?.button === button ? closeMenu() : openMenu(button, name, items())));
  button.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && open?.button !== button) event.preventDefault(), openMenu(button, name, items());
  });
  return button;
};

function openMenu(button, name, items) {
  closeMenu();
  const act = (action) => () => {
    closeMenu();
    button.focus({ preventScroll: true });
    action();
  };
  const buttons = items.map(([text, action]) => regard.element("button", { type: "button", role: "menuitem", tabindex: -1, onclick: act(action) }, text));
  const list = regard.element("div", { class: "menu", role: "menu", "aria-label": name }, buttons);
  document.body.append(list);
  open = { button, list };
  button.setAttribute("aria-expanded", "true");
  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + buttons.length, Home: 0, End: buttons.length - 1 }[event.key];
    if (to !== undefined) event.preventDefault(), buttons[to % buttons.length].focus();
    if (event.key === "Escape" || event.key === "Tab") closeMenu(), button.focus({ preventScroll: true });
  });
  list.addEventListener("focusout", (event) => list.contains(event.relatedTarget) || closeMenu());
  const box = button.getBoundingClientRect();
  const below = box.bottom + list.offsetHeight + 4 < innerHeight || box.top < list.offsetHeight + 4;
  const left = Math.max(8, Math.min(box.right - list.offsetWidth, document.documentElement.clientWidth - list.offsetWidth - 8));
  list.style.setProperty("left", `${left + scrollX}px`);
  list.style.setProperty("top", `${(below ? box.bottom + 4 : box.top - list.offsetHeight - 4) + scrollY}px`);
  buttons[0].focus({ preventScroll: true });
}

function closeMenu() {
  if (!open) return;
  const { button, list } = open;
  open = null;
  button.setAttribute("aria-expanded", "false");
  list.remove();
}

// The small control of a picture or a matrix. `name` is its title; `of()` returns {svg, table, tex, titles}: an SVG
// element, {rows, columns, numbers}, the text of a document in LaTeX, titles for the name of the file. Each may be missing;
// `written` is false for a matrix that is too large for LaTeX.
regard.exports = (name, of) => {
  const icon = regard.element("svg:svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, regard.element("svg:path", { d: "M8 2v8M5 7l3 3 3-3M3 11v3h10v-3" }));
  const title = () => of().titles ?? [document.title, name];
  const items = () => {
    const { svg, table, tex, written = true } = of();
    const latex = tex ?? (table && written && (() => matrixLatex(name, table())));
    return [
      svg && ["Picture as SVG", () => regard.download("svg", svgText(svg()), ...title())],
      svg && ["Picture as PNG", () => png(svg()).then((blob) => regard.download("png", blob, ...title()))],
      table && ["Numbers as CSV", () => regard.download("csv", csv(table()), ...title())],
      latex && [tex ? "This query as LaTeX" : "Numbers as LaTeX", () => regard.download("tex", latex(), ...title())],
      latex && ["Copy the LaTeX", () => regard.copy(latex(), "LaTeX")],
    ].filter(Boolean);
  };
  return regard.menu(icon, `Export ${name}`, items, "quiet export");
};

// ---------------------------------------------------------------------------------------------------------- text

// A text that no spreadsheet runs as a formula, as _characters.as_cell has it; numbers stay numbers.
const FORMULA = /^'*[-=+@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const asCell = (text) => (FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text);

// Names in the first line and the first column, and all digits of the numbers: `regard show --words` reads it.
function csv({ rows, columns, numbers }) {
  const quoted = (name) => spaced(asCell(name));
  const spaced = (text) => (/[",;\s]/.test(text) ? `"${text.replace(/\s+/g, " ").replaceAll('"', '""')}"` : text);
  const number = (x) => (Number.isNaN(x) ? "nan" : Number.isFinite(x) ? String(x) : x > 0 ? "inf" : "-inf");
  const head = columns.length ? [["", ...columns.map(quoted)]] : [];
  const lines = numbers.map((row, i) => [...(rows.length ? [quoted(rows[i])] : []), ...row.map(number)]);
  return `\ufeff${(rows.length ? [...head, ...lines] : [...head.map((line) => line.slice(1)), ...lines]).map((line) => line.join()).join("\n")}\n`;
}

const SPECIAL = { "\\": "\\textbackslash{}", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}" };
const escapedLatex = (text) => text.replace(/[\\^~{}$&#%_]/g, (x) => SPECIAL[x] ?? `\\${x}`);
const textLatex = (text) => `\\text{${escapedLatex(text)}}`;

// The least digits, at most these, that show all numbers.
function places(numbers, digits) {
  for (let places = 1; places < digits; places++) {
    if (numbers.every((x) => Math.abs(Number(x.toFixed(places)) - x) <= 1e-15 + 1e-12 * Math.abs(x))) return places;
  }
  return digits;
}

// Numbers of one table as `regard explain` writes them: integers without a point, all others with the same digits, and
// with an exponent where the largest is too large or too small for that.
regard.latexNumbers = (numbers, digits = 5) => {
  const finite = numbers.filter(Number.isFinite);
  const top = Math.max(0, ...finite.map(Math.abs));
  const exponent = top >= 1e9 || (top > 0 && top < 10 ** -digits);
  const fixed = finite.every(Number.isInteger) ? 0 : places(finite, digits);
  const power = (x) => x.toExponential(digits).replace(/e\+?(-?\d+)$/, " \\cdot 10^{$1}");
  return numbers.map((x) => {
    if (Number.isNaN(x)) return "nan";
    if (!Number.isFinite(x)) return x < 0 ? "-\\infty" : "\\infty";
    return exponent ? power(x) : rounded(x, fixed);
  });
};

function matrixLatex(name, { rows, columns, numbers }) {
  const m = numbers[0]?.length ?? 0;
  const written = regard.latexNumbers(numbers.flat());
  const head = columns.length ? [`  ${rows.length ? "& " : ""}${columns.map(textLatex).join(" & ")} \\\\ \\hline`] : [];
  const lines = numbers.map((row, i) => `  ${rows.length ? `${textLatex(rows[i])} & ` : ""}${row.map((_, j) => written[i * m + j]).join(" & ")} \\\\`);
  return [`% ${escapedLatex(name)}; amsmath is needed`, `\\[ \\begin{array}{${rows.length ? "l|" : ""}${"r".repeat(m)}}`, ...head, ...lines, "\\end{array} \\]", ""].join("\n");
}

regard.latex = { escaped: escapedLatex, text: textLatex };

// ------------------------------------------------------------------------------------------------------ pictures

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "paint-order", "visibility", "opacity", "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline"];

// A picture of the page as a file of its own: the styles of the light theme become attributes.
function svgText(svg) {
  const copy = svg.cloneNode(true);
  if (svg.isConnected) {
    svg.style.setProperty("color-scheme", "light");
    const from = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((part, i) => inline(part, getComputedStyle(from[i]), part === copy));
    svg.style.removeProperty("color-scheme");
  }
  const [x, y, width, height] = copy.getAttribute("viewBox").split(" ");
  Object.entries({ xmlns: SVG, role: "img", width, height }).forEach(([key, value]) => copy.setAttribute(key, value));
  copy.removeAttribute("style");
  const title = copy.getAttribute("aria-label");
  ["aria-label", "class"].forEach((name) => copy.removeAttribute(name));
  copy.prepend(...(title ? [regard.element("svg:title", {}, title)] : []), regard.element("svg:rect", { x, y, width, height, fill: "#fff" }));
  return new XMLSerializer().serializeToString(copy);
}

// The root says what all parts have; a part what it has of its own.
function inline(part, style, root) {
  const parent = root ? null : part.parentNode;
  STYLES.forEach((name) => {
    const value = style.getPropertyValue(name);
    part.dataset[`own${name.replaceAll("-", "")}`] = value;
    const inherited = parent?.dataset[`own${name.replaceAll("-", "")}`];
    if (value !== inherited || (name === "opacity" && value !== "1")) part.setAttribute(name, value);
  });
  part.removeAttribute("class");
  part.removeAttribute("style");
}

function png(svg) {
  const image = new Image();
  image.src = `data:${TYPES.svg};charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  return image.decode().then(() => {
    const canvas = regard.element("canvas", { width: image.width * PNG_SCALE, height: image.height * PNG_SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, TYPES.png));
  });
}

// The width of a text in the font of pictures.
function textWidth(text, size) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${size}px sans-serif`;
  return ruler.measureText(text).width;
}
let ruler = null;

const FONT = { "font-family": "system-ui, sans-serif" };
const pictureText = (text, x, y, own = {}) => regard.element("svg:text", { x, y, "font-size": 13, fill: "#1b1e28", ...own }, text);
const shortened = (text) => (text.length > 28 ? `${text.slice(0, 27)}\u2026` : text);

// A heat map with labels: {title, rows, columns, weight(i, j): a number, null if hidden; top, names: {row, column}}.
regard.heatPicture = ({ title, rows, columns, weight, top, names }) => regard.onPaper(() => {
  const [n, m] = [rows.length, columns.length];
  const numbers = n * m <= 400 && m <= 20;
  const [w, h] = numbers ? [52, 30] : [Math.max(1, Math.min(18, 900 / m)), Math.max(1, Math.min(18, 900 / n))];
  const left = Math.ceil(32 + Math.max(...rows.map((row) => textWidth(shortened(row), 13))));
  const slanted = columns.some((column) => textWidth(column, 13) > w - 6);
  const high = slanted ? Math.ceil(0.75 * Math.max(...columns.map((column) => textWidth(shortened(column), 13)))) + 12 : 18;
  const [x, y] = [PADDING + left, 2 * PADDING + 34 + high];
  const size = [Math.max(x + w * m + (slanted ? high : 0), PADDING + 1.15 * textWidth(title, 13)) + PADDING, y + h * n + PADDING];
  const every = (step) => Math.max(1, Math.ceil(14 / step));
  const across = columns.flatMap((column, j) => {
    if (j % every(slanted ? w : 14)) return [];
    const [cx, cy] = [x + w * (j + 0.5), y - 7];
    return [pictureText(shortened(column), cx, cy, slanted ? { transform: `rotate(-45 ${cx} ${cy})` } : { "text-anchor": "middle" })];
  });
  const down = rows.flatMap((row, i) => (i % every(h) ? [] : [pictureText(shortened(row), x - 8, y + h * (i + 0.5) + 4.5, { "text-anchor": "end" })]));
  return regard.element(
    "svg:svg",
    { viewBox: `0 0 ${size.map(Math.ceil).join(" ")}`, "aria-label": title, ...FONT },
    pictureText(title, PADDING, PADDING + 13, { "font-weight": 600 }),
    pictureText(names.column, x + (w * m) / 2, PADDING + 32, { "text-anchor": "middle", fill: "#5a6072" }),
    pictureText(names.row, PADDING + 8, y + (h * n) / 2, { "text-anchor": "middle", fill: "#5a6072", transform: `rotate(-90 ${PADDING + 8} ${y + (h * n) / 2})` }),
    across,
    down,
    n * m > 20_000 ? [pixelCells(n, m, weight, top, [x, y, w * m, h * n])] : cells({ n, m, weight, top, numbers, x, y, w, h }),
  );
});

function cells({ n, m, weight, top, numbers, x, y, w, h }) {
  return Array.from({ length: n * m }, (_, k) => {
    const [i, j] = [Math.floor(k / m), k % m];
    const own = weight(i, j);
    const box = { x: x + j * w, y: y + i * h, width: w, height: h, fill: own === null ? "#dfe2ea" : regard.colour(own / top), stroke: "#fff", "stroke-width": numbers ? 2 : 0 };
    const text = numbers && regard.element("svg:text", { x: box.x + w / 2, y: box.y + h / 2 + 4.5, "text-anchor": "middle", "font-size": 13, fill: own === null ? "#1b1e28" : regard.ink(own / top) }, regard.weight(own, 3));
    return [regard.element("svg:rect", box), text];
  });
}

function pixelCells(n, m, weight, top, [x, y, width, height]) {
  const canvas = regard.element("canvas", { width: m, height: n });
  const context = canvas.getContext("2d");
  const numbers = Float64Array.from({ length: n * m }, (_, k) => weight(Math.floor(k / m), k % m) ?? 0);
  context.putImageData(regard.colours(numbers, context.createImageData(m, n), top), 0, 0);
  return regard.element("svg:image", { x, y, width, height, href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" });
}

// Canvases beside each other, each above its label: [{canvas, label}, ...].
regard.canvasPicture = (title, pictures, across, side = 150) => {
  const columns = Math.min(across, pictures.length);
  const high = Math.max(...pictures.map(({ canvas }) => (side * canvas.height) / canvas.width));
  const size = [PADDING + Math.max(columns * (side + PADDING), PADDING + 1.15 * textWidth(title, 13)), 2 * PADDING + 20 + Math.ceil(pictures.length / columns) * (high + 30)];
  const parts = pictures.map(({ canvas, label }, k) => {
    const [x, y] = [PADDING + (k % columns) * (side + PADDING), 2 * PADDING + 16 + Math.floor(k / columns) * (high + 30)];
    const height = (side * canvas.height) / canvas.width;
    return [
      regard.element("svg:image", { x, y, width: side, height, href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": canvas.width < side ? "pixelated" : null }),
      pictureText(shortened(label), x + side / 2, y + height + 16, { "text-anchor": "middle" }),
    ];
  });
  return regard.element("svg:svg", { viewBox: `0 0 ${size.map(Math.ceil).join(" ")}`, "aria-label": title, ...FONT }, pictureText(title, PADDING, PADDING + 13, { "font-weight": 600 }), parts);
};
