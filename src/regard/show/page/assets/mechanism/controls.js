// The options of an attention: score, scale, softcap, mask, normalization. Each calls change() after it has set its option.

// The controls that have been made of a section, whose names must not be those of another.
const formed = { section: 0, fields: 0 };

const POSITIVE = { least: 0.1, fits: (x) => x > 0 };

function field(name, ...controls) {
  const id = `field-${formed.section}-${formed.fields++}`;
  const first = controls[0];
  first.setAttribute("id", id);
  return regard.element("div", { class: "field" }, regard.element("label", { for: id }, name), regard.element("div", { class: "row" }, controls));
}

// A choice from {value: text}.
function choice(choices, present, change) {
  const options = Object.entries(choices).map(([value, text]) => regard.element("option", { value, selected: value === present }, text));
  const select = regard.element("select", {}, options);
  select.addEventListener("change", () => change(select.value));
  return select;
}

// When a reader may choose a score: with queries and keys of one size, with arrays that are drawn, or with its own ones.
const CHOOSABLE = {
  equal: (options) => options.equal,
  drawn: (options) => options.vector,
  given: (options, score) => options.weight && options.given === score,
};

function scoreChoices(options) {
  const possible = Object.entries(TEXTS.scores).filter(([score, { choice }]) => CHOOSABLE[choice](options, score));
  return nameOf(Object.fromEntries(possible));
}

// The bar of controls for these options. `change` is called after each change, `redraw` where other controls are needed.
function controls(options, { d, n, m, decoder }, change, redraw) {
  const set = (name, draw) => (value) => {
    options[name] = value;
    (draw ? redraw : change)();
  };
  const number = (name, title, own) => field(title, regard.number({ value: options[name], name: title, change: set(name), ...own }).element);
  const parts = [field("Score", choice(scoreChoices(options), options.score, set("score", true)))];
  const numbers = Object.entries(TEXTS.scores[options.score].numbers ?? {});
  parts.push(...numbers.map(([name, { title, positive }]) => number(name, title, positive ? POSITIVE : {})));
  parts.push(scaleField(options, d, change, redraw), softcapField(options, change, redraw));
  if (!decoder) parts.push(...maskFields(options, n, m, change, redraw));
  parts.push(field("Normalization", choice(nameOf(TEXTS.normalize), options.normalize, set("normalize", true))));
  return parts;
}

function scaleField(options, d, change, redraw) {
  const usual = defaultScale(options.score, d);
  const setScale = (value) => {
    const fresh = options.scale === null;
    options.scale = value;
    change();
    if (fresh) undo.hidden = false;
  };
  const { element, set } = regard.number({ value: options.scale ?? usual, name: "Scale", change: (x) => (place(x), setScale(x)) });
  const slider = regard.element("input", { type: "range", min: -2, max: 1, step: 0.01, "aria-label": "Scale, from 0.01 to 10" });
  const place = (scale) => (slider.value = Math.log10(Math.max(scale, 0.01)));
  slider.addEventListener("input", () => {
    const scale = Number((10 ** slider.value).toPrecision(3));
    set(scale);
    setScale(scale);
  });
  place(options.scale ?? usual);
  const text = usual === 1 ? "1" : `1/\u221a${d}`;
  const undo = regard.element("button", { type: "button", class: "quiet", "data-part": "scale", hidden: options.scale === null, "aria-label": `Scale back to ${text}` }, text);
  undo.addEventListener("click", () => {
    options.scale = null;
    set(usual);
    redraw();
  });
  return field("Scale", element, slider, undo);
}

function softcapField(options, change, redraw) {
  const box = regard.element("input", { type: "checkbox", checked: options.softcap !== null });
  box.addEventListener("change", () => {
    options.softcap = box.checked ? 2 : null;
    redraw();
  });
  const setSoftcap = (value) => {
    options.softcap = value;
    change();
  };
  const bound = options.softcap === null ? null : regard.number({ value: options.softcap, name: "Bound of the logits", change: setSoftcap, ...POSITIVE });
  return field("Softcap", box, bound?.element);
}

function maskFields(options, n, m, change, redraw) {
  const { mask } = options;
  const kinds = { none: "none", causal: "causal", window: "window", ...(mask.visible ? { given: "as given" } : {}) };
  const parts = [
    field(
      "Mask",
      choice(kinds, mask.kind, (kind) => {
        mask.kind = kind;
        redraw();
      }),
    ),
  ];
  const side = (name, text) => {
    const setSide = (value) => {
      mask[name] = value;
      change();
    };
    return field(text, regard.number({ value: mask[name], name: text, change: setSide, step: 1, least: 0, fits: (x) => x >= 0 && Number.isInteger(x) }).element);
  };
  if (mask.kind === "window") parts.push(side("left", "Keys before"), side("right", "Keys after"));
  if ((mask.kind === "window" || mask.kind === "causal") && n !== m) {
    const align = (end) => {
      mask.align = end;
      change();
    };
    parts.push(field("Aligned at", choice({ start: "the start", end: "the end" }, mask.align, align)));
  }
  return parts;
}
