// For a class: an exercise sheet with its solution on a second sheet, and ten questions whose answers are handed in as a
// link. Their numbers follow from the number of the set, so that a class has the same, and another class others.

const SETS = 1000;
const EXPONENTS = [0, 1, 2, 3]; // of which a problem needs the exponential
const NEAR = 0.05; // of an answer in numbers: shares of two digits, times values up to 3
const OPTIONS = { score: "scaled_dot", scale: null, softcap: null, normalize: "softmax", mask: { kind: "none" } };
const ORDER = "order"; // the question about words without positions, which has no numbers
const QUIZ = [
  [0, "key"],
  ...[0, 1].map((index) => [0, "score", index]),
  [0, "weight", 0],
  [0, "context", 0],
  [1, "key"],
  [1, "weight", 1],
  [1, "context", 1],
  [2, "context", 0],
  [null, ORDER],
].map(([problem, kind, index = 0]) => ({ problem, kind, index, row: 0 }));
regard.quiz = QUIZ; // for tests

// A query and three keys of four small numbers, whose logits are different and at most 3: {view, result}, as an exercise
// has them.
regard.problem = (set, k) => {
  const next = randomNumbers(SETS * k + set);
  const drawn = (rows, size, below) =>
    Array.from({ length: rows }, () => Array.from({ length: size }, () => Math.floor(below * next())));
  const labels = TEXTS.sheet.words[k];
  let result;
  do result = regard.compute({ queries: drawn(1, 4, 3), keys: drawn(3, 4, 3), values: drawn(3, 2, 4) });
  while (!isByHand(result));
  const { queries, keys, values } = result;
  const state = { queries, keys, values, options: OPTIONS, query_labels: labels.slice(-1), key_labels: labels };
  return { view: { state, names: NAMES.general }, result };
};

const isByHand = ({ queries: [query], logits: [logits] }) =>
  query.filter(Boolean).length > 2 &&
  logits.every((z) => EXPONENTS.includes(z)) &&
  new Set(logits).size === logits.length;

// What all questions of a problem are computed from; `more` are further rows {name, numbers, sum}.
function givenOf({ view: { state, names }, result }, more = []) {
  const rows = [names.key, names.value].map((name, i) => ({ name, numbers: [result.keys, result.values][i] }));
  const sum = more.length ? el("th.sum", { scope: "col" }, "\u03a3") : el("td");
  const table = keyTable(names, state.key_labels, [...rows, ...more], sum);
  const query = { query: names.query, numbers: [bdi(state.query_labels[0]), ` = ${vector(result.queries[0])}. `] };
  const powers = EXPONENTS.map((z) => `exp(${z}) = ${short(Math.exp(z))}`).join(LISTING);
  const known = [saidOf("query", query), howWeights(state, result), " ", powers, "."];
  return [el("p", known), regard.scroller(ASKED.given, table)];
}

const another = (view, part = {}) =>
  el("button", { onclick: () => view.change({ set: view.state.set + 1, ...part }) }, TEXTS.sheet.another);

// A view of a section that is shown alone: {state, change(part)}, drawn by draw().
function classView(root, name, section, fresh, fields, draw) {
  const view = regard.kept(section, fresh, fields, draw, Object.keys(fields));
  view.prefix = prefixOf(section);
  root.classList.add("mechanism");
  regard.aside(root, name);
  draw(view);
  return view;
}

const setCode = () => regard.CODES.integer(SETS);

// --------------------------------------------------------------------------------------------------------- sheet

regard.view("sheet", (root, _, { section }) => {
  const texts = TEXTS.sheet;
  const body = el("div");
  root.append(body);
  const draw = (view) => {
    const { set, solution } = view.state;
    const problem = regard.problem(set, 0);
    const flip = () => view.change({ solution: !solution });
    const both = el("button", { "aria-pressed": String(solution), onclick: flip }, texts.solution);
    const bar = el(
      "div.row.help",
      another(view),
      both,
      el("button.primary", { onclick: () => print() }, TEXTS.page.print),
    );
    put(body, bar, el("p.soft", filled(texts.name, { set })), tasks(problem), solution && solutionOf(problem));
  };
  const fresh = () => ({ set: 1, solution: false });
  const view = classView(root, "sheet", section, fresh, { set: setCode(), solution: regard.CODES.flag() }, draw);
  const printed = (solution) => () => {
    view.change({ solution });
    visit(root);
    print();
  };
  rail.items.push([texts.sheet, printed(false)], [texts.both, printed(true)]);
});

const task = (number, title, ...content) => el("div.task", el("h3", `${number}. ${title}`), content);
const room = () => el("div.room");

// The three tasks, with room to write.
function tasks(problem) {
  const { view } = problem;
  const { key_labels } = view.state;
  const texts = TEXTS.sheet;
  const rows = [ROWS.score, ROWS.scaled, ROWS.exp, ROWS.weight].map((name) => ({ name }));
  const asked = { ...OPTIONS, row: 0, kind: "context", index: 0 };
  const given = givenOf(problem, rows);
  return el(
    "div.sheet",
    task(1, filled(ASKED.asks.key, { noun: view.names.key }), given, el("p", texts.most), room()),
    task(2, numberQuestion(view, asked), el("p", texts.context), room()),
    task(3, texts.order.ask, el("p", key_labels.join(" "), " \u2192 ", [...key_labels].reverse().join(" ")), room()),
  );
}

function solutionOf(problem) {
  const { view, result } = problem;
  const { scores, logits, rows, weights, context } = result;
  const { terms, total: sum } = exponentials(rows[0]);
  const all = [
    { name: ROWS.score, numbers: scores[0] },
    { name: ROWS.scaled, numbers: logits[0] },
    { name: ROWS.exp, numbers: terms, sum },
    weightRow(weights[0], logits[0]),
  ];
  const best = isBestOf(result);
  const numbers = context[0].map((_, index) =>
    el("p.math", worked(view.state, { row: 0, kind: "context", index }, result)),
  );
  const texts = TEXTS.sheet;
  return el(
    "div.sheet.solution",
    el("h2", texts.solution),
    task(1, view.state.key_labels[best], givenOf(problem, all)),
    task(2, vector(context[0]), numbers),
    task(3, texts.order.choices[0], el("p", texts.order.why)),
  );
}

const isBestOf = ({ weights: [line] }) => line.indexOf(largest(line));

// ---------------------------------------------------------------------------------------------------------- quiz

regard.view("quiz", (root, _, { section }) => {
  const body = el("div");
  root.append(body);
  const draw = (view) => put(body, view.state.done ? markedQuiz(view) : askedQuiz(view));
  const fresh = () => ({ set: 1, name: "", answers: QUIZ.map(() => ""), done: false });
  const fields = {
    ...{ set: setCode(), done: regard.CODES.flag(), answers: regard.CODES.texts() },
    name: { write: word, read: (text) => unword(text).slice(0, LONGEST_NOTE) },
  };
  classView(root, "quiz", section, fresh, fields, draw);
  rail.items.push([TEXTS.quiz.open, () => visit(root)]);
});

// The questions of a quiz, those of a problem below what they are computed from: each by asked(question, its number, problem).
function questions(set, asked) {
  const problems = [0, 1, 2].map((k) => regard.problem(set, k));
  return QUIZ.map((question, i) => {
    const first = question.problem !== null && question.problem !== QUIZ[i - 1]?.problem;
    return [first && givenOf(problems[question.problem]), asked(question, i, problems[question.problem])];
  });
}

function askedQuiz(view) {
  const texts = TEXTS.quiz;
  const { state } = view;
  const said = el("span", { role: "status" });
  const count = () => put(said, filled(texts.count, { n: state.answers.filter(Boolean).length, all: QUIZ.length }));
  const take = (i) => (answer) => {
    state.answers[i] = String(answer).slice(0, 20);
    count();
    regard.changed();
  };
  const name = el("input.task", { type: "text", maxlength: LONGEST_NOTE, value: state.name });
  on(name, "input", () => {
    state.name = name.value;
    regard.changed();
  });
  const hand = () => regard.copyLink({ [`${view.prefix}done`]: "true" });
  const asked = (own, i, problem) =>
    question(i + 1, questionText(own, problem), answerField(own, problem, state.answers[i], take(i)));
  count();
  return [
    el("p", texts.about),
    el("div.row", regard.field(texts.name, name), another(view, { answers: QUIZ.map(() => "") })),
    questions(state.set, asked),
    el("p.row", el("button.primary", { onclick: hand }, texts.hand), " ", said),
  ];
}

function questionText({ kind, ...own }, problem) {
  if (kind === ORDER) return TEXTS.sheet.order.ask;
  if (kind === "key") return filled(ASKED.asks.key, { noun: problem.view.names.key });
  return numberQuestion(problem.view, { kind, ...own });
}

// The answers to choose from, or null where a number is asked.
const choicesOf = ({ kind }, problem) =>
  kind === ORDER ? TEXTS.sheet.order.choices : kind === "key" ? problem.view.state.key_labels : null;

function answerField(own, problem, present, take) {
  const options = choicesOf(own, problem)?.map((label, j) => [j, bdi(label)]);
  if (options) return regard.choices(ASKED.guess, options, present === "" ? null : Number(present), take).element;
  const typed = { type: "text", inputmode: "decimal", autocomplete: "off", "aria-label": ASKED.answer, value: present };
  const input = el("input.answer", typed);
  on(input, "input", () => take(input.value));
  return input;
}

// {right, said}: whether an answer is right, what would be, and what was done otherwise.
regard.mark = (own, problem, text) => {
  const choices = choicesOf(own, problem);
  if (choices) {
    const best = own.kind === ORDER ? 0 : isBestOf(problem.result);
    return { right: text === String(best), answer: choices[text] ?? "", said: choices[best] };
  }
  const { view, result } = problem;
  const [x, real] = [parsed(text), answerOf(own, result)];
  const right = Math.abs(x - real) <= NEAR;
  const why = !right && Number.isFinite(x) && mistakeOf(view.state, own, result, x);
  return { right, answer: text, said: [why, why && " ", worked(view.state, own, result)] };
};

function markedQuiz(view) {
  const { set, name, answers } = view.state;
  let points = 0;
  const asked = (own, i, problem) => {
    const { right, answer, said } = regard.mark(own, problem, answers[i]);
    points += Number(right);
    return question(i + 1, questionText(own, problem), el("p", bdi(answer || "\u2013")), feedback(right, said));
  };
  const all = questions(set, asked);
  return [el("p.sentence", filled(TEXTS.quiz.marks, { name, n: points, all: QUIZ.length })), all];
}
