// The picked query, step by step: a column for each key, and below each other what happens to it. The column of the
// picked key is worked out in numbers.

const TALL = 12; // numbers of a vector that are shown below each other

function story(names, keyLabels, pickKey) {
  const buttons = keyLabels.map((label, j) =>
    regard.element("button", { type: "button", class: "quiet", "data-key": j, onclick: () => pickKey(j) }, regard.label(label)),
  );
  const sum = regard.element("th", { scope: "col" }, regard.element("span", { "aria-hidden": "true" }, "\u03a3"), regard.element("span", { class: "hidden-text" }, "sum"));
  const heads = buttons.map((button, j) => regard.element("th", { scope: "col", "data-key": j }, button));
  const corner = regard.element("td", { class: "corner soft" }, names.key);
  const table = regard.element("table", { class: "story" }, regard.element("thead", {}, regard.element("tr", {}, corner, heads, sum)));
  table.addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td[data-key]");
    if (cell && event.pointerType === "mouse") pickKey(Number(cell.dataset.key));
  });
  regard.roving([buttons]);
  const set = (steps, key) => {
    heads.forEach((head, j) => head.classList.toggle("picked", j === key));
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(j === key)));
    while (table.tBodies.length) table.tBodies[0].remove();
    table.append(...steps.map((step, i) => drawStep(step, i + 1, keyLabels, key)));
  };
  return { element: regard.scroller("Steps", table), set };
}

// A step {title, formula, text, rows, worked: the numbers of the picked key, or of all of them if it is general}.
function drawStep({ title, formula, text, rows, worked, general, hidden: later }, number, keyLabels, key) {
  const head = regard.element(
    "div",
    { class: "step-head" },
    regard.element("h3", {}, regard.element("span", { class: "step-number", "aria-hidden": "true" }, number), " ", title),
    formula ? regard.formula(formula) : null,
    text ? regard.element("p", { class: "soft" }, text) : null,
  );
  const wide = (content, kind) => regard.element("tr", { class: kind }, regard.element("td", { colspan: keyLabels.length + 2 }, content));
  const line = worked ? regard.element("div", { class: "math step-head" }, general ? null : [regard.label(keyLabels[key]), ": "], worked) : null;
  return regard.element("tbody", { hidden: later }, wide(head, "head"), rows.map((row) => drawRow(row, key)), line ? wide(line, "worked soft") : null);
}

// A row {name, numbers: one for each key, or a vector for each key; sum; kind}.
function drawRow({ name, numbers, sum = "", kind = "" }, key) {
  const digits = digitsOf([...numbers.flat(), ...[sum].flat().filter((x) => x !== "")]);
  const cells = numbers.map((number, j) => {
    const cell = regard.element("td", { class: j === key ? "picked" : null, "data-key": j }, content(number, digits));
    if (kind === "weights") bar(cell, number);
    return cell;
  });
  const total = sum === "" ? regard.element("td") : regard.element("td", { class: "sum" }, content(sum, digits));
  return regard.element("tr", { class: kind }, regard.element("th", { scope: "row" }, name), cells, total);
}

function content(number, digits) {
  if (!Array.isArray(number)) {
    return number === -Infinity ? regard.element("span", { class: "masked" }, "\u2212\u221e") : regard.format(number, number === 0 ? 0 : digits);
  }
  const shown = number.slice(0, TALL).map((x) => regard.element("span", {}, regard.format(x, x === 0 ? 0 : digits)));
  if (number.length > TALL) shown.push(regard.element("span", { class: "soft" }, "\u22ee"));
  return regard.element("span", { class: "stack" }, shown);
}

function bar(cell, weight) {
  const share = Number.isFinite(weight) ? Math.min(1, Math.max(0, weight)) : 0;
  const fill = regard.element("span", { class: "bar", "aria-hidden": "true" });
  fill.style.setProperty("height", `${100 * share}%`);
  cell.prepend(regard.element("span", { class: "well", "aria-hidden": "true" }, fill));
}

// The steps of one query: what drawStep draws.
function stepsOf({ names, options, result, row, key, decoder }) {
  const steps = [scoreStep(names, options, result, row, key)];
  if (!decoder || result.scale !== 1) steps.push(scaleStep(names, options, result, row, key));
  if (options.softcap !== null) steps.push(softcapStep(options, result, row, key));
  if (!decoder) steps.push(maskStep(names, options, result, row));
  steps.push(weightStep(names, options, result, row, key), contextStep(names, result, row));
  if (decoder) steps.push(nextStep(result, row));
  return steps;
}

function scoreStep(names, options, { queries, keys, scores }, row, key) {
  const q = queries[row];
  const inner = options.score === "additive" ? { name: "tanh", numbers: keys.map((k) => hidden(q, k, options)) } : { name: names.key, numbers: keys };
  return {
    title: "Score",
    formula: SCORE_FORMULAS[options.score](names, options),
    text: [`How well does each ${names.key} match the ${names.query}? `, regard.formula(names.q), ` = (${q.slice(0, TALL).map(short).join(", ")}${q.length > TALL ? ", \u2026" : ""})`],
    rows: [inner, { name: "score", numbers: scores[row] }],
    worked: workedScore(options, q, keys[key], scores[row][key], key),
  };
}

function scaleStep(names, options, { scale, scores, scaled, queries }, row, key) {
  const root = options.scale === null && scale !== 1;
  if (scale === 1) return { title: "Scale", text: "The scale is 1: the scores stay as they are.", rows: [] };
  return {
    title: "Scale",
    formula: root ? `${names.e} / \u221a${queries[0].length}` : `${names.e} \u00d7 ${short(scale)}`,
    text: root ? "Long vectors have large products: the root of their length keeps the softmax soft." : null,
    rows: [{ name: "scaled", numbers: scaled[row] }],
    worked: `${short(scores[row][key])} \u00d7 ${short(scale)} = ${short(scaled[row][key])}`,
  };
}

function softcapStep({ softcap }, { scaled, capped }, row, key) {
  const bound = short(softcap);
  return {
    title: "Softcap",
    formula: `${bound} tanh(x / ${bound})`,
    text: `No logit leaves the range from \u2212${bound} to ${bound}.`,
    rows: [{ name: "capped", numbers: capped[row] }],
    worked: `${bound} \u00b7 tanh(${short(scaled[row][key])} / ${bound}) = ${short(capped[row][key])}`,
  };
}

function maskStep(names, { mask }, { logits }, row) {
  if (mask.kind === "none") return { title: "Mask", text: `No mask: every ${names.key} is visible.`, rows: [] };
  const visible = logits[row].filter((z) => z !== -Infinity).length;
  return {
    title: "Mask",
    formula: `${names.z} = \u2212\u221e where hidden`,
    text: `${visible} of ${logits[row].length} keys ${visible === 1 ? "is" : "are"} visible to this ${names.query}. A hidden one has no influence at all.`,
    rows: [{ name: "logit", numbers: logits[row] }],
  };
}

function weightStep(names, { normalize }, { logits, rows, weights }, row, key) {
  const { most, terms, total, t } = rows[row];
  const [z, a] = [logits[row][key], weights[row][key]];
  const all = { name: "weight", numbers: weights[row], sum: weights[row].reduce((sum, x) => sum + x, 0), kind: "weights" };
  const step = { title: "Weights", formula: NORMALIZE_FORMULAS[normalize](names), rows: [all] };
  if (normalize === "softmax") {
    step.text = "Exponentials are positive; divided by their sum they become shares of 1. The largest logit is subtracted first, which changes no share.";
    step.rows = [{ name: "exp", numbers: terms, sum: total }, all];
    step.worked = z === -Infinity ? "hidden, so its weight is 0" : `exp(${short(z)} \u2212 ${minus(most)}) / ${short(total)} = ${short(a)}`;
  } else if (normalize === "hard") {
    step.text = `All of the attention goes to the best ${names.key}, the first of equal ones.`;
  } else {
    step.text = `The threshold \u03c4 = ${short(t)} makes the weights sum to 1. Whatever lies below it gets exactly 0.`;
    const half = normalize === "entmax15";
    step.worked = z === -Infinity ? "hidden, so its weight is 0" : `max(${short(z)}${half ? " / 2" : ""} \u2212 ${minus(t)}, 0)${half ? "\u00b2" : ""} = ${short(a)}`;
  }
  return step;
}

const minus = (x) => (x < 0 ? `(${short(x)})` : short(x));

function contextStep(names, { values, weights, context }, row) {
  const terms = values.map((value, j) => value.map((x) => x * weights[row][j]));
  return {
    title: "Weighted sum",
    formula: `${names.c} = \u03a3 ${names.a} ${names.v}`,
    text: `Each ${names.value} counts as much as its weight. The sum is the context.`,
    rows: [
      { name: names.value, numbers: values },
      { name: `weight \u00d7 ${names.value}`, numbers: terms, sum: context[row] },
    ],
    worked: [regard.formula(`${names.c}[1] = `), products(weights[row], values.map((value) => value[0]), context[row][0])],
    general: true,
  };
}

function nextStep({ states }, row) {
  const vector = (x) => `(${x.slice(0, TALL).map(short).join(", ")}${x.length > TALL ? ", \u2026" : ""})`;
  return {
    title: "Next state",
    formula: "s_t = tanh(s_{t\u22121} A + c_t C)",
    text: ["State and context make the next state, which is the query of the next step: ", regard.formula("s_t"), ` = ${vector(states[row + 1])}`],
    rows: [],
  };
}

// What is known of an attention that is given with its results only.
function givenSteps({ scores, logits, weights, context }, row) {
  const sum = weights[row].reduce((total, x) => total + x, 0);
  const vector = context?.[row];
  return [
    scores && { title: "Scores", text: "How well does each key match the query?", rows: [{ name: "score", numbers: scores[row] }] },
    logits && { title: "Logits", text: "The scores after scale, softcap, bias and mask. A hidden key has none.", rows: [{ name: "logit", numbers: logits[row] }] },
    { title: "Weights", text: "How much of its attention does the query give to each key?", rows: [{ name: "weight", numbers: weights[row], sum, kind: "weights" }] },
    vector && { title: "Context", text: ["The sum of the values, each multiplied by its weight: ", `(${vector.slice(0, TALL).map(short).join(", ")}${vector.length > TALL ? ", \u2026" : ""})`], rows: [] },
  ].filter(Boolean);
}
