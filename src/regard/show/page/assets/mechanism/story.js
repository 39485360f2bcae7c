// The picked query, step by step: a column for each key, and below each other what happens to it. The column of the
// picked key is worked out in numbers.

function story(names, keyLabels, pickKey) {
  const buttons = keyLabels.map((label, j) =>
    regard.element("button", { type: "button", class: "quiet", "data-key": j, onclick: () => pickKey(j) }, regard.label(label)),
  );
  const sum = regard.element("th", { scope: "col", class: "sum" }, regard.element("span", { "aria-hidden": "true" }, "\u03a3"), regard.element("span", { class: "hidden-text" }, "sum"));
  const heads = buttons.map((button, j) => regard.element("th", { scope: "col", "data-key": j }, button));
  const corner = regard.element("td", { class: "corner soft" }, names.key);
  const dense = keyLabels.length > 6 ? "dense" : "";
  const table = regard.element("table", { class: `story ${dense}` }, regard.element("thead", {}, regard.element("tr", {}, corner, heads, sum)));
  table.addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td[data-key]");
    if (cell && event.pointerType === "mouse") pickKey(Number(cell.dataset.key));
  });
  regard.roving([buttons]);
  const set = (steps, key) => {
    heads.forEach((head, j) => head.classList.toggle("picked", j === key));
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(j === key)));
    while (table.tBodies.length) table.tBodies[0].remove();
    table.append(...steps.map((step) => drawStep(step, keyLabels, key)));
  };
  const show = (index) => table.tBodies[index]?.scrollIntoView({ block: "nearest" });
  return { element: regard.scroller("Steps", table), set, show };
}

// A step {number, title, question, parts, later}. A part is one way of computing on the way of the step: {formula, text,
// rows, worked: the numbers of the picked key, or of all of them if it is general}.
function drawStep({ number, title, question, parts, later }, keyLabels, key) {
  const wide = (content, kind) => regard.element("tr", { class: kind }, regard.element("td", { colspan: keyLabels.length + 2 }, content));
  const head = regard.element(
    "div",
    { class: "step-head" },
    regard.element("h3", {}, number ? regard.element("span", { class: "step-number", "aria-hidden": "true" }, number) : null, " ", title),
    question ? regard.element("p", { class: "soft" }, question) : null,
  );
  const lines = parts.flatMap(({ formula, text, rows, worked, general }) => {
    const words = regard.element("div", { class: "step-head" }, formula ? regard.formula(formula) : null, text ? regard.element("p", { class: "soft" }, text) : null);
    const numbers = worked ? regard.element("div", { class: "math step-head" }, general ? null : [regard.label(keyLabels[key]), ": "], worked) : null;
    return [formula || text ? wide(words, "part") : null, rows.map((row) => drawRow(row, key)), numbers ? wide(numbers, "worked soft") : null];
  });
  return regard.element("tbody", { hidden: later }, wide(head, "head"), lines);
}

// A row {name, numbers: one for each key, or a vector for each key; sum; kind}.
function drawRow({ name, numbers, sum = "", kind = "" }, key) {
  const digits = digitsOf([...numbers.flat(), ...[sum].flat().filter((x) => x !== "")]);
  const cells = numbers.map((number, j) => {
    const cell = regard.element("td", { class: j === key ? "picked" : null, "data-key": j }, content(number, digits));
    if (kind === "weights") bar(cell, number);
    return cell;
  });
  const total = regard.element("td", { class: "sum" }, sum === "" ? null : content(sum, digits));
  return regard.element("tr", { class: kind }, regard.element("th", { scope: "row" }, name), cells, total);
}

function content(number, digits) {
  const one = (x) => (x === null || x === -Infinity ? regard.element("span", { class: "masked" }, x === null ? "\u2013" : "\u2212\u221e") : written(x, digits));
  if (!Array.isArray(number)) return one(number);
  const shown = shortened(number).map((x) => regard.element("span", {}, one(x)));
  if (number.length > TALL) shown.push(regard.element("span", { class: "soft" }, `\u2026 ${number.length - SHORTENED} more`));
  return regard.element("span", { class: "stack" }, shown);
}

// A number that only rounds to 0 is not written as one, and not with an exponent, which has no room.
function written(x, digits) {
  if (x !== 0 && Math.abs(x) < 0.5 * 10 ** -digits) return "\u22480";
  return regard.format(x, x === 0 ? 0 : digits);
}

function bar(cell, weight) {
  const share = Number.isFinite(weight) ? Math.min(1, Math.max(0, weight)) : 0;
  const fill = regard.element("span", { class: "bar", "aria-hidden": "true" });
  fill.style.setProperty("height", `${100 * share}%`);
  cell.prepend(regard.element("span", { class: weight === null ? "well masked" : "well", "aria-hidden": "true" }, fill));
}

function numbered(name, parts, names) {
  const { number, title, question } = TEXTS.steps[name];
  const words = question.replace("key", names.key).replace("query", names.query);
  const known = names.query === "query" ? question : words.replace(/[[\]]/g, "");
  return { name, number, title, question: regard.rich(known[0].toUpperCase() + known.slice(1)), parts };
}

// The three steps of one query: what drawStep draws.
function stepsOf({ names, options, result, row, key, decoder, trained }) {
  const between = [scalePart(names, options, result, row, key), softcapPart(options, result, row, key), decoder ? null : maskPart(names, options, result, row)];
  const steps = [
    numbered("scores", [trained ? statePart(trained, row) : null, scorePart(names, options, result, row, key)].filter(Boolean), names),
    numbered("weights", [...between.filter(Boolean), weightPart(names, options, result, row, key)], names),
    numbered("context", [contextPart(names, result, row)], names),
  ];
  return decoder ? [...steps, nextState(result, row)] : steps;
}

// The state of a trained decoder, of which its query is made.
function statePart({ states, kind, sizes }, row) {
  return { formula: kind === "plain" ? "q = s" : "q = s W_Q", text: regard.rich(TEXTS.real.state, { ...sizes, numbers: vector(states[row]) }), rows: [] };
}

function scorePart(names, options, { queries, keys, scores }, row, key) {
  const q = queries[row];
  const inner = options.score === "additive" ? { name: "tanh", numbers: keys.map((k) => hidden(q, k, options)) } : { name: names.key, numbers: keys };
  return {
    formula: formulaOf(TEXTS.scores, options.score, names, options),
    text: [`The ${names.query} is `, regard.formula(names.q), ` = ${vector(q)}`],
    rows: [inner, { name: "score", numbers: scores[row] }],
    worked: workedScore(options, q, keys[key], scores[row][key], key),
  };
}

function scalePart(names, options, { scale, scores, scaled, queries }, row, key) {
  if (scale === 1) return null;
  const root = options.scale === null;
  return {
    formula: root ? `${names.e} / \u221a${queries[0].length}` : `${names.e} \u00d7 ${short(scale)}`,
    text: regard.rich(TEXTS.between.scale),
    rows: [{ name: "scaled", numbers: scaled[row] }],
    worked: `${short(scores[row][key])} \u00d7 ${short(scale)} = ${short(scaled[row][key])}`,
  };
}

function softcapPart({ softcap }, { scaled, capped }, row, key) {
  if (softcap === null) return null;
  const cap = short(softcap);
  return {
    formula: `${cap} tanh(x / ${cap})`,
    text: regard.rich(TEXTS.between.softcap, { cap }),
    rows: [{ name: "capped", numbers: capped[row] }],
    worked: `${cap} \u00b7 tanh(${short(scaled[row][key])} / ${cap}) = ${short(capped[row][key])}`,
  };
}

function maskPart(names, { mask }, { logits }, row) {
  if (mask.kind === "none") return null;
  const visible = logits[row].filter((z) => z !== -Infinity).length;
  const values = { visible, all: logits[row].length, are: visible === 1 ? "is" : "are", query: names.query };
  return { formula: `${names.z} = \u2212\u221e where hidden`, text: regard.rich(TEXTS.between.mask, values), rows: [{ name: "logit", numbers: logits[row] }] };
}

// The weights of a row, null where a key is hidden.
const seen = (weights, logits) => weights.map((w, j) => (logits?.[j] === -Infinity ? null : w));

const weightRow = (weights, logits) => ({ name: "weight", numbers: seen(weights, logits), sum: weights.reduce((sum, x) => sum + x, 0), kind: "weights" });

function weightPart(names, { normalize }, { logits, rows, weights }, row, key) {
  const { most, terms, total, t } = rows[row];
  const [z, a] = [logits[row][key], weights[row][key]];
  const all = weightRow(weights[row], logits[row]);
  const text = regard.rich(TEXTS.normalize[normalize].text, { t: short(t ?? NaN), key: names.key });
  const part = { formula: formulaOf(TEXTS.normalize, normalize, names, {}), text, rows: [all] };
  if (normalize === "softmax") part.rows = [{ name: "exp", numbers: terms, sum: total }, all];
  if (z === -Infinity) part.worked = "hidden, so its weight is 0";
  else if (normalize === "softmax") part.worked = `exp(${short(z)} \u2212 ${minus(most)}) / ${short(total)} = ${short(a)}; slope ${short(a)} \u00b7 (1 \u2212 ${short(a)}) ${`= ${written(a * (1 - a), 4)}`.replace("= \u2248", "\u2248 ")}`;
  else if (normalize !== "hard") part.worked = `max(${short(z)}${normalize === "entmax15" ? " / 2" : ""} \u2212 ${minus(t)}, 0)${normalize === "entmax15" ? "\u00b2" : ""} = ${short(a)}`;
  return part;
}

function contextPart(names, { values, weights, context }, row) {
  const terms = values.map((value, j) => value.map((x) => x * weights[row][j]));
  return {
    formula: `${names.c} = \u03a3 ${names.a} ${names.v}`,
    text: regard.rich(TEXTS.context, names),
    rows: [
      { name: names.value, numbers: values },
      { name: `weight \u00d7 ${names.value}`, numbers: terms, sum: context[row] },
    ],
    worked: [regard.formula(`${names.c}[1] = `), products(weights[row], values.map((value) => value[0]), context[row][0])],
    general: true,
  };
}

function nextState({ states }, row) {
  const text = ["State and context make the next state, the query of the next word: ", regard.formula("s_t"), ` = ${vector(states[row + 1])}`];
  return { name: "next", title: "Then the next state", parts: [{ formula: "s_t = tanh(s_{t\u22121} A + c_t C)", text, rows: [] }] };
}

// What is known of an attention that is given with its results only.
function givenSteps({ scores, logits, weights, context }, row, names) {
  const logit = logits && { text: regard.rich(TEXTS.between.given), rows: [{ name: "logit", numbers: logits[row] }] };
  return [
    scores && numbered("scores", [{ rows: [{ name: "score", numbers: scores[row] }] }], names),
    numbered("weights", [logit, { rows: [weightRow(weights[row], logits?.[row])] }].filter(Boolean), names),
    context && numbered("context", [{ text: vector(context[row]), rows: [] }], names),
  ].filter(Boolean);
}
