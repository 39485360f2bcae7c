// One attention of which every number can be changed. All is drawn from view.state, a copy of the section's data with
// what a reader has changed: draw makes the parts, fill writes the numbers into them.

regard.view("mechanism", (root, data, { section, inside = false }) => {
  if (!document.getElementById("number-help"))
    root.append(el("p.hidden-text", { id: "number-help" }, TEXTS.mechanism.help));
  const first = data.packed ? unpacked(data) : (data.examples?.[0] ?? data);
  const prefix = section ? `${section}.` : "";
  const { examples } = data;
  const view = {
    root: el("div"),
    data: first,
    first,
    state: fresh(first),
    examples,
    section,
    prefix,
    inside,
    open: {},
  };
  view.chooser = exampleChoice(view);
  if (view.chooser) root.append(view.chooser.element);
  root.append(view.root);
  draw(view);
  regard.keep(section, {
    get: () => writtenState(view),
    parse: (fields) => parsedState(view, fields),
    show: (restored) => show(view, restored),
    passing: ["query", "key", "step"],
    lasting: ["exercise"],
  });
  regard.onTheme(() => view.matrices.forEach((part) => part.retint?.()));
  const step = (shown) => {
    view.state.shown = shown;
    fill(view);
  };
  return { look: () => view.state.first && tryFirst(view), step };
});

// The steps of a trained decoder: the queries are its states times their weight, or are given with them.
function unpacked({ packed, ...data }) {
  const parts = Object.fromEntries(Object.entries(packed).map(([name, array]) => [name, regard.rows(array)]));
  const { states, query_weight: weight, key_weight: ofKeys, value_weight: ofValues, keys, values } = parts;
  const kind = ofKeys ? "head" : weight ? "projected" : parts.queries ? "given" : "plain";
  const queries = weight ? times(states, weight) : (parts.queries ?? states);
  const made = ofKeys && { query_weight: weight, key_weight: ofKeys, value_weight: ofValues };
  const sizes = { state: states[0].length, query: keys[0].length, value: values[0].length };
  return { ...data, keys, values, queries, trained: { states, kind, sizes, made } };
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
  return regard.choices(TEXTS.sentence.example, names, 0, (i) => restart(view, view.examples[i]));
}

const fromWords = ({ state }) => Boolean(state.words) && state.source !== "vectors";

// Queries, keys and values as they are now: given, or words times matrices.
function inputs(view) {
  const { queries, keys, values, tied, words } = view.state;
  if (!fromWords(view)) return { queries, keys, values: tied ? keys : values };
  const of = (name) => times(words.embeddings, words[`${name}_weight`]);
  return { queries: of("query"), keys: of("key"), values: of("value") };
}

// Numbers that JSON does not have are strings there.
const numbersOf = (arrays) =>
  Object.fromEntries(Object.entries(arrays).map(([part, rows]) => [part, rows.map((row) => row.map(Number))]));

function computed(view) {
  const { given, options, decoder } = view.state;
  if (given) return numbersOf(given);
  const all = {
    ...options,
    ...inputs(view),
    bent: view.state.scores && { row: view.state.row, scores: view.state.scores },
  };
  return decoder ? regard.decode({ ...all, decoder }) : regard.compute(all);
}

// Make all parts anew, and fill them. The element that had the focus gets it back.
function draw(view) {
  const { state, root } = view;
  const names = state.decoder ? NAMES.decoder : ofRecurrent(state) ? NAMES.trained : NAMES.general;
  const fixed = Boolean(state.given ?? state.trained); // its numbers are not changed one by one
  const update = () => {
    state.scores = null;
    fill(view);
    regard.changed();
  };
  const redraw = () => {
    state.scores = null;
    draw(view);
    regard.changed();
  };
  const pick = (row, key) => {
    if (row !== state.row) state.scores = null;
    state.row = row;
    state.key = key ?? null;
    fill(view);
    regard.changed();
  };
  const pickKey = (key) => key !== state.key && pick(state.row, key);
  const score = (key, x) => {
    state.scores = view.result.scores[state.row].map((old, j) => (j === key ? x : old));
    fill(view);
    regard.changed();
  };
  Object.assign(formed, { section: view.section, fields: 0 });
  view.names = names;
  view.inputs = [];
  view.makeInputs = () => inputCards(view, names, update);
  view.picker = picker(view, pick);
  view.lanes = lanes(pickKey, fixed || state.decoder ? null : score);
  view.story = story(view, names, pickKey, () => fill(view));
  view.matrices = matrices(view, names, pick);
  view.sentence = el("p.sentence", { "aria-live": "polite", dir: "auto" });
  view.walk = walk(view, update);
  view.exercise = fixed || isLarge(state) ? null : exercise(view, update, redraw);
  const parts = {
    steps: [view.story.element, view.walk.element],
    inputs: !fixed && inputsLater(view, redraw),
    options: !state.given && controlBar(view, update, redraw),
    matrices: el(
      "div.matrices",
      view.matrices.map((part) => part.element),
    ),
  };
  const start = el("div.row.start", view.walk.start, view.exercise?.start);
  const shown = [view.picker.element, view.sentence, lanesFigure(view), start, view.exercise?.element];
  if (view.open.inputs) view.openInputs?.(); // so that the focus finds its number again
  regard.renew(root, introduction(view, redraw), shown, Object.entries(parts).map(drawerOfPart(view)));
  fill(view);
}

const MOST_BUTTONS = 12; // to pick a query by
const MOST_OPEN = 100; // whose numbers are open
const MOST_CELLS = 1024; // weights that are numbers of their own; more are a picture

const pairsOf = ({ query_labels, key_labels }) => query_labels.length * key_labels.length;
const isLarge = (state) => pairsOf(state) > MOST_CELLS;

// The parts that are closed in a chapter; alone, only the numbers of many words are.
const drawerOfPart =
  (view) =>
  ([name, content]) => {
    if (!content) return null;
    const many = pairsOf(view.state) > MOST_OPEN && ["matrices", "inputs"].includes(name);
    view.open[name] ??= !view.inside && !many;
    const drawer = regard.drawer(TEXTS.drawers[name], [content], view.open[name]);
    drawer.dataset.part = name;
    on(drawer, "toggle", () => {
      view.open[name] = drawer.open;
      if (drawer.open) fill(view);
    });
    return drawer;
  };

// The picture of one query with the control that exports it, and the query, too.
function lanesFigure(view) {
  const exported = regard.exportBar(TEXTS.mechanism.this, () => ({
    svg: () => view.lanes.svg,
    tex: () => accountLatex(view.state, view.result, view.state.row),
    titles: [view.data.name ?? document.title, view.names.query, view.state.query_labels[view.state.row]],
  }));
  const ends = view.state.key_labels.includes("</s>") && el("p.soft", TEXTS.lanes.end);
  return el("div.lanes-figure", view.lanes.element, ends, !view.state.given && exported);
}

// What attention is, where a page has no chapter that says it; what to try first.
function introduction(view, redraw) {
  const { state, inside } = view;
  if (state.trained) return trainedIntroduction(view, redraw);
  if (!state.words) return state.about ? el("p.told", regard.rich(state.about)) : [];
  const origin = state.words.origin ?? "given";
  const parts = inside ? [] : [el("p", regard.rich(TEXTS.what)), el("p.soft", regard.rich(TEXTS.drawn, { origin }))];
  const first = () => tryFirst(view);
  const told = state.about && [el("p.told", state.about), el("div.told", regard.first(state.first.text, first))];
  return told || parts.length ? el("div.intro", parts, told) : [];
}

// The change that an example asks for. The lanes move, and the headline says what has become of them.
function tryFirst(view) {
  const { state } = view;
  const { order, set = [], names = {} } = state.first;
  if (order) reorder(state, order);
  for (const [i, j, x] of set) state.words.embeddings[i][j] = x;
  for (const [i, name] of Object.entries(names)) state.query_labels[i] = state.key_labels[i] = name;
  Object.assign(state, { scores: null, key: null, tried: true });
  const before = view.lanes;
  draw(view);
  view.lanes.from(before);
  regard.changed();
}

function trainedIntroduction({ state }, redraw) {
  const { about, queries, first } = TEXTS.real;
  const next = () => {
    state.row = (state.row + 1) % state.query_labels.length;
    redraw();
  };
  const texts = [about[0], queries[state.trained.kind], ...(ofRecurrent(state) ? [about[1]] : [])];
  return regard.intro(texts, state.trained.sizes, state.about, ofRecurrent(state) && first, next);
}

function reorder(state, order) {
  const moved = (list) => order.map((i) => list[i]);
  state.words.embeddings = moved(state.words.embeddings);
  state.query_labels = moved(state.query_labels);
  state.key_labels = moved(state.key_labels);
  state.row = order.indexOf(state.row);
}

// The numbers that can be changed, which are made when their drawer is opened for the first time.
function inputsLater(view, redraw) {
  const box = el("div.inputs");
  view.openInputs = () => {
    if (box.firstChild) return;
    view.inputs = view.makeInputs();
    const help = el("p.soft.help", TEXTS.mechanism.help);
    put(
      box,
      sourceChoice(view, redraw),
      help,
      view.inputs.map((card) => card.element),
    );
  };
  return box;
}

function controlBar(view, update, redraw) {
  const { queries, keys } = inputs(view);
  const shape = { d: queries[0].length, n: queries.length, m: keys.length, decoder: view.state.decoder };
  const again = el(
    "div.field",
    regard.reset(() => restart(view, view.data)),
  );
  return el("div.controls", controls(view.state.options, shape, update, redraw), again);
}

// Compute, and fill what is there. While the steps are walked through, nothing tells what a later one finds.
function fill(view) {
  const { state, open } = view;
  const result = computed(view);
  view.result = result;
  const { row, shown } = state;
  const known = (number) => shown >= number;
  const weights = result.weights[row];
  const best = Math.max(0, weights.indexOf(largest(weights)));
  const key = state.key ?? (known(2) ? best : 0);
  const columns = shownKeys(weights, key, view.all);
  const steps = stepsNow(view, result, key, columns);
  const walked = steps.findIndex(({ number }) => number === shown);
  view.walk.set(steps, walked);
  view.picker.set(row);
  view.exercise?.set(result);
  put(view.sentence, headline(view, result, known));
  view.lanes.set(laneNumbers(view, result, key, shownKeys(weights, key, false), known));
  if (open.steps || shown < Infinity) view.story.set(steps, key, columns);
  if (open.inputs) view.openInputs?.();
  if (open.inputs) view.inputs.forEach((card) => card.set(result));
  view.matrices.forEach((part) => {
    part.element.hidden = !known(part.step);
    if (open.matrices) part.set(result, row, key);
  });
}

function stepsNow({ state, names }, result, key, { shown: keys }) {
  const { row, shown, options, decoder, trained, given } = state;
  const steps = given
    ? givenSteps(result, row, names)
    : stepsOf({ names, options, result, row, key, keys, decoder, trained });
  const walked = steps.findIndex(({ number }) => number === shown);
  steps.forEach((step, i) => {
    step.later = shown < Infinity && i !== walked && !(step.name === "next" && walked === i - 1);
  });
  return steps;
}

// What the weights say, and, for an example whose values have a meaning, what the context says.
function headline({ state, names }, { weights, logits, context }, known) {
  const { row } = state;
  const query = state.query_labels[row];
  if (!known(2)) return regard.filledWith(TEXTS.sentence.which, { key: names.key, query: bdi(query) });
  const said = sentence(query, state.key_labels, weights[row], logits?.[row], wordingOf(weights));
  const meant = state.means && known(3) && [SEMICOLON, meaning(state, query, context[row])];
  return [said, meant, state.tried && state.first.after && [". ", state.first.after]];
}

function meaning({ means, open, topics }, query, context) {
  const order = context.map((_, i) => i).sort((a, b) => context[b] - context[a]);
  const clear = context[order[0]] - (context[order[1]] ?? 0) > 0.25 * Math.abs(context[order[0]]);
  return regard.filledWith(clear ? means : open, { query: bdi(query), topic: topics[order[0]] });
}

function laneNumbers({ state, names }, result, key, columns, known) {
  const { row, options, query_labels, key_labels, topics } = state;
  const { scores, logits, weights, context, values, rows } = result;
  const powers = rows?.[row].terms && exponentials(rows[row]).terms;
  const bounds = values
    ? [Math.min(...values.flat()), Math.max(...values.flat())]
    : [Math.min(...(context?.flat() ?? [0])), Math.max(...(context?.flat() ?? [1]))];
  return {
    ...columns,
    ...{ key, known, topics, bounds, powers, labels: key_labels, query: query_labels[row], names },
    ...{ scores: scores?.[row], weights: weights[row], context: context?.[row] },
    ...{ text: wordingOf(weights), shares: areShares(weights) },
    visible: weights[row].map((_, j) => logits?.[row][j] !== -Infinity),
    how: powers && `exp(${logitFormula(options, result)})`,
  };
}

// How a logit comes from its score, for the head of a column.
function logitFormula({ scale, softcap }, { scale: factor, queries }) {
  if (softcap !== null) return "z";
  if (factor === 1) return TEXTS.lanes.score;
  const how = scale === null ? `/\u221a${queries[0].length}` : `\u00b7${short(factor)}`;
  return `${TEXTS.lanes.score}${how}`;
}

// ----------------------------------------------------------------------------------------------------- the parts

function sourceChoice(view, redraw) {
  if (!view.state.words) return null;
  const choose = (source) => {
    if (source === "vectors") Object.assign(view.state, inputs(view)); // they start as those computed from the words
    view.state.source = source;
    redraw();
    view.root.querySelector('.inputs [aria-checked="true"]').focus();
  };
  const present = fromWords(view) ? "words" : "vectors";
  return regard.choices(TEXTS.mechanism.from, TEXTS.mechanism.sources, present, choose).element;
}

function inputCards(view, names, update) {
  const { state } = view;
  const card = (part, letter, values, rowLabels, columnLabels) => {
    const change = (i, j, x) => {
      values[i][j] = x;
      update();
    };
    const title = CARDS[part] ?? part;
    const note = letter && regard.formula(letter);
    return editable({ title, note, values, rowLabels, columnLabels, change, titles: titlesOf(view, title) });
  };
  const cards = state.decoder ? decoderCards : fromWords(view) ? wordCards : vectorCards;
  return [...cards(state, card, (part) => titlesOf(view, part)), ...scoreCards(state.options, card, names)];
}

const CARDS = TEXTS.mechanism.cards;

const titlesOf = ({ data }, title) => [data.name ?? document.title, title];

function wordCards({ words, query_labels, topics }, card, titles) {
  const weightCard = (name, letter, part) => {
    const weight = words[name];
    const columnLabels = topics?.length === weight[0].length ? topics : [];
    const own = card(name, `W_${letter}`, weight, words.features, columnLabels);
    const { product: text, parts } = TEXTS.mechanism;
    const title = filled(text, { part: parts[part] });
    const product = results({ title, rowLabels: query_labels, columnLabels, titles: titles(parts[part]) });
    const element = el("div.pair", own.element, product.element);
    return { element, set: (result) => product.set(result[part]) };
  };
  return [
    card("words", "", words.embeddings, query_labels, words.features),
    weightCard("query_weight", "Q", "queries"),
    weightCard("key_weight", "K", "keys"),
    weightCard("value_weight", "V", "values"),
  ];
}

function vectorCards({ queries, keys, values, query_labels, key_labels }, card) {
  return [
    card("queries", "Q", queries, query_labels),
    card("keys", "K", keys, key_labels),
    card("values", "V", values, key_labels),
  ];
}

function decoderCards({ queries, keys, key_labels, decoder }, card) {
  return [
    card("annotations", "h_j", keys, key_labels),
    card("state", "s_0", queries.slice(0, 1)),
    card("state_weight", "A", decoder.state_weight),
    card("context_weight", "C", decoder.context_weight),
  ];
}

// The learned arrays of the score; the row of a vector is the vector itself.
function scoreCards(options, card, names) {
  const arrays = Object.entries(TEXTS.scores[options.score].arrays ?? {}).filter(([name]) => options[name]);
  return arrays.map(([name, { title, letter }]) => card(filled(title, names), letter, rowsOf(options[name])));
}

function picker(view, pick) {
  const { state } = view;
  const decoder = Boolean(state.decoder ?? state.trained);
  const choice = rowChoice(state, TEXTS.sentence[decoder ? "word" : "query"], pick);
  const onclick = () => pick((state.row + 1) % state.query_labels.length);
  const next = decoder && el("button", { "data-part": "next", onclick }, TEXTS.sentence.next);
  const title = el("span.soft", { "aria-hidden": "true" }, TEXTS.sentence[decoder ? "word" : "query"]);
  return { element: el("div.picker", title, choice.element, next), set: choice.set };
}

// Buttons, or a list of many.
function rowChoice({ query_labels, row }, name, pick) {
  const choose = (i) => pick(i);
  if (query_labels.length <= MOST_BUTTONS)
    return regard.choices(
      name,
      query_labels.map((label, i) => [i, bdi(label)]),
      row,
      choose,
    );
  const element = regard.list(query_labels, row, choose);
  element.setAttribute("aria-label", name);
  const set = (i) => {
    element.selectedIndex = i;
  };
  return { element, set };
}

// The walk through the steps, of which one is shown at a time: `start` begins it, `element` goes on below the step.
function walk(view, update) {
  const { state } = view;
  let [first, last] = [1, 3];
  const go = (shown) => () => {
    state.shown = shown();
    if (state.shown < Infinity) view.root.querySelector('[data-part="steps"]').open = view.open.steps = true;
    update();
    (state.shown < Infinity ? forth : start).focus({ preventScroll: true });
    if (state.shown < Infinity) reveal();
  };
  const button = (text, kind, shown) => el("button", { class: kind, onclick: go(shown) }, text);
  const start = button(TEXTS.sentence.walk, "primary", () => first);
  const texts = TEXTS.mechanism.walk;
  const back = button(texts.back, null, () => Math.max(first, state.shown - 1));
  const forth = button("", "primary", () => (state.shown >= last ? first : state.shown + 1));
  const all = button(texts.all, "quiet", () => Infinity);
  const status = el("span.soft", { role: "status" });
  const element = el("div.stepper", back, forth, all, status);
  let walked = -1;
  const reveal = () => {
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
    forth.textContent = state.shown < last ? texts.forth : texts.again;
    back.disabled = state.shown <= first;
    status.textContent = walking ? filled(texts.status, { shown: state.shown, last, title: steps[walked].title }) : "";
  };
  return { start, element, set };
}

function matrices(view, names, pick) {
  const { query_labels: rowLabels, key_labels: columnLabels, trained, given } = view.state;
  const common = (title) => ({ title, rowLabels, titles: titlesOf(view, title.toLowerCase()) });
  if (isLarge(view.state)) return [largeWeights(view)];
  const texts = TEXTS.mechanism;
  const ofAll = { columnLabels, note: texts.all };
  const ofRow = { pick: (i) => pick(i) };
  const first = trained ? filled(texts.first, { n: SHORTENED, all: trained.sizes.value }) : "";
  const values = { note: texts.sum + first, all: () => view.result.context };
  const scores = results({ ...common(CARDS.scores), ...ofAll, ...ofRow });
  const weights = heat({ ...common(CARDS.weights), ...ofAll, pick, names });
  const context = results({ ...common(CARDS.context), ...values, ...ofRow });
  const masked = ({ weights, logits }) => weights.map((line, i) => seen(line, logits?.[i]));
  const cut = (rows) => (trained ? rows.map(shortened) : rows);
  return [
    (given?.scores ?? !given) && { ...scores, step: 1, set: (result, row) => scores.set(result.scores, row) },
    { ...weights, step: 2, set: (result, row, key) => weights.set(masked(result), row, key) },
    (given?.context ?? !given) && { ...context, step: 3, set: (result, row) => context.set(cut(result.context), row) },
    trained?.made && headMatrices(view),
  ]
    .flat()
    .filter(Boolean);
}

// The weights of many queries, as lines and as a picture of pixels.
function largeWeights(view) {
  const { query_labels: rows, key_labels: columns } = view.state;
  const element = el("div");
  let picture = null;
  const set = ({ weights }) => {
    const numbers = Float32Array.from(weights.flat());
    if (picture) return picture.update(numbers, []);
    const { query } = TEXTS.computing.axes;
    const data = {
      rows,
      columns,
      weights: numbers,
      importance: [],
      names: { row: query, column: TEXTS.mechanism.parts.keys },
    };
    const titles = () => titlesOf(view, CARDS.weights);
    picture = regard.weightsView(data, { left: "row", titles, state: { shown: 0 } });
    put(element, picture.element);
  };
  return { element, step: 2, set };
}

// The queries, keys and values of a trained head, and the matrices that make them: the first numbers of each, all in a file.
function headMatrices(view) {
  const { queries, keys, values, query_labels, key_labels, trained } = view.state;
  const made = { queries: [queries, query_labels], keys: [keys, key_labels], values: [values, key_labels] };
  const of = Object.entries(trained.made).map(([name, rows]) => [name, [rows]]);
  return [...Object.entries(made), ...of].map(([name, [rows, rowLabels = []]]) => {
    const title = CARDS[name];
    const all = () => rows;
    const note = `${rows.length} \u00d7 ${rows[0].length}`;
    const part = results({ title, note, rowLabels, all, titles: titlesOf(view, title.toLowerCase()) });
    const shown = rowLabels.length ? rows : rows.slice(0, SHORTENED);
    return { ...part, step: 1, set: () => part.set(shown.map(shortened)) };
  });
}

const ofRecurrent = ({ trained }) => Boolean(trained) && trained.kind !== "head";
