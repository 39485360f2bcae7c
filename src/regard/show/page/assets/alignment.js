// Alignments: the weights between the tokens of two sides, for each sentence and each hypothesis; of a picture, where
// each token looked.

regard.view("alignment", (root, data, { section }) => {
  const first = { sentence: 0, hypothesis: 0 };
  const view = { state: { ...first } };
  const chooser = regard.element("div", { class: "chooser" });
  const source = regard.element("p", { class: "source" });
  const list = regard.element("div", { class: "hypotheses", role: "group", "aria-label": "Hypotheses" });
  const unit = "The number is the score by which hypotheses are ranked: by default the mean log-probability of a token. 0 is certain.";
  const scored = regard.element("p", { class: "soft" }, unit);
  const stage = regard.element("div", { class: "stage" });
  root.append(chooser, source, list, scored, stage);
  const select = data.sentences.length > 1 ? chooseSentence(chooser, data.sentences, view, () => show()) : null;
  const show = () => {
    const { state } = view;
    const sentence = data.sentences[state.sentence];
    if (select) select.selectedIndex = state.sentence;
    source.replaceChildren(...(sentence.grid ? [sentence.name] : [regard.element("b", {}, sentence.name || "Source"), " ", regard.label(sentence.text || sentence.source.join(" "))]));
    source.hidden = Boolean(sentence.grid) && !sentence.name;
    scored.hidden = sentence.hypotheses[0].score === null;
    listHypotheses(list, sentence, state, show);
    stage.replaceChildren(...staged(sentence, sentence.hypotheses[state.hypothesis], state.hypothesis));
    regard.changed();
  };
  if (!select) chooser.remove();
  show();
  const { integer } = regard.CODES;
  const most = Math.max(...data.sentences.map(({ hypotheses }) => hypotheses.length));
  const fields = { sentence: { path: "sentence", code: integer(data.sentences.length) }, hypothesis: { path: "hypothesis", code: integer(most) } };
  const restored = () => {
    view.state.hypothesis = Math.min(view.state.hypothesis, data.sentences[view.state.sentence].hypotheses.length - 1);
    show();
  };
  regard.keepFields(section, view, () => ({ ...first }), fields, restored, Object.keys(fields));
});

function chooseSentence(chooser, sentences, view, show) {
  const of = ({ grid, hypotheses, text, source }) => (grid ? hypotheses[0].text : text || source.join(" "));
  const names = sentences.map((sentence, i) => [i + 1, sentence.name, of(sentence)].filter(Boolean).join("  "));
  const [label, select] = regard.list(sentences[0].grid ? "Picture" : "Sentence", names, (index) => {
    Object.assign(view.state, { sentence: index, hypothesis: 0 });
    show();
  });
  chooser.append(label, select);
  return select;
}

function listHypotheses(list, sentence, state, show) {
  const had = list.contains(document.activeElement);
  list.hidden = sentence.hypotheses.length < 2 && !sentence.hypotheses[0].text;
  const buttons = sentence.hypotheses.map(({ text, score }, i) =>
    regard.element(
      "button",
      {
        type: "button",
        class: "hypothesis",
        "aria-pressed": String(i === state.hypothesis),
        onclick: () => {
          state.hypothesis = i;
          show();
        },
      },
      score === null ? null : regard.element("span", { class: "score" }, regard.format(score, 3)),
      regard.label(text),
    ),
  );
  list.replaceChildren(...buttons);
  regard.roving(buttons.map((button) => [button]));
  if (had) buttons[state.hypothesis].focus();
}

function staged(sentence, hypothesis, rank) {
  if (!hypothesis.weights) return [regard.element("p", { class: "note" }, "This model has no attention: there are no weights to show.")];
  const weights = regard.array(hypothesis.weights).data;
  if (sentence.grid) return [pictureView(sentence, hypothesis, weights)];
  if (!hypothesis.tokens.length) return [regard.element("p", { class: "note" }, "There are no tokens: the translation is empty.")];
  const links = rank === 0 ? sentence.links : []; // given links are those of the first
  const view = regard.weightsView({
    rows: hypothesis.tokens,
    columns: sentence.source,
    weights,
    links,
    names: { row: "Target tokens", column: "source tokens" },
    warnings: hypothesis.warnings,
    titles: () => [document.title, hypothesis.text || sentence.name],
  });
  return [view.element, links.length ? legend(links, hypothesis, weights, sentence.source.length) : null].filter(Boolean);
}

function legend(links, hypothesis, weights, m) {
  const best = hypothesis.tokens.map((_, row) => {
    const own = weights.subarray(row * m, (row + 1) * m);
    return own.indexOf(own.reduce((most, weight) => Math.max(most, weight), -Infinity));
  });
  const hit = links.filter(([column, row]) => best[row] === column).length;
  return regard.element(
    "p",
    { class: "legend" },
    regard.element("span", {}, regard.element("i"), "given link"),
    regard.element("span", {}, `${hit} of ${links.length} lead to the token with the largest weight`),
  );
}

// ------------------------------------------------------------------------------------------------------ pictures

const MARK = [255, 96, 0]; // a colour that neither ink nor paper has
const COVER = 0.7; // of a pixel, where the weight is the largest

function pictureView(sentence, hypothesis, weights) {
  const cells = sentence.grid[0] * sentence.grid[1];
  const model = {
    grid: sentence.grid,
    picture: sentence.picture && regard.array(sentence.picture),
    weights: (k) => weights.subarray(k * cells, (k + 1) * cells),
    shown: -1,
  };
  const large = regard.element("canvas", { class: "large", role: "img" });
  const line = regard.element("p", { class: "readout", "aria-live": "polite" });
  const first = model.picture || !hypothesis.tokens.length ? -1 : 0; // the picture itself comes first
  const shown = Array.from({ length: hypothesis.tokens.length - first }, (_, i) => i + first);
  const panels = shown.map((k) => panel(hypothesis.tokens[k] ?? "the picture", model, k, show));
  function show(k) {
    model.shown = k;
    panels.forEach((button, i) => button.setAttribute("aria-pressed", String(i + first === k)));
    const where = k < 0 ? "The picture" : `The picture, orange where the model attended at token ${k + 1}: ${hypothesis.tokens[k]}`;
    large.setAttribute("aria-label", where);
    drawPicture(large, model, k, 480);
    const idle = hypothesis.tokens.length ? "Hover, focus or tap a token: what it attends to is orange, the more the stronger." : "(no caption)";
    line.replaceChildren(...(k < 0 ? [idle] : strongestCells(hypothesis.tokens[k], model, k)));
  }
  regard.roving([panels]);
  regard.onTheme(() => {
    panels.forEach((button, i) => drawPicture(button.firstChild, model, i + first, 120));
    show(model.shown);
  });
  show(first);
  const small = regard.element("div", { class: "panels", role: "group", "aria-label": "Tokens" }, panels);
  const svg = () => regard.onPaper(() => regard.canvasPicture(hypothesis.text, shown.map((k) => ({ canvas: drawn(model, k), label: hypothesis.tokens[k] ?? "" })), 5));
  const exported = regard.element("div", { class: "exports" }, regard.exports("the pictures", () => ({ svg, titles: [document.title, hypothesis.text] })));
  return regard.element("div", { class: "picture" }, notWeights(hypothesis.warnings), line, regard.element("div", {}, exported, large), small);
}

function drawn(model, k) {
  const canvas = regard.element("canvas");
  drawPicture(canvas, model, k, 300);
  return canvas;
}

function panel(token, model, k, show) {
  const canvas = regard.element("canvas", { "aria-hidden": "true" });
  const button = regard.element(
    "button",
    {
      type: "button",
      class: "panel",
      onclick: () => show(k),
      onfocus: () => show(k),
      onpointerenter: (event) => event.pointerType !== "touch" && show(k),
    },
    canvas,
    regard.label(token),
  );
  drawPicture(canvas, model, k, 120);
  return button;
}

function strongestCells(token, model, k) {
  const weights = model.weights(k);
  const best = regard.best(weights.length, (cell) => weights[cell], 3);
  const cellName = (cell) => `row ${Math.floor(cell / model.grid[1]) + 1}, column ${(cell % model.grid[1]) + 1} `;
  const list = best.map((cell) => regard.element("span", {}, cellName(cell), regard.element("b", {}, weightText(weights[cell]))));
  return [regard.label(token), " \u2192 ", ...list];
}

// Draw the picture (or, without one, its cells) with the weights of a token smoothed over it.
function drawPicture(canvas, model, k, longest) {
  const [h, w] = model.picture ? model.picture.shape : model.grid;
  const scale = longest / Math.max(h, w);
  canvas.width = Math.max(1, Math.round(w * scale));
  canvas.height = Math.max(1, Math.round(h * scale));
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const shares = k < 0 ? new Float64Array(canvas.width * canvas.height) : smoothed(model.weights(k), model.grid, [canvas.height, canvas.width]);
  if (model.picture) light(image, shares, model.picture);
  else regard.colours(shares, image);
  context.putImageData(image, 0, 0);
}

// The picture as it is, under a colour that covers the more of it the larger the weight.
function light(image, shares, { shape: [h, w], data }) {
  for (let y = 0, at = 0; y < image.height; y++) {
    const row = Math.floor((y * h) / image.height) * w;
    for (let x = 0; x < image.width; x++, at++) {
      const from = 3 * (row + Math.floor((x * w) / image.width));
      const share = shares[at];
      const cover = COVER * share;
      for (let c = 0; c < 3; c++) image.data[4 * at + c] = Math.round(data[from + c] * (1 - cover) + MARK[c] * cover);
      image.data[4 * at + 3] = 255;
    }
  }
}

// Weights of cells as shares of the largest, interpolated along both axes: at the centre of a cell its weight stands
// unchanged, and nowhere is a value outside of those of the cells around it.
function smoothed(weights, [h, w], [height, width]) {
  const most = regard.largest(weights);
  const share = (weight) => (weight > 0 ? Math.min(1, weight / most) : 0); // not a number: none
  const across = Float64Array.from({ length: h * width });
  for (let i = 0; i < h; i++) {
    const row = Float64Array.from({ length: w }, (_, j) => share(weights[i * w + j]));
    across.set(monotone(row, width), i * width);
  }
  const shares = new Float64Array(height * width);
  for (let x = 0; x < width; x++) {
    const column = monotone(Float64Array.from({ length: h }, (_, i) => across[i * width + x]), height);
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
