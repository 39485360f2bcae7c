// An exercise on one query: which key gets most, the weights in ten-per-cent steps, and a number. An answer is shown
// after its guess only. The exercise in the state is {row, kind, index, note}, the question, and {key, weights, number},
// the guesses so far.

const KINDS = ["score", "weight", "context"];
const TEN = 10; // per cent
const WEIGHTS_TITLE = "2. How much does each get, in steps of ten per cent?";
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
  const element = el("div.exercise", { role: "region", "aria-label": "Exercise", hidden: true }, heard, body);
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
  const head = el("h3", { tabindex: "-1" }, `Exercise: the ${view.names.query} `, bdi(query_labels[own.row]));
  const end = el("button.quiet", { onclick: () => begin(null) }, "End the exercise");
  const top = [el("div.page-header", head, end), el("p.note", { dir: "auto", hidden: !own.note }, own.note)];
  const none = `This ${view.names.query} sees nothing, or its weights are not numbers: there is nothing to guess.`;
  if (!(total(result.weights[own.row]) > 0)) return [top, el("p", none), settings(context)];
  const later = [own.key !== null && guessOfWeights(context), own.weights && guessOfNumber(context)];
  const parts = [top, given(context), guessOfKey(context), later];
  return [parts, onPaper(context), own.number !== null && again(context), settings(context)];
}

// A printed page asks all questions at once.
function onPaper({ view, own }) {
  const weights = own.key === null && question(WEIGHTS_TITLE);
  return el("div.on-paper", weights, own.weights === null && question(numberQuestion(view, own)));
}

// What the present question is computed from.
function given({ view: { state, names }, own, result }) {
  const { row, kind } = own;
  const late = own.weights && own.number === null;
  const vectors = { name: names.key, numbers: result.keys };
  const values = { name: names.value, numbers: result.values };
  const logits = { name: "logit", numbers: result.logits[row] };
  const weights = { name: "weight", numbers: seen(result.weights[row], result.logits[row]) };
  const rows = late && kind === "weight" ? [logits] : late && kind === "context" ? [weights, values] : [vectors];
  const heads = state.key_labels.map((label) => el("th", { scope: "col" }, bdi(label)));
  const table = storyTable(names, heads.length, heads, el("td"));
  const columns = { shown: [...heads.keys()], rest: [] };
  const drawn = rows.map((row) => drawRow(row, null, columns));
  table.append(el("tbody", drawn));
  const numbers = ` = ${vector(result.queries[row])}. `;
  const query = el("p", `The ${names.query} is `, regard.formula(names.q), numbers, howWeights(state, result));
  return [query, regard.scroller("Given", table)];
}

// How weights come from scores, in a line.
function howWeights({ options }, { scale, queries }) {
  const factor = options.scale === null && scale !== 1 ? `1/\u221a${queries[0].length}` : short(scale);
  const steps = [
    scale !== 1 && `times ${factor}`,
    options.softcap !== null && `softcap ${short(options.softcap)}`,
    options.mask.kind !== "none" && "mask",
    TEXTS.normalize[options.normalize].name,
  ];
  return `Score: ${TEXTS.scores[options.score].name}; weights: ${steps.filter(Boolean).join(", ")}.`;
}

const question = (title, ...content) => el("div.question", el("p", el("b", title)), content);
const feedback = (right, ...content) =>
  el(`p.feedback.${right ? "right" : "wrong"}`, el("b", right ? "Right. " : "Not quite. "), content);
const checkButton = (action) => el("button.primary", { onclick: action }, "Check");

// --------------------------------------------------------------------------------------------------- the largest

function guessOfKey({ view, own, result, draft, guess }) {
  const { state, names } = view;
  const title = `1. Which ${names.key} gets most of the attention?`;
  if (own.key !== null) return [question(title, " ", bdi(state.key_labels[own.key])), keyFeedback(view, own, result)];
  const options = state.key_labels.map((label, j) => [j, bdi(label)]);
  const hint = hintOfKey(view, own, result);
  const check = checkButton(
    () => draft.key !== null && guess("key", draft.key, isBest(result, own.row, draft.key), hint),
  );
  check.disabled = draft.key === null;
  const choice = regard.choices("Your guess", options, draft.key, (j) => {
    draft.key = j;
    check.disabled = false;
  });
  return question(title, choice.element, check);
}

const isBest = ({ weights }, row, key) => weights[row][key] >= largest(weights[row]) - 1e-9;

// What is to be computed of the best key and of another, without the result.
function hintOfKey({ state }, { row }, { queries, keys, weights }) {
  const best = weights[row].indexOf(largest(weights[row]));
  const words = wordsOf(state.options);
  const pair = [bdi(state.key_labels[best]), ` ${vector(keys[best])}`];
  return [`Compute ${words} for each: begin with ${vector(queries[row])} and `, pair, "."];
}

function keyFeedback({ state, names }, own, result) {
  const { row, kind, key } = own;
  const [weights, logits] = [result.weights[row], result.logits[row]];
  const best = weights.indexOf(largest(weights));
  const right = isBest(result, row, key);
  const name = (j) => bdi(state.key_labels[j]);
  const hidden = [" is hidden by the mask, so its weight is 0. Most goes to ", name(best), "."];
  if (logits[key] === -Infinity) return feedback(false, name(key), hidden);
  const score = (j) => workedScore(state.options, result.queries[row], result.keys[j], result.scores[row][j], j);
  const said = (j) => [name(j), kind === "score" ? ` is ${vector(result.keys[j])}` : `: ${score(j)}`];
  const better = `No ${names.key} matches the ${names.query} better. `;
  const largestToo = () => ["No score is larger. ", said(key)];
  if (right) return feedback(true, kind === "score" ? better : largestToo());
  const why = result.scale < 0 ? "A negative scale turns the order of the scores round. " : "";
  const most = ["Most goes to ", name(best), `, which matches the ${names.query} better. `];
  return feedback(false, most, why, said(best), "; ", said(key), ".");
}

// ------------------------------------------------------------------------------------------------------- weights

function guessOfWeights(context) {
  const { view, own, draft, guess } = context;
  const { key_labels } = view.state;
  if (own.weights) return [question(WEIGHTS_TITLE), weightsFeedback(context)];
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
    const off = `: ${Math.abs(100 - all)} ${all > 100 ? "too much" : "left"}`;
    sum.textContent = `together ${all} %${all === 100 ? "" : off}`;
    check.disabled = all !== 100;
  };
  const rows = key_labels.map((label, j) => {
    const shown = el("output");
    const range = { type: "range", min: 0, max: 100, step: TEN, value: draft.weights[j], "aria-label": label };
    const slider = el("input", range);
    const show = () => {
      slider.setAttribute("aria-valuetext", `${slider.value} %`);
      shown.textContent = `${slider.value} %`;
    };
    on(slider, "input", () => {
      draft.weights[j] = Number(slider.value);
      show();
      count();
    });
    show();
    return el("div.share", bdi(label), slider, shown);
  });
  count();
  return question(WEIGHTS_TITLE, el("div.shares", rows), el("p.row", check, " ", sum));
}

// While a weight is still to be computed, weights are shown to ten per cent.
function weightsFeedback({ view: { state }, own, result }) {
  const { row, kind } = own;
  const [weights, logits] = [result.weights[row], result.logits[row]];
  const off = weights.map((w, j) => own.weights[j] - 100 * w);
  const right = off.every((x) => Math.abs(x) <= TEN + 1e-9);
  const worst = off.indexOf(off.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a)));
  const share = (w) => (kind === "weight" ? `about ${TEN * Math.round(TEN * w)} %` : regard.percent(w));
  const rows = weights.map((w, j) => {
    const yours = [track(own.weights[j], "yours"), el("span", `you ${own.weights[j]} %`)];
    return el("div.share.compared", bdi(state.key_labels[j]), yours, track(100 * w, "true"), el("span", share(w)));
  });
  const wrong = ` gets ${off[worst] > 0 ? "less" : "more"} than you guessed: ${share(weights[worst])}. `;
  const text = right ? "Each is within ten per cent." : [bdi(state.key_labels[worst]), wrong];
  return [feedback(right, text, " ", spread(state.options, own.weights, weights, logits)), el("div.shares", rows)];
}

function track(percent, kind) {
  const width = `${Math.max(0, Math.min(100, percent))}%`;
  return el(`span.track.${kind}`, { "aria-hidden": "true" }, el("i", { style: { width } }));
}

// Why weights are as even or uneven as they are.
function spread({ normalize }, guessed, weights, logits) {
  const order = logits.filter((z) => z > -Infinity).sort((a, b) => b - a);
  if (order.length < 2) return "Only one is visible, and gets everything.";
  const { name } = TEXTS.normalize[normalize];
  if (normalize === "hard") return "Hard attention gives everything to the largest logit.";
  if (normalize !== "softmax") return `What lies below the threshold of ${name} gets exactly 0.`;
  const lead = order[0] - order[1];
  const times = Math.exp(lead);
  const factor = times > 1e6 ? `exp(${short(lead)})` : short(Number(times.toPrecision(3)));
  const leads = `The largest logit leads the second by ${short(lead)}, and the exponential makes of it the factor `;
  const words = `${leads}${factor} between their weights. `;
  const [mine, real] = [largest(guessed) / 100, largest(weights)];
  if (mine < real - 0.1) return `${words}So the weights are more uneven than your guess.`;
  return mine > real + 0.1 ? `${words}So the weights are more even than your guess.` : words;
}

// -------------------------------------------------------------------------------------------------------- number

function guessOfNumber(context) {
  const { view, own, draft, guess } = context;
  const title = numberQuestion(view, own);
  if (own.number !== null) return [question(title, ` ${short(own.number)}`), numberFeedback(context)];
  const typed = { type: "text", inputmode: "decimal", autocomplete: "off", "aria-label": "Your number" };
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
  return question(title, el("p.row", input, " ", check, " ", el("span.soft", "two digits after the point are enough")));
}

function numberQuestion({ state, names }, { row, kind, index }) {
  const [query, key] = [state.query_labels[row], state.key_labels[index]].map((name) => `\u201c${name}\u201d`);
  const words = wordsOf(state.options);
  return {
    context: `3. Compute number ${index + 1} of the context of ${query}: the sum of weight \u00d7 ${names.value}.`,
    score: `3. Compute the score of ${query} and ${key}: ${words}, before scale and mask.`,
    weight: `3. Compute the weight of ${key} from the logits, as a share of 1.`,
  }[kind];
}

function numberFeedback({ view, own, result }) {
  const answer = answerOf(own, result);
  const right = close(own.number, answer);
  const off = `You are off by ${short(Math.abs(own.number - answer))}. `;
  const said = right ? "" : (mistakeOf(view.state, own, result, own.number) ?? off);
  return feedback(right, said, el("span.answer-shown", worked(view.state, own, result)));
}

// What was done otherwise to find this number, if it is known.
function mistakeOf(state, own, result, number) {
  const answer = answerOf(own, result);
  const known = ([x]) => Number.isFinite(x) && close(number, x) && !close(x, answer);
  const fault = !close(number, answer) && mistakes[own.kind](state, own, result).find(known);
  return fault ? [fault.slice(1), ". "] : null;
}

function worked({ options }, { row, kind, index }, result) {
  const { queries, keys, values, scores, logits, rows, weights, context } = result;
  if (kind === "score") return workedScore(options, queries[row], keys[index], scores[row][index], index);
  if (kind === "context") return products(weights[row], columns(values)[index], context[row][index]);
  const { most, total: sum } = rows[row];
  const [z, w] = [logits[row][index], weights[row][index]];
  if (z === -Infinity) return "It is hidden by the mask: 0";
  if (options.normalize !== "softmax") return `It is ${short(w)}`;
  return `exp(${short(z)} \u2212 ${minus(most)}) / ${short(sum)} = ${short(w)}`;
}

// Numbers that come out if one thing is done otherwise, each with what that was.
const mistakes = {
  score(state, { row, index }, { queries, keys, scale, scores, scaled, weights }) {
    const sum = total(queries[row].map((x, i) => x + (keys[index][i] ?? NaN)));
    return [
      [scale === 1 ? NaN : scaled[row][index], "That is the scaled score: the scale comes after it"],
      [weights[row][index], "That is the weight: the score comes before it"],
      [-scores[row][index], "The sign is wrong"],
      [scores[index]?.[row] ?? NaN, "That is the score of the other pair: query and key have changed places"],
      ...ofOtherKeys(state, scores[row], index, "score"),
      [sum, "The numbers are multiplied in pairs, not added"],
    ];
  },
  weight(state, { row, index }, { scores, logits, rows, weights }) {
    const share = (numbers) => numbers[index] / total(numbers.filter(Number.isFinite));
    const unscaled = scores[row].map((x, j) => (logits[row][j] === -Infinity ? 0 : Math.exp(x - largest(scores[row]))));
    const exponential = "That is the exponential, which is still to be divided by the sum of all";
    return [
      [100 * weights[row][index], "That is in per cent: a share of 1 is asked"],
      ...ofOtherKeys(state, weights[row], index, "weight"),
      [rows[row].terms?.[index] ?? NaN, exponential],
      [Math.exp(logits[row][index]), exponential],
      [share(unscaled), "That is the softmax of the scores, before scale and softcap"],
      [share(logits[row]), "The logits themselves are no shares: the exponential comes first"],
      [logits[row][index], "That is the logit"],
    ];
  },
  context(state, { row, index }, { values, weights, context }) {
    const column = columns(values)[index];
    const best = weights[row].indexOf(largest(weights[row]));
    const alone = " alone: the others count by their weights, too";
    const ofOtherQuery = (line, i) => [line[index], "That is the context of ", bdi(state.query_labels[i])];
    return [
      [column[best], "That is the value of ", bdi(state.key_labels[best]), alone],
      [total(column), "That is the sum of the values without their weights"],
      [total(column) / column.length, "That is the plain mean of the values: each counts by its weight"],
      ...context[row].map((x, i) => [i === index ? NaN : x, `That is number ${i + 1} of the context`]),
      ...context.map(ofOtherQuery).filter((_, i) => i !== row),
    ];
  },
};

const ofOtherKeys = ({ key_labels }, numbers, index, noun) =>
  numbers.map((x, j) => [j === index ? NaN : x, `That is the ${noun} of `, bdi(key_labels[j])]);

// ----------------------------------------------------------------------------------------------------- questions

// Another question: the next query that sees something, and the next kind of number.
function again({ view: { state }, own, result, begin }) {
  const n = state.query_labels.length;
  const rows = Array.from({ length: n }, (_, k) => (own.row + 1 + k) % n);
  const row = rows.find((i) => isQuestion(result.weights[i])) ?? own.row;
  const kind = KINDS[(KINDS.indexOf(own.kind) + 1) % KINDS.length];
  const count = kind === "context" ? contextSize(state) : state.key_labels.length;
  const next = asked({ row, kind, index: (own.index + 1) % count });
  const another = el("button.primary", { onclick: () => begin(next) }, "Another question");
  return el("p.row", another, " ", el("button", { onclick: () => begin(asked(own)) }, "Once more"));
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
  const nouns = { score: "a score", weight: "a weight", context: "a number of the context" };
  const numbers = () => Array.from({ length: contextSize(state) }, (_, i) => `number ${i + 1}`);
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
    el("button", { onclick: () => regard.save(start()) }, "Save a page that asks this"),
    regard.hasAddress() && el("button", { onclick: () => regard.copyLink(start()) }, "Copy a link that asks this"),
  ];
  const what =
    "Words, matrices and options are those of the page: change them as you like. " +
    "The page or link that you pass on has them, and the question without an answer.";
  const query = names.query[0].toUpperCase() + names.query.slice(1);
  const fields = [
    pick(query, state.query_labels, own.row, (row) => ({ row })),
    pick("Compute", nouns, own.kind, (kind) => ({ kind, index: 0 })),
    pick("Of", own.kind === "context" ? numbers() : state.key_labels, own.index, (index) => ({ index })),
    regard.field("Text above it", note),
  ];
  return el(
    "details.settings",
    el("summary", "Set the question"),
    el("p.soft", what),
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
    const here = `here ${names.length === 1 ? "is" : "are"} ${names.length}`;
    says.textContent = fits ? "" : `${present.length} words are needed, ${here}`;
    if (!fits) return;
    Object.assign(state, { query_labels: names, key_labels: [...names] });
    redraw();
    reopen(view, "rename");
  };
  onKeys(input, { Enter: rename });
  const button = el("button", { "data-part": "rename", onclick: rename }, "Rename the words");
  return regard.field("Words", input, button, says);
}
