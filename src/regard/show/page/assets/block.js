// A block at its places: words, positions, attention, add, feed-forward, add. What becomes of one word is computed, box by
// box, with and without the parts that stand around attention.

const BOXES = ["words", "positions", "attention", "add", "feed", "output"];
const STRIPS = ["encoder", "decoder", "source"]; // from left to right; a language model is the middle one alone
const TO_CHAPTER = { words: "queries", positions: "heads" };
const OF_ATTENTION = { encoder: "shares", decoder: "heads", source: "why" };
const STRIP = { left: 14, wide: 98, apart: 126, tops: [26, 62, 98, 148, 184, 220], low: 26, high: 40 };

// What each box makes of all words. Keys and values are made of `memory`, or else of the words themselves; without `feed`
// the block ends after attention.
regard.block = ({ words, positions, memory, mask }, matrices, { residual, feed }) => {
  const { query_weight, key_weight, value_weight, output_weight, hidden_weight, hidden_bias, feed_weight } = matrices;
  const input = positions ? summed(words, positions) : words;
  const read = memory ?? input;
  const [queries, keys, values] = [times(input, query_weight), times(read, key_weight), times(read, value_weight)];
  const attention = times(regard.compute({ queries, keys, values, mask }).context, output_weight);
  const after = (brought, before) => (residual ? summed(before, brought) : brought);
  const add = after(attention, input);
  const inside = { words, positions: input, attention, add };
  if (!feed) return { ...inside, last: add };
  const hidden = times(add, hidden_weight).map((row) => row.map((x, j) => x + hidden_bias[j]));
  const fed = times(rectified(hidden), feed_weight);
  const output = after(fed, add);
  return { ...inside, feed: fed, output, last: output };
};

// The block at a place, and the word that is looked at there. The source is read by the decoder's words after their own
// attention; what they read is the encoder's output.
regard.placed = ({ source, target, matrices }, { place, residual, feed }) => {
  const options = { residual: residual === "on", feed: feed === "on" };
  const made = (part, own, chosen = options) => regard.block({ ...part, ...own }, matrices, chosen);
  const mask = { kind: "causal" };
  const decoded = () => made(target, { mask }, { ...options, feed: false });
  const at = {
    encoder: () => [source.labels[0], made(source)],
    decoder: () => [target.labels[0], decoded()],
    source: () => {
      const { words, ...read } = made({ words: decoded().last, memory: made(source).last });
      return [target.labels[0], { ...read, words: null, positions: words }];
    },
    language: () => [source.labels[0], made(source, { mask })],
  };
  const [word, boxes] = at[place]();
  return { word, boxes: BOXES.map((box) => boxes[box]?.[0] ?? null), last: boxes.last[0] };
};

const wholeBlock = () => ({ place: "encoder", residual: "on", feed: "on" });

regard.view("block", (root, data, { section }) => {
  const texts = TEXTS.block;
  const [onOff, place] = [["on", "off"], Object.keys(texts.places)].map(regard.CODES.choice);
  const fields = { place, residual: onOff, feed: onOff };
  const view = regard.kept(section, wholeBlock, fields, () => fill());
  const bar = placeBar(view, texts);
  const heading = el("p.sentence", { "aria-live": "polite" });
  const told = el("p.soft");
  const picture = stripsPicture(texts);
  const rowLabels = BOXES.map((box) => texts.boxes[box]);
  const table = results({ title: texts.table, rowLabels, columnLabels: data.features, digits: 2 });
  const fill = () => {
    const { word, boxes, last } = regard.placed(data, view.state);
    const numbers = data.features.map((feature, j) => `${feature} ${short(Number(last[j].toFixed(2)))}`);
    [bar, picture].forEach((part) => part.set(view.state));
    put(heading, filled(texts.status, { word, numbers: numbers.join(LISTING) }));
    put(told, regard.rich(texts.places[view.state.place].text));
    table.set(boxes.map((row) => row ?? data.features.map(() => null)));
  };
  root.classList.add("mechanism");
  root.append(bar.element, heading, told, el("div.beside", picture.element, table.element));
  fill();
  return { look: () => view.change({ place: "language" }) };
});

// Where one is, and the parts that can be switched off.
function placeBar(view, texts) {
  const { change } = view;
  const places = regard.choices(texts.place, nameOf(texts.places), view.state.place, (place) => change({ place }));
  const switches = Object.entries(texts.switches).map(([name, text]) => {
    const flip = () => change({ [name]: view.state[name] === "on" ? "off" : "on" });
    return [name, el("button", { onclick: flip }, text)];
  });
  const set = (state) => {
    places.set(state.place);
    switches.forEach(([name, button]) => button.setAttribute("aria-pressed", String(state[name] === "on")));
  };
  const buttons = switches.map(([, button]) => button);
  return { element: el("div.controls", places.element, el("div.row", buttons)), set };
}

// ------------------------------------------------------------------------------------------------------- picture

// Whether a box has a part in what is looked at: a strip of the translator has no box of another, and the language model
// is one whole strip.
function works(strip, box, { place, residual, feed }) {
  const absent = { encoder: [], decoder: ["feed", "output"], source: ["words", "positions"] }[strip];
  const off = { add: residual, feed, output: feed }[box] === "off";
  if (off) return false;
  return place === "language" ? strip === "decoder" : !absent.includes(box);
}

function stripsPicture(texts) {
  const svg = el("svg:svg.strips", { viewBox: "0 0 364 268", role: "group" });
  const set = (state) => {
    put(svg, drawStrips(state, texts));
    svg.setAttribute("aria-label", texts.picture + COLON + texts.places[state.place].name);
  };
  return { element: regard.figure(texts.picture, svg, () => ({ svg: () => svg })), set };
}

function drawStrips(state, texts) {
  const { left, wide, apart } = STRIP;
  const lit = state.place === "language" ? "decoder" : state.place;
  const strip = (name, k) => {
    const x = left + apart * k;
    const title = pictureText(texts.strips[name], x + wide / 2, 14, { ...MIDDLE, fill: null, "font-weight": 600 });
    const boxes = BOXES.map((box, i) => drawBox(name, box, [x, i], state, texts));
    const around = state.residual === "on" && [
      works(name, "add", state) && drawAround(x, 1, 3),
      works(name, "output", state) && drawAround(x, 3, 5),
    ];
    const ends = name === (state.place === "language" ? "decoder" : "source");
    const next = ends && pictureText(texts.next, x + wide / 2, 262, { ...MIDDLE, fill: null, "font-size": 12.5 });
    return el("svg:g", { class: name === lit ? "strip lit" : "strip" }, title, around, boxes, next);
  };
  const translates = state.place !== "language";
  return [translates && drawReading(), STRIPS.map(strip)];
}

const middleOf = (i) => STRIP.tops[i] + (i === 2 ? STRIP.high : STRIP.low) / 2;

function drawBox(strip, box, [x, i], state, texts) {
  const { tops, wide, low, high } = STRIP;
  const height = box === "attention" ? high : low;
  const lines = box === "attention" ? texts.attention[strip] : [texts.boxes[box]];
  const middle = tops[i] + height / 2 + 4.5 - 8 * (lines.length - 1);
  const own = { ...MIDDLE, fill: null, "font-size": 12.5 };
  const content = [
    el("svg:rect", { x, y: tops[i], width: wide, height, rx: 6 }),
    lines.map((line, k) => pictureText(line, x + wide / 2, middle + 16 * k, own)),
  ];
  const down =
    i < 5 &&
    el("svg:path", { d: regard.arrow([x + wide / 2, tops[i] + height], [x + wide / 2, tops[i + 1]], 6, 0.45) });
  const chapter = TO_CHAPTER[box] ?? (box === "attention" && OF_ATTENTION[strip]);
  const linked = onPage.has(chapter) ? el("svg:a", { href: `#${chapter}` }, content) : content;
  return el("svg:g", { class: works(strip, box, state) ? "box" : "box out" }, linked, down);
}

// The word itself goes around a box, and is added to what that box makes of it.
function drawAround(x, from, to) {
  const [start, end] = [STRIP.tops[from] + STRIP.low + 4, middleOf(to)];
  return el("svg:path", { class: "around", d: `M${x + STRIP.wide / 2} ${start}H${x - 9}V${end}H${x - 1}` });
}

// What the third strip reads: its queries are the decoder's words, its keys and values those of the encoder.
function drawReading() {
  const { left, apart, wide } = STRIP;
  const [third, second] = [left + 2 * apart, left + apart];
  const from = `M${left + wide / 2} 246V260H${third - 16}V${middleOf(2) + 9}H${third - 1}`;
  const own = `M${second + wide} ${middleOf(3)}H${third - 23}V${middleOf(2) - 9}H${third - 1}`;
  return [from, own].map((d) => el("svg:path", { class: "read", d }));
}
