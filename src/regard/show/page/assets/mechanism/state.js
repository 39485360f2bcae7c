// What a reader can change of an attention: each field with its place in the state and the way it is written. A state is
// a copy of the section's data with the query, key and step that are looked at, and the exercise.

const fresh = (data) => ({
  ...structuredClone(data),
  ...{
    key: null,
    shown: Infinity,
    exercise: null,
    scores: null,
    tried: false,
    source: data.words ? "words" : "vectors",
  },
});

const STEP_CODE = {
  write: (step) => (step === Infinity ? "all" : String(step)),
  read: (text) => (text === "all" ? Infinity : fitting(/^[123]$/.test(text), Number(text), text)),
};

// The scores of the picked query, moved by hand.
const scoresCode = (m) => {
  const { write, read } = regard.CODES.list();
  return { write, read: (text) => read(text, Array(m).fill(0)) };
};

function fieldsOf(state) {
  const { options, words, decoder, query_labels, key_labels } = state;
  const { integer, number, choice, texts, matrix, optional } = regard.CODES;
  const at = (path, code) => ({ ...code, path });
  const place = {
    query: at("row", integer(query_labels.length)),
    key: optional(integer(key_labels.length)),
    step: at("shown", STEP_CODE),
  };
  if (state.given) return place;
  const letters = { words: "embeddings", WQ: "query_weight", WK: "key_weight", WV: "value_weight" };
  const own = words ? Object.entries(letters).map(([name, part]) => [name, `words.${part}`]) : [];
  const vectors = state.trained ? [] : ["queries", "keys", "values"].map((name) => [name, name]);
  const matrices = { weight: "options.weight", wq: "options.query_weight", wk: "options.key_weight" };
  const steps = { A: "decoder.state_weight", C: "decoder.context_weight" };
  const all = [...own, ...vectors, ...Object.entries({ ...matrices, ...(decoder && steps) })];
  const present = all.filter(([, path]) => regard.fields.at(state, path));
  const lists = ["vector", "bias"].filter((name) => options[name]);
  const numbers = Object.entries(NUMBERS).map(([name, row]) => [name, number(row.positive && POSITIVE.fits)]);
  const option = ([name, code]) => [name, at(`options.${name}`, code)];
  const kinds = ["none", "causal", "window", ...(options.mask.visible ? ["given"] : [])];
  return {
    ...place,
    ...Object.fromEntries(present.map(([name, path]) => [name, at(path, matrix())])),
    ...Object.fromEntries([...lists.map((name) => [name, regard.CODES.list()]), ...numbers].map(option)),
    ...(words && { from: at("source", choice(["words", "vectors"])) }),
    names: at("query_labels", texts()),
    key_names: at("key_labels", texts()),
    score: at("options.score", choice(Object.keys(scoreChoices(options)))),
    scale: at("options.scale", optional(number())),
    softcap: at("options.softcap", optional(number(POSITIVE.fits))),
    normalize: at("options.normalize", choice(Object.keys(TEXTS.normalize))),
    mask: at("options.mask.kind", choice(kinds)),
    before: at("options.mask.left", integer(1e6)),
    after: at("options.mask.right", integer(1e6)),
    align: at("options.mask.align", choice(["start", "end"])),
    ...(!state.trained && !decoder && { scores: optional(scoresCode(key_labels.length)) }),
    ...(!state.trained && { exercise: optional(exerciseCode(state)) }),
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
