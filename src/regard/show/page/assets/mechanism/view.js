// One attention of which every number can be changed. All is drawn from view.state, a copy of the section's data with
// what a reader has changed: draw makes the parts, fill writes the numbers into them.

const HELP = "Drag a number sideways, press the arrow keys up and down on it, or type.";

regard.view("mechanism", (root, data, { section }) => {
  if (!document.getElementById("number-help")) root.append(regard.element("p", { id: "number-help", class: "hidden-text" }, HELP));
  const first = data.packed ? unpacked(data) : (data.examples?.[0] ?? data);
  const view = { root: regard.element("div"), data: first, first, state: fresh(first), examples: data.examples, section, prefix: section ? `${section}.` : "" };
  view.chooser = exampleChoice(view);
  root.append(...[view.chooser?.element, view.root].filter(Boolean));
  draw(view);
  regard.keep(section, {
    get: () => writtenState(view),
    parse: (fields) => parsedState(view, fields),
    show: (restored) => show(view, restored),
    passing: ["query", "key", "step"],
    lasting: ["exercise"],
  });
  regard.onTheme(() => view.matrices.forEach((part) => part.retint?.()));
});

// The steps of a trained decoder: the queries are its states times their weight, or are given with them.
function unpacked({ packed, ...data }) {
  const rows = ({ shape, data }) => Array.from({ length: shape[0] }, (_, i) => Array.from(data.subarray(i * shape[1], (i + 1) * shape[1])));
  const parts = Object.fromEntries(Object.entries(packed).map(([name, array]) => [name, rows(regard.array(array))]));
  const { states, query_weight: weight, keys, values } = parts;
  const kind = weight ? "projected" : parts.queries ? "given" : "plain";
  const queries = { projected: () => times(states, weight), given: () => parts.queries, plain: () => states }[kind]();
  return { ...data, keys, values, queries, trained: { states, kind, sizes: { state: states[0].length, query: keys[0].length, value: values[0].length } } };
}

function show(view, { data, state }) {
  Object.assign(view, { data, state });
  view.chooser?.set(view.examples.indexOf(data));
  draw(view);
}

// A change of a reader, after which all is drawn again.
function restart(view, data) {
  show(view, { data, state: fresh(data) });
  regard.changed();
}

function exampleChoice(view) {
  if (!view.examples) return null;
  const names = view.examples.map(({ name }, i) => [i, name]);
  return regard.choices("Example", names, 0, (i) => restart(view, view.examples[i]));
}

const from = (view) => (view.state.words && view.state.source !== "vectors" ? "words" : "vectors");

// Queries, keys and values as they are now: given, or words times matrices.
function inputs({ state }) {
  if (!state.words || state.source === "vectors") return { queries: state.queries, keys: state.keys, values: state.tied ? state.keys : state.values };
  const { embeddings, query_weight, key_weight, value_weight } = state.words;
  return { queries: times(embeddings, query_weight), keys: times(embeddings, key_weight), values: times(embeddings, value_weight) };
}

function computed(view) {
  const { state } = view;
  // Numbers that JSON does not have are strings there.
  if (state.given) return Object.fromEntries(Object.entries(state.given).map(([part, rows]) => [part, rows.map((row) => row.map(Number))]));
  const options = { ...state.options, ...inputs(view) };
  return state.decoder ? regard.decode({ ...options, decoder: state.decoder }) : regard.compute(options);
}

// Make all parts anew, and fill them. The element that had the focus gets it back.
function draw(view) {
  const { state, root } = view;
  const names = state.decoder ? NAMES.decoder : state.trained ? NAMES.trained : NAMES.general;
  const fixed = Boolean(state.given ?? state.trained); // its numbers are not changed one by one
  const update = () => {
    fill(view);
    regard.changed();
  };
  const redraw = () => {
    draw(view);
    regard.changed();
  };
  const pick = (row, key) => {
    state.row = row;
    state.key = key ?? null;
    update();
  };
  Object.assign(formed, { section: view.section, fields: 0 });
  view.names = names;
  view.inputs = fixed ? [] : inputCards(view, names, update);
  view.picker = picker(view, pick);
  view.picture = state.given ? null : picture();
  view.story = story(names, state.key_labels, (key) => {
    if (key !== state.key) pick(state.row, key);
  });
  view.matrices = matrices(view, names, pick);
  view.sentence = regard.element("p", { class: "sentence", "aria-live": "polite", dir: "auto" });
  view.walk = walk(view, update);
  view.exercise = fixed ? null : exercise(view, update, redraw);
  const start = regard.element("div", { class: "start" }, view.walk.start, view.exercise?.start ?? []);
  const account = [view.picker.element, view.sentence, start, view.exercise?.element, view.picture && pictureFigure(view), view.story.element, view.walk.element].filter(Boolean);
  const both = regard.element(
    "div",
    { class: fixed ? "view given" : "view" },
    fixed ? null : numbers(view, redraw),
    regard.element("div", { class: "account" }, state.given ? null : controlBar(view, update, redraw), account, state.given ? null : more()),
  );
  regard.renew(root, introduction(view, redraw), both, regard.element("div", { class: "matrices" }, view.matrices.map((part) => part.element)));
  fill(view);
}

// The picture of the steps, with the control that exports it, and the query, too.
function pictureFigure(view) {
  const titles = () => [view.data.name ?? document.title, view.names.query, view.state.query_labels[view.state.row]];
  const of = () => ({ svg: () => view.picture.element.querySelector("svg"), tex: () => accountLatex(view.state, view.result, view.state.row), titles: titles() });
  return regard.element("div", { class: "flow-figure" }, view.picture.element, regard.element("div", { class: "exports" }, regard.exports("this query", of)));
}

// What attention is, and what to try first.
function introduction({ state }, redraw) {
  if (state.trained) return trainedIntroduction(state, redraw);
  if (!state.words) return [];
  const origin = state.words.origin ?? "given";
  const parts = [regard.element("p", {}, regard.rich(TEXTS.what)), regard.element("p", { class: "soft" }, regard.rich(TEXTS.drawn, { origin }))];
  if (!state.about) return parts;
  const change = () => {
    const { order, set = [] } = state.first;
    if (order) reorder(state, order);
    set.forEach(([i, j, x]) => (state.words.embeddings[i][j] = x));
    redraw();
  };
  return [regard.element("div", { class: "intro" }, parts, regard.element("p", { class: "told" }, state.about), regard.element("div", { class: "told" }, regard.first(state.first.text, change)))];
}

function trainedIntroduction(state, redraw) {
  const { about, queries, first } = TEXTS.real;
  const next = () => {
    state.row = (state.row + 1) % state.query_labels.length;
    redraw();
  };
  const texts = [about[0], queries[state.trained.kind], about[1]].map((text) => regard.element("p", {}, regard.rich(text, state.trained.sizes)));
  return [regard.element("div", { class: "intro" }, texts, state.about ? regard.element("p", {}, state.about) : null, regard.first(first, next))];
}

function reorder(state, order) {
  state.words.embeddings = order.map((i) => state.words.embeddings[i]);
  state.query_labels = order.map((i) => state.query_labels[i]);
  state.key_labels = order.map((i) => state.key_labels[i]);
  state.row = order.indexOf(state.row);
}

function more() {
  const part = (title, text) => regard.element("details", {}, regard.element("summary", {}, title), regard.element("p", {}, regard.rich(text)));
  return regard.element("div", { class: "more" }, Object.entries(TEXTS.questions).map(([title, text]) => part(title, text)));
}

function numbers(view, redraw) {
  const help = [regard.element("p", { class: "soft help" }, HELP), ...view.inputs.map((card) => card.element)];
  return regard.element("div", { class: "inputs" }, sourceChoice(view, redraw), help);
}

function controlBar(view, update, redraw) {
  const { queries, keys } = inputs(view);
  const shape = { d: queries[0].length, n: queries.length, m: keys.length, decoder: view.state.decoder };
  const again = regard.element("button", { type: "button", class: "quiet", "data-part": "reset" }, "Reset");
  again.addEventListener("click", () => restart(view, view.data));
  return regard.element("div", { class: "controls" }, controls(view.state.options, shape, update, redraw), regard.element("div", { class: "field" }, again));
}

// Compute, and fill what is there. While the steps are walked through, nothing tells what a later one finds.
function fill(view) {
  const { state, names } = view;
  const result = computed(view);
  view.result = result;
  const { row, shown } = state;
  const known = (number) => shown >= number;
  const best = Math.max(0, result.weights[row].indexOf(largest(result.weights[row])));
  const key = state.key ?? (known(2) ? best : 0);
  const steps = state.given ? givenSteps(result, row, names) : stepsOf({ names, options: state.options, result, row, key, decoder: state.decoder, trained: state.trained });
  const walked = steps.findIndex(({ number }) => number === shown);
  steps.forEach((step, i) => (step.later = shown < Infinity && i !== walked && !(step.name === "next" && walked === i - 1)));
  view.walk.set(steps, walked);
  view.story.set(steps, key);
  view.picker.set(row);
  view.exercise?.set(result);
  const said = known(2) ? sentence(state.query_labels[row], state.key_labels, result.weights[row], result.logits?.[row]) : [`Which ${names.key} will get most of the attention of `, regard.label(state.query_labels[row]), "?"];
  view.sentence.replaceChildren(...said.flat(Infinity).filter((part) => part !== null));
  view.picture?.set({ ...flowNumbers(view, result, row, key), step: shown < Infinity ? shown : null });
  view.inputs.forEach((card) => card.set(result));
  view.matrices.forEach((part) => {
    part.element.hidden = !known(part.step);
    part.set(result, row, key);
  });
}

function flowNumbers({ state, names }, { queries, keys, values, scale, scores, logits, weights, context }, row, key) {
  const { options } = state;
  const scaled = scale === 1 ? "" : options.scale === null ? `\u00f7 \u221a${queries[0].length}` : `\u00d7 ${short(scale)}`;
  const before = [scaled, options.softcap === null ? "" : "softcap", options.mask.kind === "none" ? "" : "mask"].filter(Boolean).join(", ");
  return {
    names,
    query: state.query_labels[row],
    key: state.key_labels[key],
    q: queries[row],
    k: keys[key],
    v: values[key],
    c: context[row],
    sign: ["scaled_dot", "dot"].includes(options.score) ? "\u00b7" : "e",
    score: scores[row][key],
    how: [before, TEXTS.normalize[options.normalize].name].filter(Boolean),
    weight: logits[row][key] === -Infinity ? null : weights[row][key],
  };
}

// ----------------------------------------------------------------------------------------------------- the parts

function sourceChoice(view, redraw) {
  if (!view.state.words) return null;
  const options = [["words", "Words"], ["vectors", "Vectors"]];
  return regard.choices("Start from", options, from(view), (source) => {
    if (source === "vectors") Object.assign(view.state, inputs(view)); // they start as those computed from the words
    view.state.source = source;
    redraw();
    view.root.querySelector('.inputs [aria-checked="true"]').focus();
  }).element;
}

function inputCards(view, names, update) {
  const { state } = view;
  const setter = (rows) => (i, j, x) => {
    rows[i][j] = x;
    update();
  };
  const card = (title, note, values, rowLabels, columnLabels) => editable({ title, note: note && regard.formula(note), values, rowLabels, columnLabels, change: setter(values), titles: titlesOf(view, title) });
  const parts = state.decoder ? decoderCards(state, card) : from(view) === "words" ? wordCards(state, card, (part) => titlesOf(view, part)) : vectorCards(state, card);
  return [...parts, ...scoreCards(state.options, card, names)];
}

const titlesOf = ({ data }, title) => [data.name ?? document.title, title];

function wordCards({ words, query_labels }, card, titles) {
  const weightCard = (title, letter, weight, part) => {
    const own = card(title, `W_${letter}`, weight, words.features);
    const product = results({ title: `= ${part}`, rowLabels: query_labels, titles: titles(part) });
    const element = regard.element("div", { class: "pair" }, own.element, product.element);
    return { element, set: (result) => product.set(result[part]) };
  };
  return [
    card("Words", "", words.embeddings, query_labels, words.features),
    weightCard("Query weights", "Q", words.query_weight, "queries"),
    weightCard("Key weights", "K", words.key_weight, "keys"),
    weightCard("Value weights", "V", words.value_weight, "values"),
  ];
}

function vectorCards({ queries, keys, values, query_labels, key_labels }, card) {
  return [card("Queries", "Q", queries, query_labels), card("Keys", "K", keys, key_labels), card("Values", "V", values, key_labels)];
}

function decoderCards({ queries, keys, key_labels, decoder }, card) {
  return [
    card("Annotations", "h_j", keys, key_labels),
    card("First state", "s_0", queries.slice(0, 1)),
    card("State to state", "A", decoder.state_weight),
    card("Context to state", "C", decoder.context_weight),
  ];
}

// The learned arrays of the score; the row of a vector is the vector itself.
function scoreCards(options, card, names) {
  const arrays = Object.entries(TEXTS.scores[options.score].arrays ?? {}).filter(([name]) => options[name]);
  return arrays.map(([name, { title, letter }]) => card(filled(title, names), letter, Array.isArray(options[name][0]) ? options[name] : [options[name]]));
}

function picker(view, pick) {
  const { state } = view;
  const decoder = Boolean(state.decoder ?? state.trained);
  const options = state.query_labels.map((label, i) => [i, regard.label(label)]);
  const choice = regard.choices(decoder ? "Word" : "Query", options, state.row, (i) => pick(i));
  const next = regard.element("button", { type: "button", "data-part": "next" }, "Next word \u2192");
  next.addEventListener("click", () => pick((state.row + 1) % state.query_labels.length));
  const title = regard.element("span", { class: "soft", "aria-hidden": "true" }, decoder ? "Word" : "Query");
  return { element: regard.element("div", { class: "picker" }, title, choice.element, decoder ? next : null), set: choice.set };
}

// The walk through the steps, of which one is shown at a time: `start` begins it, `element` goes on below the step.
function walk(view, update) {
  const { state } = view;
  let [first, last] = [1, 3];
  const go = (shown) => () => {
    state.shown = shown();
    update();
    (state.shown < Infinity ? on : start).focus({ preventScroll: true });
    if (state.shown < Infinity) show();
  };
  const button = (text, kind, shown) => regard.element("button", { type: "button", class: kind, onclick: go(shown) }, text);
  const start = button("Step by step", "primary", () => first);
  const back = button("\u2190 Back", null, () => Math.max(first, state.shown - 1));
  const on = button("", "primary", () => (state.shown >= last ? first : state.shown + 1));
  const all = button("Show all steps", "quiet", () => Infinity);
  const status = regard.element("span", { class: "soft", role: "status" });
  const element = regard.element("div", { class: "stepper" }, back, on, all, status);
  let walked = -1;
  const show = () => {
    view.picture?.element.scrollIntoView({ block: "nearest" });
    element.scrollIntoView({ block: "nearest" });
    view.story.show(walked);
  };
  const set = (steps, present) => {
    walked = present;
    first = steps[0].number;
    last = Math.max(...steps.map(({ number }) => number ?? 0));
    const walking = state.shown < Infinity;
    start.hidden = walking;
    element.hidden = !walking;
    on.textContent = state.shown < last ? "Next \u2192" : "Again";
    back.disabled = state.shown <= first;
    status.textContent = walking ? `step ${state.shown} of ${last}: ${steps[walked].title.toLowerCase()}` : "";
  };
  return { start, element, set };
}

function matrices(view, names, pick) {
  const { query_labels: rowLabels, key_labels: columnLabels } = view.state;
  const table = (title, note, columns) => results({ title, note, rowLabels, columnLabels: columns, pick: (i) => pick(i), titles: titlesOf(view, title.toLowerCase()) });
  const scores = table("Scores", "of all queries", columnLabels);
  const weights = heat({ title: "Weights", note: "of all queries", rowLabels, columnLabels, pick, names, titles: titlesOf(view, "weights") });
  const cut = view.state.trained ? shortened : (line) => line;
  const note = view.state.trained ? `, of each the first ${SHORTENED} of ${view.state.trained.sizes.value} numbers` : "";
  const context = results({ title: "Context", note: `weights \u00d7 values${note}`, rowLabels, pick: (i) => pick(i), titles: titlesOf(view, "context"), all: () => view.result.context });
  const shown = view.state.given ?? { scores: true, weights: true, context: true };
  return [
    shown.scores && { step: 1, element: scores.element, set: (result, row) => scores.set(result.scores, row) },
    { step: 2, element: weights.element, retint: weights.retint, set: (result, row, key) => weights.set(result.weights.map((line, i) => seen(line, result.logits?.[i])), row, key) },
    shown.context && { step: 3, element: context.element, set: (result, row) => context.set(result.context.map(cut), row) },
  ].filter(Boolean);
}
