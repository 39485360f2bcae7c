// What the steps are called, and their formulas. In Bahdanau's decoder a query is the state before the step, and keys
// and values are the annotations of the source.

// "q_i", "s_{t-1}" and single letters become variables with indices; the rest stays as it is.
regard.formula = (text) => {
  const parts = text.match(/[\p{L}](?![\p{L}])(_\{[^}]*\}|_[\p{L}\d])?|[\p{L}]{2,}|[^\p{L}]+/gu) ?? [];
  const elements = parts.map((part) => {
    const match = /^([\p{L}])(?:_\{?([^}]*)\}?)?$/u.exec(part);
    if (!match) return part;
    return regard.element("var", {}, match[1], match[2] ? regard.element("sub", {}, match[2]) : null);
  });
  return regard.element("span", { class: "math" }, elements);
};

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

const SCORE_NAMES = {
  scaled_dot: "scaled dot product",
  dot: "dot product",
  additive: "additive (perceptron)",
  cosine: "cosine",
  gaussian: "Gaussian",
  general: "general (bilinear)",
  location: "location",
};

const SCORE_FORMULAS = {
  scaled_dot: (n) => `${n.e} = ${n.q} \u00b7 ${n.k}`,
  dot: (n) => `${n.e} = ${n.q} \u00b7 ${n.k}`,
  additive: (n, o) => `${n.e} = v \u00b7 tanh(${n.q} W + ${n.k} U${o.bias ? " + b" : ""})`,
  cosine: (n, o) => `${n.e} = ${o.sharpness === 1 ? "" : `${short(o.sharpness)} \u00d7 `}${n.q} \u00b7 ${n.k} / (|${n.q}| |${n.k}|)`,
  gaussian: (n) => `${n.e} = \u2212|${n.q} \u2212 ${n.k}|\u00b2 / (2 width\u00b2)`,
  general: (n) => `${n.e} = ${n.q} W ${n.k}`,
  location: (n) => `${n.e} = (${n.q} W)_j`,
};

const NORMALIZE_NAMES = { softmax: "softmax", sparsemax: "sparsemax", entmax15: "1.5-entmax", hard: "hard" };

const NORMALIZE_FORMULAS = {
  softmax: (n) => `${n.a} = exp(${n.z}) / \u03a3 exp(z)`,
  sparsemax: (n) => `${n.a} = max(${n.z} \u2212 \u03c4, 0)`,
  entmax15: (n) => `${n.a} = max(${n.z} / 2 \u2212 \u03c4, 0)\u00b2`,
  hard: (n) => `${n.a} = 1 for the largest ${n.z}, else 0`,
};

// "2·3 + 0·1 = 6", as many terms as are read with pleasure.
function products(left, right, total) {
  const most = 6;
  const factor = (x) => (x < 0 ? `(${short(x)})` : short(x));
  const terms = left.slice(0, most).map((x, i) => `${factor(x)}\u00b7${factor(right[i])}`);
  return `${terms.join(" + ")}${left.length > most ? " + \u2026" : ""} = ${short(total)}`;
}

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

// "word 1 attends mostly to word 3 (74.9 %), then to word 1 (23.6 %)."
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
  if (weights[first] - weights[order.at(-1)] < 1e-9 && visible === weights.length) return [label(query), " attends to all alike: ", regard.percent(weights[first]), " each"];
  const also = weights[second] > 0.005 ? [weights[first] === weights[second] ? " and as much to " : ", then to ", part(second)] : [];
  return [label(query), weights[first] >= 0.995 ? " attends to " : " attends mostly to ", part(first), also];
}
