// One query as LaTeX: the formulas, numbers and layout of `regard explain --latex`.

const WIDEST = 10; // rows and columns of a matrix: amsmath's pmatrix has no more

const cut = (items, dots) => (items.length <= WIDEST ? items : [...items.slice(0, WIDEST - 2), dots, items.at(-1)]);

function accountLatex({ query_labels, key_labels, options }, { queries, keys, values, scores, logits, weights, context }, row) {
  const scored = TEXTS.scores[options.score].latex;
  const lines = [
    ["scores", scored, scores[row]],
    ["logits", logitLatex(options, queries[0].length), logits[row]],
    ["weights", `a = ${TEXTS.normalize[options.normalize].latex}(z)`, weights[row]],
  ];
  const names = cut(key_labels.map(regard.latex.text), "\\cdots");
  const known = Object.entries({ q: [queries[row]], K: keys, V: values }).map(([name, rows]) => `${name} = ${matrixText(rows)}`);
  return [
    `% the query ${regard.latex.escaped(query_labels[row])}; amsmath is needed`,
    `\\[ ${known.join(",\\quad ")} \\]`,
    `\\[ \\begin{array}{ll${"r".repeat(names.length)}}`,
    `  & & ${names.join(" & ")} \\\\ \\hline`,
    ...lines.map(([name, equation, numbers]) => `  \\text{${name}} & ${equation} & ${cut(regard.latexNumbers(numbers), "\\cdots").join(" & ")} \\\\`),
    "\\end{array} \\]",
    `\\[ c = a V = ${matrixText([context[row]])} \\]`,
    "",
  ].join("\n");
}

function logitLatex({ score, scale, softcap }, d) {
  const own = scale !== null ? `${general(scale)} \\, e` : score === "scaled_dot" ? `e / \\sqrt{${d}}` : "e";
  return `z = ${softcap === null ? own : `${general(softcap)} \\tanh(${own} / ${general(softcap)})`}`;
}

function matrixText(rows) {
  const m = rows[0].length;
  const written = regard.latexNumbers(rows.flat());
  const lines = rows.map((_, i) => cut(written.slice(i * m, (i + 1) * m), "\\cdots").join(" & "));
  return `\\begin{pmatrix} ${cut(lines, "\\vdots").join(" \\\\ ")} \\end{pmatrix}`;
}

// Six digits at most, as Python's format "g".
function general(x) {
  const near = Number(x.toPrecision(6));
  const power = near === 0 ? 0 : Math.floor(Math.log10(Math.abs(near)));
  if (power >= -4 && power < 6) return String(near);
  return near.toExponential().replace(/e([+-])(\d)$/, (_, sign, digit) => `e${sign}0${digit}`);
}
