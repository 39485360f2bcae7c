// What the three steps are called, with the letters of one attention. In Bahdanau's decoder a query is the state before
// the step, and keys and values are the annotations of the source.

const TALL = 12; // numbers of a vector that are all shown; of a longer one the first SHORTENED
const SHORTENED = 6;

const NAMES = {
  general: { query: "query", key: "key", value: "value", q: "q", k: "k_j", v: "v_j", e: "e_j", a: "\u03b1_j", z: "z_j", c: "c" },
  decoder: {
    query: "state",
    key: "annotation",
    value: "annotation",
    q: "s_{t\u22121}",
    k: "h_j",
    v: "h_j",
    e: "e_{tj}",
    a: "\u03b1_{tj}",
    z: "z_{tj}",
    c: "c_t",
  },
};

NAMES.trained = { ...NAMES.general, value: "annotation", v: "h_j" };

const nameOf = (table) => Object.fromEntries(Object.entries(table).map(([key, { name }]) => [key, name]));

// A formula of steps.json with the letters of this attention.
function formulaOf(table, key, names, options) {
  const own = { W: options.query_weight ? " W" : "", U: options.key_weight ? " U" : "", bias: options.bias ? " + b" : "", sharpness: options.sharpness === 1 ? "" : `${short(options.sharpness ?? 1)} \u00d7 ` };
  return table[key].formula.replace(/\{(\w+)\}/g, (_, name) => names[name] ?? own[name]);
}

// "2·3 + 0·1 = 6", as many terms as are read with pleasure.
function products(left, right, total) {
  const terms = left.slice(0, SHORTENED).map((x, i) => `${minus(x)}\u00b7${minus(right[i])}`);
  const rest = left.length - SHORTENED;
  return `${terms.join(" + ")}${rest > 0 ? ` + \u2026 ${rest} more` : ""} = ${short(total)}`;
}

const minus = (x) => (x < 0 ? `(${short(x)})` : short(x));

const shortened = (x) => (x.length > TALL ? x.slice(0, SHORTENED) : x);
const vector = (x) => `(${shortened(x).map(short).join(", ")}${x.length > TALL ? `, \u2026 ${x.length - SHORTENED} more` : ""})`;

// How a score of one pair comes about.
function workedScore(o, q, k, score, j) {
  if (o.score === "additive") return products(o.vector, hidden(q, k, o), score);
  if (o.score === "gaussian") return `\u2212${short(-2 * score * o.width ** 2)} / (2 \u00b7 ${short(o.width)}\u00b2) = ${short(score)}`;
  if (o.score === "cosine") {
    const length = (x) => short(Math.sqrt(dot(x, x)));
    const sharpness = o.sharpness === 1 ? "" : `${short(o.sharpness)} \u00b7 `;
    return `${sharpness}${short(dot(q, k))} / (${length(q)} \u00b7 ${length(k)}) = ${short(score)}`;
  }
  if (o.score === "general") return products(times([q], o.weight)[0], k, score);
  if (o.score === "location") return products(q, o.weight.map((row) => row[j]), score);
  return products(q, k, score);
}

// "word 1 attends mostly to word 3 (74.9 %), then to word 1 (23.6 %)." The words follow the size of the largest weight
// and its margin to the second.
function sentence(query, keys, weights, logits) {
  const label = regard.label;
  if (weights.some(Number.isNaN)) return [label(query), ": its weights are not numbers, because a score is infinite or none"];
  const order = weights.map((_, j) => j).sort((a, b) => weights[b] - weights[a] || a - b);
  const total = weights.reduce((sum, x) => sum + x, 0);
  if (!(total > 0)) return [label(query), " attends to nothing: no key is visible to it, so its weights and its context are 0"];
  const part = (j) => [label(keys[j]), ` (${regard.percent(weights[j])})`];
  const [first, second] = order;
  const visible = weights.filter((_, j) => logits?.[j] !== -Infinity).length;
  if (visible === 1) return [label(query), " sees only ", part(first)];
  if (weights[first] - weights[order[visible - 1]] < 1e-9) {
    const all = visible === weights.length ? "all" : `the ${visible} visible keys`;
    return [label(query), ` attends to ${all} alike: `, regard.percent(weights[first]), " each"];
  }
  const [most, margin] = [weights[first] / total, (weights[first] - weights[second]) / total];
  const also = (words) => (weights[second] > 0.005 * total ? [words, part(second)] : []);
  if (most >= 0.995) return [label(query), " attends to ", part(first)];
  if (margin < 0.02) return [label(query), " attends about equally to ", part(first), also(" and "), visible > 2 && most < 0.45 ? ", and to others" : null];
  if (most > 0.5) return [label(query), " attends mostly to ", part(first), also(", then to ")];
  return [label(query), " attends to several, most to ", part(first), also(", then to ")];
}
