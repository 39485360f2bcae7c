// The picture of the mechanism for one pair of query and key: the part at work lights up with the step, and its numbers
// stand in it.

const BOX = [158, 54];
const WIDE = {
  ...{ size: [764, 188], q: [2, 8, ...BOX], k: [2, 126, ...BOX], dot: [208, 94], score: [258, 84] },
  ...{ soft: [300, 64, 150, 60], weight: [488, 84], times: [540, 94], v: [461, 126, ...BOX], sum: [598, 94] },
  c: [638, 64, 124, 60],
};
const NARROW = {
  ...{ size: [340, 400], q: [1, 1, ...BOX], k: [181, 1, ...BOX], dot: [170, 92], score: [214, 122] },
  ...{ soft: [95, 134, 150, 60], weight: [128, 222], times: [170, 246], v: [212, 218, 127, 54], sum: [170, 298] },
  c: [91, 336, 158, 60],
};
const RADIUS = 15;

function picture() {
  const svg = el("svg:svg.flow", { role: "img" });
  const element = el("div.picture-of-steps", svg);
  let [present, places] = [null, WIDE];
  const draw = (numbers, where) => {
    [present, places] = [numbers, where];
    if (present) drawFlow(svg, places, present);
  };
  new ResizeObserver(() => {
    const where = element.clientWidth < 600 ? NARROW : WIDE;
    if (where !== places) draw(present, where);
  }).observe(element);
  return { element, set: (numbers) => draw(numbers, places) };
}

// numbers: {names, query, key, q, k, v, c, sign: of the score, score, how, weight, step: the step at work or null}
function drawFlow(svg, at, { names, query, key, q, k, v, c, sign, score, how, weight, step }) {
  const done = (number) => step === null || step >= number;
  const kind = (number) => (step === number ? "at-work" : done(number) ? null : "to-come");
  const part = (number, ...children) => el("svg:g", { class: kind(number) }, children);
  const box = ([x, y, w, h], ...lines) => [
    el("svg:rect", { x, y, width: w, height: h, rx: 8 }),
    lines.map((line, i) => words(line, x + w / 2, y + (h * (i + 1)) / (lines.length + 1) + 5, w, i ? "" : "name")),
  ];
  const circle = ([cx, cy], text) => [el("svg:circle", { cx, cy, r: RADIUS }), words(text, cx, cy + 6, 40, "sign")];
  const narrow = at === NARROW;
  const right = ([x, y, w, h]) => (narrow ? [x + w / 2, y + h] : [x + w, y + h / 2]);
  const below = ([x, y, w]) => (narrow ? [x, y + 27] : [x + w / 2, y]);
  const into = ([x, y, w, h]) => (narrow ? [x + w / 2, y] : [x, y + h / 2]);
  const out = ([x, y]) => (narrow ? [x, y + RADIUS] : [x + RADIUS, y]);
  const from = ([x, y]) => (narrow ? [x + RADIUS, y] : [x, y + RADIUS]);
  const to = ([x, y]) => (narrow ? [x, y - RADIUS] : [x - RADIUS, y]);
  svg.setAttribute("viewBox", `0 0 ${at.size.join(" ")}`);
  svg.style.setProperty("max-width", `${narrow ? 440 : at.size[0]}px`); // a page on paper may be wider than the window was
  svg.setAttribute("aria-label", flowLabel({ names, query, key, score, weight, done }));
  put(
    svg,
    part(
      1,
      arrow(right(at.q), towards(at.dot, right(at.q))),
      arrow(right(at.k), towards(at.dot, right(at.k))),
      box(at.q, `${names.query} ${query}`, brief(q)),
      box(at.k, `${names.key} ${key}`, brief(k)),
      circle(at.dot, sign),
    ),
    part(2, arrow(out(at.dot), into(at.soft)), arrow(right(at.soft), to(at.times)), box(at.soft, ...how)),
    part(
      3,
      arrow(below(at.v), from(at.times)),
      arrow(out(at.times), to(at.sum)),
      arrow(out(at.sum), into(at.c)),
      box(at.v, `${names.value} ${key}`, brief(v)),
      circle(at.times, "\u00d7"),
      circle(at.sum, "\u03a3"),
      box(at.c, "context", done(3) ? brief(c) : "?"),
    ),
    part(1, words(done(1) ? short(score) : "?", ...at.score, 90, "result")),
    part(2, words(done(2) ? regard.weight(weight, 3) : "?", ...at.weight, 90, "result")),
  );
}

function brief(x) {
  const shown = x.slice(0, 3).map((number) => written(number, Number.isInteger(number) ? 0 : 2));
  return `(${shown.join(", ")}${x.length > 3 ? ", \u2026" : ""})`;
}

const words = (text, x, y, room, kind) => el("svg:text", { x, y, class: kind }, clipped(text, Math.floor(room / 7.4)));

// The point of a circle that faces another point.
function towards([cx, cy], [x, y]) {
  const distance = Math.hypot(x - cx, y - cy) || 1;
  return [cx + (RADIUS * (x - cx)) / distance, cy + (RADIUS * (y - cy)) / distance];
}

const arrow = (from, to) => el("svg:path", { d: regard.arrow(from, to, 7, 0.45) });

function flowLabel({ names, query, key, score, weight, done }) {
  const pair = `The ${names.query} ${query} and the ${names.key} ${key}`;
  const parts = [`${pair} have the score ${done(1) ? short(score) : "?"}`];
  if (done(2)) parts.push(`their weight is ${regard.weight(weight, 3)}`);
  if (done(3)) parts.push(`the context is the sum of all ${names.value}s, each multiplied by its weight`);
  return parts.join("; ");
}
