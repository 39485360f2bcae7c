// The decoder of a trained model at one word, to the end: what it looks back at, what it computes of that, and the words
// that it predicts, of which one is written and read at the next step.

regard.view("translation", (root, data, { section }) => {
  const texts = TEXTS.translation;
  const style = texts.styles[data.style];
  const { source, target, predicted } = data;
  const weights = regard.rows(data.weights);
  const vectors = data.vectors.map(({ name, first, shades }) => ({ name, first, shades: regard.rows(shades) }));
  const fields = { word: regard.CODES.integer(target.length) };
  const view = regard.kept(
    section,
    () => ({ word: data.row }),
    fields,
    () => fill(),
    ["word"],
  );
  const choose = (word) => view.change({ word });

  const words = regard.choices(
    texts.written,
    target.map((label, i) => [i, bdi(label)]),
    data.row,
    choose,
  );
  const next = el("button.primary", { onclick: () => choose((view.state.word + 1) % target.length) }, texts.next);
  const told = el("p.sentence", { "aria-live": "polite", dir: "auto" });
  const [looked, computed, listed] = [el("div.shares"), el("div"), el("div.shares")];
  const back = el("p.goes-back");
  const card = (title, text, ...content) => el("div.step-card", el("h3", title), text && el("p.soft", text), content);
  const looks = () => source.map((label, j) => ({ label, share: weights[view.state.word][j] }));
  const predicts = () => {
    const [labels, shares] = [0, 1].map((part) => predicted[view.state.word].map((row) => row[part]));
    return largestShares(labels, shares, texts.others, [labels.indexOf(target[view.state.word])]);
  };
  const exported = regard.exports(texts.looks, () => ({
    svg: () =>
      regard.barsPicture(`${source.join(" ")} \u2192 ${target.slice(0, view.state.word).join(" ")}`, [
        [texts.looks, looks()],
        [texts.predicts, predicts()],
      ]),
    titles: [document.title, texts.looks, target[view.state.word]],
    table: () => ({ rows: target, columns: source, numbers: weights }),
  }));
  root.append(
    el("p", el("span.soft", texts.source), " ", bdi(source.join(" "))),
    el("div.row.written", el("span.soft", texts.written), words.element, next),
    told,
    el(
      "div.decoder-steps",
      card([texts.looks, " ", exported], regard.rich(style.says), looked),
      card(texts.computes, "", computed),
      card(texts.predicts, regard.formula(texts.formula), listed, back),
    ),
  );

  const fill = () => {
    const { word } = view.state;
    words.set(word);
    put(told, sentence(target[word], source, weights[word]));
    put(looked, shareRows(looks()));
    const strips = vectors.map(({ name, first, shades }) => [name, first[word], shades[word]]);
    put(
      computed,
      strips.map(([name, first, shades]) => strip(texts.vectors[name], style[name], first, shades)),
    );
    put(listed, shareRows(predicts()));
    const last = word === target.length - 1;
    put(
      back,
      regard.filledWith(last ? texts.last : texts.back, {
        word: bdi(target[word]),
        next: bdi(target[word + 1] ?? ""),
        end: regard.term(END),
      }),
    );
  };
  regard.onTheme(fill);
  fill();
  return { look: () => choose(data.row) };
});

// A vector at its true size: a cell for each number, darker the further it is from 0, and the first of them as text.
function strip(name, formula, first, shades) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  regard.paint(canvas, shades, shades.length, 1, 255);
  const head = el("div.strip-head", el("span", name), formula && regard.formula(formula));
  const numbers = first.map((x) => regard.format(x, 2)).join(LISTING);
  return el(
    "div.strip",
    head,
    canvas,
    el("div.soft", filled(TEXTS.translation.size, { n: shades.length, first: numbers })),
  );
}
