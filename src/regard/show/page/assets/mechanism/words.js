// What the three steps are called, with the letters of one attention. In Bahdanau's decoder a query is the state before
// the step, and keys and values are the annotations of the source.

const TALL = 12; // numbers of a vector that are all shown; of a longer one the first SHORTENED
const SHORTENED = 6;

const NOUNS = TEXTS.computing.nouns;

const NAMES = {
  general: {
    ...{ kind: "query", of: "key", query: NOUNS.query, key: NOUNS.key, value: NOUNS.value },
    ...{ q: "q", k: "k_j", v: "v_j", e: "e_j", a: "\u03b1_j", z: "z_j", c: "c" },
  },
  decoder: {
    ...{ kind: "state", of: "annotation", query: NOUNS.state, key: NOUNS.annotation, value: NOUNS.annotation },
    ...{ q: "s_{t\u22121}", k: "h_j", v: "h_j", e: "e_{tj}", a: "\u03b1_{tj}", z: "z_{tj}", c: "c_t" },
  },
};

NAMES.trained = { ...NAMES.general, value: NOUNS.annotation, v: "h_j" };

const nameOf = (table) => Object.fromEntries(Object.entries(table).map(([key, { name }]) => [key, name]));

// A formula of TEXTS with the letters of this attention.
function formulaOf(table, key, names, options) {
  const parts = scoreParts(table[key], options, "formula", (x) => ({ x: short(x) }));
  return filled(table[key].formula, { ...parts, ...names });
}

// A score in words, with its numbers.
function wordsOf(options) {
  const row = TEXTS.scores[options.score];
  return filled(
    row.words,
    scoreParts(row, options, "words", (x) => ({ x: short(x) })),
  );
}

// The texts of a score's arrays and numbers in a formula, in LaTeX or in a worked line: of each the first without the array
// or with the neutral number, else the second.
function scoreParts({ arrays = {}, numbers = {} }, options, medium, spelled) {
  const parts = Object.entries(arrays).map(([name, row]) => [name, row[medium]?.[options[name] ? 1 : 0]]);
  const own = Object.entries(numbers).map(([name, row]) => {
    const x = options[name] ?? row.neutral;
    return [name, filled(row[medium]?.[x === row.neutral ? 0 : 1] ?? "", spelled(x))];
  });
  return Object.fromEntries([...parts, ...own]);
}

// "2·3 + 0·1 = 6", as many terms as are read with pleasure.
const products = (left, right, total) => productsOf(left, right, [...left.keys()].slice(0, SHORTENED), total);

// The same of some terms.
function productsOf(left, right, terms, total) {
  const rest = left.length - terms.length;
  const written = terms.map((i) => `${minus(left[i])}\u00b7${minus(right[i])}`).join(" + ");
  return `${written}${rest > 0 ? ` + ${moreOf(rest)}` : ""} = ${short(total)}`;
}

const minus = (x) => (x < 0 ? `(${short(x)})` : short(x));

const LISTING = TEXTS.numbers.list; // between numbers, which may have commas of their own
const shortened = (x) => (x.length > TALL ? x.slice(0, SHORTENED) : x);
const moreOf = (n) => filled(TEXTS.computing.more, { n });
const vector = (x) =>
  `(${shortened(x)
    .map((own) => short(own))
    .join(LISTING)}${x.length > TALL ? `${LISTING}${moreOf(x.length - SHORTENED)}` : ""})`;

// How a score of one pair comes about.
function workedScore(o, q, k, score, j) {
  const row = TEXTS.scores[o.score];
  const length = (x) => short(Math.sqrt(dot(x, x)));
  const values = {
    products: products(...SCORES[o.score](q, k, { ...NEUTRAL, ...o }, j), score),
    dot: short(dot(q, k)),
    squares: short(q.reduce((sum, x, i) => sum + (x - k[i]) ** 2, 0)),
    query: length(q),
    key: length(k),
    score: short(score),
  };
  return filled(row.worked, { ...scoreParts(row, o, "worked", (x) => ({ x: short(x) })), ...values });
}

regard.workedScore = workedScore;

// Weights (n, m) as texts: shares of 1 in per cent; those of a sigmoid or ReLU, whose rows sum to more, as numbers.
const areShares = (rows) => rows.every((row) => !(total(row) > 1.02));
const wordingOf = (rows) => (areShares(rows) ? regard.percent : (x) => short(x, 3));

// "word 1 attends mostly to word 3 (74.9 %), then to word 1 (23.6 %)." The words follow the size of the largest weight
// and its margin to the second; `wording` makes a text of a weight.
function sentence(query, keys, weights, logits, wording = regard.percent) {
  const texts = TEXTS.sentence;
  const order = weights.map((_, j) => j).sort((a, b) => weights[b] - weights[a] || a - b);
  const whole = total(weights);
  const visible = weights.filter((_, j) => logits?.[j] !== -Infinity).length;
  const part = (j) => [regard.label(keys[j]), ` (${wording(weights[j])})`];
  const [first, second] = order;
  const also = (text) => (weights[second] > 0.005 * whole ? regard.filledWith(text, { second: part(second) }) : []);
  const say = (text, more = []) => [
    ...regard.filledWith(text, {
      query: regard.label(query),
      first: part(first),
      visible,
      each: wording(weights[first]),
    }),
    more,
  ];
  if (weights.some(Number.isNaN)) return say(texts.invalid);
  if (!(whole > 0)) return say(texts.nothing);
  if (visible === 1) return say(texts.only);
  if (weights[first] - weights[order[visible - 1]] < 1e-9)
    return say(visible === weights.length ? texts.alike : texts.visible);
  const [most, margin] = [weights[first] / whole, (weights[first] - weights[second]) / whole];
  if (most >= 0.995) return say(texts.one);
  if (margin < 0.02) return say(texts.equally, [also(texts.and), visible > 2 && most < 0.45 ? texts.others : ""]);
  return say(most > 0.5 ? texts.mostly : texts.several, also(texts.then));
}
