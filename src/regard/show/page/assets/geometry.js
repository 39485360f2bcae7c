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
  const view = { root: regard.element("div", { class: "mechanism" }), data };
  root.append(view.root);
  resetGeometry(view);
  const { integer, list, matrix } = regard.CODES;
  const fields = { query: { path: "query", code: list() }, words: { path: "words", code: matrix() }, picked: { path: "picked", code: integer(data.labels.length) } };
  regard.keepFields(section, view, () => freshGeometry(data), fields, () => drawGeometry(view), ["picked"]);
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
  view.sliders = [
    slider(texts.direction, { min: -180, max: 180, step: 1 }, (x) => turn(x, state.query[1]), ([angle]) => [angle, degrees(angle)]),
    slider(texts.length, { min: 0, max: state.longest, step: 0.1 }, (x) => turn(state.query[0], x), ([, length]) => [length, short(length)]),
  ];
  view.table = wordTable(view, update);
  const pick = (k) => {
    state.picked = k;
    update();
  };
  view.picker = regard.choices(texts.picked, state.labels.map((label, k) => [k, regard.label(label)]), state.picked, pick);
  view.sentence = regard.element("p", { class: "sentence", "aria-live": "polite" });
  view.worked = regard.element("div", { class: "worked-out" });
  const first = () => {
    state.query = [...state.first.query];
    update();
  };
  const again = regard.element("button", { type: "button", class: "quiet", "data-part": "reset", onclick: () => resetGeometry(view) }, "Reset");
  regard.renew(
    view.root,
    regard.element("div", { class: "intro" }, texts.about.map((text) => regard.element("p", {}, regard.rich(text))), state.about ? regard.element("p", {}, state.about) : null, state.first ? regard.first(state.first.text, first) : null),
    regard.element(
      "div",
      { class: "plane-view" },
      regard.element("figure", { class: "card" }, view.plane.element, regard.element("figcaption", { class: "soft" }, texts.legend, " ", regard.exports("the plane", () => ({ svg: () => view.plane.element })))),
      regard.element("div", {}, regard.element("div", { class: "controls" }, view.sliders.map((part) => part.element), again), view.sentence, regard.element("div", { class: "picker" }, view.picker.element), view.worked),
    ),
    view.table.element,
  );
  update();
}

function slider(name, range, change, shown) {
  const id = regard.unique("slider");
  const input = regard.element("input", { type: "range", id, ...range, oninput: () => change(Number(input.value)) });
  const output = regard.element("output", { for: id });
  const set = (query) => {
    const [value, text] = shown(query);
    input.value = value;
    input.setAttribute("aria-valuetext", text);
    output.textContent = text;
  };
  return { element: regard.element("div", { class: "field" }, regard.element("label", { for: id }, name), regard.element("div", { class: "row" }, input, output)), set };
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
    const element = regard.element("span");
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
  view.sentence.replaceChildren(...sentence(TEXTS.geometry.query, state.labels, weights).flat(Infinity).filter((part) => part !== null));
  view.picker.set(k);
  view.table.set(
    state.words.map((word, j) => [...word, norm(word), Math.abs(between180(angleOf(word) - angle)), cosines[j], scores[j], weights[j]]),
    k,
  );
  const theta = degrees(Math.abs(between180(angleOf(state.words[k]) - angle)));
  const lines = [
    ["q \u00b7 k_j = |q| |k_j| cos \u03b8", `${products(q, state.words[k], scores[k])} = ${short(length)} \u00b7 ${short(norm(state.words[k]))} \u00b7 cos ${theta}`],
    ["\u03b1_j = exp(q \u00b7 k_j / \u221a2) / \u03a3 exp(q \u00b7 k / \u221a2)", short(weights[k])],
    ["c = \u03a3 \u03b1_j k_j", vector(context)],
  ];
  view.worked.replaceChildren(
    ...lines.map(([formula, numbers], i) =>
      regard.element("p", {}, regard.formula(formula), regard.element("br"), regard.element("span", { class: "math soft" }, i < 2 ? [regard.label(state.labels[k]), ": "] : [`${TEXTS.geometry.context}: `], numbers)),
    ),
  );
  view.plane.set({ q, weights, context });
  regard.changed();
}

// ------------------------------------------------------------------------------------------------------- the plane

function plane(view, turn) {
  const { state } = view;
  const texts = TEXTS.geometry;
  const drawn = regard.element("svg:g", { "aria-hidden": "true" });
  const hint = regard.element("svg:desc", {}, texts.keys);
  const handle = regard.element("svg:g", { class: "handle", role: "slider", tabindex: 0, "aria-label": texts.handle, "aria-valuemin": -180, "aria-valuemax": 180 }, hint, regard.element("svg:circle", { r: 24, class: "reach" }), regard.element("svg:circle", { r: 9 }));
  const svg = regard.element("svg:svg", { class: "plane", viewBox: `${-HALF} ${-HALF} ${2 * HALF} ${2 * HALF}`, role: "group", "aria-label": texts.plane }, drawn, handle);
  const unit = () => (HALF / MARGIN) / Math.max(state.longest, ...state.words.map(norm));
  const set = ({ q, weights, context }) => {
    const at = ([x, y]) => [x * unit(), -y * unit()];
    drawn.replaceChildren(...drawPlane(state, at, { q, weights, context }));
    handle.setAttribute("transform", `translate(${at(q).join(" ")})`);
    handle.setAttribute("aria-valuenow", state.query[0]);
    handle.setAttribute("aria-valuetext", `${short(state.query[0])} degrees, length ${short(state.query[1])}`);
  };
  handle.addEventListener("keydown", (event) => {
    const [angle, length] = state.query;
    const to = { ArrowLeft: [TURN, 0], ArrowRight: [-TURN, 0], ArrowUp: [0, LENGTHEN], ArrowDown: [0, -LENGTHEN] }[event.key];
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    turn(angle + to[0], length + to[1]);
  });
  // A pointer moves the tip; a tip near the origin keeps its direction.
  const move = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = (2 * HALF) / box.width / unit();
    const tip = [(event.clientX - box.left - box.width / 2) * scale, -(event.clientY - box.top - box.height / 2) * scale];
    const length = norm(tip);
    turn(length < 0.05 ? state.query[0] : angleOf(tip), length);
  };
  handle.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    handle.setPointerCapture(event.pointerId);
    handle.classList.add("dragged");
  });
  handle.addEventListener("pointermove", (event) => handle.hasPointerCapture(event.pointerId) && move(event));
  ["pointerup", "pointercancel"].forEach((name) => handle.addEventListener(name, () => handle.classList.remove("dragged")));
  return { element: svg, set };
}

function drawPlane({ words, labels, features, picked, query }, at, { q, weights, context }) {
  const line = (from, to, kind, more = {}) => regard.element("svg:line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: kind, ...more });
  const text = (x, y, anchor, kind, content) => regard.element("svg:text", { x, y, class: kind, "text-anchor": anchor }, content);
  const origin = [0, 0];
  const tips = words.map(at);
  const [center, tip] = [at(context), at(q)];
  const inner = HALF - 4;
  const axes = [
    { x: inner, y: 14, anchor: "end", content: `${clipped(features[0])} \u2192` },
    { x: 5, y: 9 - inner, anchor: "start", content: `\u2191 ${clipped(features[1])}` },
  ];
  const [k, unit] = [words[picked], query[1] > 0 ? q.map((x) => x / query[1]) : origin];
  const foot = at(unit.map((x) => x * dot(unit, k)));
  return [
    regard.element("svg:polygon", { class: "hull", points: hull(tips).map((point) => point.join()).join(" ") }),
    line([-inner, 0], [inner, 0], "axis"),
    line([0, inner], [0, -inner], "axis"),
    axes.map(({ x, y, anchor, content }) => text(x, y, anchor, "soft", content)),
    tips.map((point, j) => line(center, point, "pull", { "stroke-width": 10 * weights[j] })),
    tips.map((point, j) => pointer(origin, point, j === picked ? "key picked" : "key")),
    query[1] > 0 && norm(k) > 0 ? [line(tips[picked], foot, "drop"), line(origin, foot, "shadow"), arc(query[0], angleOf(k))] : null,
    tips.map(([cx, cy], j) => regard.element("svg:circle", { cx, cy, r: 2.5 + 7 * Math.sqrt(weights[j]), class: j === picked ? "value picked" : "value" })),
    pointer(origin, tip, "query"),
    regard.element("svg:circle", { cx: center[0], cy: center[1], r: 6, class: "context" }),
    placed(axes, [
      ...tips.map((point, j) => ({ point, kind: j === picked ? "picked" : "", content: `${clipped(labels[j])} ${regard.weight(weights[j], 2)}` })),
      { point: center, kind: "of-context", content: TEXTS.geometry.context },
      { point: tip, kind: "of-query", content: TEXTS.geometry.query },
    ]).map(({ x, y, anchor, kind, content }) => text(x, y, anchor, kind, content)),
  ].flat(2).filter(Boolean);
}

const clipped = (label) => (label.length > 14 ? `${label.slice(0, 13)}\u2026` : label);

// An arrow with a filled head.
function pointer([x1, y1], [x2, y2], kind) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (length < 1) return null;
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const wing = (turn) => `${x2 - 10 * Math.cos(angle + turn)} ${y2 - 10 * Math.sin(angle + turn)}`;
  return regard.element("svg:path", { class: kind, d: `M${x1} ${y1}L${x2} ${y2}M${wing(0.4)}L${x2} ${y2}L${wing(-0.4)}` });
}

// From the query to the picked key, the short way.
function arc(from, to) {
  const [a, b] = [along(from, 26), along(to, 26)];
  const sweep = between180(to - from) > 0 ? 0 : 1;
  return regard.element("svg:path", { class: "arc", d: `M${a[0]} ${-a[1]}A26 26 0 0 ${sweep} ${b[0]} ${-b[1]}` });
}

// Andrew's monotone chain.
function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (all) => {
    const chain = [];
    for (const p of all) {
      while (chain.length > 1 && turned(chain.at(-2), chain.at(-1), p) <= 0) chain.pop();
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return sorted.length < 2 ? sorted : [...half(sorted), ...half(sorted.reverse())];
}

const turned = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);

const pen = document.createElement("canvas").getContext("2d");

// Labels next to their points, away from the origin, inside the picture; one that would lie over another, over a point
// or over the name of an axis moves down or up.
function placed(axes, labels) {
  const high = 15; // of a line
  pen.font = `600 12px ${getComputedStyle(document.body).fontFamily}`;
  const boxes = labels.map(({ point: [x, y] }) => ({ y: y + 4, left: x - 9, right: x + 9 }));
  axes.forEach(({ x, y, anchor, content }) => {
    const { width } = pen.measureText(content);
    boxes.push({ y, left: anchor === "end" ? x - width : x, right: anchor === "end" ? x : x + width });
  });
  return labels.map(({ point: [px, py], kind, content }) => {
    const { width } = pen.measureText(content);
    const left = Math.min(Math.max(px < 0 ? px - 12 - width : px + 12, 2 - HALF), HALF - 2 - width);
    const over = (y) => boxes.some((box) => Math.abs(box.y - y) < high && left < box.right && box.left < left + width);
    const start = Math.min(Math.max(py + 4, high - HALF), HALF - 4);
    const shifts = Array.from({ length: 24 }, (_, i) => (i % 2 ? 1 : -1) * Math.ceil(i / 2) * 7);
    const y = shifts.map((shift) => start + shift).find((own) => own > high - HALF && own < HALF - 2 && !over(own)) ?? start;
    boxes.push({ y, left, right: left + width });
    return { x: px < 0 ? left + width : left, y, anchor: px < 0 ? "end" : "start", kind, content };
  });
}
