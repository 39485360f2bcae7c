// An exercise on one query: which key gets most, the weights in ten-per-cent steps, and a number. An answer is shown
// after its guess only. The exercise in the state is {row, kind, index, note}, the question, and {key, weights, number},
// the guesses so far.

const KINDS = ["score", "weight", "context"];
const TEN = 10; // per cent
const ASKED = TEXTS.exercise;
const LONGEST_NOTE = 300;

// "row;kind;index;key;weights;number;note", where a guess that is not made yet is empty.
function exerciseCode(state) {
  const { integer, number, choice } = regard.CODES;
  const [n, m] = [state.query_labels.length, state.key_labels.length];
  const write = ({ row, kind, index, key, weights, number: own, note }) =>
    [row, kind, index, key ?? "", (weights ?? []).join(), own === null ? "" : decimal(own), word(note)].join(";");
  const read = (text) => {
    const [row, kind, index, key, weights, own, note] = fitting(text.split(";").length === 7, text, text).split(";");
    const shares = weights ? weights.split(",").map(integer(101).read) : null;
    const full = shares && shares.length === m && total(shares) === 100 && shares.every((x) => x % TEN === 0);
    fitting(!shares || full, shares, text);
    fitting((key || !weights) && (weights || !own), key, text);
    return {
      row: integer(n).read(row),
      kind: choice(KINDS).read(kind),
      index: integer(kind === "context" ? contextSize(state) : m).read(index),
      key: key ? integer(m).read(key) : null,
      weights: shares,
      number: own ? number().read(own) : null,
      note: unword(note).slice(0, LONGEST_NOTE),
    };
  };
  return { write, read };
}

const contextSize = (state) => (state.tied ? state.keys : state.values)[0].length;
const guesses = { key: null, weights: null, number: null };
const asked = (question) => ({ row: 0, kind: "context", index: 0, note: "", ...question, ...guesses });

// The number that is asked for.
const answerOf = ({ row, kind, index }, result) =>
  result[{ score: "scores", weight: "weights", context: "context" }[kind]][row][index];

// Nobody computes more digits by hand than these.
const close = (x, y) => Math.abs(x - y) <= 0.01 * Math.max(1, Math.abs(y));

function exercise(view, update, redraw) {
  const { state } = view;
  const draft = {};
  const start = el(
    "button",
    { "data-part": "exercise", onclick: () => begin(asked({ row: firstQuestion(view) })) },
    TEXTS.sentence.exercise,
  );
  const body = el("div");
  const heard = el("p.hidden-text", { role: "status" });
  const element = el("div.exercise", { role: "region", "aria-label": ASKED.title, hidden: true }, heard, body);
  let drawn = "";
  const begin = (question) => {
    state.exercise = question;
    Object.assign(draft, { key: null, weights: null, text: "", hinted: [] });
    heard.textContent = "";
    update();
    (question ? body.querySelector("h3") : start).focus();
  };
  // A first wrong guess gets a hint, and is not taken yet.
  const guess = (part, value, right, hint) => {
    const first = !right && !draft.hinted?.includes(part);
    if (first) return hinted(part, hint);
    state.exercise[part] = value;
    update();
    heard.textContent = [...body.querySelectorAll(".feedback")].at(-1)?.textContent ?? "";
    const next = body.querySelector(".question [tabindex='0'], .question input, .question button");
    (next ?? body.querySelector("h3")).focus();
  };
  const hinted = (part, hint) => {
    draft.hinted = [...(draft.hinted ?? []), part];
    body.querySelector(".hint")?.remove();
    [...body.querySelectorAll(".question")].at(-1).append(el("p.feedback.hint", el("b", TEXTS.predict.again), hint));
    heard.textContent = body.querySelector(".hint").textContent;
  };
  const set = (result) => {
    const own = state.exercise;
    view.root.classList.toggle("exercising", Boolean(own));
    element.hidden = !own;
    start.hidden = Boolean(own);
    // A guess that is being made stays while nothing that it is about changes.
    const { queries, logits, values } = result;
    const about = own && JSON.stringify([{ ...own, note: "" }, queries, logits, values, state.key_labels]);
    if (about === drawn) return;
    drawn = about;
    put(body, own && drawExercise({ view, own, result, draft, guess, begin, redraw }));
  };
  return { start, element, set };
}

function drawExercise(context) {
  const { view, own, result, begin } = context;
  const { query_labels } = view.state;
  const { query } = view.names;
  const head = el("h3", { tabindex: "-1" }, said(ASKED.head, { query, name: bdi(query_labels[own.row]) }));
  const end = el("button.quiet", { onclick: () => begin(null) }, ASKED.end);
  const top = [el("div.page-header", head, end), el("p.note", { dir: "auto", hidden: !own.note }, own.note)];
  if (!(total(result.weights[own.row]) > 0)) return [top, el("p", filled(ASKED.none, { query })), settings(context)];
  const later = [own.key !== null && guessOfWeights(context), own.weights && guessOfNumber(context)];
  const parts = [top, given(context), guessOfKey(context), later];
  return [parts, onPaper(context), own.number !== null && again(context), settings(context)];
}

// A printed page asks all questions at once.
function onPaper({ view, own }) {
  const weights = own.key === null && question(2, ASKED.asks.weights);
  return el("div.on-paper", weights, own.weights === null && question(3, numberQuestion(view, own)));
}

// What the present question is computed from.
function given({ view: { state, names }, own, result }) {
  const { row, kind } = own;
  const late = own.weights && own.number === null;
  const vectors = { name: names.key, numbers: result.keys };
  const values = { name: names.value, numbers: result.values };
  const logits = { name: ROWS.logit, numbers: result.logits[row] };
  const weights = { name: ROWS.weight, numbers: seen(result.weights[row], result.logits[row]) };
  const rows = late && kind === "weight" ? [logits] : late && kind === "context" ? [weights, values] : [vectors];
  const table = keyTable(names, state.key_labels, rows);
  const numbers = [regard.formula(names.q), ` = ${vector(result.queries[row])}. `];
  const query = el("p", saidOf("query", { query: names.query, numbers }), howWeights(state, result));
  return [query, regard.scroller(ASKED.given, table)];
}

// A table with a column for each key; a row without numbers has room for them.
function keyTable(names, labels, rows, sum = el("td")) {
  const columns = { shown: [...labels.keys()], rest: [] };
  const drawn = (row) => (row.numbers ? drawRow(row, null, columns) : blankRow(row.name, labels.length + 1));
  const table = storyTable(names, labels.length, labels.map(columnHead), sum);
  table.append(el("tbody", rows.map(drawn)));
  return table;
}

const blankRow = (name, count) =>
  el(
    "tr",
    el("th", { scope: "row" }, name),
    Array.from({ length: count }, () => el("td.blank")),
  );

// How weights come from scores, in a line.
function howWeights({ options }, { scale, queries }) {
  const factor = options.scale === null && scale !== 1 ? `1/\u221a${queries[0].length}` : short(scale);
  const steps = [
    scale !== 1 && filled(ASKED.times, { x: factor }),
    options.softcap !== null && filled(ASKED.softcap, { x: short(options.softcap) }),
    options.mask.kind !== "none" && ASKED.mask,
    TEXTS.normalize[options.normalize].name,
  ];
  return filled(ASKED.how, { score: TEXTS.scores[options.score].name, steps: steps.filter(Boolean).join(LISTING) });
}

const said = regard.filledWith;
const question = (number, title, ...content) => el("div.question", el("p", el("b", `${number}. ${title}`)), content);
const feedback = (right, ...content) =>
  el(`p.feedback.${right ? "right" : "wrong"}`, el("b", right ? TEXTS.predict.right : TEXTS.predict.again), content);
const checkButton = (action) => el("button.primary", { onclick: action }, ASKED.check);

// --------------------------------------------------------------------------------------------------- the largest

function guessOfKey({ view, own, result, draft, guess }) {
  const { state, names } = view;
  const title = filled(ASKED.asks.key, { noun: names.key });
  if (own.key !== null)
    return [question(1, title, " ", bdi(state.key_labels[own.key])), keyFeedback(view, own, result)];
  const options = state.key_labels.map((label, j) => [j, bdi(label)]);
  const hint = hintOfKey(view, own, result);
  const check = checkButton(
    () => draft.key !== null && guess("key", draft.key, isBest(result, own.row, draft.key), hint),
  );
  check.disabled = draft.key === null;
  const choice = regard.choices(ASKED.guess, options, draft.key, (j) => {
    draft.key = j;
    check.disabled = false;
  });
  return question(1, title, choice.element, check);
}

const isBest = ({ weights }, row, key) => weights[row][key] >= largest(weights[row]) - 1e-9;

// What is to be computed of the best key and of another, without the result.
function hintOfKey({ state }, { row }, { queries, keys, weights }) {
  const best = weights[row].indexOf(largest(weights[row]));
  const words = wordsOf(state.options);
  const pair = [bdi(state.key_labels[best]), ` ${vector(keys[best])}`];
  return said(ASKED.hint, { words, q: vector(queries[row]), pair });
}

function keyFeedback({ state, names }, own, result) {
  const { row, kind, key } = own;
  const [weights, logits] = [result.weights[row], result.logits[row]];
  const best = weights.indexOf(largest(weights));
  const right = isBest(result, row, key);
  const name = (j) => bdi(state.key_labels[j]);
  const texts = ASKED.keys;
  if (logits[key] === -Infinity) return feedback(false, said(texts.hidden, { key: name(key), best: name(best) }));
  const score = (j) => workedScore(state.options, result.queries[row], result.keys[j], result.scores[row][j], j);
  const worked = (j) =>
    kind === "score" ? said(texts.is, { key: name(j), numbers: vector(result.keys[j]) }) : [name(j), COLON, score(j)];
  const { key: noun, query } = names;
  if (right)
    return feedback(true, kind === "score" ? filled(texts.better, { noun, query }) : [texts.larger, " ", worked(key)]);
  const why = result.scale < 0 ? texts.negative : "";
  return feedback(false, said(texts.most, { best: name(best), query, why, first: worked(best), second: worked(key) }));
}

// ------------------------------------------------------------------------------------------------------- weights

function guessOfWeights(context) {
  const { view, own, draft, guess } = context;
  const { key_labels } = view.state;
  if (own.weights) return [question(2, ASKED.asks.weights), weightsFeedback(context)];
  const best = context.result.weights[own.row].indexOf(largest(context.result.weights[own.row]));
  draft.weights ??= key_labels.map((_, j) => (j === best ? 100 : 0));
  const logits = context.result.logits[own.row];
  const right = () =>
    draft.weights.every((share, j) => Math.abs(share - 100 * context.result.weights[own.row][j]) <= TEN + 1e-9);
  const hint = spread(view.state.options, draft.weights, context.result.weights[own.row], logits);
  const sum = el("span", { role: "status" });
  const check = checkButton(() => total(draft.weights) === 100 && guess("weights", [...draft.weights], right(), hint));
  const count = () => {
    const all = total(draft.weights);
    const { together, much, left } = ASKED.shares;
    const off = filled(all > 100 ? much : left, { n: Math.abs(100 - all) });
    sum.textContent = filled(together, { n: all }) + (all === 100 ? "" : off);
    check.disabled = all !== 100;
  };
  const rows = key_labels.map((label, j) => {
    const change = (share) => {
      draft.weights[j] = share;
      set(share);
      count();
    };
    const range = { min: 0, max: 100, step: TEN, "aria-label": label, change };
    const { parts, set } = regard.slider("", range, (share) => [share, `${share}\u00a0%`]);
    set(draft.weights[j]);
    return el("div.share", bdi(label), parts);
  });
  count();
  return question(2, ASKED.asks.weights, el("div.shares", rows), el("p.row", check, " ", sum));
}

// While a weight is still to be computed, weights are shown to ten per cent.
function weightsFeedback({ view: { state }, own, result }) {
  const { row, kind } = own;
  const [weights, logits] = [result.weights[row], result.logits[row]];
  const off = weights.map((w, j) => own.weights[j] - 100 * w);
  const right = off.every((x) => Math.abs(x) <= TEN + 1e-9);
  const worst = off.indexOf(off.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a)));
  const texts = ASKED.shares;
  const about = (w) => filled(texts.about, { n: TEN * Math.round(TEN * w) });
  const share = (w) => (kind === "weight" ? about(w) : regard.percent(w));
  const rows = weights.map((w, j) => {
    const yours = [regard.track(own.weights[j] / 100, "yours"), el("span", filled(texts.you, { n: own.weights[j] }))];
    return el("div.share.compared", bdi(state.key_labels[j]), yours, regard.track(w), el("span", share(w)));
  });
  const values = { key: bdi(state.key_labels[worst]), share: share(weights[worst]) };
  const text = right ? texts.right : said(off[worst] > 0 ? texts.less : texts.more, values);
  return [feedback(right, text, " ", spread(state.options, own.weights, weights, logits)), el("div.shares", rows)];
}

// Why weights are as even or uneven as they are.
function spread({ normalize }, guessed, weights, logits) {
  const order = logits.filter((z) => z > -Infinity).sort((a, b) => b - a);
  const texts = ASKED.spread;
  if (order.length < 2) return texts.only;
  if (normalize === "hard") return texts.hard;
  if (normalize !== "softmax") return filled(texts.threshold, { name: TEXTS.normalize[normalize].name });
  const lead = order[0] - order[1];
  const times = Math.exp(lead);
  const factor = times > 1e6 ? `exp(${short(lead)})` : short(Number(times.toPrecision(3)));
  const [mine, real] = [largest(guessed) / 100, largest(weights)];
  const so = mine < real - 0.1 ? texts.uneven : mine > real + 0.1 ? texts.even : "";
  return `${filled(texts.lead, { lead: short(lead), factor })} ${so}`;
}

// -------------------------------------------------------------------------------------------------------- number

function guessOfNumber(context) {
  const { view, own, draft, guess } = context;
  const title = numberQuestion(view, own);
  if (own.number !== null) return [question(3, title, ` ${short(own.number)}`), numberFeedback(context)];
  const typed = { type: "text", inputmode: "decimal", autocomplete: "off", "aria-label": ASKED.answer };
  const input = el("input.answer", { ...typed, value: draft.text ?? "" });
  const { result } = context;
  const right = (x) => close(x, answerOf(own, result));
  const hint = (x) => mistakeOf(view.state, own, result, x) ?? TEXTS.exercise[own.kind];
  const take = (x) => Number.isFinite(x) && guess("number", x, right(x), hint(x));
  const check = checkButton(() => take(parsed(input.value)));
  const see = () => {
    draft.text = input.value;
    check.disabled = !Number.isFinite(parsed(input.value));
  };
  on(input, "input", see);
  onKeys(input, { Enter: () => check.click() });
  see();
  return question(3, title, el("p.row", input, " ", check, " ", el("span.soft", ASKED.digits)));
}

function numberQuestion({ state, names }, { row, kind, index }) {
  const [query, key] = [state.query_labels[row], state.key_labels[index]];
  const values = { query, key, words: wordsOf(state.options), i: index + 1, value: names.value };
  return filled(ASKED.asks[kind], values);
}

function numberFeedback({ view, own, result }) {
  const answer = answerOf(own, result);
  const right = close(own.number, answer);
  const off = filled(ASKED.off, { x: short(Math.abs(own.number - answer)) });
  const why = right ? "" : (mistakeOf(view.state, own, result, own.number) ?? off);
  return feedback(right, why, " ", el("span.answer-shown", worked(view.state, own, result)));
}

// What was done otherwise to find this number, if it is known.
function mistakeOf(state, own, result, number) {
  const answer = answerOf(own, result);
  const known = ([x]) => Number.isFinite(x) && close(number, x) && !close(x, answer);
  const [, name, values = {}] = (!close(number, answer) && mistakes[own.kind](state, own, result).find(known)) || [];
  return name ? said(ASKED.mistakes[name], values) : null;
}

function worked({ options }, { row, kind, index }, result) {
  const { queries, keys, values, scores, logits, rows, weights, context } = result;
  if (kind === "score") return workedScore(options, queries[row], keys[index], scores[row][index], index);
  if (kind === "context") return products(weights[row], columns(values)[index], context[row][index]);
  const [z, w] = [logits[row][index], weights[row][index]];
  if (z === -Infinity) return ASKED.masked;
  return workedWeight(options.normalize, rows[row], z, w) ?? filled(ASKED.it, { x: short(w) });
}

// Numbers that come out if one thing is done otherwise, each with the name of the text that says what that was.
const mistakes = {
  score(state, { row, index }, { queries, keys, scale, scores, scaled, weights }) {
    const sum = total(queries[row].map((x, i) => x + (keys[index][i] ?? NaN)));
    return [
      [scale === 1 ? NaN : scaled[row][index], "scaled"],
      [weights[row][index], "ofWeight"],
      [-scores[row][index], "sign"],
      [scores[index]?.[row] ?? NaN, "pair"],
      ...ofOtherKeys(state, scores[row], index, "otherScore"),
      [sum, "added"],
    ];
  },
  weight(state, { row, index }, { scores, logits, rows, weights }) {
    const share = (numbers) => numbers[index] / total(numbers.filter(Number.isFinite));
    const unscaled = scores[row].map((x, j) => (logits[row][j] === -Infinity ? 0 : Math.exp(x - largest(scores[row]))));
    return [
      [100 * weights[row][index], "percent"],
      ...ofOtherKeys(state, weights[row], index, "otherWeight"),
      [rows[row].terms?.[index] ?? NaN, "exp"],
      [Math.exp(logits[row][index]), "exp"],
      [share(unscaled), "unscaled"],
      [share(logits[row]), "plain"],
      [logits[row][index], "logit"],
    ];
  },
  context(state, { row, index }, { values, weights, context }) {
    const column = columns(values)[index];
    const best = weights[row].indexOf(largest(weights[row]));
    const ofOtherQuery = (line, i) => [line[index], "otherContext", { key: bdi(state.query_labels[i]) }];
    return [
      [column[best], "alone", { key: bdi(state.key_labels[best]) }],
      [total(column), "total"],
      [total(column) / column.length, "mean"],
      ...context[row].map((x, i) => [i === index ? NaN : x, "place", { i: i + 1 }]),
      ...context.map(ofOtherQuery).filter((_, i) => i !== row),
    ];
  },
};

const ofOtherKeys = ({ key_labels }, numbers, index, name) =>
  numbers.map((x, j) => [j === index ? NaN : x, name, { key: bdi(key_labels[j]) }]);

// ----------------------------------------------------------------------------------------------------- questions

// Another question: the next query that sees something, and the next kind of number.
function again({ view: { state }, own, result, begin }) {
  const n = state.query_labels.length;
  const rows = Array.from({ length: n }, (_, k) => (own.row + 1 + k) % n);
  const row = rows.find((i) => isQuestion(result.weights[i])) ?? own.row;
  const kind = KINDS[(KINDS.indexOf(own.kind) + 1) % KINDS.length];
  const count = kind === "context" ? contextSize(state) : state.key_labels.length;
  const next = asked({ row, kind, index: (own.index + 1) % count });
  const another = el("button.primary", { onclick: () => begin(next) }, ASKED.another);
  return el("p.row", another, " ", el("button", { onclick: () => begin(asked(own)) }, ASKED.once));
}

// The picked query, or the next one that has a question.
function firstQuestion({ state, result: { weights } }) {
  const rows = weights.map((_, k) => (state.row + k) % weights.length);
  return rows.find((i) => isQuestion(weights[i])) ?? state.row;
}

// Whether a key gets most: a tie has no answer.
function isQuestion(weights) {
  const [first, second = -1] = [...weights].sort((a, b) => b - a);
  return first > 0 && first - second > 1e-9;
}

// A lecturer's choice of the question.
function settings({ view, own, begin, redraw }) {
  const { state, names } = view;
  const present = () => state.exercise;
  const change = (part, from) => {
    begin(asked({ ...present(), ...part }));
    reopen(view, from);
  };
  const pick = (name, texts, chosen, choose) => {
    const select = regard.list(texts, chosen, (value) => change(choose(value), name));
    select.dataset.part = name;
    return regard.field(name, select);
  };
  const numbers = () => Array.from({ length: contextSize(state) }, (_, i) => filled(ASKED.number, { i: i + 1 }));
  const note = el("input.task", { type: "text", maxlength: LONGEST_NOTE, value: own.note });
  on(note, "input", () => {
    state.exercise.note = note.value;
    const shown = view.root.querySelector(".exercise .note");
    shown.textContent = note.value;
    shown.hidden = !note.value;
    regard.changed();
  });
  const start = () => ({ [`${view.prefix}exercise`]: exerciseCode(state).write(asked(present())) });
  const share = [
    el("button", { onclick: () => regard.save(start()) }, ASKED.save),
    regard.hasAddress() && el("button", { onclick: () => regard.copyLink(start()) }, ASKED.link),
  ];
  const query = names.query[0].toUpperCase() + names.query.slice(1);
  const fields = [
    pick(query, state.query_labels, own.row, (row) => ({ row })),
    pick(ASKED.compute, ASKED.nouns, own.kind, (kind) => ({ kind, index: 0 })),
    pick(ASKED.of, own.kind === "context" ? numbers() : state.key_labels, own.index, (index) => ({ index })),
    regard.field(ASKED.note, note),
  ];
  return el(
    "details.settings",
    el("summary", ASKED.settings),
    el("p.soft", ASKED.what),
    el("div.controls", fields),
    state.words && renaming(view, redraw),
    el("div.row", share),
  );
}

// The settings are drawn anew: open them again, and focus what was changed.
function reopen(view, part) {
  view.root.querySelector(".settings").setAttribute("open", "");
  view.root.querySelector(`.settings [data-part="${part}"]`).focus();
}

// Other names for the words, as many as there are.
function renaming(view, redraw) {
  const { state } = view;
  const present = state.query_labels;
  const split = (text) => text.split(text.includes(",") ? "," : /\s+/).map((name) => name.trim());
  const value = present.join(/\s/.test(present.join("")) ? ", " : " ");
  const input = el("input.task", { type: "text", value });
  const says = el("span.soft", { role: "status" });
  const rename = () => {
    const names = split(input.value).filter(Boolean);
    const fits = names.length === present.length;
    input.setAttribute("aria-invalid", String(!fits));
    says.textContent = fits ? "" : filled(ASKED.needed, { n: present.length, m: names.length });
    if (!fits) return;
    Object.assign(state, { query_labels: names, key_labels: [...names] });
    redraw();
    reopen(view, "rename");
  };
  onKeys(input, { Enter: rename });
  const button = el("button", { "data-part": "rename", onclick: rename }, ASKED.rename);
  return regard.field(ASKED.words, input, button, says);
}
