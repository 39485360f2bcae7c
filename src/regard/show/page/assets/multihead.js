// Several heads of one input, computed side by side: each has projections of its own; their contexts are joined and
// projected once more. With positions added to the words (sinusoidal), or with queries and keys turned by them (rotary).

// As regard.position.sinusoidal has them.
regard.sinusoidal = (n, d) =>
  Array.from({ length: n }, (_, i) =>
    Array.from({ length: d }, (_, j) => {
      const angle = i / BASE ** ((2 * Math.floor(j / 2)) / d);
      return j % 2 ? Math.cos(angle) : Math.sin(angle);
    }),
  );

// As regard.nn.multi_head_attention; `heads` have the columns of the projections.
regard.multiHead = ({ words, heads, output_weight, positions, mask }) => {
  const added = positions === "sinusoidal" ? regard.sinusoidal(words.length, words[0].length) : null;
  const input = added ? summed(words, added) : words;
  const turned = positions === "rotary" ? regard.rotary : (rows) => rows;
  const results = heads.map(({ query_weight, key_weight, value_weight }) =>
    regard.compute({
      queries: turned(times(input, query_weight)),
      keys: turned(times(input, key_weight)),
      values: times(input, value_weight),
      mask: { kind: mask },
    }),
  );
  const joined = words.map((_, i) => results.flatMap(({ context }) => context[i]));
  return { added, input, heads: results, joined, output: times(joined, output_weight) };
};

regard.view("multihead", (root, data, { section }) => {
  const view = { root: el("div.mechanism.multihead"), data };
  root.append(view.root);
  resetHeads(view);
  const fresh = () => freshHeads(data);
  regard.keepFields(section, view, fresh, headFields(data), () => drawHeads(view), ["picked"]);
  regard.onTheme(() => view.parts.forEach((part) => part.retint?.()));
  const look = () => {
    view.state.order.reverse();
    drawHeads(view);
  };
  return { look };
});

const MOST_COUNTED = 2000; // words whose pairs are counted

const freshHeads = (data) => {
  const { length } = data.labels;
  return { ...structuredClone(data), order: data.labels.map((_, i) => i), mask: "none", count: length };
};

function resetHeads(view) {
  view.state = freshHeads(view.data);
  drawHeads(view);
}

function headFields({ labels, heads }) {
  const { integer, integers, matrix, choice } = regard.CODES;
  const weights = Object.entries({ WQ: "query_weight", WK: "key_weight", WV: "value_weight" });
  const ofHead = (_, h) =>
    weights.map(([name, part]) => [`${name}${h + 1}`, { ...matrix(), path: `heads.${h}.${part}` }]);
  return {
    words: matrix(),
    WO: { ...matrix(), path: "output_weight" },
    ...Object.fromEntries(heads.flatMap(ofHead)),
    positions: choice(Object.keys(TEXTS.multihead.kinds)),
    mask: choice(Object.keys(TEXTS.multihead.masks)),
    count: integer(MOST_COUNTED + 1),
    order: integers(labels.length, true),
    picked: integers(labels.length),
  };
}

// The words in the present order.
const ordered = ({ order }, all) => order.map((i) => all[i]);

function drawHeads(view) {
  const { state } = view;
  const texts = TEXTS.multihead;
  const made = headMakers(view, ordered(state, state.labels));
  view.status = el("p.sentence", { role: "status" });
  view.drawer ??= regard.drawer(texts.matrices);
  const reset = el(
    "div.field",
    regard.reset(() => resetHeads(view)),
  );
  const heads = state.heads.map((head, h) => headPanel(made, head, h));
  const outputs = [
    made.table(texts.output, "", state.outputs, ({ output }) => output),
    made.table(texts.before, state.labels.join(" "), state.outputs, () => firstOutput(view)),
  ];
  put(view.drawer, view.drawer.firstChild, allMatrices(made));
  regard.renew(
    view.root,
    state.about && el("p", state.about),
    el("div.controls", orderBar(view), switched(view, "positions", "kinds"), switched(view, "mask", "masks"), reset),
    view.status,
    el("div.pair", heads, outputs),
    made.part(pairCounter(view)),
    view.drawer,
  );
  fillHeads(view);
}

// What makes the parts of a view, which are filled together: matrices that can be changed, and those that are computed.
function headMakers(view, labels) {
  view.parts = [];
  const update = () => fillHeads(view);
  const part = (made) => {
    view.parts.push(made);
    return made.element;
  };
  const pick = (row, key) => {
    view.state.picked = [view.state.order[row], view.state.order[key]];
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
    const own = results({ title, note, rowLabels: labels, columnLabels, digits: 2 });
    return part({ element: own.element, set: (result) => own.set(get(result)) });
  };
  return { view, labels, part, pick, card, table };
}

// The words, the matrices of each head, and what joins the heads.
function allMatrices(made) {
  const { view, labels, card, table } = made;
  const { state } = view;
  const texts = TEXTS.multihead;
  const added = () => [
    table(texts.added, texts.addedNote, state.features, (result) => result.added),
    table(texts.input, "", state.features, (result) => result.input),
  ];
  const words = card(texts.words, "x", ordered(state, state.words), labels, state.features);
  const both = state.heads.flatMap((head, h) => head.values.map((name) => `${name} ${h + 1}`));
  const joining = [
    table(texts.joined, texts.joinedNote, both, ({ joined }) => joined),
    card(texts.outputWeight, "W_O", state.output_weight, both, state.outputs),
  ];
  const heads = state.heads.map((head, h) => projections(made, head, h));
  return [
    el("div.pair", words, state.positions === "sinusoidal" && added()),
    el("div.heads-side-by-side", heads),
    el("p.soft", regard.rich(texts.join)),
    el("div.pair", joining),
  ];
}

// What a head looks at.
function headPanel({ labels, part, pick }, head, h) {
  const texts = TEXTS.multihead;
  const title = `${texts.head} ${h + 1}${head.name ? COLON + head.name : ""}`;
  const weights = heat({ title, note: "", rowLabels: labels, columnLabels: labels, pick });
  const shown = ({ weights, logits }) => weights.map((row, i) => seen(row, logits[i]));
  return part({ ...weights, set: (result, row, key) => weights.set(shown(result.heads[h]), row, key) });
}

// The matrices of a head, what they make of the words, and how the picked weight comes about.
function projections({ view, labels, card, table, part }, head, h) {
  const { features } = view.state;
  const texts = TEXTS.multihead;
  const axes = head.query_weight[0].map((_, j) => `${j + 1}`);
  const own = (name, columns) => table(texts[name], "", columns, (result) => result.heads[h][name]);
  const weights = [
    card(texts.query, "W_Q", head.query_weight, features, axes),
    card(texts.key, "W_K", head.key_weight, features, axes),
    card(texts.value, "W_V", head.value_weight, features, head.values),
  ];
  const worked = el("p.math.soft");
  const set = (result, row, key) => put(worked, workedPair(result.heads[h], labels, row, key));
  const projected = [own("queries", axes), own("keys", axes), own("values", head.values)];
  return el(
    "div.head-panel",
    el("h3", `${texts.head} ${h + 1}`),
    el("div.pair", weights),
    el("div.pair", projected),
    el("div.pair", own("context", head.values)),
    part({ element: worked, set }),
  );
}

// How the picked weight of a head comes about.
function workedPair({ queries, keys, scores, scale, weights }, labels, row, key) {
  const score = scores[row][key];
  const scaled = `\u00d7 ${short(scale)} = ${short(score * scale)}${SEMICOLON}${TEXTS.computing.weight} ${regard.weight(weights[row][key], 4)}`;
  return [
    bdi(labels[row]),
    " \u2192 ",
    bdi(labels[key]),
    `${COLON}${products(queries[row], keys[key], score)}${SEMICOLON}${scaled}`,
  ];
}

// One of the switches: what of is chosen.
function switched(view, name, kinds) {
  const choose = (kind) => {
    view.state[name] = kind;
    drawHeads(view);
    view.root.querySelector(`.${name} [aria-checked="true"]`).focus();
  };
  const texts = TEXTS.multihead;
  const { element } = regard.namedChoices(texts[name], texts[kinds], view.state[name], choose);
  element.classList.add(name);
  return element;
}

// How many pairs so many words make, in each head.
function pairCounter(view) {
  const texts = TEXTS.multihead;
  const pairs = (n) => (view.state.mask === "none" ? n * n : (n * (n + 1)) / 2);
  const said = (n) => [n, filled(texts.pairs, { n: regard.count(n), pairs: regard.count(pairs(n)) })];
  const change = (count) => {
    view.state.count = count;
    fillHeads(view);
  };
  const { element, set } = regard.slider(texts.count, { min: 1, max: MOST_COUNTED, step: 1, change }, said);
  return { element, set: () => set(view.state.count) };
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
    const { back, on } = TEXTS.multihead.move;
    const name = filled(by < 0 ? back : on, { word: state.labels[word] });
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

// The output of each word in the first order, in the present one.
function firstOutput({ state }) {
  const { output } = regard.multiHead(state);
  return ordered(state, output);
}

function fillHeads(view) {
  const { state } = view;
  const result = regard.multiHead({ ...state, words: ordered(state, state.words) });
  const [row, key] = state.picked.map((word) => state.order.indexOf(word));
  view.parts.forEach((part) => part.set(result, row, key));
  const permuted = state.order.some((word, i) => word !== i);
  const first = firstOutput(view).flat();
  const change = largest(result.output.flat().map((x, k) => Math.abs(x - first[k])));
  const said = !permuted ? "first" : change < 1e-12 ? "same" : "other";
  const now = ordered(state, state.labels).join(" ");
  const { status, ahead } = TEXTS.multihead;
  const hidden = state.mask === "none" ? "" : ` ${ahead}`;
  view.status.textContent = filled(status[said], { now, change: short(Number(change.toFixed(2))) }) + hidden;
  regard.changed();
}
