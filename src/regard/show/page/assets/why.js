// Why attention: a sentence that grows on its way through one vector of fixed length, and what was measured of
// translations with and without attention, by the length of their sentences.

const CELLS = 24; // of the vector in the picture
const MOST_WORDS = 40;
const PLOT = { width: 300, height: 170, left: 34, top: 12, bottom: 34, most: 60, words: 42 };

regard.view("why", (root, { rows }, { section }) => {
  const texts = TEXTS.why;
  const words = texts.sentence.split(" ");
  const view = { state: freshWhy() };
  const change = (part) => {
    Object.assign(view.state, part);
    fill();
    regard.changed();
  };
  const lengths = { min: 1, max: MOST_WORDS, step: 1, change: (length) => change({ length }) };
  const length = regard.slider(texts.length, lengths, (x) => [x, filled(texts.words, { n: x })]);
  const back = el("button", { onclick: () => change({ back: !view.state.back }) }, texts.back);
  const heading = el("p.sentence", { "aria-live": "polite" });
  const squeezed = el("svg:svg.squeezed", { viewBox: "0 0 300 150", role: "img" });
  const plot = el("svg:svg.plot", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img" });
  const sentence = el("p.growing", { dir: "auto" });
  const exported = regard.exports(texts.plot, () => ({ svg: () => plot, table: () => lengthTable(rows) }));
  const fill = () => {
    const { state } = view;
    const row = rows.find(({ tokens }) => state.length <= Number(tokens.split("-")[1]));
    length.set(state.length);
    back.setAttribute("aria-pressed", String(state.back));
    put(heading, regard.filledWith(state.back ? texts.with : texts.without, { n: state.length, ...row }));
    put(sentence, words.slice(0, state.length).join(" "));
    put(squeezed, drawSqueezed(state, words, texts));
    put(plot, drawLengths(rows, state, texts));
    squeezed.setAttribute("aria-label", filled(texts.each, { x: short(Number((CELLS / state.length).toFixed(1))) }));
    plot.setAttribute("aria-label", `${texts.plot}: ${rows.map(spoken(texts)).join("; ")}`);
  };
  const pictures = el(
    "div.why-pictures",
    squeezed,
    el("figure.card", plot, el("figcaption.soft", texts.plot, " ", exported)),
  );
  root.append(heading, el("div.controls", length.element, back), sentence, pictures);
  const { integer, choice } = regard.CODES;
  const flag = { write: String, read: (text) => choice(["true", "false"]).read(text) === "true" };
  regard.keepFields(section, view, freshWhy, { length: integer(MOST_WORDS + 1), back: flag }, fill);
  fill();
  return { look: () => change({ length: MOST_WORDS, back: false }) };
});

const freshWhy = () => ({ length: 8, back: false });

const spoken = (texts) => (row) => filled(texts.row, row);

const lengthTable = (rows) => ({
  rows: rows.map(({ tokens }) => tokens),
  columns: ["attention", "without"],
  numbers: rows.map(({ attention, without }) => [attention, without]),
});

// The words above, the cells of the vector below: each word has its share of them. With attention, the vector of each word
// is read.
function drawSqueezed({ length, back }, words, texts) {
  const x = (k) => 6 + (288 * (k + 0.5)) / length;
  const cell = (k) => 6 + (288 * (k + 0.5)) / CELLS;
  const owner = (k) => Math.min(length - 1, Math.floor(((k + 0.5) * length) / CELLS));
  const all = Array.from({ length }, (_, k) => k);
  const kept = new Set(Array.from({ length: CELLS }, (_, k) => owner(k)));
  const wide = 288 / length;
  const word = (k) => [
    el("svg:rect", {
      x: x(k) - wide / 2 + 0.5,
      y: 8,
      width: Math.max(1, wide - 1),
      height: 20,
      class: kept.has(k) || back ? "word" : "word lost",
    }),
    wide > 34 &&
      pictureText(clipped(words[k], Math.floor(wide / 7.5)), x(k), 23, { ...MIDDLE, fill: null, "font-size": 12 }),
    el("svg:path", { d: `M${x(k)} 28C${x(k)} 55 ${x(k)} 48 ${150 + (x(k) - 150) * 0.9} 76`, class: "way" }),
  ];
  const vectorCell = (k) =>
    el("svg:rect", { x: cell(k) - 5.5, y: 78, width: 11, height: 18, class: owner(k) % 2 ? "cell odd" : "cell" });
  const looks = (k) => el("svg:path", { d: `M${x(k)} 28L150 128`, class: "look" });
  return [
    all.map(word),
    Array.from({ length: CELLS }, (_, k) => vectorCell(k)),
    back && all.map(looks),
    el("svg:rect", { x: 100, y: 120, width: 100, height: 24, rx: 6, class: "decoder" }),
    pictureText(texts.decoder, 150, 136, { ...MIDDLE, fill: null, "font-size": 12 }),
    el("svg:path", { d: regard.arrow([150, 98], [150, 118], 6, 0.45), class: "way" }),
  ];
}

function drawLengths(rows, { length, back }, texts) {
  const { width, height, left, top, bottom, most, words } = PLOT;
  const x = (n) => left + ((width - left - 8) * n) / words;
  const y = (bleu) => height - bottom - ((height - top - bottom) * bleu) / most;
  const middle = ({ tokens }) => tokens.split("-").reduce((sum, n) => sum + Number(n) / 2, 0);
  const line = (name) => `M${rows.map((row) => `${x(middle(row)).toFixed(1)} ${y(row[name]).toFixed(1)}`).join("L")}`;
  const label = (text, px, py, more) => pictureText(text, px, py, { "font-size": 11, fill: null, ...more });
  const curve = (name, text, row) => [
    el("svg:path", { d: line(name), class: name }),
    label(text, x(words), y(row[name]) - 6, { "text-anchor": "end", class: name }),
  ];
  return [
    [0, 20, 40, 60].map((bleu) => [
      el("svg:path", { d: `M${left} ${y(bleu)}H${width - 8}`, class: "grid" }),
      label(String(bleu), left - 6, y(bleu) + 4, { "text-anchor": "end" }),
    ]),
    [10, 20, 30, 40].map((n) => label(String(n), x(n), height - bottom + 15, MIDDLE)),
    label(texts.axis, x(words / 2), height - 4, MIDDLE),
    el("svg:path", { d: `M${x(length)} ${top}V${height - bottom}`, class: "now" }),
    curve("without", texts.curves.without, rows.at(-2)),
    back && curve("attention", texts.curves.attention, rows.at(-2)),
  ];
}
