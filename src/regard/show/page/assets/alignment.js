// Alignments: the weights between the tokens of two sides, for each sentence and each hypothesis; of a picture, where
// each token looked.

const ALIGNED = TEXTS.alignment;

regard.view("alignment", (root, data, { section }) => {
  const { sentences } = data;
  const fresh = () => ({ sentence: 0, hypothesis: 0, shown: 0 });
  const fields = alignmentFields(sentences);
  const view = regard.kept(section, fresh, fields, () => show(), Object.keys(fields));
  const source = el("p.source");
  const list = el("div.hypotheses", { role: "group", "aria-label": ALIGNED.hypotheses });
  const scored = el("p.soft", data.scored ?? ALIGNED.scored);
  const stage = el("div.stage");
  const select = regard.list(sentenceNames(sentences), 0, (sentence) => view.change({ sentence, hypothesis: 0 }));
  const noun = data.noun ?? ALIGNED.nouns[sentences[0].grid ? "picture" : "sentence"];
  const chooser = sentences.length > 1 ? [regard.field(noun, select)] : [];
  root.append(...chooser, source, list, scored, stage);
  const show = () => {
    const { state } = view;
    const sentence = sentences[state.sentence];
    state.hypothesis = Math.min(state.hypothesis, sentence.hypotheses.length - 1);
    select.selectedIndex = state.sentence;
    const name = el("b", sentence.name || data.noun || ALIGNED.nouns.source);
    put(source, sentence.grid ? sentence.name : [name, " ", bdi(sentence.text || sentence.source.join(" "))]);
    source.hidden = Boolean(sentence.grid) && !sentence.name;
    scored.hidden = sentence.hypotheses[0].score === null;
    listHypotheses(list, sentence, view);
    put(stage, staged(sentence, sentence.hypotheses[state.hypothesis], state));
  };
  show();
});

function alignmentFields(sentences) {
  const { integer } = regard.CODES;
  const most = (of) => Math.max(...of.map(({ length }) => length));
  const hypotheses = sentences.map((sentence) => sentence.hypotheses);
  const shown = 1 + 2 * most(hypotheses.flat().map(({ importance = [] }) => importance));
  return { sentence: integer(sentences.length), hypothesis: integer(most(hypotheses)), shown: integer(shown) };
}

function sentenceNames(sentences) {
  const of = ({ grid, hypotheses, text, source }) => (grid ? hypotheses[0].text : text || source.join(" "));
  return sentences.map((sentence, i) => [i + 1, sentence.name, of(sentence)].filter(Boolean).join("  "));
}

function listHypotheses(list, sentence, { state, change }) {
  list.hidden = sentence.hypotheses.length < 2 && !sentence.hypotheses[0].text;
  const buttons = sentence.hypotheses.map(({ text, score }, i) => {
    const chosen = { "aria-pressed": String(i === state.hypothesis), "data-part": `hypothesis-${i}` };
    const number = score !== null && el("span.score", regard.format(score, 3));
    return el("button.hypothesis", { ...chosen, onclick: () => change({ hypothesis: i }) }, number, bdi(text));
  });
  regard.roving(buttons.map((button) => [button]));
  regard.renew(list, buttons);
}

function staged(sentence, hypothesis, state) {
  if (!hypothesis.weights) return [el("p.note", ALIGNED.none)];
  const weights = regard.array(hypothesis.weights).data;
  const importance = unpackedImportance(hypothesis.importance);
  if (sentence.grid) return [pictureView(sentence, hypothesis, weights, importance, state)];
  if (!hypothesis.tokens.length) return [el("p.note", ALIGNED.empty)];
  const links = state.hypothesis === 0 ? sentence.links : []; // given links are those of the first
  const numbered = sentence.source.every((name, i) => name === String(i + 1)); // as vectors are
  const names = { ...ALIGNED.sides, ...(numbered ? ALIGNED.inputs : ALIGNED.words), ...BLUE };
  const titles = () => [document.title, hypothesis.text || sentence.name];
  const shown = { rows: hypothesis.tokens, columns: sentence.source, weights, importance, names };
  const view = regard.weightsView(shown, { links, warnings: hypothesis.warnings, titles, state });
  return [view.element, links.length > 0 && legend(links, hypothesis, weights, sentence.source.length)];
}

function legend(links, hypothesis, weights, m) {
  const best = hypothesis.tokens.map((_, row) => {
    const own = weights.subarray(row * m, (row + 1) * m);
    return own.indexOf(own.reduce((most, weight) => Math.max(most, weight), -Infinity));
  });
  const hit = links.filter(([column, row]) => best[row] === column).length;
  const count = filled(ALIGNED.hits, { hit, all: links.length });
  return el("p.legend", el("span", el("i"), ALIGNED.given), el("span", count));
}

// ------------------------------------------------------------------------------------------------------ pictures

const MARK = [255, 96, 0]; // a colour that neither ink nor paper has
const BELOW = [0, 80, 255]; // of numbers below 0
const COVER = 0.7; // of a pixel, where the weight is the largest

function pictureView(sentence, hypothesis, weights, importance, state) {
  const cells = sentence.grid[0] * sentence.grid[1];
  const model = {
    grid: sentence.grid,
    picture: sentence.picture && regard.array(sentence.picture),
    layers: layersOf(weights, importance, cells, state).map((make) => make()),
    weights: (k) => model.layer.numbers.subarray(k * cells, (k + 1) * cells),
    shown: -1,
  };
  const large = el("canvas.large", { role: "img" });
  const line = el("p.readout", { "aria-live": "polite" });
  const idle = hypothesis.tokens.length ? ALIGNED.hint : ALIGNED.wordless;
  const first = model.picture || !hypothesis.tokens.length ? -1 : 0; // the picture itself comes first
  const shown = Array.from({ length: hypothesis.tokens.length - first }, (_, i) => i + first);
  const panels = shown.map((k) => panel(hypothesis.tokens[k] ?? ALIGNED.picture, k, show));
  function show(k) {
    model.shown = k;
    panels.forEach((button, i) => button.setAttribute("aria-pressed", String(i + first === k)));
    const values = { layer: model.layer.name, i: k + 1, token: hypothesis.tokens[k] };
    large.setAttribute("aria-label", k < 0 ? ALIGNED.large : filled(ALIGNED.coloured, values));
    drawPicture(large, model, k, 480);
    put(line, k < 0 ? idle : strongestCells(hypothesis.tokens[k], model, k));
  }
  regard.roving([panels]);
  const redraw = () => {
    model.layer = model.layers[state.shown] ?? model.layers[0];
    bar.refresh();
    panels.forEach((button, i) => drawPicture(button.firstChild, model, i + first, 120));
    show(model.shown);
  };
  const unit = { ...ALIGNED.cells, more: BLUE.less, less: BLUE.more };
  const bar = layerBar(model, state, unit, redraw);
  regard.onTheme(redraw);
  model.shown = first;
  redraw();
  const small = el("div.panels", { role: "group", "aria-label": ALIGNED.tokens }, panels);
  const pictures = () =>
    shown.map((k) => ({ canvas: drawPicture(el("canvas"), model, k, 300), label: hypothesis.tokens[k] ?? "" }));
  const titles = () => [hypothesis.text, model.layer.title].filter(Boolean);
  const svg = () => regard.canvasPicture(titles().join(COLON), 5, 150, pictures);
  const exported = regard.exportBar(exportedName(ALIGNED.pictures), () => ({
    svg,
    titles: [document.title, ...titles()],
  }));
  const warning = notWeights(hypothesis.warnings);
  return el("div.beside.picture", warning, bar.element, line, el("div", exported, large), small);
}

function panel(token, k, show) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const onpointerenter = (event) => event.pointerType !== "touch" && show(k);
  return el("button.panel", { onclick: () => show(k), onfocus: () => show(k), onpointerenter }, canvas, bdi(token));
}

function strongestCells(token, model, k) {
  const weights = model.weights(k);
  const best = regard.best(weights.length, (cell) => Math.abs(weights[cell]), 3);
  const across = model.grid[1];
  const cellName = (cell) => filled(ALIGNED.cell, { i: Math.floor(cell / across) + 1, j: (cell % across) + 1 });
  const list = listed(best.map((cell) => [cellName(cell), el("b", regard.weight(weights[cell], digitsFor(weights)))]));
  return [bdi(token), " \u2192 ", list];
}

// Draw the picture (or, without one, its cells) with the weights of a token smoothed over it.
function drawPicture(canvas, model, k, longest) {
  const shape = (model.picture ? model.picture.shape : model.grid).slice(0, 2);
  const [height, width] = shape.map((side) => Math.max(1, Math.round((side * longest) / Math.max(...shape))));
  const shares = k < 0 ? new Float64Array(width * height) : smoothed(model.weights(k), model.grid, [height, width]);
  if (!model.picture) return regard.paint(canvas, shares, width, height);
  return pixels(canvas, width, height, (data) => light(data, [height, width], shares, model.picture));
}

// The picture as it is, under a colour that covers the more of it the larger the weight.
function light(pixels, [height, width], shares, { shape: [h, w], data }) {
  for (let y = 0, at = 0; y < height; y++) {
    const row = Math.floor((y * h) / height) * w;
    for (let x = 0; x < width; x++, at++) {
      const from = 3 * (row + Math.floor((x * w) / width));
      const [cover, mark] = [COVER * Math.abs(shares[at]), shares[at] < 0 ? BELOW : MARK];
      for (let c = 0; c < 3; c++) pixels[4 * at + c] = Math.round(data[from + c] * (1 - cover) + mark[c] * cover);
      pixels[4 * at + 3] = 255;
    }
  }
}

// Numbers of cells as shares of the largest, interpolated along both axes: at the centre of a cell its number stands
// unchanged, and nowhere is a value outside of those of the cells around it.
function smoothed(weights, [h, w], [height, width]) {
  const most = regard.largest(weights.map(Math.abs));
  const share = (weight) => Math.min(1, Math.max(-1, weight / most)) || 0; // not a number: none
  const across = Float64Array.from({ length: h * width });
  for (let i = 0; i < h; i++) {
    const row = Float64Array.from({ length: w }, (_, j) => share(weights[i * w + j]));
    across.set(monotone(row, width), i * width);
  }
  const shares = new Float64Array(height * width);
  for (let x = 0; x < width; x++) {
    const column = monotone(
      Float64Array.from({ length: h }, (_, i) => across[i * width + x]),
      height,
    );
    column.forEach((share, y) => (shares[y * width + x] = share));
  }
  return shares;
}

// A monotone cubic curve through equidistant values (Fritsch and Butland 1984), at the centres of pixels.
function monotone(values, pixels) {
  const last = values.length - 1;
  const slopes = Float64Array.from(values, (value, k) => {
    if (k === 0 || k === last) return 0;
    const [before, after] = [value - values[k - 1], values[k + 1] - value];
    return before * after > 0 ? (2 * before * after) / (before + after) : 0;
  });
  return Float64Array.from({ length: pixels }, (_, x) => {
    const position = Math.min(last, Math.max(0, ((x + 0.5) * values.length) / pixels - 0.5));
    const k = Math.min(Math.floor(position), Math.max(0, last - 1));
    const t = position - k;
    if (last === 0 || t === 0) return values[k];
    const bend = (1 - t) * t * ((1 - t) * slopes[k] - t * slopes[k + 1]);
    return values[k] + t * t * (3 - 2 * t) * (values[k + 1] - values[k]) + bend;
  });
}
