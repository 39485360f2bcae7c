// Queries, keys and values with two numbers as arrows and points in a plane. A query has a direction and a length: its score
// with a key is the product of both lengths and the cosine of the angle between them, and its context is a point between
// the values. The keys are the values here, so that one plane shows both.

const HALF = 180; // half a side of the plane, in units of the picture
const MARGIN = 1.3; // of the plane around what it shows
const TURN = 5; // degrees for one press of an arrow key, and the length below
const LENGTHEN = 0.2;
const RADIANS = Math.PI / 180;

const norm = (v) => Math.hypot(...v);
const along = (angle, length) => [length * Math.cos(angle * RADIANS), length * Math.sin(angle * RADIANS)];
const angleOf = ([x, y]) => Math.atan2(y, x) / RADIANS;
const degrees = (angle) => `${regard.format(angle, Number.isInteger(angle) ? 0 : 1)}\u00b0`;
const between180 = (angle) => angle - 360 * Math.round(angle / 360);

regard.view("geometry", (root, data, { section }) => {
  const view = { root: el("div.mechanism"), data };
  root.append(view.root);
  resetGeometry(view);
  const { integer, list, matrix } = regard.CODES;
  const fields = { query: list(), words: matrix(), picked: integer(data.labels.length) };
  const fresh = () => freshGeometry(data);
  regard.keepFields(section, view, fresh, fields, () => drawGeometry(view), ["picked"]);
});

function freshGeometry(data) {
  const longest = Math.ceil(Math.max(1, data.query[1], ...data.words.map(norm)) * 1.2);
  return { ...structuredClone(data), longest };
}

function resetGeometry(view) {
  view.state = freshGeometry(view.data);
  drawGeometry(view);
}

// One query (direction in degrees, length) to all words.
regard.directions = ({ query, words }) => {
  const q = along(...query);
  const result = regard.compute({ queries: [q], keys: words, values: words });
  const cosines = words.map((k) => Math.cos((angleOf(k) - query[0]) * RADIANS) * (norm(k) > 0)); // of a key of length 0: 0
  return { q, cosines, scores: result.scores[0], weights: result.weights[0], context: result.context[0] };
};

function drawGeometry(view) {
  const { state } = view;
  const texts = TEXTS.geometry;
  const update = () => fillGeometry(view);
  const turn = (angle, length) => {
    state.query = [between180(Math.round(angle)), Math.min(state.longest, Math.max(0, Number(length.toFixed(2))))];
    update();
  };
  view.plane = plane(view, turn);
  const angles = { min: -180, max: 180, step: 1, change: (x) => turn(x, state.query[1]) };
  const lengths = { min: 0, max: state.longest, step: 0.1, change: (x) => turn(state.query[0], x) };
  view.sliders = [
    regard.slider(texts.direction, angles, ([angle]) => [angle, degrees(angle)]),
    regard.slider(texts.length, lengths, ([, length]) => [length, short(length)]),
  ];
  view.table = wordTable(view, update);
  const pick = (k) => {
    state.picked = k;
    update();
  };
  const labels = state.labels.map((label, k) => [k, bdi(label)]);
  view.picker = regard.choices(texts.picked, labels, state.picked, pick);
  view.sentence = el("p.sentence", { "aria-live": "polite" });
  view.worked = el("div.worked-out");
  const first = () => {
    state.query = [...state.first.query];
    update();
  };
  const of = () => ({ svg: () => view.plane.element });
  const figure = regard.figure(texts.legend, view.plane.element, of, texts.plane);
  const sliders = view.sliders.map((part) => part.element);
  const bar = el(
    "div.controls",
    sliders,
    regard.reset(() => resetGeometry(view)),
  );
  const account = el("div", bar, view.sentence, el("div.picker", view.picker.element), view.worked);
  const intro = regard.intro(texts.about, {}, state.about, state.first?.text, first);
  regard.renew(view.root, intro, el("div.beside.plane-view", figure, account), view.table.element);
  update();
}

// Its first columns can be changed, the others are results.
function wordTable({ state }, update) {
  const names = [...state.features, ...TEXTS.geometry.columns];
  const cell = (i, j, value) => {
    const change = (x) => {
      state.words[i][j] = x;
      update();
    };
    if (j < 2) return { ...regard.number({ value, name: `${state.labels[i]}, ${names[j]}`, change }), set: () => {} };
    const element = el("span");
    return { element, set: (x) => write(element, j === 3 ? degrees(x) : j === 6 ? regard.weight(x, 4) : short(x)) };
  };
  return matrix({ title: TEXTS.geometry.table, rowLabels: state.labels, columnLabels: names, kind: "editable", cell });
}

function fillGeometry(view) {
  const { state } = view;
  const { q, cosines, scores, weights, context } = regard.directions(state);
  const k = state.picked;
  const [angle, length] = state.query;
  view.sliders.forEach((part) => part.set(state.query));
  put(view.sentence, sentence(TEXTS.geometry.query, state.labels, weights));
  view.picker.set(k);
  const apart = (word) => Math.abs(between180(angleOf(word) - angle));
  const row = (word, j) => [...word, norm(word), apart(word), cosines[j], scores[j], weights[j]];
  view.table.set(state.words.map(row), k);
  const word = state.words[k];
  const lengths = `${short(length)} \u00b7 ${short(norm(word))} \u00b7 cos ${degrees(apart(word))}`;
  const share = "\u03b1_j = exp(q \u00b7 k_j / \u221a2) / \u03a3 exp(q \u00b7 k / \u221a2)";
  const line = (formula, name, numbers) =>
    el("p", regard.formula(formula), el("br"), el("span.math.soft", name, COLON, numbers));
  put(
    view.worked,
    line("q \u00b7 k_j = |q| |k_j| cos \u03b8", bdi(state.labels[k]), `${products(q, word, scores[k])} = ${lengths}`),
    line(share, bdi(state.labels[k]), short(weights[k])),
    line("c = \u03a3 \u03b1_j k_j", TEXTS.geometry.context, vector(context)),
  );
  view.plane.set({ q, weights, context });
  regard.changed();
}

// ------------------------------------------------------------------------------------------------------- the plane

function plane(view, turn) {
  const { state } = view;
  const texts = TEXTS.geometry;
  const drawn = el("svg:g", { "aria-hidden": "true" });
  const range = { "aria-valuemin": -180, "aria-valuemax": 180 };
  const parts = [el("svg:desc", texts.keys), el("svg:circle.reach", { r: 24 }), el("svg:circle", { r: 9 })];
  const handle = el("svg:g.handle", { role: "slider", tabindex: 0, "aria-label": texts.handle, ...range }, parts);
  const viewBox = `${-HALF} ${-HALF} ${2 * HALF} ${2 * HALF}`;
  const svg = el("svg:svg.plane", { viewBox, role: "group", "aria-label": texts.plane }, drawn, handle);
  const unit = () => HALF / MARGIN / Math.max(state.longest, ...state.words.map(norm));
  const set = ({ q, weights, context }) => {
    const at = ([x, y]) => [x * unit(), -y * unit()];
    put(drawn, drawPlane(state, at, { q, weights, context }));
    handle.setAttribute("transform", `translate(${at(q).join(" ")})`);
    handle.setAttribute("aria-valuenow", state.query[0]);
    handle.setAttribute(
      "aria-valuetext",
      filled(texts.turned, { angle: short(state.query[0]), length: short(state.query[1]) }),
    );
  };
  const by = (angle, length) => () => turn(state.query[0] + angle, state.query[1] + length);
  const turns = { ArrowLeft: by(TURN, 0), ArrowRight: by(-TURN, 0) };
  const lengthens = { ArrowUp: by(0, LENGTHEN), ArrowDown: by(0, -LENGTHEN) };
  // A pointer moves the tip; a tip near the origin keeps its direction.
  const move = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = (2 * HALF) / box.width / unit();
    const [x, y] = [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
    const tip = [x * scale, -y * scale];
    const length = norm(tip);
    turn(length < 0.05 ? state.query[0] : angleOf(tip), length);
  };
  regard.grip(handle, { ...turns, ...lengthens }, move);
  return { element: svg, set };
}

function drawPlane({ words, labels, features, picked, query }, at, { q, weights, context }) {
  const line = (from, to, kind, more = {}) =>
    el("svg:line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: kind, ...more });
  const text = (x, y, anchor, kind, content) => el("svg:text", { x, y, class: kind, "text-anchor": anchor }, content);
  const origin = [0, 0];
  const tips = words.map(at);
  const [center, tip] = [at(context), at(q)];
  const inner = HALF - 4;
  const axes = [
    { x: inner, y: 14, anchor: "end", content: `${clipped(features[0], 14)} \u2192` },
    { x: 5, y: 9 - inner, anchor: "start", content: `\u2191 ${clipped(features[1], 14)}` },
  ];
  const [k, unit] = [words[picked], query[1] > 0 ? q.map((x) => x / query[1]) : origin];
  const foot = at(unit.map((x) => x * dot(unit, k)));
  const kind = (name, j) => (j === picked ? `${name} picked` : name);
  const value = ([cx, cy], j) =>
    el("svg:circle", { cx, cy, r: 2.5 + 7 * Math.sqrt(weights[j]), class: kind("value", j) });
  const name = (point, j) => ({
    point,
    kind: j === picked ? "picked" : "",
    content: `${clipped(labels[j], 14)} ${regard.weight(weights[j], 2)}`,
  });
  const named = [
    ...tips.map(name),
    { point: center, kind: "of-context", content: TEXTS.geometry.context },
    { point: tip, kind: "of-query", content: TEXTS.geometry.query },
  ];
  const measured = () => [line(tips[picked], foot, "drop"), line(origin, foot, "shadow"), arc(query[0], angleOf(k))];
  return [
    el("svg:polygon.hull", { points: hull(tips).join(" ") }),
    line([-inner, 0], [inner, 0], "axis"),
    line([0, inner], [0, -inner], "axis"),
    axes.map(({ x, y, anchor, content }) => text(x, y, anchor, "soft", content)),
    tips.map((point, j) => line(center, point, "pull", { "stroke-width": 10 * weights[j] })),
    tips.map((point, j) => pointer(origin, point, kind("key", j))),
    query[1] > 0 && norm(k) > 0 && measured(),
    tips.map(value),
    pointer(origin, tip, "query"),
    el("svg:circle.context", { cx: center[0], cy: center[1], r: 6 }),
    placed(axes, named).map(({ x, y, anchor, kind, content }) => text(x, y, anchor, kind, content)),
  ];
}

function pointer(from, to, kind) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  return length >= 1 && el("svg:path", { class: kind, d: regard.arrow(from, to, 10, 0.4) });
}

// From the query to the picked key, the short way.
function arc(from, to) {
  const [a, b] = [along(from, 26), along(to, 26)];
  const sweep = between180(to - from) > 0 ? 0 : 1;
  return el("svg:path.arc", { d: `M${a[0]} ${-a[1]}A26 26 0 0 ${sweep} ${b[0]} ${-b[1]}` });
}

// Andrew's monotone chain.
function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (all) => {
    const chain = [];
    for (const p of all) {
      while (chain.length > 1 && turning(chain.at(-2), chain.at(-1), p) <= 0) chain.pop();
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return sorted.length < 2 ? sorted : [...half(sorted), ...half(sorted.reverse())];
}

const turning = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);

// Labels next to their points, away from the origin, inside the picture; one that would lie over another, over a point
// or over the name of an axis moves down or up.
function placed(axes, labels) {
  const high = 15; // of a line
  const font = `600 12px ${getComputedStyle(document.body).fontFamily}`;
  const boxes = labels.map(({ point: [x, y] }) => ({ y: y + 4, left: x - 9, right: x + 9 }));
  axes.forEach(({ x, y, anchor, content }) => {
    const width = textWidth(content, font);
    boxes.push({ y, left: anchor === "end" ? x - width : x, right: anchor === "end" ? x : x + width });
  });
  return labels.map(({ point: [px, py], kind, content }) => {
    const width = textWidth(content, font);
    const left = Math.min(Math.max(px < 0 ? px - 12 - width : px + 12, 2 - HALF), HALF - 2 - width);
    const over = (y) => boxes.some((box) => Math.abs(box.y - y) < high && left < box.right && box.left < left + width);
    const start = Math.min(Math.max(py + 4, high - HALF), HALF - 4);
    const places = Array.from({ length: 24 }, (_, i) => start + (i % 2 ? 1 : -1) * Math.ceil(i / 2) * 7);
    const y = places.find((place) => place > high - HALF && place < HALF - 2 && !over(place)) ?? start;
    boxes.push({ y, left, right: left + width });
    return { x: px < 0 ? left + width : left, y, anchor: px < 0 ? "end" : "start", kind, content };
  });
}
