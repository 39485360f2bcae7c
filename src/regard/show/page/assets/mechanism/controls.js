// The options of an attention: score, scale, softcap, mask, normalization. Each calls change() after it has set its option.

// The controls that have been made of a section, whose names must not be those of another.
const formed = { section: 0, fields: 0 };

const CONTROLS = TEXTS.mechanism.controls;
const POSITIVE = { least: 0.1, fits: (x) => x > 0 };

function field(name, input, ...more) {
  input.id = `field-${formed.section}-${formed.fields++}`;
  return regard.field(name, input, ...more);
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
  const { numbers = {} } = TEXTS.scores[options.score];
  return [
    listField(CONTROLS.score, scoreChoices(options), options, "score", redraw),
    ...Object.entries(numbers).map(([name, { title, positive }]) =>
      field(title, numberOf(options, name, change, { name: title, ...(positive && POSITIVE) })),
    ),
    scaleField(options, d, change, redraw),
    softcapField(options, change, redraw),
    ...(decoder ? [] : maskFields(options.mask, n, m, change, redraw)),
    listField(CONTROLS.normalize, nameOf(TEXTS.normalize), options, "normalize", redraw),
  ];
}

// A function that sets an option and tells of it.
const setter = (options, name, told) => (value) => {
  options[name] = value;
  told();
};

const listField = (title, texts, options, name, told) =>
  field(title, regard.list(texts, options[name], setter(options, name, told)));

const numberOf = (options, name, change, more) =>
  regard.number({ value: options[name], change: setter(options, name, change), ...more }).element;

function scaleField(options, d, change, redraw) {
  const usual = defaultScale(options.score, d);
  const setScale = setter(options, "scale", () => {
    undo.hidden = false;
    change();
  });
  const place = (scale) => {
    slider.value = Math.log10(Math.max(scale, 0.01));
  };
  const typed = (scale) => {
    place(scale);
    setScale(scale);
  };
  const { element, set } = regard.number({ value: options.scale ?? usual, name: CONTROLS.scale, change: typed });
  const slider = el("input", { type: "range", min: -2, max: 1, step: 0.01, "aria-label": CONTROLS.range });
  on(slider, "input", () => {
    const scale = Number((10 ** slider.value).toPrecision(3));
    set(scale);
    setScale(scale);
  });
  place(options.scale ?? usual);
  const text = usual === 1 ? "1" : `1/\u221a${d}`;
  const back = { "data-part": "scale", hidden: options.scale === null, "aria-label": filled(CONTROLS.back, { text }) };
  const undo = el("button.quiet", { ...back, onclick: () => setter(options, "scale", redraw)(null) }, text);
  return field(CONTROLS.scale, element, slider, undo);
}

function softcapField(options, change, redraw) {
  const box = el("input", { type: "checkbox", checked: options.softcap !== null });
  on(box, "change", () => setter(options, "softcap", redraw)(box.checked ? 2 : null));
  const bound = () => numberOf(options, "softcap", change, { name: CONTROLS.bound, ...POSITIVE });
  return field(CONTROLS.softcap, box, box.checked && bound());
}

function maskFields(mask, n, m, change, redraw) {
  const { given, ...free } = CONTROLS.kinds;
  const kinds = { ...free, ...(mask.visible && { given }) };
  const whole = { step: 1, least: 0, fits: (x) => x >= 0 && Number.isInteger(x) };
  const side = (name) => field(CONTROLS[name], numberOf(mask, name, change, { name: CONTROLS[name], ...whole }));
  return [
    listField(CONTROLS.mask, kinds, mask, "kind", redraw),
    ...(mask.kind === "window" ? [side("left"), side("right")] : []),
    ...(["window", "causal"].includes(mask.kind) && n !== m
      ? [listField(CONTROLS.align, CONTROLS.ends, mask, "align", change)]
      : []),
  ];
}
