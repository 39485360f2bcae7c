// What a reader can change of an attention: each field with its place in the state and the way it is written. A state is
// a copy of the section's data with the query, key and step that are looked at, and the exercise.

const fresh = (data) => ({ ...structuredClone(data), key: null, shown: Infinity, exercise: null, source: data.words ? "words" : "vectors" });

const STEP_CODE = { write: (step) => (step === Infinity ? "all" : String(step)), read: (text) => (text === "all" ? Infinity : fitting(/^[123]$/.test(text), Number(text), text)) };

function fieldsOf(state) {
  const { options, words, decoder, query_labels, key_labels } = state;
  const { integer, number, choice, texts, matrix, optional } = regard.CODES;
  const field = (path, code) => ({ path, code });
  const place = {
    query: field("row", integer(query_labels.length)),
    key: field("key", optional(integer(key_labels.length))),
    step: field("shown", STEP_CODE),
  };
  if (state.given) return place;
  const matrices = { weight: "options.weight", wq: "options.query_weight", wk: "options.key_weight" };
  const vectors = state.trained ? {} : { queries: "queries", keys: "keys", values: "values" };
  const own = words && { words: "words.embeddings", WQ: "words.query_weight", WK: "words.key_weight", WV: "words.value_weight" };
  const steps = decoder && { A: "decoder.state_weight", C: "decoder.context_weight" };
  const found = Object.entries({ ...own, ...vectors, ...matrices, ...steps }).filter(([, path]) => regard.fields.at(state, path));
  const lists = ["vector", "bias"].filter((name) => options[name]);
  return {
    ...place,
    ...Object.fromEntries(found.map(([name, path]) => [name, field(path, matrix())])),
    ...Object.fromEntries(lists.map((name) => [name, field(`options.${name}`, regard.CODES.list())])),
    ...(words && { from: field("source", choice(["words", "vectors"])) }),
    names: field("query_labels", texts()),
    key_names: field("key_labels", texts()),
    score: field("options.score", choice(Object.keys(scoreChoices(options)))),
    scale: field("options.scale", optional(number())),
    softcap: field("options.softcap", optional(number(POSITIVE.fits))),
    ...Object.fromEntries(Object.entries(NUMBERS).map(([name, row]) => [name, field(`options.${name}`, number(row.positive && POSITIVE.fits))])),
    normalize: field("options.normalize", choice(Object.keys(TEXTS.normalize))),
    mask: field("options.mask.kind", choice(["none", "causal", "window", ...(options.mask.visible ? ["given"] : [])])),
    before: field("options.mask.left", integer(1e6)),
    after: field("options.mask.right", integer(1e6)),
    align: field("options.mask.align", choice(["start", "end"])),
    ...(!state.trained && { exercise: field("exercise", optional(exerciseCode(state))) }),
  };
}

// Only what differs from the data is written.
function writtenState(view) {
  const base = fresh(view.data);
  const example = view.examples?.indexOf(view.data) ?? 0;
  return { ...(example && { example: String(example) }), ...regard.fields.write(fieldsOf(base), view.state, base) };
}

// The state of such an object of fields, with the data it began as.
function parsedState(view, { example, ...texts }) {
  const examples = view.examples ?? [view.first];
  const data = examples[example === undefined ? 0 : regard.CODES.integer(examples.length).read(example)];
  const state = fresh(data);
  return { data, state: regard.fields.read(fieldsOf(state), texts, state) };
}
