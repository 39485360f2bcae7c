// The picture of the mechanism for one pair of query and key: the part at work lights up with the step, and its numbers
// stand in it.

const WIDE = {
  size: [764, 188],
  q: [2, 8, 158, 54],
  k: [2, 126, 158, 54],
  dot: [208, 94],
  score: [258, 84],
  soft: [300, 64, 150, 60],
  weight: [488, 84],
  times: [540, 94],
  v: [461, 126, 158, 54],
  sum: [598, 94],
  c: [638, 64, 124, 60],
};
const NARROW = {
  size: [340, 400],
  q: [1, 1, 158, 54],
  k: [181, 1, 158, 54],
  dot: [170, 92],
  score: [214, 122],
  soft: [95, 134, 150, 60],
  weight: [128, 222],
  times: [170, 246],
  v: [212, 218, 127, 54],
  sum: [170, 298],
  c: [91, 336, 158, 60],
};
const RADIUS = 15;

function picture() {
  const svg = regard.element("svg:svg", { class: "flow", role: "img" });
  const element = regard.element("div", { class: "picture-of-steps" }, svg);
  let [present, places] = [null, WIDE];
  const redraw = () => present && drawFlow(svg, places, present);
  new ResizeObserver(() => {
    const next = element.clientWidth < 600 ? NARROW : WIDE;
    if (next !== places) (places = next), redraw();
  }).observe(element);
  return { element, set: (numbers) => ((present = numbers), redraw()) };
}

// numbers: {names, query, key, q, k, v, c, sign: of the score, score, how, weight, step: the step at work or null}
function drawFlow(svg, at, { names, query, key, q, k, v, c, sign, score, how, weight, step }) {
  const done = (number) => step === null || step >= number;
  const part = (number, ...children) =>
    regard.element("svg:g", { class: step === number ? "at-work" : done(number) ? null : "to-come" }, children.flat(Infinity).filter(Boolean));
  const box = ([x, y, w, h], ...lines) => [
    regard.element("svg:rect", { x, y, width: w, height: h, rx: 8 }),
    lines.map((line, i) => words(line, x + w / 2, y + (h * (i + 1)) / (lines.length + 1) + 5, w, i ? "" : "name")),
  ];
  const circle = ([cx, cy], text) => [regard.element("svg:circle", { cx, cy, r: RADIUS }), words(text, cx, cy + 6, 40, "sign")];
  const narrow = at === NARROW;
  const [right, below] = [([x, y, w, h]) => (narrow ? [x + w / 2, y + h] : [x + w, y + h / 2]), ([x, y, w]) => (narrow ? [x, y + 27] : [x + w / 2, y])];
  const [into, out] = [([x, y, w, h]) => (narrow ? [x + w / 2, y] : [x, y + h / 2]), ([x, y]) => (narrow ? [x, y + RADIUS] : [x + RADIUS, y])];
  const to = ([x, y]) => (narrow ? [x, y - RADIUS] : [x - RADIUS, y]);
  svg.setAttribute("viewBox", `0 0 ${at.size.join(" ")}`);
  svg.style.setProperty("max-width", `${narrow ? 440 : at.size[0]}px`); // a page on paper may be wider than the window was
  svg.setAttribute("aria-label", flowLabel({ names, query, key, score, weight, done }));
  svg.replaceChildren(
    part(1, arrow(right(at.q), towards(at.dot, right(at.q))), arrow(right(at.k), towards(at.dot, right(at.k))), box(at.q, `${names.query} ${query}`, brief(q)), box(at.k, `${names.key} ${key}`, brief(k)), circle(at.dot, sign)),
    part(2, arrow(out(at.dot), into(at.soft)), arrow(right(at.soft), to(at.times)), box(at.soft, ...how)),
    part(3, arrow(below(at.v), narrow ? [at.times[0] + RADIUS, at.times[1]] : [at.times[0], at.times[1] + RADIUS]), arrow(out(at.times), to(at.sum)), arrow(out(at.sum), into(at.c)), box(at.v, `${names.value} ${key}`, brief(v)), circle(at.times, "\u00d7"), circle(at.sum, "\u03a3"), box(at.c, `context`, done(3) ? brief(c) : "?")),
    part(1, words(done(1) ? short(score) : "?", ...at.score, 90, "result")),
    part(2, words(done(2) ? regard.weight(weight, 3) : "?", ...at.weight, 90, "result")),
  );
}

const brief = (x) => `(${x.slice(0, 3).map((number) => written(number, Number.isInteger(number) ? 0 : 2)).join(", ")}${x.length > 3 ? ", \u2026" : ""})`;

function words(text, x, y, room, kind) {
  const most = Math.floor(room / 7.4);
  const shown = text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
  return regard.element("svg:text", { x, y, class: kind }, shown);
}

// The point of a circle that faces another point.
function towards([cx, cy], [x, y]) {
  const distance = Math.hypot(x - cx, y - cy) || 1;
  return [cx + (RADIUS * (x - cx)) / distance, cy + (RADIUS * (y - cy)) / distance];
}

function arrow([x1, y1], [x2, y2]) {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const wing = (turn) => `${x2 - 7 * Math.cos(angle + turn)} ${y2 - 7 * Math.sin(angle + turn)}`;
  return regard.element("svg:path", { d: `M${x1} ${y1}L${x2} ${y2}M${wing(0.45)}L${x2} ${y2}L${wing(-0.45)}` });
}

function flowLabel({ names, query, key, score, weight, done }) {
  const parts = [`The ${names.query} ${query} and the ${names.key} ${key} have the score ${done(1) ? short(score) : "?"}`];
  if (done(2)) parts.push(`their weight is ${regard.weight(weight, 3)}`);
  if (done(3)) parts.push(`the context is the sum of all ${names.value}s, each multiplied by its weight`);
  return parts.join("; ");
}
