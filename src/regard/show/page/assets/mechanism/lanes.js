// The keys of one query as lanes that compete: the score of each, its exponential, its share. What the lanes carry flows into
// one context, each value as broad as its share.

const LANES = 8; // that are all drawn; of more keys the best, the picked one, and the others together
const BEST = 5;
const SPAN = 34; // of all shares in the picture

// The places of a picture, wide or narrow.
const WIDE = {
  ...{ width: 700, lane: 44, head: 26, name: 0, track: [128, 248], number: 296, exp: [312, 384], power: 430 },
  ...{ share: 516, flow: [526, 584], bars: [592, 696], line: 20 },
};
const NARROW = {
  ...{ width: 340, lane: 62, head: 0, name: 0, track: [9, 112], number: 160, exp: [178, 230], power: 280 },
  ...{ share: 338, bars: [120, 300], line: 48 },
};

// The keys that are shown of one query, in their order, and the others.
function shownKeys(weights, key, all) {
  const every = weights.map((_, j) => j);
  if (all || every.length <= LANES) return { shown: every, rest: [] };
  const best = new Set([...regard.best(every.length, (j) => weights[j], BEST), key]);
  return { shown: every.filter((j) => best.has(j)), rest: every.filter((j) => !best.has(j)) };
}

const othersText = (rest) => filled(TEXTS.lanes.others, { n: rest.length });

// A picture whose scores can be moved, if there is change(key, score); pick(key) picks a lane.
function lanes(pick, change) {
  const drawing = el("svg:g");
  const grips = el("svg:g");
  const svg = el("svg:svg.lanes", { role: "group" }, drawing, grips);
  const element = el("div.lanes-picture", svg);
  let [present, at, range, frame] = [null, WIDE, 1, 0];
  const handles = [];
  const draw = (numbers) => {
    present = numbers;
    range = Math.max(range, ...numbers.shown.map((j) => Math.abs(finite(numbers.scores[j]))));
    drawLanes(svg, drawing, numbers, at, pick);
    if (change && numbers.known(1)) placeHandles(numbers);
    else {
      handles.length = 0;
      put(grips);
    }
  };
  const placeHandles = (numbers) => {
    const [left, right] = at.track;
    const half = (right - left) / 2;
    while (handles.length < numbers.shown.length) handles.push(handle(handles.length));
    handles.length = numbers.shown.length;
    if (grips.children.length !== handles.length) put(grips, handles);
    numbers.shown.forEach((j, i) => {
      const score = numbers.scores[j];
      const place = Math.min(1, Math.max(-1, score / range)) || 0; // a NaN in the middle
      handles[i].setAttribute("transform", `translate(${left + half * (1 + place)} ${laneY(at, i)})`);
      handles[i].setAttribute("aria-label", filled(TEXTS.lanes.scoreOf, { key: numbers.labels[j] }));
      handles[i].setAttribute("aria-valuenow", String(score));
      handles[i].setAttribute("aria-valuetext", short(score));
    });
  };
  const handle = (i) => {
    const move = (score) => change(present.shown[i], Number(score.toFixed(1)));
    const by = (steps) => () => move(present.scores[present.shown[i]] + steps / 10);
    return grip(svg, move, by, () => ({ at, range }));
  };
  new ResizeObserver(() => {
    const places = element.clientWidth < 560 ? NARROW : WIDE;
    if (places !== at) [at] = [places];
    if (present) draw(present);
  }).observe(element);
  // From what is drawn to other numbers, in a third of a second.
  const glide = (numbers) => {
    const from = present;
    const begun = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || from?.shown.join() !== numbers.shown.join();
    if (still) return draw(numbers);
    const step = (now) => {
      const t = Math.min(1, (now - begun) / 350);
      draw(t < 1 ? partWay(from, numbers, t) : numbers);
      if (t < 1) frame = requestAnimationFrame(step);
    };
    step(begun);
  };
  const set = (numbers, moving) => {
    cancelAnimationFrame(frame);
    if (!present) range = 1;
    if (moving && present) glide(numbers);
    else draw(numbers);
  };
  // Begin where another picture stands.
  const from = ({ numbers }) => {
    const to = present;
    present = numbers();
    set(to, true);
  };
  return { element, set, svg, from, numbers: () => present };
}

const finite = (x) => (Number.isFinite(x) ? x : 0);

// What is drawn a part of the way between two sets of numbers; the labels are those at the end.
function partWay(from, to, t) {
  const mixed = (a, b) => a.map((x, i) => (Number.isFinite(x) && Number.isFinite(b[i]) ? x + t * (b[i] - x) : b[i]));
  const parts = ["scores", "weights", "context", "powers"].filter((name) => from[name] && to[name]);
  return { ...to, ...Object.fromEntries(parts.map((name) => [name, mixed(from[name], to[name])])) };
}

// The handle of a score: dragged along its track, or moved by the arrow keys.
function grip(svg, move, by, places) {
  const circle = el(
    "svg:g.grip",
    { role: "slider", tabindex: 0, "aria-orientation": "horizontal" },
    el("svg:circle.reach", { r: 15 }),
    el("svg:circle", { r: 7 }),
  );
  const steps = { ArrowRight: by(1), ArrowUp: by(1), ArrowLeft: by(-1), ArrowDown: by(-1) };
  return regard.grip(circle, { ...steps, PageUp: by(10), PageDown: by(-10) }, ({ clientX }) => {
    const { at, range } = places();
    const [left, right] = at.track;
    const x = ((clientX - svg.getBoundingClientRect().left) * at.width) / svg.clientWidth;
    move(range * Math.min(1, Math.max(-1, (2 * (x - left)) / (right - left) - 1)));
  });
}

const laneY = (at, i) => at.head + at.lane * i + (at.flow ? at.lane / 2 : 44);

function drawLanes(svg, drawing, numbers, at, pick) {
  const { shown, rest, context, query } = numbers;
  const count = shown.length + (rest.length ? 1 : 0);
  const high = at.head + at.lane * count;
  const drawn = contextShown(context);
  const below = at.flow ? 0 : 26 * drawn.length + (context?.length > drawn.length ? 54 : 34);
  const full = Math.max(high, at.flow ? at.head + 40 + 34 * drawn.length : 0) + below;
  svg.setAttribute("viewBox", `0 0 ${at.width} ${full}`);
  svg.style.setProperty("max-width", `${at.flow ? 820 : 460}px`);
  svg.setAttribute("aria-label", filled(TEXTS.lanes.label, { query }));
  const middle = at.head + (full - at.head) / 2;
  const flows = at.flow && numbers.known(3) && drawFlows(numbers, at, middle);
  const all = shown.map((j, i) => drawLane(numbers, at, j, i, pick));
  const others = rest.length > 0 && drawOthers(numbers, at, shown.length);
  const top = at.flow ? middle - 17 * drawn.length : high + 30;
  put(drawing, at.flow && laneHeads(numbers, at), all, others, flows, drawContext(numbers, at, top));
}

const laneText = (text, x, y, more) => el("svg:text", { x, y, ...more }, text);
const AT_END = { "text-anchor": "end" };

function laneHeads({ how, shares }, at) {
  const { score, share, context } = TEXTS.lanes;
  const middle = (at.track[0] + at.track[1]) / 2;
  return el(
    "svg:g.soft",
    laneText(score, middle, 14, MIDDLE),
    how && laneText(how, at.exp[0], 14),
    laneText(shares ? share : ROWS.weight, at.share, 14, AT_END),
    laneText(context, at.bars[0], 14),
  );
}

function drawLane(numbers, at, j, i, pick) {
  const { labels, scores, powers, weights, key, known, visible, text } = numbers;
  const y = laneY(at, i);
  const [left, right] = at.track;
  const half = (right - left) / 2;
  const hidden = !visible[j];
  const name = at.flow ? [at.name, y + 5] : [at.name, y - 24];
  const kind = `lane${j === key ? " picked" : ""}${hidden ? " hidden-lane" : ""}`;
  const onclick = () => pick(j);
  return el(
    `svg:g`,
    { class: kind, onclick },
    el("svg:rect.back", {
      x: 0,
      y: at.head + at.lane * i + 2,
      width: at.flow ? at.share + 8 : at.width,
      height: at.lane - 4,
      rx: 6,
    }),
    laneText(clipped(labels[j], at.flow ? 15 : 24), ...name, { class: "name" }),
    scores && el("svg:path.track", { d: `M${left} ${y}H${right}M${left + half} ${y - 4}v8` }),
    scores && laneText(known(1) ? written(scores[j], digitsOf(scores)) : "?", at.number, y + 5, AT_END),
    powers && known(2) && !hidden && laneBar("power", at.exp, y, powers[j] / largest(powers)),
    powers && known(2) && laneText(hidden ? "0" : brief(powers[j]), at.power, y + 5, AT_END),
    laneText(known(2) ? (hidden ? ROWS.masked : text(weights[j])) : "?", at.share, at.flow ? y + 5 : y - 24, {
      ...AT_END,
      class: "share",
    }),
  );
}

const laneBar = (kind, [left, right], y, part) =>
  el(`svg:rect.${kind}`, { x: left, y: y - 7, width: Math.max(0.5, (right - left) * finite(part)), height: 14, rx: 3 });

function drawOthers({ rest, weights, known, text }, at, i) {
  const y = laneY(at, i);
  return el(
    "svg:g.lane.soft",
    laneText(othersText(rest), at.name, at.flow ? y + 5 : y - 24),
    laneText(known(2) ? text(total(rest.map((j) => weights[j]))) : "?", at.share, at.flow ? y + 5 : y - 24, AT_END),
  );
}

// From each lane a band, as broad as its share, to where all of them come together.
function drawFlows({ shown, rest, weights, key }, at, middle) {
  const all = [...shown.map((j) => weights[j]), ...(rest.length ? [total(rest.map((j) => weights[j]))] : [])];
  const whole = Math.max(1, finite(total(weights)));
  const shares = all.map((weight) => finite(weight) / whole);
  const [from, to] = at.flow;
  const bend = (from + to) / 2;
  let below = middle - (SPAN * total(shares)) / 2;
  return shares.map((share, i) => {
    const [y, half, top] = [laneY(at, i), (SPAN * share) / 2, below];
    below += SPAN * share;
    const upper = `M${from} ${y - half}C${bend} ${y - half} ${bend} ${top} ${to} ${top}`;
    const lower = `L${to} ${below}C${bend} ${below} ${bend} ${y + half} ${from} ${y + half}Z`;
    return el("svg:path", { class: shown[i] === key ? "band picked" : "band", d: upper + lower });
  });
}

// A number in the room of six digits.
function brief(x) {
  if (Math.abs(x) >= 1e5) return localized(x.toExponential(1).replace("e+", "e"));
  return written(x, Number.isInteger(x) || Math.abs(x) >= 1000 ? 0 : regard.digits);
}

const contextShown = (context) => (context ? context.slice(0, 4) : []);

// The numbers of the context as bars between the smallest and the largest of all values.
function drawContext({ context, topics, bounds, known, query }, at, top) {
  const drawn = contextShown(context);
  if (!drawn.length) return null;
  const [low, high] = [Math.min(0, finite(bounds[0])), Math.max(0, finite(bounds[1]))];
  const [left, right] = at.flow ? at.bars : [at.bars[0], at.bars[1]];
  const x = (value) =>
    left + ((right - left) * (Math.min(high, Math.max(low, finite(value))) - low)) / (high - low || 1);
  const lines = drawn.map((value, i) => {
    const y = top + (at.flow ? 34 : 26) * i;
    const [a, b] = known(3) ? [Math.min(x(0), x(value)), Math.max(x(0), x(value))] : [x(0), x(0)];
    const place = at.flow ? [left, y + 10] : [0, y + 12];
    return [
      laneText(clipped(topics?.[i] ?? `${i + 1}`, 12), ...place, { class: "name" }),
      el("svg:rect.trough", { x: left, y: at.flow ? y + 14 : y, width: right - left, height: 14, rx: 3 }),
      el("svg:rect.amount", { x: a, y: at.flow ? y + 14 : y, width: Math.max(0.5, b - a), height: 14, rx: 3 }),
      laneText(known(3) ? brief(value) : "?", at.flow ? right : at.width, at.flow ? y + 10 : y + 12, AT_END),
    ];
  });
  const more = context.length - drawn.length;
  const note =
    more > 0 &&
    laneText(filled(TEXTS.lanes.more, { n: more }), left, top + (at.flow ? 34 : 26) * drawn.length + 12, {
      class: "soft",
    });
  const title = !at.flow && laneText(filled(TEXTS.lanes.contextOf, { query }), 0, top - 10, { class: "soft" });
  return el("svg:g.context", title, lines, note);
}
