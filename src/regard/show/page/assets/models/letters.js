// A small language model that computes in the page: its forward pass, as docs/notebooks/4-small-language-model.py has it,
// and a text to begin, whose letters show what a head looks at and what comes next.

const EPSILON = 1e-5; // of the root mean square
const MORE = 40; // letters that are written at once
const FASTEST = 40; // milliseconds for each of them, at least
const LONGEST = 500; // letters of a text

// From letters to the model's answer. Arrays are kept as numbers of 8 bits, one after the other; each has a scale.
regard.languageModel = ({ letters, heads, layers, length, arrays, weights }) => {
  const known = new Map([...letters].map((letter, i) => [letter, i]));
  const { data } = regard.array(weights);
  let start = 0;
  const p = {};
  for (const [name, shape, scale] of arrays) {
    const size = shape.reduce((product, x) => product * x, 1);
    p[name] = { width: shape.at(-1), numbers: Float64Array.from(data.subarray(start, start + size), (x) => x * scale) };
    start += size;
  }
  const read = (text) => [...text].filter((letter) => known.has(letter)).slice(-length);
  return {
    letters: [...letters],
    length,
    heads,
    layers,
    read,
    predict: (text) => predicted(p, read(text), known, { heads, layers }),
  };
};

// What was read, the weights [layer][head][position][position] and the logits of the next letter.
function predicted(p, read, known, { heads, layers }) {
  const { width, numbers } = p.table;
  const all = [];
  let rows = read.map((letter) => numbers.subarray(known.get(letter) * width, (known.get(letter) + 1) * width));
  for (let i = 0; i < layers; i++) {
    const part = (name) => p[`${i} ${name}`];
    const normal = rootMeanSquare(rows, part("attention gain"));
    const attentions = headsOf(normal, part, heads);
    all.push(attentions.map(({ weights }) => weights));
    const joined = rows.map((_, t) => attentions.flatMap(({ context }) => context[t]));
    rows = summed(rows, product(joined, part("output")));
    const inner = product(rootMeanSquare(rows, part("hidden gain")), part("up"), part("up bias"));
    rows = summed(rows, product(rectified(inner), part("down"), part("down bias")));
  }
  const [last] = rootMeanSquare(rows.slice(-1), p.gain);
  const logit = (k) => last.reduce((sum, x, i) => sum + x * numbers[k * width + i], 0);
  return { read, weights: all, logits: [...known.values()].map(logit) };
}

// One attention for each head, as every attention of the page is computed.
function headsOf(rows, part, count) {
  const [queries, keys, values] = ["query", "key", "value"].map((name) => product(rows, part(name)));
  const size = queries[0].length / count;
  const cut = (vectors, head) => vectors.map((x) => [...x.subarray(head * size, (head + 1) * size)]);
  return Array.from({ length: count }, (_, head) =>
    regard.compute({
      ...{
        queries: regard.rotary(cut(queries, head)),
        keys: regard.rotary(cut(keys, head)),
        values: cut(values, head),
      },
      mask: { kind: "causal" },
    }),
  );
}

function rootMeanSquare(rows, { numbers: gain }) {
  return rows.map((row) => {
    const root = Math.sqrt(row.reduce((sum, x) => sum + x * x, 0) / row.length + EPSILON);
    return row.map((x, i) => (x / root) * gain[i]);
  });
}

function product(rows, { width, numbers }, bias) {
  return rows.map((row) => {
    const sums = bias ? bias.numbers.slice() : new Float64Array(width);
    for (let i = 0; i < row.length; i++) {
      for (let j = 0; j < width; j++) sums[j] += row[i] * numbers[i * width + j];
    }
    return sums;
  });
}

// The probabilities of the next letter. At temperature 0 the most probable one gets everything.
regard.sharpened = (logits, temperature) => {
  const most = largest(logits);
  if (temperature === 0) return logits.map((x, _, all) => Number(all.indexOf(most) === all.indexOf(x) && x === most));
  return NORMALIZE.softmax(logits.map((x) => x / temperature)).weights;
};

// ------------------------------------------------------------------------------------------------------- the view

const visibleLetter = (letter) => ({ " ": "\u2423", "\n": "\u21b5" })[letter] ?? letter;

regard.view("letters", (root, data, { section }) => {
  const texts = TEXTS.letters;
  const model = regard.languageModel(data);
  const freshText = () => ({ ...data.first, letter: null });
  const { integer, number, optional } = regard.CODES;
  const fields = {
    text: { write: word, read: unword },
    temperature: number((x) => x >= 0 && x <= 2),
    head: integer(model.layers * model.heads),
    letter: optional(integer(model.length)),
  };
  const view = regard.kept(section, freshText, fields, () => fill(), ["letter"]);
  const { change } = view;
  let [answer, present, timer] = [null, null, 0];

  const type = (text) => change({ text, letter: null });
  const draw = () => {
    const shares = regard.sharpened(answer.logits, view.state.temperature);
    const place = Math.random();
    let sum = 0;
    const drawn = shares.findIndex((share) => {
      sum += share;
      return place < sum;
    });
    type(view.state.text + model.letters[drawn < 0 ? shares.indexOf(largest(shares)) : drawn]);
  };
  const stop = () => {
    clearTimeout(timer);
    timer = 0;
    more.textContent = texts.more;
  };
  const write = (count) => {
    if (!root.isConnected || count === 0 || view.state.text.length >= LONGEST) return stop();
    draw();
    timer = setTimeout(() => write(count - 1), FASTEST);
  };
  const begin = () => {
    if (timer) return stop();
    more.textContent = texts.stop;
    write(MORE);
  };

  const input = el("input.beginning", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: LONGEST });
  on(input, "input", () => type(input.value));
  const next = el("button.primary", { onclick: () => answer && draw() }, texts.next);
  const more = el("button", { onclick: () => answer && begin() }, texts.more);
  const range = { min: 0, max: 2, step: 0.1, change: (temperature) => change({ temperature }) };
  const temperature = regard.slider(texts.temperature, range, (x) => [x, regard.format(x, 1)]);
  const names = Array.from({ length: model.layers * model.heads }, (_, k) => [
    k,
    filled(texts.place, { layer: Math.floor(k / model.heads) + 1, i: (k % model.heads) + 1 }),
  ]);
  const head = regard.choices(texts.head, names, view.state.head, (k) => change({ head: k }));
  const [row, told, left] = [
    el("p.letters-read", { dir: "auto" }),
    el("p.sentence", { "aria-live": "polite" }),
    el("p.soft"),
  ];
  const later = regard.hatchKey(texts.later);
  const list = el("div.shares");
  const comes = () =>
    largestShares(
      model.letters.map(visibleLetter),
      regard.sharpened(answer.logits, view.state.temperature),
      texts.others,
    );
  const looked = () => {
    const { read, from, line } = present;
    return largestShares(
      read.slice(0, from + 1).map((letter, t) => `${visibleLetter(letter)} ${t + 1}`),
      line,
      texts.others,
    );
  };
  const exported = regard.exports(texts.comes, () => ({
    svg: () =>
      regard.barsPicture(view.state.text, [
        [`${texts.head} ${names[view.state.head][1]}`, looked()],
        [texts.comes, comes()],
      ]),
    table: () => ({ rows: [], columns: [], numbers: [[...regard.sharpened(answer.logits, view.state.temperature)]] }),
  }));
  root.append(
    el("div.writing", regard.field(texts.begin, input), next, more, temperature.element),
    left,
    told,
    el(
      "div.letters-parts",
      el("div", el("div.row", el("span.soft", texts.head), head.element), row, later),
      el("div", el("p.soft", texts.comes, " ", exported), list),
    ),
  );

  const fill = () => {
    const { state } = view;
    answer = model.read(state.text).length ? model.predict(state.text) : null;
    if (input.value !== state.text) input.value = state.text;
    temperature.set(state.temperature);
    head.set(state.head);
    const unknown = [...new Set(state.text)].filter((letter) => !model.letters.includes(letter));
    left.hidden = !unknown.length;
    put(left, filled(texts.unknown, { letters: unknown.join(" ") }));
    later.hidden = true;
    if (!answer) return [row, told, list].forEach((part) => put(part));
    fillLetters();
    put(list, shareRows(comes()));
  };
  const fillLetters = () => {
    const { read, weights } = answer;
    const { head, letter } = view.state;
    const from = Math.min(letter ?? read.length - 1, read.length - 1);
    const line = weights[Math.floor(head / model.heads)][head % model.heads][from];
    const top = regard.darkest(line, from + 1);
    const cells = read.map((name, t) => {
      const known = { "aria-pressed": String(t === from), "data-part": `letter-${t}` };
      const cell = el("button.letter", { ...known, onclick: () => change({ letter: t }) });
      regard.tint(cell, t > from ? null : line[t], top);
      cell.setAttribute("aria-label", visibleLetter(name) + COLON + (t > from ? texts.later : regard.percent(line[t])));
      return put(cell, visibleLetter(name));
    });
    later.hidden = from === read.length - 1;
    regard.roving([cells]);
    regard.renew(row, cells);
    present = { read, from, line: line.slice(0, from + 1) };
    const seen = read.slice(0, from + 1).map(visibleLetter);
    put(told, sentence(visibleLetter(read[from]), seen, line.slice(0, from + 1)));
  };
  regard.onTheme(() => answer && fillLetters());
  fill();
  return { look: () => change({ text: texts.asked, letter: null, temperature: data.first.temperature }) };
});
