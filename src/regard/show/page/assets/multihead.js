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
      return j < half ? x * Math.cos(angle) - row[j + half] * Math.sin(angle) : x * Math.cos(angle) + row[p] * Math.sin(angle);
    });
  });

// As regard.nn.multi_head_attention; `heads` have the columns of the projections.
regard.multiHead = ({ words, heads, output_weight, positions }) => {
  const added = positions === "sinusoidal" ? regard.sinusoidal(words.length, words[0].length) : null;
  const input = added ? words.map((row, i) => row.map((x, j) => x + added[i][j])) : words;
  const turned = positions === "rotary" ? regard.rotary : (rows) => rows;
  const results = heads.map(({ query_weight, key_weight, value_weight }) =>
    regard.compute({ queries: turned(times(input, query_weight)), keys: turned(times(input, key_weight)), values: times(input, value_weight) }),
  );
  const joined = words.map((_, i) => results.flatMap(({ context }) => context[i]));
  return { added, input, heads: results, joined, output: times(joined, output_weight) };
};

regard.view("multihead", (root, data, { section }) => {
  const view = { root: regard.element("div", { class: "mechanism" }), data };
  root.append(view.root);
  resetHeads(view);
  regard.keepFields(section, view, () => freshHeads(data), headFields(data), () => drawHeads(view), ["picked"]);
  regard.onTheme(() => view.parts.forEach((part) => part.retint?.()));
});

const freshHeads = (data) => ({ ...structuredClone(data), order: data.labels.map((_, i) => i) });

function resetHeads(view) {
  view.state = freshHeads(view.data);
  drawHeads(view);
}

function headFields({ labels, heads }) {
  const { integers, matrix, choice } = regard.CODES;
  const own = heads.flatMap((_, h) => ["query", "key", "value"].map((name) => [`W${name[0].toUpperCase()}${h + 1}`, { path: `heads.${h}.${name}_weight`, code: matrix() }]));
  return {
    words: { path: "words", code: matrix() },
    WO: { path: "output_weight", code: matrix() },
    ...Object.fromEntries(own),
    positions: { path: "positions", code: choice(Object.keys(TEXTS.multihead.kinds)) },
    order: { path: "order", code: integers(labels.length, true) },
    picked: { path: "picked", code: integers(labels.length) },
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
  const card = (title, note, values, rowLabels, columnLabels) =>
    editable({ title, note: note && regard.formula(note), values, rowLabels, columnLabels, change: (i, j, x) => ((values[i][j] = x), update()) });
  const table = (title, note, columnLabels, get) => {
    const own = results({ title, note, rowLabels: labels, columnLabels });
    return { element: own.element, set: (result) => own.set(get(result)) };
  };
  view.status = regard.element("p", { class: "sentence", role: "status" });
  view.parts = [];
  const part = (made) => (view.parts.push(made), made.element);
  const input = [
    part(card(texts.words, "x", ordered(state, state.words), labels, state.features)),
    state.positions === "sinusoidal" ? [part(table(texts.added, "", state.features, ({ added }) => added)), part(table(texts.input, "", state.features, (result) => result.input))] : null,
  ];
  const heads = state.heads.map((head, h) => headPanel(view, { head, h, labels, card, table, part, pick }));
  const joining = [
    part(table(texts.joined, texts.joinedNote, state.heads.flatMap((head, h) => head.values.map((name) => `${name} ${h + 1}`)), ({ joined }) => joined)),
    part(card(texts.outputWeight, "W_O", state.output_weight, state.heads.flatMap((head, h) => head.values.map((name) => `${name} ${h + 1}`)), state.outputs)),
    part(table(texts.output, texts.outputNote, state.outputs, ({ output }) => output)),
    part(comparison(view, labels)),
  ];
  const first = () => {
    state.order = [...state.first.order];
    drawHeads(view);
  };
  regard.renew(
    view.root,
    regard.element("div", { class: "intro" }, texts.about.map((text) => regard.element("p", {}, regard.rich(text))), state.about ? regard.element("p", {}, state.about) : null, state.first ? regard.first(state.first.text, first) : null),
    regard.element("div", { class: "controls" }, orderBar(view), positionChoice(view), regard.element("div", { class: "field" }, regard.element("button", { type: "button", class: "quiet", "data-part": "reset", onclick: () => resetHeads(view) }, "Reset"))),
    view.status,
    regard.element("div", { class: "pair" }, input),
    regard.element("div", { class: "heads-side-by-side" }, heads),
    regard.element("h3", {}, texts.together),
    regard.element("p", { class: "soft" }, regard.rich(texts.join)),
    regard.element("div", { class: "pair" }, joining),
  );
  update();
}

function headPanel(view, { head, h, labels, card, table, part, pick }) {
  const { features } = view.state;
  const axes = head.query_weight[0].map((_, j) => `${j + 1}`);
  const own = (name) => (result) => result.heads[h][name];
  const weights = heat({ title: TEXTS.multihead.weights, note: "", rowLabels: labels, columnLabels: labels, pick });
  const filled = { element: weights.element, retint: weights.retint, set: (result, row, key) => weights.set(result.heads[h].weights, row, key) };
  const worked = regard.element("p", { class: "math soft" });
  const set = (result, row, key) => worked.replaceChildren(...workedPair(result.heads[h], labels, row, key));
  return regard.element(
    "div",
    { class: "head-panel" },
    regard.element("h3", {}, `${TEXTS.multihead.head} ${h + 1}${head.name ? `: ${head.name}` : ""}`),
    regard.element("div", { class: "pair" }, part(card(TEXTS.multihead.query, "W_Q", head.query_weight, features, axes)), part(card(TEXTS.multihead.key, "W_K", head.key_weight, features, axes)), part(card(TEXTS.multihead.value, "W_V", head.value_weight, features, head.values))),
    regard.element("div", { class: "pair" }, part(table("Queries", "", axes, own("queries"))), part(table("Keys", "", axes, own("keys"))), part(table("Values", "", head.values, own("values")))),
    regard.element("div", { class: "pair" }, part(filled), part(table("Context", "", head.values, own("context")))),
    part({ element: worked, set }),
  );
}

// How the picked weight of a head comes about.
function workedPair({ queries, keys, scores, scale, weights }, labels, row, key) {
  return [regard.label(labels[row]), " \u2192 ", regard.label(labels[key]), `: ${products(queries[row], keys[key], scores[row][key])}; \u00d7 ${short(scale)} = ${short(scores[row][key] * scale)}; weight ${regard.weight(weights[row][key], 4)}`];
}

function positionChoice(view) {
  const choose = (positions) => {
    view.state.positions = positions;
    drawHeads(view);
    view.root.querySelector('.positions [aria-checked="true"]').focus();
  };
  const { element } = regard.choices(TEXTS.multihead.positions, Object.entries(TEXTS.multihead.kinds), view.state.positions, choose);
  return regard.element("div", { class: "field positions" }, regard.element("span", { class: "soft", "aria-hidden": "true" }, TEXTS.multihead.positions), element);
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
    return regard.element("button", { type: "button", class: "quiet", "aria-label": name, "data-part": `${word}${sign}`, "aria-disabled": state.order[at + by] === undefined ? "true" : null, onclick: () => state.order[at + by] !== undefined && moved(at, by) }, sign);
  };
  const items = state.order.map((word, at) => regard.element("li", {}, button(word, at, -1, "\u2190"), regard.label(state.labels[word]), button(word, at, 1, "\u2192")));
  return regard.element("div", { class: "field" }, regard.element("span", { class: "soft", id: (view.orderId ??= regard.unique("order")) }, TEXTS.multihead.order), regard.element("ol", { class: "order", "aria-labelledby": view.orderId }, items));
}

// The outputs of the words in their first order, and by how much those in the present order differ.
function comparison(view, labels) {
  const { state } = view;
  const own = results({ title: TEXTS.multihead.before, note: ordered({ order: state.labels.map((_, i) => i) }, state.labels).join(" "), rowLabels: labels, columnLabels: [...state.outputs, TEXTS.multihead.change] });
  const set = (result) => own.set(compared(view, result));
  return { element: own.element, set };
}

function compared({ state }, { output }) {
  const before = regard.multiHead(state).output;
  return state.order.map((word, i) => [...before[word], largest(output[i].map((x, j) => Math.abs(x - before[word][j])))]).map((row) => row.map((x) => (Math.abs(x) < 1e-12 ? 0 : x)));
}

function fillHeads(view) {
  const { state } = view;
  const result = regard.multiHead({ ...state, words: ordered(state, state.words) });
  const [row, key] = state.picked.map((word) => state.order.indexOf(word));
  view.parts.forEach((part) => part.set(result, row, key));
  const permuted = state.order.some((word, i) => word !== i);
  const change = largest(compared(view, result).map((line) => line.at(-1)));
  const said = !permuted ? "first" : change === 0 ? "same" : "other";
  view.status.textContent = TEXTS.multihead.status[said].replace("{now}", ordered(state, state.labels).join(" ")).replace("{change}", short(change));
  regard.changed();
}
