// Learning in sight: gradient descent on W_Q and W_K. Each sentence says what the context of one of its words should be,
// and nobody says where to look. Its state is how often it was trained from which start: the numbers follow from that.

const { rate: RATE, spread: SPREAD, steps: MOST_TRAINED, start: FIRST_START } = RULES.descent;
const MOST_STARTS = 1000;

// One sentence: the loss, half the squared distance of its context from the target, and the gradients of both matrices.
regard.learn = ({ words, row, target }, { query_weight, key_weight, value_weight }, scale) => {
  const [queries, keys, values] = [
    times([words[row]], query_weight),
    times(words, key_weight),
    times(words, value_weight),
  ];
  const { weights, context } = regard.compute({ queries, keys, values, scale });
  const dcontext = context[0].map((x, i) => x - target[i]);
  const dweights = values.map((value) => dot(value, dcontext));
  const mean = dot(weights[0], dweights);
  const dscores = weights[0].map((w, j) => w * (dweights[j] - mean) * scale);
  const [dquery] = times([dscores], keys);
  const dkeys = outer(dscores, queries[0]);
  return {
    weights: weights[0],
    loss: dot(dcontext, dcontext) / 2,
    query_weight: outer(words[row], dquery),
    key_weight: times(columns(words), dkeys),
  };
};

const outer = (x, y) => x.map((a) => y.map((b) => a * b));

// What is known at each step, up to that of a state: the matrices, what each sentence says, and the mean loss.
regard.trained = (data, state, stages = []) => {
  while (stages.length <= state.step) stages.push(stageAfter(stages.at(-1), data, state));
  return stages;
};

function stageAfter(before, { sentences, value_weight }, { start, size, scale }) {
  const factor = scale === "root" ? 1 / Math.sqrt(size) : 1;
  const matrices = before ? descended(before) : drawnMatrices(value_weight.length, Number(size), normal(start));
  const parts = { ...matrices, value_weight };
  const learned = sentences.map((sentence) => regard.learn(sentence, parts, factor));
  return { ...parts, learned, loss: total(learned.map(({ loss }) => loss)) / learned.length };
}

// Each number moves against its slope: the mean gradient of the sentences.
function descended({ learned, ...before }) {
  const moved = (name) => {
    const slope = (i, j) => total(learned.map((sentence) => sentence[name][i][j])) / learned.length;
    return before[name].map((row, i) => row.map((x, j) => x - RATE * slope(i, j)));
  };
  return { query_weight: moved("query_weight"), key_weight: moved("key_weight") };
}

function drawnMatrices(rows, size, next) {
  const drawn = () => Array.from({ length: rows }, () => Array.from({ length: size }, next));
  return { query_weight: drawn(), key_weight: drawn() };
}

// Normal numbers (Box and Muller).
function normal(seed) {
  const uniform = randomNumbers(seed);
  return () => SPREAD * Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

const untrained = () => ({ start: FIRST_START, size: "2", scale: "root", step: 0 });

regard.view("learning", (root, data, { section }) => {
  const texts = TEXTS.learning;
  const { integer, choice } = regard.CODES;
  const [size, scale] = [texts.sizes, texts.scales].map((known) => choice(Object.keys(known)));
  const fields = { start: integer(MOST_STARTS), size, scale, step: integer(MOST_TRAINED + 1) };
  const view = regard.kept(section, untrained, fields, () => fill());
  view.data = data;
  const shares = sharesPicture(data, texts);
  const curve = lossPicture(view, texts);
  const heading = el("p.sentence", { "aria-live": "polite" });
  const matrices = el("div.pair");
  const fill = () => {
    const stage = fillStages(view);
    const weights = stage.learned.map((sentence) => sentence.weights);
    const [first, second] = data.sentences.map(({ right }, k) => regard.percent(weights[k][right]));
    const now = { step: view.state.step, first, second, loss: regard.weight(stage.loss, 2) };
    view.choices.forEach(([name, part]) => part.set(view.state[name]));
    put(heading, filled(texts.status, now));
    shares.set(weights);
    curve.set(now);
    put(matrices, learnedMatrices(data, stage, texts));
  };
  const act = training(view);
  const bar = trainingBar(view, act, texts);
  const pictures = el("div.pictures", shares.element, curve.element);
  root.classList.add("mechanism");
  root.append(bar, heading, pictures, regard.drawer(texts.matrices, matrices));
  fill();
  return { look: act.look };
});

// Train as far as the state says, and return what is known there; `shown` has all steps to it.
function fillStages(view) {
  const { start, size, scale, step } = view.state;
  const settings = [start, size, scale].join();
  if (settings !== view.settings) Object.assign(view, { settings, stages: [] });
  view.shown = regard.trained(view.data, view.state, view.stages).slice(0, step + 1);
  return view.shown.at(-1);
}

// What a reader can do: train by a step or to the end, and begin anew with something changed.
function training(view) {
  let timer = null;
  const { change } = view;
  const anew = (part) => {
    clearInterval(timer);
    change({ step: 0, ...part });
  };
  const one = () => change({ step: Math.min(MOST_TRAINED, view.state.step + 1) });
  const run = () => {
    clearInterval(timer);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return change({ step: MOST_TRAINED });
    timer = setInterval(() => (view.state.step < MOST_TRAINED ? one() : clearInterval(timer)), 60);
  };
  const look = () => {
    anew({ size: "64", scale: "none" });
    run();
  };
  const start = () => anew({ start: (view.state.start % (MOST_STARTS - 1)) + 1 });
  return { anew, one, run, start, look };
}

function trainingBar(view, { anew, one, run, start }, texts) {
  const choose = (name) => (x) => anew({ [name]: x });
  const of = (name, known) => [name, regard.namedChoices(texts[name], known, view.state[name], choose(name))];
  view.choices = [of("size", texts.sizes), of("scale", texts.scales)];
  const fields = view.choices.map(([, part]) => part.element);
  const buttons = el(
    "div.row",
    el("button.primary", { onclick: one }, texts.one),
    el("button", { onclick: run }, texts.run),
    el("button", { onclick: start }, texts.start),
    regard.reset(() => anew(untrained())),
  );
  return el("div.controls", buttons, fields);
}

// What one word of each sentence gives to all of them.
function sharesPicture({ sentences }, texts) {
  const element = el("div");
  let groups = [];
  const set = (weights) => {
    groups = sentences.map(({ labels, row, right }, k) => [
      filled(texts.asks, { word: labels[row], sentence: labels.join(" ") }),
      labels.map((label, j) => ({ label, share: weights[k][j], kind: j === right ? "chosen" : "" })),
    ]);
    const drawn = groups.map(([asked, rows]) => [el("p", asked), el("div.shares", shareRows(rows))]);
    put(element, drawn);
  };
  const names = sentences.map(({ labels }) => labels.join(" "));
  const of = () => ({ svg: () => regard.barsPicture(texts.shares, groups), titles: [texts.shares, ...names] });
  return { element: regard.figure(texts.shares, element, of), set };
}

// The loss at each step, down to the present one.
function lossPicture(view, texts) {
  const svg = plotElement();
  const numbers = () => view.shown.map(({ loss }) => [loss]);
  const table = () => ({ rows: [], columns: [texts.loss], numbers: numbers() });
  const set = (now) => {
    const losses = numbers().flat();
    const up = Math.ceil(10 * Math.max(...losses)) / 10;
    const levels = { up, levels: [0, up / 2, up] };
    const { x, y, curve, drawn } = axes({
      across: MOST_TRAINED,
      ticks: [0, 10, 20, 30, 40],
      name: texts.axis,
      ...levels,
    });
    const present = el("svg:circle", { cx: x(losses.length - 1), cy: y(losses.at(-1)), r: 4, class: "present" });
    put(svg, drawn, curve([...losses.entries()], "attention"), present);
    svg.setAttribute("aria-label", filled(texts.curveNow, now));
  };
  return { element: regard.figure(texts.curve, svg, () => ({ svg: () => svg, table })), set };
}

// The learned matrices, whose columns have no names, and below them those that were made by hand.
function learnedMatrices({ features, values, made }, stage, texts) {
  const table = (letter, title, rows, columnLabels) => {
    const shown = results({ title, note: regard.formula(letter), rowLabels: features, columnLabels, digits: 2 });
    shown.set(rows);
    return shown.element;
  };
  const numbered = stage.query_weight[0].map((_, j) => String(j + 1));
  return [
    el("p.soft", texts.unnamed),
    table("W_Q", texts.query, stage.query_weight, numbered),
    table("W_K", texts.key, stage.key_weight, numbered),
    table("W_V", texts.value, stage.value_weight, values),
    el("p.soft", texts.named),
    table("W_Q", texts.query, made.query_weight, values),
    table("W_K", texts.key, made.key_weight, values),
  ];
}
