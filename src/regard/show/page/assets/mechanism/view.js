// One attention of which every number can be changed. The state is the section's data; reset takes a fresh copy of it.

const HELP = "Drag a number sideways, press the arrow keys up and down on it, or type.";

regard.view("mechanism", (root, data, { section }) => {
  if (!document.getElementById("number-help")) root.append(regard.element("p", { id: "number-help", class: "hidden-text" }, HELP));
  const view = { root: regard.element("div", { class: "view" }), data, section };
  root.append(view.root);
  reset(view);
  regard.onTheme(() => view.matrices.forEach((part) => part.retint?.()));
});

function reset(view) {
  view.state = structuredClone(view.data);
  view.state.key = null;
  view.state.shown = Infinity;
  draw(view);
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
  const focused = root.contains(document.activeElement) ? document.activeElement.id || document.activeElement.dataset.part : null;
  const names = state.decoder ? NAMES.decoder : NAMES.general;
  const update = () => fill(view);
  const redraw = () => draw(view);
  const pick = (row, key) => {
    state.row = row;
    state.key = key ?? null;
    update();
  };
  Object.assign(formed, { section: view.section, fields: 0 });
  view.names = names;
  view.inputs = state.given ? [] : inputCards(view, names, update);
  view.picker = picker(view, pick);
  view.story = story(names, state.key_labels, (key) => {
    if (key !== state.key) pick(state.row, key);
  });
  view.matrices = matrices(view, names, pick);
  view.sentence = regard.element("p", { class: "sentence", "aria-live": "polite", dir: "auto" });
  view.stepper = stepper(view, update);
  const account = [view.picker.element, view.sentence, view.stepper.element, view.story.element];
  root.classList.toggle("given", Boolean(state.given));
  root.replaceChildren(
    ...(state.given ? [] : [numbers(view, redraw)]),
    regard.element("div", { class: "account" }, state.given ? null : controlBar(view, update, redraw), account),
    regard.element("div", { class: "matrices" }, view.matrices.map((part) => part.element)),
  );
  fill(view);
  if (focused) (document.getElementById(focused) ?? root.querySelector(`[data-part="${focused}"]`))?.focus();
}

function numbers(view, redraw) {
  const help = regard.element("p", { class: "soft help" }, HELP);
  return regard.element("div", { class: "inputs", role: "group", "aria-label": "Numbers" }, sourceChoice(view, redraw), help, view.inputs.map((card) => card.element));
}

function controlBar(view, update, redraw) {
  const { queries, keys } = inputs(view);
  const shape = { d: queries[0].length, n: queries.length, m: keys.length, decoder: view.state.decoder };
  const again = regard.element("button", { type: "button", "data-part": "reset", onclick: () => reset(view) }, "Reset");
  return regard.element("div", { class: "controls" }, controls(view.state.options, shape, update, redraw), regard.element("div", { class: "field" }, again));
}

// Compute, and fill what is there.
function fill(view) {
  const { state, names } = view;
  const result = computed(view);
  view.result = result;
  const { row } = state;
  const key = state.key ?? Math.max(0, result.weights[row].indexOf(largest(result.weights[row])));
  const steps = state.given ? givenSteps(result, row) : stepsOf({ names, options: state.options, result, row, key, decoder: state.decoder });
  steps.forEach((step, i) => (step.hidden = i >= state.shown));
  view.stepper.set(steps);
  view.story.set(steps, key);
  view.picker.set(row);
  view.sentence.replaceChildren(...[sentence(state.query_labels[row], state.key_labels, result.weights[row], result.logits?.[row])].flat(Infinity));
  view.inputs.forEach((card) => card.set(result));
  view.matrices.forEach((part) => part.set(result, row, key));
}

// ----------------------------------------------------------------------------------------------------- the parts

function sourceChoice(view, redraw) {
  if (!view.state.words) return null;
  return choices("Start from", ["Words", "Vectors"], from(view) === "words" ? 0 : 1, (i) => {
    if (i === 1) Object.assign(view.state, inputs(view)); // the vectors start as those computed from the words
    view.state.source = i === 1 ? "vectors" : "words";
    redraw();
    view.root.querySelector('[role="radio"][aria-checked="true"]').focus();
  }).element;
}

function inputCards(view, names, update) {
  const { state } = view;
  const setter = (rows) => (i, j, x) => {
    rows[i][j] = x;
    update();
  };
  const card = (title, note, values, rowLabels) => editable({ title, note: regard.formula(note), name: title, values, rowLabels, change: setter(values) });
  const parts = state.decoder ? decoderCards(state, card) : from(view) === "words" ? wordCards(state, card) : vectorCards(state, card);
  return [...parts, ...perceptronCards(state.options, card, names)];
}

function wordCards({ words, query_labels }, card) {
  const weightCard = (title, letter, weight, part) => {
    const matrix = `W_${letter}`;
    const own = card(title, matrix, weight);
    const product = results({ title: `= ${part}`, rowLabels: query_labels });
    const element = regard.element("div", { class: "pair" }, own.element, product.element);
    return { element, set: (result) => product.set(result[part]) };
  };
  return [
    still(card("Words", "", words.embeddings, query_labels)),
    weightCard("Query weights", "Q", words.query_weight, "queries"),
    weightCard("Key weights", "K", words.key_weight, "keys"),
    weightCard("Value weights", "V", words.value_weight, "values"),
  ];
}

const still = (part) => ({ ...part, set: () => {} });

function vectorCards({ queries, keys, values, query_labels, key_labels }, card) {
  return [card("Queries", "Q", queries, query_labels), card("Keys", "K", keys, key_labels), card("Values", "V", values, key_labels)].map(still);
}

function decoderCards({ queries, keys, key_labels, decoder }, card) {
  return [
    card("Annotations", "h_j", keys, key_labels),
    card("First state", "s_0", queries.slice(0, 1)),
    card("State to state", "A", decoder.state_weight),
    card("Context to state", "C", decoder.context_weight),
  ].map(still);
}

function perceptronCards(options, card, names) {
  if (options.score !== "additive") {
    return options.score === "general" || options.score === "location" ? [still(card("Weight of the score", "W", options.weight))] : [];
  }
  const line = (title, note, name) => still(card(title, note, [options[name]])); // the row is the vector itself
  return [
    options.query_weight ? still(card(`From the ${names.query}`, "W", options.query_weight)) : null,
    options.key_weight ? still(card(`From the ${names.key}`, "U", options.key_weight)) : null,
    options.bias ? line("Bias", "b", "bias") : null,
    line("Output", "v", "vector"),
  ].filter(Boolean);
}

function picker(view, pick) {
  const { state } = view;
  const decoder = Boolean(state.decoder);
  const choice = choices(decoder ? "Step" : "Query", state.query_labels.map((label) => regard.label(label)), state.row, (i) => pick(i));
  const next = regard.element("button", { type: "button", "data-part": "next" }, "Next step \u2192");
  next.addEventListener("click", () => pick((state.row + 1) % state.query_labels.length));
  const title = regard.element("span", { class: "soft", "aria-hidden": "true" }, decoder ? "Step" : "Query");
  return { element: regard.element("div", { class: "picker" }, title, choice.element, decoder ? next : null), set: choice.set };
}

function stepper(view, update) {
  const { state } = view;
  const go = (shown) => () => {
    state.shown = shown();
    update();
  };
  const button = (text, shown) => regard.element("button", { type: "button", class: "quiet", onclick: go(shown) }, text);
  let count = 0;
  const back = button("\u2190 Back", () => Math.max(1, Math.min(state.shown, count) - 1));
  const on = button("Step by step", () => (state.shown >= count ? 1 : state.shown + 1));
  const all = button("Show all steps", () => Infinity);
  const status = regard.element("span", { class: "soft", role: "status" });
  const set = (steps) => {
    count = steps.length;
    const walking = state.shown < Infinity;
    const shown = Math.min(state.shown, count);
    on.textContent = walking && shown < count ? "Next \u2192" : walking ? "Again" : "Step by step";
    back.hidden = !walking;
    back.disabled = shown <= 1;
    all.hidden = !walking;
    status.textContent = walking ? `step ${shown} of ${count}: ${steps[shown - 1].title.toLowerCase()}` : "";
  };
  return { element: regard.element("div", { class: "stepper" }, back, on, all, status), set };
}

function matrices(view, names, pick) {
  const { query_labels: rowLabels, key_labels: columnLabels } = view.state;
  const table = (title, note, columns) => results({ title, note, rowLabels, columnLabels: columns, pick: (i) => pick(i) });
  const scores = table("Scores", "of all queries", columnLabels);
  const weights = heat({ title: "Weights", note: "of all queries", rowLabels, columnLabels, pick });
  const context = table("Context", "weights \u00d7 values", []);
  const shown = view.state.given ?? { scores: true, weights: true, context: true };
  return [
    shown.scores && { element: scores.element, set: (result, row) => scores.set(result.scores, row) },
    { element: weights.element, retint: weights.retint, set: (result, row, key) => weights.set(result.weights, row, key) },
    shown.context && { element: context.element, set: (result, row) => context.set(result.context, row) },
  ].filter(Boolean);
}
