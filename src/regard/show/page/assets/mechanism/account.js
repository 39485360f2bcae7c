// One query as LaTeX: the formulas, numbers and layout of `regard explain --latex`.

const WIDEST = 10; // rows and columns of a matrix: amsmath's pmatrix has no more

const cut = (items, dots) => (items.length <= WIDEST ? items : [...items.slice(0, WIDEST - 2), dots, items.at(-1)]);

function accountLatex({ query_labels, key_labels, options }, { queries, keys, values, scores, logits, weights, context }, row) {
  const lines = [
    ["scores", scoreLatex(options), scores[row]],
    ["logits", logitLatex(options, queries[0].length), logits[row]],
    ["weights", `a = ${TEXTS.normalize[options.normalize].latex}(z)`, weights[row]],
  ];
  const names = cut(key_labels.map(regard.latex.text), "\\cdots");
  const known = [{ q: [queries[row]], K: keys, V: values }, learnedArrays(options)].map((named) =>
    Object.entries(named).map(([name, rows]) => `${name} = ${matrixText(rows)}`).join(",\\quad "),
  );
  return [
    `% the query ${regard.latex.escaped(query_labels[row])}; amsmath is needed`,
    ...known.filter(Boolean).map((line) => `\\[ ${line} \\]`),
    `\\[ \\begin{array}{ll${"r".repeat(names.length)}}`,
    `  & & ${names.join(" & ")} \\\\ \\hline`,
    ...lines.map(([name, equation, numbers]) => `  \\text{${name}} & ${equation} & ${cut(regard.latexNumbers(numbers), "\\cdots").join(" & ")} \\\\`),
    "\\end{array} \\]",
    `\\[ c = a V = ${matrixText([context[row]])} \\]`,
    "",
  ].join("\n");
}

// The learned arrays of the score, by the letters of its formula.
function learnedArrays(options) {
  const { arrays = {} } = TEXTS.scores[options.score];
  const rows = (array) => (Array.isArray(array[0]) ? array : [array]);
  return Object.fromEntries(Object.entries(arrays).flatMap(([name, { letter }]) => (options[name] ? [[letter, rows(options[name])]] : [])));
}

function scoreLatex(options) {
  const row = TEXTS.scores[options.score];
  const spelled = (x) => ({ x: general(x), grouped: grouped(general(x)) });
  return filled(row.latex, scoreParts(row, options, "latex", spelled));
}

function logitLatex({ score, scale, softcap }, d) {
  const own = scale !== null ? `${general(scale)} \\, e` : score === "scaled_dot" && d > 0 ? `e / \\sqrt{${d}}` : "e";
  return `z = ${softcap === null ? own : `${general(softcap)} \\tanh(${own} / ${grouped(general(softcap))})`}`;
}

const grouped = (number) => (number.includes(" ") ? `(${number})` : number);

function matrixText(rows) {
  const m = rows[0].length;
  const written = regard.latexNumbers(rows.flat());
  const lines = rows.map((_, i) => cut(written.slice(i * m, (i + 1) * m), "\\cdots").join(" & "));
  return `\\begin{pmatrix} ${cut(lines, "\\vdots").join(" \\\\ ")} \\end{pmatrix}`;
}

// Six digits at most.
function general(x) {
  const near = Number(x.toPrecision(6));
  const power = near === 0 ? 0 : Math.floor(Math.log10(Math.abs(near)));
  if (power >= -4 && power < 6) return String(near);
  return near.toExponential().replace(/e\+?(-?\d+)$/, " \\cdot 10^{$1}");
}
