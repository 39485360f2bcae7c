// Pictures as SVG and PNG, matrices as CSV and LaTeX: the menu that offers them, and what is written.

const TYPES = { html: "text/html", svg: "image/svg+xml", png: "image/png", csv: "text/csv", tex: "text/x-tex" };
const PNG_SCALE = 2; // pixels of a picture for one of the screen
const PADDING = 12;
const DOWN = "M8 2v8M5 7l3 3 3-3M3 11v3h10v-3"; // an arrow into a tray

// A file from this page; its name is made of titles.
regard.download = (kind, content, ...titles) => {
  const blob = content instanceof Blob ? content : new Blob([content], { type: `${TYPES[kind]};charset=utf-8` });
  const link = el("a", { href: URL.createObjectURL(blob), download: `${fileName(titles)}.${kind}`, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};

function fileName(titles) {
  const text = titles.filter(Boolean).join(" ").normalize("NFC").toLowerCase();
  return (
    text
      .replace(/[^\p{L}\p{M}\p{N}]+/gu, "-")
      .replace(/^-|-$/g, "")
      .slice(0, 80) || "attention"
  );
}

// Copy a text, or show it where the browser does not let a page copy.
regard.copy = (text, noun) => {
  const { nouns, copied, copy } = TEXTS.tools;
  const area = el("textarea.copied", { readonly: true, "aria-label": nouns[noun] }, text);
  const back = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  back?.focus?.({ preventScroll: true });
  if (done) announce(filled(copied, { noun: nouns[noun] }));
  else prompt(filled(copy, { noun: nouns[noun] }), text);
};

// A short message that is read out, and seen for some seconds below what has the focus, or another part.
function announce(text, part = document.activeElement) {
  note ??= document.body.appendChild(el("p.announcement", { role: "status" }));
  note.textContent = text;
  note.hidden = false;
  const box = part.getBoundingClientRect();
  placeBox(note, box.left, box.bottom + 6);
  clearTimeout(fading);
  fading = setTimeout(() => note.toggleAttribute("hidden", true), 4000);
}
let [note, fading] = [null, null];

// --------------------------------------------------------------------------------------------------------- menus

let open = null;

// A button that opens a list of actions: items() returns [[text, action], ...].
regard.menu = (content, name, items, kind = "quiet") => {
  const named = name === content ? {} : { "aria-label": name, title: name };
  const states = { "aria-haspopup": "menu", "aria-expanded": "false" };
  const button = el("button", { class: `${kind} opens`, ...states, ...named }, content);
  const toOpen = () => openMenu(button, name, items());
  on(button, "click", () => (open?.button === button ? closeMenu() : toOpen()));
  onKeys(button, { ArrowDown: () => open?.button === button || toOpen() });
  return button;
};

function openMenu(button, name, items) {
  closeMenu();
  const back = () => {
    closeMenu();
    button.focus({ preventScroll: true });
  };
  const act = (action) => () => {
    back();
    action();
  };
  const item = ([text, action]) => el("button", { role: "menuitem", tabindex: -1, onclick: act(action) }, text);
  const buttons = items.map(item);
  const list = el("div.menu", { role: "menu", "aria-label": name }, buttons);
  document.body.append(list);
  open = { button, list };
  button.setAttribute("aria-expanded", "true");
  const to = (place) => () => buttons.at(place(buttons.indexOf(document.activeElement)) % buttons.length).focus();
  const ends = { Home: to(() => 0), End: to(() => -1), Escape: back, Tab: back };
  onKeys(list, { ArrowDown: to((at) => at + 1), ArrowUp: to((at) => at - 1), ...ends });
  on(list, "focusout", (event) => list.contains(event.relatedTarget) || closeMenu());
  const box = button.getBoundingClientRect();
  const below = box.bottom + list.offsetHeight + 4 < innerHeight || box.top < list.offsetHeight + 4;
  placeBox(list, box.right - list.offsetWidth, below ? box.bottom + 4 : box.top - list.offsetHeight - 4);
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
  const icon = el(
    "svg:svg",
    { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    el("svg:path", { d: DOWN }),
  );
  const texts = TEXTS.tools;
  const title = () => of().titles ?? [document.title, name];
  const items = () => {
    const { svg, table, tex, written = true } = of();
    const latex = tex ?? (table && written && (() => matrixLatex(name, table())));
    return [
      svg && [texts.svg, () => regard.download("svg", svgText(svg()), ...title())],
      svg && [texts.png, () => png(svg()).then((blob) => regard.download("png", blob, ...title()))],
      table && [texts.csv, () => regard.download("csv", csv(table()), ...title())],
      latex && [tex ? texts.query : texts.tex, () => regard.download("tex", latex(), ...title())],
      latex && [texts.copyTex, () => regard.copy(latex(), "LaTeX")],
    ].filter(Boolean);
  };
  return regard.menu(icon, filled(texts.export, { name }), items, "quiet export");
};

regard.exportBar = (name, of) => el("div.exports", regard.exports(name, of));

// ---------------------------------------------------------------------------------------------------------- text

// A text that no spreadsheet runs as a formula, as _characters.as_cell has it; numbers stay numbers.
const [FORMULA, NUMBER] = [RegExp(`^(?:${RULES.formula})`), RegExp(`^(?:${RULES.number})$`, "i")];
const asCell = (text) => (FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text);

// Names in the first line and the first column, and all digits of the numbers: `regard show --words` reads it.
function csv({ rows, columns, numbers }) {
  const quoted = (name) => spaced(asCell(name));
  const spaced = (text) => (/[",;\s]/.test(text) ? `"${text.replace(/\s+/g, " ").replaceAll('"', '""')}"` : text);
  const number = (x) => (Number.isNaN(x) ? "nan" : Number.isFinite(x) ? String(x) : x > 0 ? "inf" : "-inf");
  const corner = rows.length ? [""] : [];
  const lines = numbers.map((row, i) => [...corner.map(() => quoted(rows[i])), ...row.map(number)]);
  if (columns.length) lines.unshift([...corner, ...columns.map(quoted)]);
  return `\ufeff${lines.map((line) => line.join()).join("\n")}\n`;
}

const escapedLatex = (text) => text.replace(/[\\^~{}$&#%_]/g, (x) => RULES.special[x]);
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
  const corner = rows.length ? [""] : [];
  const lines = numbers.map((_, i) => [...corner.map(() => textLatex(rows[i])), ...written.slice(i * m, (i + 1) * m)]);
  const head = columns.length ? [`  ${[...corner, ...columns.map(textLatex)].join(" & ")} \\\\ \\hline`] : [];
  return [
    `% ${escapedLatex(name)}; amsmath is needed`,
    `\\[ \\begin{array}{${rows.length ? "l|" : ""}${"r".repeat(m)}}`,
    ...head,
    ...lines.map((line) => `  ${line.join(" & ")} \\\\`),
    "\\end{array} \\]\n",
  ].join("\n");
}

// ------------------------------------------------------------------------------------------------------ pictures

const STYLES = (
  "fill fill-opacity stroke stroke-width stroke-dasharray stroke-linecap stroke-linejoin paint-order visibility " +
  "opacity font-family font-size font-weight font-style text-anchor dominant-baseline"
).split(" ");

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
  copy.querySelectorAll("a").forEach((link) => link.removeAttribute("href")); // to chapters of the page
  const title = copy.getAttribute("aria-label");
  ["aria-label", "class"].forEach((name) => copy.removeAttribute(name));
  copy.prepend(...(title ? [el("svg:title", title)] : []), el("svg:rect", { x, y, width, height, fill: "#fff" }));
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
    const canvas = el("canvas", { width: image.width * PNG_SCALE, height: image.height * PNG_SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, TYPES.png));
  });
}

// The width of a text in the font of pictures, or in another.
function textWidth(text, font = "13px sans-serif") {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}
let ruler = null;

const [INK, SOFT] = ["#1b1e28", "#5a6072"]; // those of base.css on white paper
const MIDDLE = { "text-anchor": "middle" };
const pictureText = (text, x, y, own = {}) => el("svg:text", { x, y, "font-size": 13, fill: INK, ...own }, text);
const upright = (text, x, y, own) => pictureText(text, x, y, { ...MIDDLE, ...own, transform: `rotate(-90 ${x} ${y})` });
const clipped = (text, most = 28) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
const widest = (texts) => Math.max(0, ...texts.map((text) => textWidth(clipped(text))));

// A picture with a title, in the colours of the light theme: `draw` returns its width, height and parts.
const pictured = (title, draw) =>
  regard.onPaper(() => {
    const [width, height, ...parts] = draw();
    const size = [Math.max(width, 2 * PADDING + 1.15 * textWidth(title)), height].map(Math.ceil).join(" ");
    const heading = pictureText(title, PADDING, PADDING + 13, { "font-weight": 600 });
    const attributes = { viewBox: `0 0 ${size}`, "aria-label": title, "font-family": "system-ui, sans-serif" };
    return el("svg:svg", attributes, heading, parts);
  });

const pictureCanvas = (canvas, [x, y, width, height], pixelated = canvas.width < width) =>
  el("svg:image", {
    ...{ x, y, width, height, href: canvas.toDataURL(), preserveAspectRatio: "none" },
    "image-rendering": pixelated && "pixelated",
  });

const HATCH = "hatch"; // the id of a pattern
const hatchPattern = () => {
  const lines = el("svg:path", { d: "M0 0V5", stroke: "#a9afbf", "stroke-width": 3 });
  const place = { width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  return el("svg:defs", el("svg:pattern", { id: HATCH, ...place }, lines));
};
const hatchedBox = (x, y, width, height) => el("svg:rect", { x, y, width, height, fill: `url(#${HATCH})` });

const isHatched = (canvas) => canvas.classList.contains("hatched");
const KEY = 13; // pixels of the height of a hatch and what it means
const hatchLegend = (x, y, text) => [
  hatchPattern(),
  hatchedBox(x, y, 2 * KEY, KEY),
  pictureText(text, x + 2 * KEY + 8, y + KEY - 2, { fill: SOFT }),
];

// A heat map with labels: {title, rows, columns, weight(i, j): a number, null if it has none; absence: why, tone(number):
// its place between the colours; names: {row, column}}. What has no number is hatched.
regard.heatPicture = ({ title, rows, columns, weight, tone, absence = TEXTS.tools.hidden, names }) =>
  pictured(title, () => {
    const [n, m] = [rows.length, columns.length];
    const numbers = n * m <= 400 && m <= 20;
    const [w, h] = numbers ? [52, 30] : [n, m].map((count) => Math.max(1, Math.min(18, 900 / count))).reverse();
    const slanted = columns.some((column) => textWidth(column) > w - 6);
    const high = slanted ? Math.ceil(0.75 * widest(columns)) + 12 : 18;
    const [x, y] = [PADDING + Math.ceil(32 + widest(rows)), 2 * PADDING + 34 + high];
    const every = (step) => Math.max(1, Math.ceil(14 / step));
    const across = columns.map((column, j) => {
      const [cx, cy] = [x + w * (j + 0.5), y - 7];
      const turned = slanted ? { transform: `rotate(-45 ${cx} ${cy})` } : MIDDLE;
      return j % every(slanted ? w : 14) === 0 && pictureText(clipped(column), cx, cy, turned);
    });
    const down = rows.map((row, i) => {
      const middle = y + h * (i + 0.5) + 4.5;
      return i % every(h) === 0 && pictureText(clipped(row), x - 8, middle, { "text-anchor": "end" });
    });
    const named = [
      pictureText(names.column, x + (w * m) / 2, PADDING + 32, { ...MIDDLE, fill: SOFT }),
      upright(names.row, PADDING + 8, y + (h * n) / 2, { fill: SOFT }),
    ];
    const drawn = n * m > 20_000 ? pixelCells : cells;
    const heat = drawn({ n, m, weight, tone, numbers, x, y, w, h });
    const [right, bottom] = [x + w * m, y + h * n + PADDING];
    const hatched = rows.some((_, i) => columns.some((_, j) => weight(i, j) === null)) && [
      hatchLegend(x, bottom, absence),
      hatchedBox(x, y, w * m, h * n),
    ];
    const size = [right + (slanted ? high : 0) + PADDING, bottom + (hatched ? KEY + PADDING : 0)];
    return [...size, named, across, down, hatched, heat];
  });

function cells({ n, m, weight, tone, numbers, x, y, w, h }) {
  return Array.from({ length: n * m }, (_, k) => {
    const [i, j] = [Math.floor(k / m), k % m];
    const own = weight(i, j);
    const [fill, ink] = own === null ? ["none", INK] : [regard.colour, regard.ink].map((of) => of(tone(own)));
    const box = { x: x + j * w, y: y + i * h, width: w, height: h };
    const text = () => pictureText(regard.weight(own, 3), box.x + w / 2, box.y + h / 2 + 4.5, { ...MIDDLE, fill: ink });
    return [el("svg:rect", { ...box, fill, stroke: "#fff", "stroke-width": numbers ? 2 : 0 }), numbers && text()];
  });
}

function pixelCells({ n, m, weight, tone, x, y, w, h }) {
  const numbers = Float64Array.from({ length: n * m }, (_, k) => tone(weight(Math.floor(k / m), k % m) ?? NaN));
  return pictureCanvas(regard.paint(el("canvas"), numbers, m, n), [x, y, w * m, h * n], true);
}

// Canvases beside each other, each above its label: [{canvas, label}, ...].
regard.canvasPicture = (title, across, side, make) =>
  pictured(title, () => {
    const pictures = make();
    const columns = Math.min(across, pictures.length);
    const heights = pictures.map(({ canvas }) => (side * canvas.height) / canvas.width);
    const line = Math.max(...heights) + 30;
    const parts = pictures.map(({ canvas, label }, k) => {
      const [x, y] = [PADDING + (k % columns) * (side + PADDING), 2 * PADDING + 16 + Math.floor(k / columns) * line];
      const text = pictureText(clipped(label), x + side / 2, y + heights[k] + 16, MIDDLE);
      const box = [x, y, side, heights[k]];
      return [isHatched(canvas) && hatchedBox(...box), pictureCanvas(canvas, box), text];
    });
    const lines = Math.ceil(pictures.length / columns);
    const bottom = 2 * PADDING + 20 + lines * line;
    const size = [PADDING + columns * (side + PADDING), bottom];
    const hatched = pictures.find(({ canvas }) => isHatched(canvas));
    if (!hatched) return [...size, parts];
    return [size[0], bottom + KEY + PADDING, hatchLegend(PADDING, bottom, hatched.canvas.absence), parts];
  });
