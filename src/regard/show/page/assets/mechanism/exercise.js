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
  const write = ({ row, kind, index, key, weights, number: own, note }) => [row, kind, index, key ?? "", (weights ?? []).join(), own === null ? "" : decimal(own), word(note)].join(";");
  const read = (text) => {
    const [row, kind, index, key, weights, own, note] = fitting(text.split(";").length === 7, text, text).split(";");
    const shares = weights ? weights.split(",").map(integer(101).read) : null;
    fitting(!shares || (shares.length === m && total(shares) === 100 && shares.every((x) => x % TEN === 0)), shares, text);
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
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);
const asked = (question) => ({ row: 0, kind: "context", index: 0, note: "", ...question, key: null, weights: null, number: null });

// The number that is asked for.
const answerOf = ({ row, kind, index }, { scores, weights, context }) => ({ score: scores, weight: weights, context })[kind][row][index];

// Nobody computes more digits by hand than these.
const close = (x, y) => Math.abs(x - y) <= 0.01 * Math.max(1, Math.abs(y));

function exercise(view, update, redraw) {
  const { state } = view;
  const draft = {};
  const start = regard.element("button", { type: "button", "data-part": "exercise", onclick: () => begin(asked({ row: state.row })) }, "Exercise");
  const body = regard.element("div");
  const heard = regard.element("p", { class: "hidden-text", role: "status" });
  const element = regard.element("div", { class: "exercise", role: "region", "aria-label": "Exercise", hidden: true }, heard, body);
  let drawn = "";
  const begin = (question) => {
    state.exercise = question;
    Object.assign(draft, { key: null, weights: null, text: "" });
    heard.textContent = "";
    update();
    (question ? body.querySelector("h3") : start).focus();
  };
  const guess = (part, value) => {
    state.exercise[part] = value;
    update();
    heard.textContent = [...body.querySelectorAll(".feedback")].at(-1)?.textContent ?? "";
    (body.querySelector(".question [tabindex='0'], .question input, .question button") ?? body.querySelector("h3")).focus();
  };
  const set = (result) => {
    const own = state.exercise;
    view.root.classList.toggle("exercising", Boolean(own));
    element.hidden = !own;
    start.hidden = Boolean(own);
    // A guess that is being made stays while nothing that it is about changes.
    const about = own && JSON.stringify([{ ...own, note: "" }, result.queries, result.logits, result.values, state.key_labels]);
    if (about === drawn) return;
    drawn = about;
    body.replaceChildren(...(own ? drawExercise({ view, own, result, draft, guess, begin, redraw }).flat(Infinity).filter(Boolean) : []));
  };
  return { start, element, set };
}

function drawExercise(context) {
  const { view, own, result, begin } = context;
  const { query_labels } = view.state;
  const head = regard.element("h3", { tabindex: "-1" }, `Exercise: the ${view.names.query} `, regard.label(query_labels[own.row]));
  const end = regard.element("button", { type: "button", class: "quiet", onclick: () => begin(null) }, "End the exercise");
  const top = [regard.element("div", { class: "exercise-head" }, head, end), regard.element("p", { dir: "auto", class: "note", hidden: !own.note }, own.note)];
  const shares = result.weights[own.row];
  if (!(total(shares) > 0)) return [top, regard.element("p", {}, `This ${view.names.query} sees nothing, or its weights are not numbers: there is nothing to guess.`), settings(context)];
  const parts = [top, given(context), guessOfKey(context), own.key !== null && guessOfWeights(context), own.weights && guessOfNumber(context)];
  return [parts, onPaper(context), own.number !== null && again(context), settings(context)];
}

// A printed page asks all questions at once.
function onPaper({ view, own }) {
  const later = [own.key === null && WEIGHTS_TITLE, own.weights === null && numberQuestion(view, own)].filter(Boolean);
  return regard.element("div", { class: "on-paper" }, later.map((title) => question(title)));
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
  const head = regard.element("tr", {}, regard.element("td", { class: "corner soft" }, names.key), state.key_labels.map((label) => regard.element("th", { scope: "col" }, regard.label(label))), regard.element("td"));
  const table = regard.element("table", { class: `story ${state.key_labels.length > 6 ? "dense" : ""}` }, regard.element("thead", {}, head), regard.element("tbody", {}, rows.map((one) => drawRow(one, null))));
  const query = regard.element("p", {}, `The ${names.query} is `, regard.formula(names.q), ` = ${vector(result.queries[row])}. `, howWeights(state, result));
  return [query, regard.scroller("Given", table)];
}

// How weights come from scores, in a line.
function howWeights({ options }, { scale, queries }) {
  const factor = options.scale === null && scale !== 1 ? `1/\u221a${queries[0].length}` : short(scale);
  const between = [scale === 1 ? "" : `times ${factor}`, options.softcap === null ? "" : `softcap ${short(options.softcap)}`, options.mask.kind === "none" ? "" : "mask"].filter(Boolean);
  return `Score: ${TEXTS.scores[options.score].name}; weights: ${[...between, TEXTS.normalize[options.normalize].name].join(", ")}.`;
}

const question = (title, ...content) => regard.element("div", { class: "question" }, regard.element("p", {}, regard.element("b", {}, title)), content);
const feedback = (right, ...content) => regard.element("p", { class: `feedback ${right ? "right" : "wrong"}` }, regard.element("b", {}, right ? "Right. " : "Not quite. "), content);
const checkButton = (action) => regard.element("button", { type: "button", class: "primary", onclick: action }, "Check");

// --------------------------------------------------------------------------------------------------- the largest

function guessOfKey({ view, own, result, draft, guess }) {
  const { state, names } = view;
  const title = `1. Which ${names.key} gets most of the attention?`;
  if (own.key !== null) return [question(title, " ", regard.label(state.key_labels[own.key])), keyFeedback(view, own, result)];
  const options = state.key_labels.map((label, j) => [j, regard.label(label)]);
  const check = checkButton(() => draft.key !== null && guess("key", draft.key));
  check.disabled = draft.key === null;
  const choice = regard.choices("Your guess", options, draft.key, (j) => {
    draft.key = j;
    check.disabled = false;
  });
  return question(title, choice.element, check);
}

function keyFeedback({ state, names }, own, result) {
  const { row, kind, key } = own;
  const [weights, logits] = [result.weights[row], result.logits[row]];
  const best = weights.indexOf(largest(weights));
  const right = weights[key] >= weights[best] - 1e-9;
  const name = (j) => regard.label(state.key_labels[j]);
  if (logits[key] === -Infinity) return feedback(false, name(key), " is hidden by the mask, so its weight is 0. Most goes to ", name(best), ".");
  const said = (j) => [name(j), kind === "score" ? ` is ${vector(result.keys[j])}` : [": ", workedScore(state.options, result.queries[row], result.keys[j], result.scores[row][j], j)]];
  if (right) return feedback(true, kind === "score" ? `No ${names.key} matches the ${names.query} better. ` : ["Its score is as large as any that is visible. ", said(key)]);
  const why = result.scale < 0 ? "A negative scale turns the order of the scores round. " : "";
  return feedback(false, "Most goes to ", name(best), `, which matches the ${names.query} better. `, why, said(best), "; ", said(key), ".");
}

// ------------------------------------------------------------------------------------------------------- weights

function guessOfWeights(context) {
  const { view, own, result, draft, guess } = context;
  const { key_labels } = view.state;
  if (own.weights) return [question(WEIGHTS_TITLE), weightsFeedback(context)];
  draft.weights ??= key_labels.map((_, j) => (j === own.key ? 100 : 0));
  const sum = regard.element("span", { role: "status" });
  const check = checkButton(() => total(draft.weights) === 100 && guess("weights", [...draft.weights]));
  const count = () => {
    const own = total(draft.weights);
    sum.textContent = `together ${own} %${own === 100 ? "" : `: ${Math.abs(100 - own)} ${own > 100 ? "too much" : "left"}`}`;
    check.disabled = own !== 100;
  };
  const rows = key_labels.map((label, j) => {
    const shown = regard.element("output", {}, `${draft.weights[j]} %`);
    const slider = regard.element("input", { type: "range", min: 0, max: 100, step: TEN, value: draft.weights[j], "aria-label": label, "aria-valuetext": `${draft.weights[j]} %` });
    slider.addEventListener("input", () => {
      draft.weights[j] = Number(slider.value);
      slider.setAttribute("aria-valuetext", `${slider.value} %`);
      shown.textContent = `${slider.value} %`;
      count();
    });
    return regard.element("div", { class: "share" }, regard.label(label), slider, shown);
  });
  count();
  return question(WEIGHTS_TITLE, regard.element("div", { class: "shares" }, rows), regard.element("p", { class: "row" }, check, " ", sum));
}

// While a weight is still to be computed, weights are shown to ten per cent.
function weightsFeedback({ view: { state }, own, result }) {
  const { row, kind } = own;
  const [weights, logits] = [result.weights[row], result.logits[row]];
  const off = weights.map((w, j) => own.weights[j] - 100 * w);
  const right = off.every((x) => Math.abs(x) <= TEN + 1e-9);
  const worst = off.indexOf(off.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a)));
  const share = (w) => (kind === "weight" ? `about ${TEN * Math.round(TEN * w)} %` : regard.percent(w));
  const rows = weights.map((w, j) =>
    regard.element("div", { class: "share compared" }, regard.label(state.key_labels[j]), track(own.weights[j], "yours"), regard.element("span", {}, `you ${own.weights[j]} %`), track(100 * w, "true"), regard.element("span", {}, share(w))),
  );
  const text = right ? "Each is within ten per cent." : [regard.label(state.key_labels[worst]), ` gets ${off[worst] > 0 ? "less" : "more"} than you guessed: ${share(weights[worst])}. `];
  return [feedback(right, text, " ", spread(state.options, own.weights, weights, logits)), regard.element("div", { class: "shares" }, rows)];
}

const track = (percent, kind) => regard.element("span", { class: `track ${kind}`, "aria-hidden": "true" }, regard.element("i", { style: { width: `${Math.max(0, Math.min(100, percent))}%` } }));

// Why weights are as even or uneven as they are.
function spread({ normalize }, guessed, weights, logits) {
  const order = logits.map((_, j) => j).filter((j) => logits[j] > -Infinity).sort((a, b) => logits[b] - logits[a]);
  if (order.length < 2) return "Only one is visible, and gets everything.";
  if (normalize === "hard") return "Hard attention gives everything to the largest logit.";
  if (normalize !== "softmax") return `What lies below the threshold of ${TEXTS.normalize[normalize].name} gets exactly 0.`;
  const lead = logits[order[0]] - logits[order[1]];
  const factor = Math.exp(lead);
  const words = `The largest logit leads the second by ${short(lead)}, and the exponential makes of it the factor ${factor > 1e6 ? "exp" : ""}${factor > 1e6 ? `(${short(lead)})` : short(Number(factor.toPrecision(3)))} between their weights. `;
  const [mine, real] = [largest(guessed) / 100, largest(weights)];
  if (mine < real - 0.1) return `${words}So the weights are more uneven than your guess.`;
  return mine > real + 0.1 ? `${words}So the weights are more even than your guess.` : words;
}

// -------------------------------------------------------------------------------------------------------- number

function guessOfNumber(context) {
  const { view, own, draft, guess } = context;
  const title = numberQuestion(view, own);
  if (own.number !== null) return [question(title, ` ${short(own.number)}`), numberFeedback(context)];
  const input = regard.element("input", { type: "text", inputmode: "decimal", autocomplete: "off", class: "answer", "aria-label": "Your number", value: draft.text ?? "" });
  const check = checkButton(() => Number.isFinite(parsed(input.value)) && guess("number", parsed(input.value)));
  const see = () => {
    draft.text = input.value;
    check.disabled = !Number.isFinite(parsed(input.value));
  };
  input.addEventListener("input", see);
  input.addEventListener("keydown", (event) => event.key === "Enter" && check.click());
  see();
  return question(title, regard.element("p", { class: "row" }, input, " ", check, " ", regard.element("span", { class: "soft" }, "two digits after the point are enough")));
}

function numberQuestion({ state, names }, { row, kind, index }) {
  const [query, key] = [state.query_labels[row], state.key_labels[index]];
  if (kind === "context") return `3. Compute number ${index + 1} of the context of \u201c${query}\u201d: the sum of weight \u00d7 ${names.value}.`;
  return kind === "score"
    ? `3. Compute the score of \u201c${query}\u201d and \u201c${key}\u201d: ${TEXTS.scores[state.options.score].words}, before scale and mask.`
    : `3. Compute the weight of \u201c${key}\u201d from the logits, as a share of 1.`;
}

function numberFeedback({ view, own, result }) {
  const answer = answerOf(own, result);
  const right = close(own.number, answer);
  const fault = right ? null : mistakes(view.state, own, result).find(([x]) => Number.isFinite(x) && close(own.number, x) && !close(x, answer));
  const off = `You are off by ${short(Math.abs(own.number - answer))}. `;
  return feedback(right, right ? "" : fault ? [fault.slice(1), ". "] : off, regard.element("span", { class: "answer-shown" }, worked(view.state, own, result)));
}

function worked(state, { row, kind, index }, { queries, keys, values, scores, logits, rows, weights, context }) {
  if (kind === "score") return workedScore(state.options, queries[row], keys[index], scores[row][index], index);
  if (kind === "context") return products(weights[row], values.map((value) => value[index]), context[row][index]);
  const { most, total: sum } = rows[row];
  const [z, w] = [logits[row][index], weights[row][index]];
  if (z === -Infinity) return "It is hidden by the mask: 0";
  return state.options.normalize === "softmax" ? `exp(${short(z)} \u2212 ${minus(most)}) / ${short(sum)} = ${short(w)}` : `It is ${short(w)}`;
}

// Numbers that come out if one thing is done otherwise, each with what that was.
function mistakes(state, { row, kind, index }, { queries, keys, values, scale, scores, scaled, logits, rows, weights, context }) {
  const name = (j) => regard.label(state.key_labels[j]);
  const others = (numbers, noun) => numbers[row].map((x, j) => (j === index ? [NaN] : [x, `That is the ${noun} of `, name(j)]));
  if (kind === "score") {
    return [
      [scale === 1 ? NaN : scaled[row][index], "That is the scaled score: the scale comes after it"],
      [weights[row][index], "That is the weight: the score comes before it"],
      [-scores[row][index], "The sign is wrong"],
      [scores[index]?.[row] ?? NaN, "That is the score of the other pair: query and key have changed places"],
      ...others(scores, "score"),
      [total(queries[row].map((x, i) => x + (keys[index][i] ?? NaN))), "The numbers are multiplied in pairs, not added"],
    ];
  }
  if (kind === "weight") {
    const share = (numbers) => numbers[index] / total(numbers.filter(Number.isFinite));
    const unscaled = scores[row].map((x, j) => (logits[row][j] === -Infinity ? 0 : Math.exp(x - largest(scores[row]))));
    return [
      [100 * weights[row][index], "That is in per cent: a share of 1 is asked"],
      ...others(weights, "weight"),
      [rows[row].terms?.[index] ?? NaN, "That is the exponential, which is still to be divided by the sum of all"],
      [Math.exp(logits[row][index]), "That is the exponential, which is still to be divided by the sum of all"],
      [share(unscaled), "That is the softmax of the scores, before scale and softcap"],
      [share(logits[row]), "The logits themselves are no shares: the exponential comes first"],
      [logits[row][index], "That is the logit"],
    ];
  }
  const column = values.map((value) => value[index]);
  const best = weights[row].indexOf(largest(weights[row]));
  return [
    [column[best], "That is the value of ", name(best), " alone: the others count by their weights, too"],
    [total(column), "That is the sum of the values without their weights"],
    [total(column) / column.length, "That is the plain mean of the values: each counts by its weight"],
    ...context[row].map((x, i) => [i === index ? NaN : x, `That is number ${i + 1} of the context`]),
    ...context.map((line, i) => [i === row ? NaN : line[index], "That is the context of ", regard.label(state.query_labels[i])]),
  ];
}

// ----------------------------------------------------------------------------------------------------- questions

// Another question: the next query that sees something, and the next kind of number.
function again({ view: { state }, own, result, begin }) {
  const n = state.query_labels.length;
  const rows = Array.from({ length: n }, (_, k) => (own.row + 1 + k) % n);
  const row = rows.find((i) => total(result.weights[i]) > 0) ?? own.row;
  const kind = KINDS[(KINDS.indexOf(own.kind) + 1) % KINDS.length];
  const count = kind === "context" ? contextSize(state) : state.key_labels.length;
  const next = asked({ row, kind, index: (own.index + 1) % count });
  return regard.element("p", { class: "row" }, regard.element("button", { type: "button", class: "primary", onclick: () => begin(next) }, "Another question"), " ", regard.element("button", { type: "button", onclick: () => begin(asked(own)) }, "Once more"));
}

// A lecturer's choice of the question.
function settings({ view, own, begin, redraw }) {
  const { state, names } = view;
  const present = () => state.exercise;
  const change = (part, from) => {
    begin(asked({ ...present(), ...part }));
    view.root.querySelector(".settings").setAttribute("open", "");
    view.root.querySelector(`.settings [data-part="${from}"]`).focus();
  };
  const pick = (name, texts, chosen, choose) => {
    const [label, select] = regard.list(name, texts, (i) => change(choose(i), name));
    select.selectedIndex = chosen;
    select.dataset.part = name;
    return regard.element("div", { class: "field" }, label, regard.element("div", { class: "row" }, select));
  };
  const nouns = { score: "a score", weight: "a weight", context: "a number of the context" };
  const of = own.kind === "context" ? Array.from({ length: contextSize(state) }, (_, i) => `number ${i + 1}`) : state.key_labels;
  const note = regard.element("input", { type: "text", class: "task", maxlength: LONGEST_NOTE, value: own.note, id: regard.unique("task") });
  note.addEventListener("input", () => {
    state.exercise.note = note.value;
    const shown = view.root.querySelector(".exercise .note");
    shown.textContent = note.value;
    shown.hidden = !note.value;
    regard.changed();
  });
  const start = () => ({ [view.prefix + "exercise"]: exerciseCode(state).write(asked(present())) });
  const share = [
    regard.element("button", { type: "button", onclick: () => regard.save(start()) }, "Save a page that asks this"),
    regard.hasAddress() && regard.element("button", { type: "button", onclick: () => regard.copyLink(start()) }, "Copy a link that asks this"),
  ];
  return regard.element(
    "details",
    { class: "settings" },
    regard.element("summary", {}, "Set the question"),
    regard.element("p", { class: "soft" }, "Words, matrices and options are those of the page: change them as you like. The page or link that you pass on has them, and the question without an answer."),
    regard.element(
      "div",
      { class: "controls" },
      pick(names.query[0].toUpperCase() + names.query.slice(1), state.query_labels, own.row, (row) => ({ row })),
      pick("Compute", KINDS.map((kind) => nouns[kind]), KINDS.indexOf(own.kind), (i) => ({ kind: KINDS[i], index: 0 })),
      pick("Of", of, own.index, (index) => ({ index })),
      regard.element("div", { class: "field wide" }, regard.element("label", { for: note.id }, "Text above it"), regard.element("div", { class: "row" }, note)),
    ),
    state.words ? renaming(view, redraw) : null,
    regard.element("div", { class: "row" }, share.filter(Boolean)),
  );
}

// Other names for the words, as many as there are.
function renaming(view, redraw) {
  const { state } = view;
  const present = state.query_labels;
  const split = (text) => text.split(text.includes(",") ? "," : /\s+/).map((name) => name.trim()).filter(Boolean);
  const input = regard.element("input", { type: "text", class: "task", value: present.join(/\s/.test(present.join("")) ? ", " : " "), id: regard.unique("names") });
  const says = regard.element("span", { class: "soft", role: "status" });
  const rename = () => {
    const names = split(input.value);
    const fits = names.length === present.length;
    input.setAttribute("aria-invalid", String(!fits));
    says.textContent = fits ? "" : `${present.length} words are needed, here ${names.length === 1 ? "is" : "are"} ${names.length}`;
    if (!fits) return;
    Object.assign(state, { query_labels: names, key_labels: [...names] });
    redraw();
    view.root.querySelector(".settings").setAttribute("open", "");
    view.root.querySelector('.settings [data-part="rename"]').focus();
  };
  input.addEventListener("keydown", (event) => event.key === "Enter" && rename());
  const button = regard.element("button", { type: "button", "data-part": "rename", onclick: rename }, "Rename the words");
  return regard.element("div", { class: "field" }, regard.element("label", { for: input.id }, "Words"), regard.element("div", { class: "row" }, input, button, says));
}
