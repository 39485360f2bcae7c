// One query as LaTeX: the formulas, numbers and layout of `regard explain --latex`.

function cut(items, dots) {
  const most = RULES.widest;
  return items.length <= most ? items : [...items.slice(0, most - 2), dots, items.at(-1)];
}

function accountLatex({ query_labels, key_labels, options }, result, row) {
  const { queries, keys, values, scores, logits, weights, context } = result;
  const lines = [
    ["scores", scoreLatex(options), scores[row]],
    ["logits", logitLatex(options, queries[0].length), logits[row]],
    ["weights", `a = ${TEXTS.normalize[options.normalize].latex}(z)`, weights[row]],
  ];
  const names = cut(key_labels.map(textLatex), "\\cdots");
  const matrices = (named) => Object.entries(named).map(([name, rows]) => `${name} = ${matrixText(rows)}`);
  const known = [{ q: [queries[row]], K: keys, V: values }, learnedArrays(options)].map(matrices);
  const line = ([name, equation, numbers]) =>
    `  \\text{${name}} & ${equation} & ${cut(regard.latexNumbers(numbers), "\\cdots").join(" & ")} \\\\`;
  return [
    `% the query ${escapedLatex(query_labels[row])}; amsmath is needed`,
    ...known.filter((parts) => parts.length).map((parts) => `\\[ ${parts.join(",\\quad ")} \\]`),
    `\\[ \\begin{array}{ll${"r".repeat(names.length)}}`,
    `  & & ${names.join(" & ")} \\\\ \\hline`,
    ...lines.map(line),
    "\\end{array} \\]",
    `\\[ c = a V = ${matrixText([context[row]])} \\]`,
    "",
  ].join("\n");
}

// The learned arrays of the score, by the letters of its formula.
function learnedArrays(options) {
  const arrays = Object.entries(TEXTS.scores[options.score].arrays ?? {}).filter(([name]) => options[name]);
  return Object.fromEntries(arrays.map(([name, { letter }]) => [letter, rowsOf(options[name])]));
}

const spelled = (x) => ({ x: general(x), grouped: grouped(general(x)) });

function scoreLatex(options) {
  const row = TEXTS.scores[options.score];
  return filled(row.latex, scoreParts(row, options, "latex", spelled));
}

function logitLatex({ score, scale, softcap }, d) {
  const logit = (name, e, x) => filled(TEXTS.logit[name].latex, { e, d, ...(x !== undefined && spelled(x)) });
  const root = score === "scaled_dot" && d > 0;
  const e = scale !== null ? logit("scale", "e", scale) : root ? logit("root", "e") : "e";
  return `z = ${softcap === null ? e : logit("softcap", e, softcap)}`;
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
