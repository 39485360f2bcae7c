// Several heads of one input, computed side by side: each has projections of its own; their contexts are joined and
// projected once more. With positions added to the words (sinusoidal), or with queries and keys turned by them (rotary).

const BASE = 10000;

// As regard.position.sinusoidal and rotary have them.
regard.sinusoidal = (n, d) =>
  Array.from({ length: n }, (_, i) =>
    Array.from({ length: d }, (_, j) => {
      const angle = i / BASE ** ((2 * Math.floor(j / 2)) / d);
      return j % 2 ? Math.cos(angle) : Math.sin(angle);
    }),
  );

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

// As regard.nn.multi_head_attention; `heads` have the columns of the projections.
regard.multiHead = ({ words, heads, output_weight, positions }) => {
  const added = positions === "sinusoidal" ? regard.sinusoidal(words.length, words[0].length) : null;
  const input = added ? words.map((row, i) => row.map((x, j) => x + added[i][j])) : words;
  const turned = positions === "rotary" ? regard.rotary : (rows) => rows;
  const results = heads.map(({ query_weight, key_weight, value_weight }) =>
    regard.compute({
      queries: turned(times(input, query_weight)),
      keys: turned(times(input, key_weight)),
      values: times(input, value_weight),
    }),
  );
  const joined = words.map((_, i) => results.flatMap(({ context }) => context[i]));
  return { added, input, heads: results, joined, output: times(joined, output_weight) };
};

regard.view("multihead", (root, data, { section }) => {
  const view = { root: el("div.mechanism"), data };
  root.append(view.root);
  resetHeads(view);
  const fresh = () => freshHeads(data);
  regard.keepFields(section, view, fresh, headFields(data), () => drawHeads(view), ["picked"]);
  regard.onTheme(() => view.parts.forEach((part) => part.retint?.()));
});

const freshHeads = (data) => ({ ...structuredClone(data), order: data.labels.map((_, i) => i) });

function resetHeads(view) {
  view.state = freshHeads(view.data);
  drawHeads(view);
}

function headFields({ labels, heads }) {
  const { integers, matrix, choice } = regard.CODES;
  const weights = Object.entries({ WQ: "query_weight", WK: "key_weight", WV: "value_weight" });
  const ofHead = (_, h) =>
    weights.map(([name, part]) => [`${name}${h + 1}`, { ...matrix(), path: `heads.${h}.${part}` }]);
  return {
    words: matrix(),
    WO: { ...matrix(), path: "output_weight" },
    ...Object.fromEntries(heads.flatMap(ofHead)),
    positions: choice(Object.keys(TEXTS.multihead.kinds)),
    order: integers(labels.length, true),
    picked: integers(labels.length),
  };
}

// The words in the present order.
const ordered = ({ order }, all) => order.map((i) => all[i]);

function drawHeads(view) {
  const { state } = view;
  const texts = TEXTS.multihead;
  const labels = ordered(state, state.labels);
  const update = () => fillHeads(view);
  const pick = (row, key) => {
    state.picked = [state.order[row], state.order[key]];
    update();
  };
  const card = (title, letter, values, rowLabels, columnLabels) => {
    const change = (i, j, x) => {
      values[i][j] = x;
      update();
    };
    return part(editable({ title, note: regard.formula(letter), values, rowLabels, columnLabels, change }));
  };
  const table = (title, note, columnLabels, get) => {
    const own = results({ title, note, rowLabels: labels, columnLabels });
    return part({ element: own.element, set: (result) => own.set(get(result)) });
  };
  view.status = el("p.sentence", { role: "status" });
  view.parts = [];
  const part = (made) => {
    view.parts.push(made);
    return made.element;
  };
  const added = () => [
    table(texts.added, "", state.features, (result) => result.added),
    table(texts.input, "", state.features, (result) => result.input),
  ];
  const input = [
    card(texts.words, "x", ordered(state, state.words), labels, state.features),
    state.positions === "sinusoidal" && added(),
  ];
  const heads = state.heads.map((head, h) => headPanel(view, { head, h, labels, card, table, part, pick }));
  const both = state.heads.flatMap((head, h) => head.values.map((name) => `${name} ${h + 1}`));
  const joining = [
    table(texts.joined, texts.joinedNote, both, ({ joined }) => joined),
    card(texts.outputWeight, "W_O", state.output_weight, both, state.outputs),
    table(texts.output, texts.outputNote, state.outputs, ({ output }) => output),
    part(comparison(view, labels)),
  ];
  const first = () => {
    state.order = [...state.first.order];
    drawHeads(view);
  };
  const reset = el(
    "div.field",
    regard.reset(() => resetHeads(view)),
  );
  regard.renew(
    view.root,
    regard.intro(texts.about, {}, state.about, state.first?.text, first),
    el("div.controls", orderBar(view), positionChoice(view), reset),
    view.status,
    el("div.pair", input),
    el("div.heads-side-by-side", heads),
    el("h3", texts.together),
    el("p.soft", regard.rich(texts.join)),
    el("div.pair", joining),
  );
  update();
}

function headPanel(view, { head, h, labels, card, table, part, pick }) {
  const { features } = view.state;
  const texts = TEXTS.multihead;
  const axes = head.query_weight[0].map((_, j) => `${j + 1}`);
  const own = (title, name, columns) => table(title, "", columns, (result) => result.heads[h][name]);
  const weights = heat({ title: texts.weights, note: "", rowLabels: labels, columnLabels: labels, pick });
  const filled = { ...weights, set: (result, row, key) => weights.set(result.heads[h].weights, row, key) };
  const worked = el("p.math.soft");
  const set = (result, row, key) => put(worked, workedPair(result.heads[h], labels, row, key));
  const projections = [
    card(texts.query, "W_Q", head.query_weight, features, axes),
    card(texts.key, "W_K", head.key_weight, features, axes),
    card(texts.value, "W_V", head.value_weight, features, head.values),
  ];
  const projected = [own("Queries", "queries", axes), own("Keys", "keys", axes), own("Values", "values", head.values)];
  return el(
    "div.head-panel",
    el("h3", `${texts.head} ${h + 1}${head.name ? `: ${head.name}` : ""}`),
    el("div.pair", projections),
    el("div.pair", projected),
    el("div.pair", part(filled), own("Context", "context", head.values)),
    part({ element: worked, set }),
  );
}

// How the picked weight of a head comes about.
function workedPair({ queries, keys, scores, scale, weights }, labels, row, key) {
  const score = scores[row][key];
  const scaled = `\u00d7 ${short(scale)} = ${short(score * scale)}; weight ${regard.weight(weights[row][key], 4)}`;
  return [bdi(labels[row]), " \u2192 ", bdi(labels[key]), `: ${products(queries[row], keys[key], score)}; ${scaled}`];
}

function positionChoice(view) {
  const choose = (positions) => {
    view.state.positions = positions;
    drawHeads(view);
    view.root.querySelector('.positions [aria-checked="true"]').focus();
  };
  const { positions: name, kinds } = TEXTS.multihead;
  const { element } = regard.choices(name, kinds, view.state.positions, choose);
  return el("div.field.positions", el("span.soft", { "aria-hidden": "true" }, name), element);
}

// The words in their order, each with buttons that move it.
function orderBar(view) {
  const { state } = view;
  const moved = (at, by) => {
    const [word] = state.order.splice(at, 1);
    state.order.splice(at + by, 0, word);
    drawHeads(view);
  };
  const button = (word, at, by, sign) => {
    const name = `Move ${state.labels[word]} one place ${by < 0 ? "back" : "on"}`;
    const fits = state.order[at + by] !== undefined;
    const attributes = { "aria-label": name, "data-part": `${word}${sign}`, "aria-disabled": fits ? null : "true" };
    return el("button.quiet", { ...attributes, onclick: () => fits && moved(at, by) }, sign);
  };
  const items = state.order.map((word, at) =>
    el("li", button(word, at, -1, "\u2190"), bdi(state.labels[word]), button(word, at, 1, "\u2192")),
  );
  view.orderId ??= regard.unique("order");
  const name = el("span.soft", { id: view.orderId }, TEXTS.multihead.order);
  return el("div.field", name, el("ol.order", { "aria-labelledby": view.orderId }, items));
}

// The outputs of the words in their first order, and by how much those in the present order differ.
function comparison(view, labels) {
  const { state } = view;
  const { before: title, change } = TEXTS.multihead;
  const own = results({
    title,
    note: state.labels.join(" "),
    rowLabels: labels,
    columnLabels: [...state.outputs, change],
  });
  return { element: own.element, set: (result) => own.set(compared(view, result)) };
}

function compared({ state }, { output }) {
  const before = regard.multiHead(state).output;
  return state.order.map((word, i) => {
    const change = largest(output[i].map((x, j) => Math.abs(x - before[word][j])));
    return [...before[word], change].map((x) => (Math.abs(x) < 1e-12 ? 0 : x));
  });
}

function fillHeads(view) {
  const { state } = view;
  const result = regard.multiHead({ ...state, words: ordered(state, state.words) });
  const [row, key] = state.picked.map((word) => state.order.indexOf(word));
  view.parts.forEach((part) => part.set(result, row, key));
  const permuted = state.order.some((word, i) => word !== i);
  const change = largest(compared(view, result).map((line) => line.at(-1)));
  const said = !permuted ? "first" : change === 0 ? "same" : "other";
  const now = ordered(state, state.labels).join(" ");
  view.status.textContent = filled(TEXTS.multihead.status[said], { now, change: short(change) });
  regard.changed();
}
