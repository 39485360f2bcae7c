// The definition of attention in double precision, as regard.attend has it: scores, logits, weights, context. Matrices
// are arrays of rows. What each step leaves is kept, because all of it is shown.

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const rowsOf = (array) => (Array.isArray(array[0]) ? array : [array]); // of a vector: itself
const columns = (rows) => (rows[0] ?? []).map((_, j) => rows.map((row) => row[j]));
const times = (rows, matrix) => {
  const all = columns(matrix);
  return rows.map((row) => all.map((column) => dot(row, column)));
};
const summed = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
const rectified = (rows) => rows.map((row) => row.map((x) => Math.max(0, x)));
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);
const largest = (row) => row.reduce((most, x) => Math.max(most, x), -Infinity); // NaN if there is one

// Numbers from 0 to 1, the same in every browser (mulberry32).
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// The weights of a row, null where a key is hidden.
const seen = (weights, logits) => weights.map((w, j) => (logits?.[j] === -Infinity ? null : w));

// By the largest entry first, so that no square over- or underflows.
function unit(row) {
  const most = largest(row.map(Math.abs));
  if (!(most > 0)) return row.map((x) => x);
  const scaled = row.map((x) => x / most);
  const length = Math.sqrt(dot(scaled, scaled));
  return scaled.map((x) => x / length);
}

// Two vectors for each pair of query and key, whose dot product is the score. The rest of a score is its row of TEXTS.
const SCORES = {
  dot: (q, k) => [q, k],
  scaled_dot: (q, k) => [q, k],
  cosine: (q, k, o) => [unit(q).map((x) => x * o.sharpness), unit(k)],
  gaussian: (q, k, o) => {
    const apart = q.map((x, i) => (x - k[i]) / o.width);
    return [apart.map((x) => -0.5 * x), apart];
  },
  general: (q, k, o) => [times([q], o.weight)[0], k],
  location: (q, _, o, j) => [q, o.weight.map((row) => row[j])],
  additive: (q, k, o) => [o.vector, hidden(q, k, o)],
};

// The numbers of all scores, {name: its row in TEXTS}, and the values with which they change nothing.
const NUMBERS = Object.assign({}, ...Object.values(TEXTS.scores).map(({ numbers }) => numbers));
const NEUTRAL = Object.fromEntries(Object.entries(NUMBERS).map(([name, { neutral }]) => [name, neutral]));

// The hidden layer of the additive score: tanh(q W + k U + b).
function hidden(query, key, { query_weight, key_weight, bias }) {
  const left = query_weight ? times([query], query_weight)[0] : query;
  const right = key_weight ? times([key], key_weight)[0] : key;
  return left.map((x, i) => Math.tanh(x + right[i] + (bias ? bias[i] : 0)));
}

function defaultScale(score, d) {
  return score === "scaled_dot" && d > 0 ? 1 / Math.sqrt(d) : 1;
}

function visible(mask, i, j, n, m) {
  const kind = mask?.kind ?? "none";
  if (kind === "given") return Boolean(mask.visible[i][j]);
  const own = i + (mask?.align === "end" ? m - n : 0);
  if (kind === "causal") return j <= own;
  return kind === "none" || (j >= own - mask.left && j <= own + mask.right);
}

function softcapped(x, softcap) {
  return softcap ? softcap * Math.tanh(x / softcap) : x;
}

// The normalization of one row of logits: {weights, and what was computed on the way}. Masked keys have the logit -Infinity.
const NORMALIZE = {
  softmax(logits) {
    const most = Math.max(largest(logits), -Number.MAX_VALUE);
    const terms = logits.map((z) => Math.exp(z - most));
    const total = terms.reduce((sum, x) => sum + x, 0);
    const weights = terms.map((x, j) => (logits[j] === -Infinity ? 0 : x / Math.max(total, 1)));
    return { most, terms, total, weights };
  },
  sparsemax: (logits) => threshold(logits, 1, (rank, sum) => (sum - 1) / rank),
  entmax15: (logits) =>
    threshold(
      logits.map((z) => z / 2),
      2,
      (rank, sum, squares) => {
        const mean = sum / rank;
        return mean - Math.sqrt(Math.max((1 - (squares - rank * mean * mean)) / rank, 0));
      },
    ),
  hard(logits) {
    const most = largest(logits);
    const one = logits.indexOf(most);
    return { most, weights: logits.map((z, j) => (z === -Infinity ? 0 : most < Infinity ? Number(j === one) : NaN)) };
  },
};

// max(z - t, 0)^power, with the t of the last rank at which the sorted logits lie above it.
function threshold(z, power, candidate) {
  const most = largest(z);
  if (!Number.isFinite(most)) return { most, t: NaN, weights: z.map((x) => (x === -Infinity ? 0 : NaN)) };
  const sorted = z
    .map((x) => x - most)
    .filter((x) => x > -Infinity)
    .sort((a, b) => b - a);
  let [sum, squares, t] = [0, 0, 0];
  sorted.forEach((x, i) => {
    sum += x;
    squares += x * x;
    const own = candidate(i + 1, sum, squares);
    if (power === 1 ? x > own : own <= x) t = own;
  });
  return { most, t: t + most, weights: z.map((x) => (x === -Infinity ? 0 : Math.max(x - most - t, 0) ** power)) };
}

const BASE = 10000; // of the wavelengths of positions

// Vectors turned by their positions, pair by pair, as regard.position.rotary turns them.
regard.rotary = (rows) =>
  rows.map((row, i) => {
    const half = row.length / 2;
    return row.map((x, j) => {
      const p = j % half;
      const angle = i * BASE ** ((-2 * p) / row.length);
      return j < half
        ? x * Math.cos(angle) - row[j + half] * Math.sin(angle)
        : x * Math.cos(angle) + row[p] * Math.sin(angle);
    });
  });

// One attention: queries, keys, values as rows, and the options of regard.attend by their names; `bent` has scores of one
// row that a reader has moved.
regard.compute = (options) => {
  const { queries, keys, values, score = "scaled_dot", softcap = null, mask = null, normalize = "softmax" } = options;
  const own = { ...NEUTRAL, ...options };
  const scale = options.scale ?? defaultScale(score, queries[0]?.length ?? 0);
  const scores = queries.map((q) => keys.map((k, j) => dot(...SCORES[score](q, k, own, j))));
  if (options.bent) scores[options.bent.row] = options.bent.scores;
  const scaled = scores.map((row) => row.map((x) => x * scale));
  const capped = scaled.map((row) => row.map((x) => softcapped(x, softcap)));
  const logits = capped.map((row, i) =>
    row.map((x, j) => (visible(mask, i, j, queries.length, keys.length) ? x : -Infinity)),
  );
  const rows = logits.map((row) => NORMALIZE[normalize](row));
  const weights = rows.map((row) => row.weights);
  return {
    queries,
    keys,
    values,
    scale,
    scores,
    scaled,
    capped,
    logits,
    rows,
    weights,
    context: times(weights, values),
  };
};

// Bahdanau's decoder: the state before step t is the query of step t, and its context makes the next state,
// s_t = tanh(s_(t-1) A + c_t C). Masks of positions would hide annotations by the number of the step.
regard.decode = (options) => {
  const { state_weight, context_weight, steps } = options.decoder;
  const states = [options.queries[0]];
  while (states.length <= steps) {
    const { context } = regard.compute({ ...options, queries: [states.at(-1)], mask: null });
    const [left, right] = [times([states.at(-1)], state_weight)[0], times(context, context_weight)[0]];
    states.push(left.map((x, i) => Math.tanh(x + right[i])));
  }
  return { ...regard.compute({ ...options, queries: states.slice(0, steps) }), states };
};
