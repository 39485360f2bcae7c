// Why attention: a sentence that grows on its way through one vector of fixed length, and what was measured of
// translations with and without attention, by the length of their sentences.

const CELLS = 24; // of the vector in the picture
const MOST_WORDS = 40;
const [LONGEST_PLOTTED, MOST_BLEU] = [42, 60];

regard.view("why", (root, { rows }, { section }) => {
  const texts = TEXTS.why;
  const words = texts.sentence.split(" ");
  const { integer, flag } = regard.CODES;
  const fields = { length: integer(MOST_WORDS + 1), back: flag() };
  const view = regard.kept(section, freshWhy, fields, () => fill());
  const { change } = view;
  const lengths = { min: 1, max: MOST_WORDS, step: 1, change: (length) => change({ length }) };
  const length = regard.slider(texts.length, lengths, (x) => [x, filled(texts.words, { n: x })]);
  const back = el("button", { onclick: () => change({ back: !view.state.back }) }, texts.back);
  const heading = el("p.sentence", { "aria-live": "polite" });
  const squeezed = el("svg:svg.squeezed", { viewBox: "0 0 300 150", role: "img" });
  const plot = plotElement();
  const sentence = el("p.growing", { dir: "auto" });
  const fill = () => {
    const { state } = view;
    const row = rows.find(({ tokens }) => state.length <= Number(tokens.split("-")[1]));
    length.set(state.length);
    back.setAttribute("aria-pressed", String(state.back));
    put(heading, regard.rich(state.back ? texts.with : texts.without, { n: state.length, ...row }));
    put(sentence, words.slice(0, state.length).join(" "));
    put(squeezed, drawSqueezed(state, words, texts));
    put(plot, drawLengths(rows, state, texts));
    squeezed.setAttribute("aria-label", filled(texts.each, { x: short(Number((CELLS / state.length).toFixed(1))) }));
    plot.setAttribute("aria-label", texts.plot + COLON + rows.map(spoken(texts)).join(SEMICOLON));
  };
  const pictures = el(
    "div.pictures",
    regard.figure(texts.vector, squeezed, () => ({ svg: () => squeezed })),
    regard.figure(texts.plot, plot, () => ({ svg: () => plot, table: () => lengthTable(rows) })),
  );
  root.append(heading, el("div.controls", length.element, back), sentence, pictures);
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
  const levels = { up: MOST_BLEU, levels: [0, 20, 40, 60] };
  const { x, y, curve, drawn } = axes({
    across: LONGEST_PLOTTED,
    ticks: [10, 20, 30, 40],
    name: texts.axis,
    ...levels,
  });
  const middle = ({ tokens }) => tokens.split("-").reduce((sum, n) => sum + Number(n) / 2, 0);
  const named = (name) => {
    const points = rows.map((row) => [middle(row), row[name]]);
    const place = [x(LONGEST_PLOTTED), y(rows.at(-2)[name]) - 6];
    return [curve(points, name), plotText(texts.curves[name], ...place, { "text-anchor": "end", class: name })];
  };
  const now = el("svg:path", { d: `M${x(length)} ${y(MOST_BLEU)}V${y(0)}`, class: "now" });
  return [drawn, now, named("without"), back && named("attention")];
}
