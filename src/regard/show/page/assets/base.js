// What all views share: elements, numbers, colours, the theme, tooltips, keys. A view registers itself with
// regard.view(name, draw); regard.start() calls draw(root, data, page) for each section of the page.

const SVG = "http://www.w3.org/2000/svg";
const views = new Map();
const onPage = new Set(); // the views of the page's sections, and their anchors
const themed = [];
let [ids, drawnViews] = [0, 0];
let printing = false; // on white paper, whatever the theme
let exporting = false; // a picture for a file, in the colours of the light theme

// An element "tag.class.class" with attributes, which may be left out, and children. Text always becomes a text node, so
// labels are never markup. A handler is given as onclick: function; style is an object; false, null and undefined leave an
// attribute or a child out.
function el(selector, ...content) {
  const [tag, ...classes] = selector.split(".");
  const attributes = Object.getPrototypeOf(content[0] ?? 0) === Object.prototype ? content.shift() : {};
  const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  if (tag === "button") element.setAttribute("type", "button");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, own] of Object.entries(value)) element.style.setProperty(key, own);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  return put(element, ...content);
}

// A label that keeps its own direction: right-to-left words don't turn what stands around them.
const bdi = (text) => el("bdi.label", text === "" ? "\u00a0" : text);

// A number as JavaScript writes it, with the marks of the language: 0,25 in German. What is typed, kept or exported has
// a point.
const localized = (text) => text.replace(/[.,]/g, (mark) => TEXTS.numbers.marks[mark]);
const { colon: COLON, semicolon: SEMICOLON } = TEXTS.stops; // French has blanks before them
const inText = (value) => (typeof value === "number" ? localized(String(value)) : value);

// A text in which {name} becomes a value; an unknown name stays out.
const filled = (text, parts) => text.replace(/\{(\w+)\}/g, (_, name) => inText(parts[name]) ?? "");

// Call back at each of these events, whose names have spaces between them.
function on(target, names, callback, options) {
  names.split(" ").forEach((name) => target.addEventListener(name, callback, options));
}

// Act on keys without Ctrl, Alt or Meta: {key: function}.
function onKeys(target, actions) {
  on(target, "keydown", (event) => {
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key](event);
  });
}

// Replace all children.
function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== false && (child ?? null) !== null));
  return element;
}

// The name of a term among those that are explained, which have no capitals and no plurals.
const entry = (term) => [term.toLowerCase(), term.toLowerCase().replace(/s$/, "")].find((name) => TEXTS.terms[name]);

const regard = {
  view(name, draw) {
    views.set(name, draw);
  },

  // Draw a view into an element of a page, with other data than those of its sections.
  draw(name, root, data) {
    views.get(name)(root, data, { section: null });
  },

  start() {
    startTheme();
    if (parent !== window) startFrame();
    const sections = JSON.parse(document.getElementById("data").textContent);
    sections.forEach(({ view, data }) => onPage.add(view).add(data.anchor).add(data.name));
    sections.forEach(({ title, warnings, ...part }, index) => {
      const { data } = part;
      const root = el("section", { class: data.anchor, "aria-labelledby": `title-${index}` });
      const heading = el("h2", { id: `title-${index}`, dir: "auto" }, title);
      document.getElementById("sections").append(root);
      root.append(heading, ...warnings.map((text) => el("p.warning", { role: "note", dir: "auto" }, text)));
      regard.part(part)(root);
    });
    startState();
  },

  // What draws a view of this page, of its parts too, into an element. Each has a number, under which its state is kept.
  part({ view, data, parts }, inside = false) {
    const section = parts ? null : drawnViews++;
    const draw = (root) => {
      root.classList.add(view);
      return views.get(view)(root, { ...data, parts }, { section, inside });
    };
    return Object.assign(draw, { section });
  },

  // What is closed until it is asked for.
  drawer: (title, content, open = false) => el("details.drawer", { open }, el("summary", title), content),

  element: el,

  label: bdi,

  // An id that no other element of the page has.
  unique: (name) => `${name}-${++ids}`,

  // An array of section.packed as {shape, data}.
  array({ dtype, shape, base64 }) {
    const types = {
      float64: Float64Array,
      float32: Float32Array,
      int8: Int8Array,
      uint8: Uint8Array,
      uint16: Uint16Array,
      uint32: Uint32Array,
      int32: Int32Array,
    };
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return { shape, data: new types[dtype](bytes.buffer) };
  },

  // The rows of such an array.
  rows(packed) {
    const { shape, data } = regard.array(packed);
    return regard.parts(Array.from(data), shape[1]);
  },

  // A number with a fixed number of digits after the point, as Python prints it: exact ties go to the even digit.
  format: (number, digits) => localized(withDigits(Number(number), digits)),

  // A weight: exact zeros and ones have no digits after the point, and what rounds to them says so.
  weight(w, digits) {
    if (w === null) return "\u2013"; // hidden by the mask
    if (w === 0 || w === 1 || !Number.isFinite(w)) return regard.format(w, 0);
    if (Math.abs(w) < 0.5 * 10 ** -digits) return "\u22480";
    return w < 1 && w > 1 - 0.5 * 10 ** -digits ? "\u22481" : regard.format(w, digits);
  },

  // A text of TEXTS: {name} becomes a value, [term] or [text](term) a word that explains itself, and [text](view) a link
  // to the section of that view.
  rich(text, values = {}) {
    const marked = /([^\s[]*)\[([^\]]+)\](?:\(([\w -]+)\))?([\u00a0.,;:!?)]*)/;
    const parts = regard.parts(filled(text, values).split(marked), 5);
    const word = (text, name = text) =>
      TEXTS.terms[entry(name)] ? regard.term(text, name) : regard.linked(text, name);
    // No line begins with a full stop, or ends with an article that has lost its vowel.
    const whole = (before, word, mark) => (before || mark ? el("span.joined", before, word, mark) : word);
    return parts.map(([plain, before, text, name, mark]) => [plain, text && whole(before, word(text, name), mark)]);
  },

  // A text in which {name} becomes a value, which may be an element.
  filledWith: (text, values) => text.split(/\{(\w+)\}/).map((part, i) => (i % 2 ? inText(values[part]) : part)),

  // A link to a chapter, the first section of a view, or with an anchor, or its text if there is none on the page.
  linked(text, view) {
    if (!onPage.has(view)) return text;
    const go = (event) => {
      event.preventDefault();
      const heading = document.querySelector(`section:is(.${view}, #${view}) > h2`);
      heading.setAttribute("tabindex", "-1");
      heading.focus({ preventScroll: true });
      heading.scrollIntoView();
    };
    return el("a", { href: `#${view}`, onclick: go }, text);
  },

  // What to change first and what to watch, with a button that does it.
  first(text, act) {
    const button = el("button", { "data-part": "first", onclick: () => toHeadline(button, act) }, TEXTS.sentence.do);
    return el("p.note", el("b", TEXTS.sentence.first), text, " ", button);
  },

  // What a view is about: texts with their values, that of the example, and what to change first.
  intro(texts, values, about, first, act) {
    const parts = texts.map((text) => el("p", regard.rich(text, values)));
    return el("div.intro", parts, about && el("p", about), first && regard.first(first, act));
  },

  // A picture above its title and what exports it.
  figure: (title, svg, of, name = title) =>
    el("figure.card", svg, el("figcaption.soft", title, " ", regard.exports(name, of))),

  // A bar as long as a share of 1.
  track(share, kind = "") {
    const width = `${100 * Math.min(1, Math.max(0, share))}%`;
    return el("span", { class: `track ${kind}`, "aria-hidden": "true" }, el("span.fill", { style: { width } }));
  },

  // A control under its name; `more` are the attributes of both.
  field(name, input, ...more) {
    input.id ||= regard.unique("field");
    return el("div.field", el("label", { for: input.id }, name), el("div.row", input, more));
  },

  // A slider of a range, under its name or in two parts; shown(value) is [its place, its text].
  slider(name, { change, ...range }, shown) {
    const id = regard.unique("slider");
    const input = el("input", { type: "range", id, ...range, oninput: () => change(Number(input.value)) });
    const output = el("output", { for: id });
    const set = (present) => {
      const [value, text] = shown(present);
      input.value = value;
      input.setAttribute("aria-valuetext", text);
      output.textContent = text;
    };
    return { element: name && regard.field(name, input, output), parts: [input, output], set };
  },

  // A button that makes all as it was.
  reset: (act) => el("button.quiet", { "data-part": "reset", onclick: act }, TEXTS.tools.reset),

  // Replace all children. The element that had the focus, by its id, its data-part or its name, gets it back.
  renew(root, ...children) {
    const focused = root.contains(document.activeElement) ? document.activeElement : null;
    const name = ["id", "data-part", "aria-label"].find((attribute) => focused?.getAttribute(attribute));
    root.replaceChildren(...children.flat(Infinity).filter(Boolean));
    if (name) root.querySelector(`[${name}="${CSS.escape(focused.getAttribute(name))}"]`)?.focus();
  },

  // A word with its explanation, which hovering, the focus or a tap shows.
  term(text, name = text) {
    const explanation = TEXTS.terms[entry(name)];
    const button = el("button.term", /_/.test(text) ? regard.formula(text) : text);
    const spelled = () => explanation.split(/(W_[QKVO])/).map((part) => (/_/.test(part) ? regard.formula(part) : part));
    regard.tooltip(button, () => el("span", spelled()));
    return button;
  },

  percent(weight) {
    if (weight > 0 && weight < 0.0005) return "\u22480\u00a0%";
    return Number.isFinite(weight) ? `${regard.format(100 * weight, 1)}\u00a0%` : regard.format(weight, 1);
  },

  // The largest finite number, at least this one.
  largest(numbers, least = 0) {
    let most = least;
    for (const x of numbers) if (x > most && x < Infinity) most = x;
    return most || 1;
  },

  // The weight of the darkest colour: the largest, but at least some times that of uniform weights over m keys.
  darkest: (weights, m) => regard.largest(weights, Math.min(1, RULES.uniform / m)),

  // The colour of a number t from 0 (paper) to 1 (ink) in the present theme, in equal steps for the eye; to -1 in orange.
  colour(t) {
    const [red, green, blue] = shade(t);
    return `rgb(${red} ${green} ${blue})`;
  },

  // The colours of a weight under its text, where `top` has the darkest; a hatch for null, nothing for undefined.
  tint(element, weight, top = 1) {
    element.classList.toggle("hatched", weight === null);
    const none = (weight ?? null) === null;
    const [background, color] = none ? ["", ""] : [regard.colour(weight / top), regard.ink(weight / top)];
    Object.assign(element.style, { background, color });
  },

  // What a hatch means, beside one.
  hatchKey: (text) => el("span.hatch-key", el("i.hatched"), text),

  // Black or white, whichever can be read on the colour of t.
  ink(t) {
    return luminance(shade(t)) > 0.179 ? "#000" : "#fff";
  },

  // Draw the colours of numbers up to `top`, or from -top, into a canvas of so many pixels, row by row; NaN is transparent,
  // so that the hatch behind the canvas is seen.
  paint(canvas, numbers, width, height, top = 1) {
    const table = new Uint32Array(Uint8Array.from(shades().flatMap((colour) => [...colour, 255])).buffer);
    let hatched = false;
    return pixels(canvas, width, height, ({ buffer }) => {
      const words = new Uint32Array(buffer);
      for (let i = 0; i < numbers.length; i++) {
        const gap = Number.isNaN(numbers[i]);
        words[i] = gap ? 0 : table[level(numbers[i] / top)];
        hatched ||= gap;
      }
      canvas.classList.toggle("hatched", hatched);
    });
  },

  dark() {
    if (printing || exporting) return false;
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  },

  // Call back after each change of the theme: colours set from a script must be set again.
  onTheme(callback) {
    themed.push(callback);
  },

  printing: () => printing,

  // Make a picture in the colours of the light theme.
  onPaper(make) {
    exporting = true;
    try {
      return make();
    } finally {
      exporting = false;
    }
  },

  // Show what text() returns in a small box while the pointer is on the target or the target has the focus.
  tooltip(target, text) {
    const show = (event) => showTip(target, text(event));
    on(target, "pointerenter focus click", show);
    on(target, "pointerleave", (event) => event.pointerType === "mouse" && hideTip());
    on(target, "blur", hideTip);
    onKeys(target, { Escape: hideTip });
  },

  // A box that scrolls sideways where its content is too wide, with the keyboard, too.
  scroller(name, ...children) {
    const box = el("div.scroll", { role: "group", "aria-label": name }, children);
    const measured = new ResizeObserver(() => {
      if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
      else box.removeAttribute("tabindex");
    });
    [box, ...box.children].forEach((part) => measured.observe(part));
    return box;
  },

  // Buttons of which one is chosen: {value: text} or [[value, text or element], ...]. The arrow keys move and choose.
  choices(name, known, current, choose) {
    const options = Array.isArray(known) ? known : Object.entries(known);
    const pick = (k) => {
      set(options[k][0]);
      choose(options[k][0]);
    };
    const buttons = options.map(([, content], k) => {
      const button = el("button", { role: "radio", onclick: () => pick(k) }, content);
      const go = (next) => () => {
        const to = (next + options.length) % options.length;
        buttons[to].focus();
        pick(to);
      };
      const [forth, back] = [go(k + 1), go(k - 1)];
      onKeys(button, { ArrowRight: forth, ArrowDown: forth, ArrowLeft: back, ArrowUp: back, Home: go(0), End: go(-1) });
      return button;
    });
    const set = (chosen) => {
      const tab = Math.max(
        0,
        options.findIndex(([value]) => value === chosen),
      );
      options.forEach(([value], k) => {
        buttons[k].setAttribute("aria-checked", String(value === chosen));
        buttons[k].setAttribute("tabindex", k === tab ? "0" : "-1");
      });
    };
    set(current);
    return { element: el("div.choices", { role: "radiogroup", "aria-label": name }, buttons), set };
  },

  // The same under their name.
  namedChoices(name, ...more) {
    const { element, set } = regard.choices(name, ...more);
    return { element: el("div.field", el("span.soft", { "aria-hidden": "true" }, name), element), set };
  },

  // A list to choose one from: {value: text}, or texts, of which `choose` gets the index.
  list(texts, current, choose) {
    const options = Object.entries(texts).map(([value, text]) =>
      el("option", { value, dir: "auto", selected: value === String(current) }, text),
    );
    const chosen = () => (Array.isArray(texts) ? select.selectedIndex : select.value);
    const select = el("select", { onchange: () => choose(chosen()) }, options);
    return select;
  },

  // A part of a picture that is dragged, with move(event) at each place, or moved by keys, {key: function}.
  grip(handle, keys, move) {
    onKeys(handle, keys);
    on(handle, "pointerdown", (event) => event.button === 0 && handle.setPointerCapture(event.pointerId));
    on(handle, "pointermove", (event) => handle.hasPointerCapture(event.pointerId) && move(event));
    return handle;
  },

  // A function that acts once before the next frame, however often it is called.
  later(action) {
    let waiting = false;
    const act = () => {
      waiting = false;
      action();
    };
    return () => {
      if (!waiting) requestAnimationFrame(act);
      waiting = true;
    };
  },

  // One tab stop for a grid of elements (rows of columns): the arrow keys move the focus. `skip` are keys
  // that the cells use themselves.
  roving(rows, { skip = [] } = {}) {
    let current = rows[0]?.[0];
    rows.flat().forEach((cell) => cell.setAttribute("tabindex", cell === current ? "0" : "-1"));
    const go = (cell) => {
      current.setAttribute("tabindex", "-1");
      cell.setAttribute("tabindex", "0");
      current = cell;
      cell.focus();
    };
    rows.forEach((row, i) =>
      row.forEach((cell, j) => {
        on(cell, "keydown", (event) => {
          if (skip.includes(event.key) || event.ctrlKey || event.metaKey) return;
          const target = neighbour(rows, i, j, event.key);
          if (!target) return;
          go(target);
          event.preventDefault();
        });
        on(cell, "focus", () => cell !== current && go(cell));
      }),
    );
  },
};

// Act, and bring the headline, which says what has come of it, into the window.
function toHeadline(button, act) {
  const part = button.closest(".drawer, section");
  act();
  part?.querySelector(".sentence")?.scrollIntoView({ block: "nearest" });
}

window.regard = regard; // for the console of a browser, and for tests

function neighbour(rows, i, j, key) {
  const row = rows[i];
  const neighbours = {
    ArrowRight: row[j + 1] ?? rows[i + 1]?.[0],
    ArrowLeft: row[j - 1] ?? rows[i - 1]?.at(-1),
    ArrowDown: rows[i + 1]?.[j],
    ArrowUp: rows[i - 1]?.[j],
    Home: row[0],
    End: row.at(-1),
  };
  return neighbours[key];
}

function withDigits(x, digits) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "\u221e" : "\u2212\u221e";
  if (x !== 0 && (Math.abs(x) >= 1e15 || Math.abs(x) < 0.5 * 10 ** -digits)) return tiny(x, digits);
  return rounded(x, digits).replace("-", "\u2212");
}

// toFixed rounds exact ties away from zero. A number is one only if its binary digits end at the next decimal place.
function rounded(x, digits) {
  const plain = x.toFixed(digits);
  const next = x.toFixed(digits + 1);
  const tie = Number(next) === x && next.endsWith("5") && Number.isInteger(x * 2 ** (digits + 1));
  if (tie && Number(plain.at(-1)) % 2 === 1) return next.slice(0, -1).replace(/\.$/, "");
  return /^-0\.?0*$/.test(plain) ? plain.slice(1) : plain;
}

function tiny(x, digits) {
  return x
    .toExponential(Math.max(0, Math.min(digits, 2)))
    .replaceAll("-", "\u2212")
    .replace("e+", "e");
}

// "q_i", "s_{t-1}" and single letters become variables with indices; the rest stays as it is.
regard.formula = (text) => {
  const parts = text.match(/[\p{L}](?![\p{L}])(_\{[^}]*\}|_[\p{L}\d])?|[\p{L}]{2,}|[^\p{L}]+/gu) ?? [];
  const elements = parts.map((part) => {
    const match = /^([\p{L}])(?:_\{?([^}]*)\}?)?$/u.exec(part);
    if (!match) return part;
    return el("var", match[1], match[2] ? el("sub", match[2]) : null);
  });
  return el("span.math", elements);
};

// The path of an arrow whose head has two wings of a size, at an angle to its shaft.
regard.arrow = ([x1, y1], [x2, y2], size, spread) => {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const wing = (turn) => `${x2 - size * Math.cos(angle + turn)} ${y2 - size * Math.sin(angle + turn)}`;
  return `M${x1} ${y1}L${x2} ${y2}M${wing(spread)}L${x2} ${y2}L${wing(-spread)}`;
};

// A list in parts of a size.
regard.parts = (list, size) =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, k) => list.slice(k * size, (k + 1) * size));

// A whole number with a mark between thousands.
regard.count = (number) => localized(number.toLocaleString("en-US"));

// The indices of the largest of many numbers, the largest first.
regard.best = (length, value, most) => {
  const best = [];
  for (let k = 0; k < length; k++) {
    if (best.length === most && !(value(k) > value(best.at(-1)))) continue;
    const at = best.findIndex((other) => value(k) > value(other));
    best.splice(at < 0 ? best.length : at, 0, k);
    best.length = Math.min(best.length, most);
  }
  return best;
};

// A canvas whose pixels `fill` sets, red, green, blue and opacity of each.
function pixels(canvas, width, height, fill) {
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  fill(image.data);
  context.putImageData(image, 0, 0);
  return canvas;
}

// A canvas with as many pixels as the screen, or paper, has for it.
regard.sharp = (canvas, width, height) => {
  const ratio = Math.min(printing ? 2 : devicePixelRatio || 1, 8192 / Math.max(width, height, 1));
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
};

// A colour of base.css as a canvas understands it: light-dark() is resolved by an element only.
regard.themeColour = (name) => {
  probe ??= document.body.appendChild(el("i", { hidden: true }));
  probe.style.colorScheme = regard.dark() ? "dark" : "light";
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};
let probe = null;

// The colours between two texts, which are the numbers that they stand for: 0, or `from` = -1, and 1.
regard.colourBar = (low, high, from = 0) => {
  const bar = el("span.colour-bar", { "aria-hidden": "true" });
  const colours = [0, 0.25, 0.5, 0.75, 1].map((t) => regard.colour(from + (1 - from) * t));
  bar.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
  return [low, bar, high];
};

// ------------------------------------------------------------------------------------------------------ colours

// Stops in OKLCH, where equal steps of lightness look equal.
const STOPS = {
  light: { lightness: [0.99, 0.8, 0.55, 0.3], chroma: [0.004, 0.095, 0.185, 0.13], hue: [265, 258, 264, 272] },
  dark: { lightness: [0.235, 0.42, 0.66, 0.93], chroma: [0.015, 0.12, 0.155, 0.055], hue: [268, 266, 258, 240] },
};
const ORANGE = 50; // the hue of numbers below 0
const tables = {};

// The colours of the present theme. A browser takes long to determine the theme, so it is asked once for many colours.
function shades() {
  const theme = regard.dark() ? "dark" : "light";
  tables[theme] ??= Array.from({ length: 511 }, (_, i) => srgb(between(STOPS[theme], (i - 255) / 255)));
  return tables[theme];
}

const level = (t) => 255 + Math.round(255 * Math.min(1, Math.max(-1, Number.isNaN(t) ? 0 : t)));

const shade = (t) => shades()[level(t)];

function between(stops, t) {
  const position = 3 * Math.abs(t);
  const i = Math.min(Math.floor(position), 2);
  const [lightness, chroma, hue] = Object.values(stops).map((at) => at[i] + (position - i) * (at[i + 1] - at[i]));
  return [lightness, chroma, t < 0 ? ORANGE : hue];
}

// OKLCH to 8-bit sRGB (Ottosson 2020).
function srgb([lightness, chroma, hue]) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const curved = linear.map((x) => (x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055));
  return curved.map((x) => Math.round(255 * Math.min(1, Math.max(0, x))));
}

function luminance(colour) {
  const [red, green, blue] = colour.map((x) => (x <= 10 ? x / 3294.6 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// -------------------------------------------------------------------------------------------- theme and tooltip

function showTheme() {
  document.getElementById("theme").setAttribute("aria-pressed", String(regard.dark()));
  themed.forEach((callback) => callback());
}

function startTheme() {
  on(document.getElementById("theme"), "click", () => {
    document.documentElement.dataset.theme = regard.dark() ? "light" : "dark";
    showTheme();
  });
  on(matchMedia("(prefers-color-scheme: dark)"), "change", showTheme);
  const print = (now) => () => {
    printing = now;
    document
      .querySelectorAll("details")
      .forEach((part) => part.toggleAttribute("open", part.open || (now && !part.matches(".drawer"))));
    showTheme();
  };
  on(window, "beforeprint", print(true));
  on(window, "afterprint", print(false));
  on(window, "pointerdown", (event) => event.target.closest(".term") || hideTip());
  showTheme();
}

// In a frame: tell frame.js around it the height of the page, and take the theme that it tells.
function startFrame() {
  let told = null;
  on(window, "message", ({ source, data }) => {
    if (source !== parent || !data.regardTheme || data.regardTheme === told) return;
    told = document.documentElement.dataset.theme = data.regardTheme;
    showTheme();
  });
  const root = document.documentElement;
  const tell = () =>
    root.offsetHeight && parent.postMessage({ regardHeight: Math.ceil(root.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(root);
}

let tip = null;

function showTip(target, text) {
  tip ??= document.body.appendChild(el("div.tooltip", { role: "tooltip", id: "tooltip" }));
  document.querySelectorAll('[aria-describedby="tooltip"]').forEach((old) => old.removeAttribute("aria-describedby"));
  target.setAttribute("aria-describedby", "tooltip");
  tip.replaceChildren(text);
  tip.hidden = false;
  const box = target.getBoundingClientRect();
  const above = box.top - tip.offsetHeight - 8;
  placeBox(tip, box.left + box.width / 2 - tip.offsetWidth / 2, above < 0 ? box.bottom + 8 : above);
}

// Place a box on the page by its left and top on the screen, inside of the screen's sides.
function placeBox(box, left, top) {
  const most = document.documentElement.clientWidth - box.offsetWidth - 8;
  box.style.setProperty("left", `${Math.max(8, Math.min(left, most)) + scrollX}px`);
  box.style.setProperty("top", `${top + scrollY}px`);
}

function hideTip() {
  if (tip) tip.hidden = true;
}
