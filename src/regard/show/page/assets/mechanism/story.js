// The picked query, step by step: a column for each key, and below each other what happens to it. The column of the
// picked key is worked out in numbers.

const ROWS = TEXTS.mechanism.rows;

function story(view, names, pickKey, refill) {
  const { key_labels: labels } = view.state;
  const body = el("div");
  let [table, scroller, drawn] = [null, null, ""];
  const make = ({ shown, rest }) => {
    const button = (j) => el("button.quiet", { "data-key": j, onclick: () => pickKey(j) }, bdi(labels[j]));
    const buttons = shown.map(button);
    const heads = buttons.map((part, k) => el("th", { scope: "col", "data-key": shown[k] }, part));
    const others = rest.length > 0 && el("th", { scope: "col" }, othersText(rest));
    const sign = [el("span", { "aria-hidden": "true" }, "\u03a3"), el("span.hidden-text", ROWS.sum)];
    table = storyTable(names, shown.length, [heads, others], el("th.sum", { scope: "col" }, sign));
    on(table, "pointerover", (event) => {
      const cell = event.target.closest("td[data-key]");
      if (cell && event.pointerType === "mouse") pickKey(Number(cell.dataset.key));
    });
    regard.roving([buttons]);
    scroller = regard.scroller(TEXTS.mechanism.steps, table);
    put(body, scroller, storyOptions(view, labels.length, refill));
  };
  const set = (steps, key, columns) => {
    const present = JSON.stringify([columns, regard.digits]);
    if (present !== drawn) make(columns);
    drawn = present;
    table.querySelectorAll("th[data-key]").forEach((head) => {
      const picked = Number(head.dataset.key) === key;
      head.classList.toggle("picked", picked);
      head.firstChild.setAttribute("aria-pressed", String(picked));
    });
    while (table.tBodies.length) table.tBodies[0].remove();
    table.append(...steps.map((step) => drawStep(step, labels, key, columns)));
    inSight(scroller, table.querySelector("th.picked"));
  };
  const show = (index) => table?.tBodies[index]?.scrollIntoView({ block: "nearest" });
  return { element: body, set, show };
}

// Scroll a wide table so far that the picked column is seen.
function inSight(scroller, head) {
  if (!head || scroller.scrollWidth <= scroller.clientWidth) return;
  const [box, frame] = [head, scroller].map((part) => part.getBoundingClientRect());
  const first = scroller.querySelector(".corner").offsetWidth;
  if (box.left < frame.left + first || box.right > frame.right)
    scroller.scrollLeft += box.left - frame.left - first - (frame.width - first - box.width) / 2;
}

// More keys, and more digits.
function storyOptions(view, count, refill) {
  const { all, best, precise, rough } = TEXTS.lanes;
  const toggle = (text, act) => {
    const onclick = () => {
      act();
      refill();
    };
    return el("button.quiet", { onclick }, text);
  };
  const keys =
    count > LANES && toggle(filled(view.all ? best : all, { n: count }), () => Object.assign(view, { all: !view.all }));
  const digits = toggle(regard.digits > 2 ? rough : precise, () =>
    Object.assign(regard, { digits: regard.digits > 2 ? 2 : 4 }),
  );
  return el("div.row", keys, digits);
}

function storyTable(names, count, heads, sum) {
  const head = el("thead", el("tr", el("td.corner.soft", names.key), heads, sum));
  return el("table", { class: `story ${count > 6 ? "dense" : ""}` }, head);
}

// A step {number, title, question, parts, later}. A part is one way of computing on the way of the step: {formula, text,
// rows, worked: the numbers of the picked key, or of all of them if it is general}.
function drawStep({ number, title, question, parts, later }, keyLabels, key, columns) {
  const wide = (content, kind) => el("tr", { class: kind }, el("td", { colspan: columns.shown.length + 3 }, content));
  const place = number && el("span.step-number", { "aria-hidden": "true" }, number);
  const head = el("div.step-head", el("h3", place, " ", title), question && el("p.soft", question));
  const lines = parts.map(({ formula, text, rows, worked, general }) => {
    const words = () => el("div.step-head", formula && regard.formula(formula), text && el("p.soft", text));
    const numbers = () => el("div.math.step-head", !general && [bdi(keyLabels[key]), COLON], worked);
    const drawn = rows.map((row) => drawRow(row, key, columns));
    return [(formula || text) && wide(words(), "part"), drawn, worked && wide(numbers(), "worked soft")];
  });
  return el("tbody", { hidden: later }, wide(head, "head"), lines);
}

// A row {name, numbers: one for each key, or a vector for each key; sum; kind}. What is summed is summed of the others, too.
function drawRow({ name, numbers, sum = "", kind = "" }, key, { shown, rest }) {
  const digits = digitsOf([...numbers.flat(), ...[sum].flat().filter((x) => x !== "")]);
  const cells = shown.map((j) => {
    const cell = el("td", { class: j === key ? "picked" : null, "data-key": j }, content(numbers[j], digits));
    if (kind === "weights") bar(cell, numbers[j]);
    return cell;
  });
  const together = () => (sum === "" ? "\u2026" : content(added(rest.map((j) => numbers[j])), digits));
  const others = rest.length > 0 && el("td.soft", together());
  const all = el("td.sum", sum !== "" && content(sum, digits));
  return el("tr", { class: kind }, el("th", { scope: "row" }, name), cells, others, all);
}

// The sum of numbers, of which hidden ones are null, or of vectors.
const added = (parts) => (Array.isArray(parts[0]) ? columns(parts).map(total) : total(parts));

function content(number, digits) {
  const masked = (x) => el("span.soft", x === null ? "\u2013" : "\u2212\u221e");
  const one = (x) => (x === null || x === -Infinity ? masked(x) : written(x, digits));
  if (!Array.isArray(number)) return one(number);
  const shown = shortened(number).map((x) => el("span", one(x)));
  if (number.length > TALL) shown.push(el("span.soft", moreOf(number.length - SHORTENED)));
  return el("span.stack", shown);
}

// A number that only rounds to 0 is not written as one, and not with an exponent, which has no room.
function written(x, digits) {
  if (x !== 0 && Math.abs(x) < 0.5 * 10 ** -digits) return "\u22480";
  return regard.format(x, x === 0 ? 0 : digits);
}

function bar(cell, weight) {
  const share = Number.isFinite(weight) ? Math.min(1, Math.max(0, weight)) : 0;
  const fill = el("span.bar", { "aria-hidden": "true", style: { height: `${100 * share}%` } });
  cell.prepend(el("span", { class: weight === null ? "well hatched" : "well", "aria-hidden": "true" }, fill));
}

function numbered(name, parts, names) {
  const { number, title, question } = TEXTS.steps[name];
  const words = question.replace(/\[key\]/i, names.key).replace(/\[query\]/i, names.query);
  const known = names.kind === "query" ? question : words.replace(/[[\]]/g, "");
  return {
    name,
    number,
    title,
    question: regard.rich(known[0].toUpperCase() + known.slice(1)),
    parts: parts.filter(Boolean),
  };
}

// The three steps of one query: what drawStep draws.
function stepsOf({ names, options, result, row, key, keys, decoder, trained }) {
  const between = [
    scalePart(names, options, result, row, key),
    softcapPart(options, result, row, key),
    !decoder && maskPart(names, options, result, row),
  ].filter(Boolean);
  const state = trained && statePart(trained, row);
  const last = between.at(-1);
  if (last) Object.assign(last, { formula: `${names.z} = ${last.formula}`, rows: [{ ...last.rows[0], name: ROWS.z }] });
  const letters = last ? names : { ...names, z: names.e };
  return [
    numbered("scores", [state, scorePart(names, options, result, row, key)], names),
    numbered("weights", [...between, weightPart(letters, options, result, row, key)], names),
    numbered("context", [contextPart(names, result, row, keys)], names),
    decoder && nextState(result, row),
  ].filter(Boolean);
}

// The state of a trained decoder, of which its query is made.
function statePart({ states, kind, sizes }, row) {
  const text = regard.rich(TEXTS.real[kind === "head" ? "vector" : "state"], {
    ...sizes,
    numbers: vector(states[row]),
  });
  const formula = { head: "q = x W_Q", plain: "q = s" }[kind] ?? "q = s W";
  return { formula, text, rows: [] };
}

const saidOf = (name, values) => regard.filledWith(TEXTS.mechanism[name], values);

function scorePart(names, options, { queries, keys, scores }, row, key) {
  const q = queries[row];
  const layer = () => ({ name: ROWS.tanh, numbers: keys.map((k) => hidden(q, k, options)) });
  const inner = options.score === "additive" ? layer() : { name: names.key, numbers: keys };
  return {
    formula: formulaOf(TEXTS.scores, options.score, names, options),
    text: saidOf("query", { query: names.query, numbers: [regard.formula(names.q), ` = ${vector(q)}`] }),
    rows: [inner, { name: ROWS.score, numbers: scores[row] }],
    worked: workedScore(options, q, keys[key], scores[row][key], key),
  };
}

function scalePart(names, options, { scale, scores, scaled, queries }, row, key) {
  if (scale === 1) return null;
  const root = options.scale === null;
  return {
    formula: root ? `${names.e} / \u221a${queries[0].length}` : `${names.e} \u00d7 ${short(scale)}`,
    text: regard.rich(TEXTS.between.scale),
    rows: [{ name: ROWS.scaled, numbers: scaled[row] }],
    worked: `${short(scores[row][key])} \u00d7 ${short(scale)} = ${short(scaled[row][key])}`,
  };
}

function softcapPart({ softcap }, { scaled, capped }, row, key) {
  if (softcap === null) return null;
  const cap = short(softcap);
  return {
    formula: `${cap} tanh(x / ${cap})`,
    text: regard.rich(TEXTS.between.softcap, { cap }),
    rows: [{ name: ROWS.capped, numbers: capped[row] }],
    worked: `${cap} \u00b7 tanh(${short(scaled[row][key])} / ${cap}) = ${short(capped[row][key])}`,
  };
}

function maskPart(names, { mask }, { logits }, row) {
  if (mask.kind === "none") return null;
  const visible = logits[row].filter((z) => z !== -Infinity).length;
  const values = { visible, all: logits[row].length, query: names.query };
  const text = regard.rich(TEXTS.between.mask, values);
  return { formula: TEXTS.mechanism.where, text, rows: [{ name: ROWS.logit, numbers: logits[row] }] };
}

function weightRow(weights, logits) {
  return { name: ROWS.weight, numbers: seen(weights, logits), sum: total(weights), kind: "weights" };
}

// The exponentials of a row as one computes them by hand, and their sum. Of large logits, the largest is subtracted first,
// which changes no share.
function exponentials({ terms, total, most }) {
  if (!(Math.abs(most) < 30)) return { terms, total, most };
  const factor = Math.exp(most);
  return { terms: terms.map((x) => x * factor), total: total * factor, most: 0 };
}

function weightPart(names, { normalize }, { logits, rows, weights }, row, key) {
  const all = weightRow(weights[row], logits[row]);
  const { text: said, shifted } = TEXTS.normalize[normalize];
  const powers = normalize === "softmax" && exponentials(rows[row]);
  const text = [said, powers?.most && shifted].filter(Boolean).join(" ");
  return {
    formula: formulaOf(TEXTS.normalize, normalize, names, {}),
    text: regard.rich(text, { t: short(rows[row].t ?? NaN), key: names.key }),
    rows: powers ? [{ name: ROWS.exp, numbers: powers.terms, sum: powers.total }, all] : [all],
    worked: workedWeight(normalize, rows[row], logits[row][key], weights[row][key]),
  };
}

function workedWeight(normalize, found, z, a) {
  if (z === -Infinity) return TEXTS.mechanism.hidden;
  if (normalize === "hard") return null;
  if (normalize === "softmax") {
    const { total, most } = exponentials(found);
    return `exp(${short(z)}${most ? ` \u2212 ${minus(most)}` : ""}) / ${short(total)} = ${short(a)}`;
  }
  const [half, square] = normalize === "entmax15" ? [" / 2", "\u00b2"] : ["", ""];
  return `max(${short(z)}${half} \u2212 ${minus(found.t)}, 0)${square} = ${short(a)}`;
}

function contextPart(names, { values, weights, context }, row, keys) {
  const terms = values.map((value, j) => value.map((x) => x * weights[row][j]));
  const first = values.map((value) => value[0]);
  return {
    formula: `${names.c} = \u03a3 ${names.a} ${names.v}`,
    text: regard.rich(TEXTS.context, names),
    rows: [
      { name: names.value, numbers: values },
      { name: filled(ROWS.weighted, { value: names.value }), numbers: terms, sum: context[row] },
    ],
    worked: [regard.formula(`${names.c}[1] = `), productsOf(weights[row], first, keys, context[row][0])],
    general: true,
  };
}

function nextState({ states }, row) {
  const text = saidOf("made", { numbers: [regard.formula("s_t"), ` = ${vector(states[row + 1])}`] });
  const part = { formula: "s_t = tanh(s_{t\u22121} A + c_t C)", text, rows: [] };
  return { name: "next", title: TEXTS.mechanism.next, parts: [part] };
}

// What is known of an attention that is given with its results only.
function givenSteps({ scores, logits, weights, context }, row, names) {
  const logit = logits && {
    text: regard.rich(TEXTS.between.given),
    rows: [{ name: ROWS.logit, numbers: logits[row] }],
  };
  return [
    scores && numbered("scores", [{ rows: [{ name: ROWS.score, numbers: scores[row] }] }], names),
    numbered("weights", [logit, { rows: [weightRow(weights[row], logits?.[row])] }], names),
    context && numbered("context", [{ text: vector(context[row]), rows: [] }], names),
  ].filter(Boolean);
}
