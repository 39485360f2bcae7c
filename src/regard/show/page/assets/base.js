// What all views share: elements, numbers, colours, the theme, tooltips, keys. A view registers itself with
// regard.view(name, draw); regard.start() calls draw(root, data, page) for each section of the page.

const SVG = "http://www.w3.org/2000/svg";
const views = new Map();
const onPage = new Set(); // the views of the page's sections, and their anchors
const themed = [];
let ids = 0;
let printing = false; // on white paper, whatever the theme
let exporting = false; // a picture for a file, in the colours of the light theme

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
    sections.forEach(({ view, data }) => onPage.add(view).add(data.anchor));
    sections.forEach(({ view, title, data, warnings }, index) => {
      const root = regard.element("section", { class: `${view} ${data.anchor ?? ""}`.trim(), "aria-labelledby": `title-${index}` });
      const heading = regard.element("h2", { id: `title-${index}`, dir: "auto" }, title);
      document.getElementById("sections").append(root);
      root.append(heading, ...warnings.map((text) => regard.element("p", { class: "warning", role: "note", dir: "auto" }, text)));
      views.get(view)(root, data, { section: index });
    });
    startState();
  },

  // An element with attributes and children. Text always becomes a text node, so labels are never markup.
  // A handler is given as onclick: function; style is an object; false and null leave an attribute out.
  element(tag, attributes = {}, ...children) {
    const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") for (const [key, own] of Object.entries(value)) element.style.setProperty(key, own);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  },

  // A label that keeps its own direction: right-to-left words don't turn what stands around them.
  label(text) {
    return regard.element("bdi", { class: "label" }, text === "" ? "\u00a0" : text);
  },

  // An id that no other element of the page has.
  unique: (name) => `${name}-${++ids}`,

  // An array of section.packed as {shape, data}.
  array({ dtype, shape, base64 }) {
    const types = {
      float64: Float64Array,
      float32: Float32Array,
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

  // A number with a fixed number of digits after the point, as Python prints it: exact ties go to the even digit.
  format(number, digits) {
    const x = Number(number);
    if (Number.isNaN(x)) return "NaN";
    if (!Number.isFinite(x)) return x > 0 ? "\u221e" : "\u2212\u221e";
    if (x !== 0 && (Math.abs(x) >= 1e15 || Math.abs(x) < 0.5 * 10 ** -digits)) return tiny(x, digits);
    return rounded(x, digits).replace("-", "\u2212");
  },

  // A weight: exact zeros and ones have no digits after the point, and what rounds to them says so.
  weight(w, digits) {
    if (w === null) return "\u2013"; // hidden by the mask
    if (w === 0 || w === 1 || !Number.isFinite(w)) return regard.format(w, 0);
    if (Math.abs(w) < 0.5 * 10 ** -digits) return "\u22480";
    return w < 1 && w > 1 - 0.5 * 10 ** -digits ? "\u22481" : regard.format(w, digits);
  },

  // A text of steps.json: {name} becomes a value, [term] a word that explains itself, and [text](view) a link to the
  // section of that view.
  rich(text, values = {}) {
    const filled = text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
    const parts = filled.split(/\[([^\]]+)\](?:\((\w+)\))?/);
    const word = (text, view) => (view ? regard.linked(text, view) : regard.term(text));
    return parts.map((part, i) => (i % 3 === 1 ? word(part, parts[i + 1]) : i % 3 ? null : part));
  },

  // A link to the first section of a view, or with an anchor, or its text if there is none on the page.
  linked(text, view) {
    if (!onPage.has(view)) return text;
    const go = (event) => {
      event.preventDefault();
      const heading = document.querySelector(`section.${view} > h2`);
      heading.setAttribute("tabindex", "-1");
      heading.focus({ preventScroll: true });
      heading.scrollIntoView();
    };
    return regard.element("a", { href: `#${view}`, onclick: go }, text);
  },

  // What to change first and what to watch, with a button that does it.
  first(text, act) {
    const button = regard.element("button", { type: "button", "data-part": "first", onclick: act }, "Do it");
    return regard.element("p", { class: "note" }, regard.element("b", {}, "Change this first: "), text, " ", button);
  },

  // Replace all children. The element that had the focus, by its id, its data-part or its name, gets it back.
  renew(root, ...children) {
    const focused = root.contains(document.activeElement) ? document.activeElement : null;
    const name = ["id", "data-part", "aria-label"].find((attribute) => focused?.getAttribute(attribute));
    root.replaceChildren(...children.flat(Infinity).filter(Boolean));
    if (name) root.querySelector(`[${name}="${CSS.escape(focused.getAttribute(name))}"]`)?.focus();
  },

  // A word with its explanation, which hovering, the focus or a tap shows.
  term(text) {
    const key = text.toLowerCase();
    const explanation = TEXTS.terms[key] ?? TEXTS.terms[key.replace(/s$/, "")];
    const button = regard.element("button", { type: "button", class: "term" }, /_/.test(text) ? regard.formula(text) : text);
    regard.tooltip(button, () => explanation);
    return button;
  },

  percent(weight) {
    if (weight > 0 && weight < 0.0005) return "\u22480\u00a0%";
    return Number.isFinite(weight) ? `${regard.format(100 * weight, 1)}\u00a0%` : regard.format(weight, 1);
  },

  // The largest finite number, at least this one: what the darkest colour stands for.
  largest(numbers, least = 0) {
    let most = least;
    for (const x of numbers) if (x > most && x < Infinity) most = x;
    return most || 1;
  },

  // The colour of a weight t from 0 (paper) to 1 (ink) in the present theme, in equal steps for the eye.
  colour(t) {
    const [red, green, blue] = shade(t);
    return `rgb(${red} ${green} ${blue})`;
  },

  // Black or white, whichever can be read on the colour of t.
  ink(t) {
    return luminance(shade(t)) > 0.179 ? "#000" : "#fff";
  },

  // Fill the pixels of an ImageData with the colours of numbers from 0 to `top`.
  colours(numbers, image, top = 1) {
    const table = shades();
    const pixels = image.data;
    for (let i = 0, at = 0; i < numbers.length; i++, at += 4) {
      const colour = table[level(numbers[i] / top)];
      pixels[at] = colour[0];
      pixels[at + 1] = colour[1];
      pixels[at + 2] = colour[2];
      pixels[at + 3] = 255;
    }
    return image;
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
    ["pointerenter", "focus", "click"].forEach((name) => target.addEventListener(name, show));
    target.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hideTip());
    target.addEventListener("blur", hideTip);
    target.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  },

  // A box that scrolls sideways where its content is too wide, with the keyboard, too.
  scroller(name, ...children) {
    const box = regard.element("div", { class: "scroll", role: "group", "aria-label": name }, children);
    const measured = new ResizeObserver(() => {
      if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
      else box.removeAttribute("tabindex");
    });
    [box, ...box.children].forEach((part) => measured.observe(part));
    return box;
  },

  // Buttons of which one is chosen: options [[value, text or element], ...]. The arrow keys move and choose.
  choices(name, options, current, choose) {
    const pick = (k) => {
      set(options[k][0]);
      choose(options[k][0]);
    };
    const buttons = options.map(([, content], k) => {
      const onkeydown = (event) => {
        const next = { ArrowRight: k + 1, ArrowDown: k + 1, ArrowLeft: k - 1, ArrowUp: k - 1, Home: 0, End: options.length - 1 }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        const to = (next + options.length) % options.length;
        buttons[to].focus();
        pick(to);
      };
      return regard.element("button", { type: "button", role: "radio", onclick: () => pick(k), onkeydown }, content);
    });
    const set = (chosen) =>
      options.forEach(([value], k) => {
        buttons[k].setAttribute("aria-checked", String(value === chosen));
        buttons[k].setAttribute("tabindex", value === chosen || (k === 0 && options.every(([other]) => other !== chosen)) ? "0" : "-1");
      });
    set(current);
    return { element: regard.element("div", { class: "choices", role: "radiogroup", "aria-label": name }, buttons), set };
  },

  // A list of texts to choose one from, after its name; `choose` gets the index.
  list(name, texts, choose) {
    const options = texts.map((text) => regard.element("option", { dir: "auto" }, text));
    const select = regard.element("select", { id: regard.unique("list"), onchange: () => choose(select.selectedIndex) }, options);
    return [regard.element("label", { for: select.id }, name), select];
  },

  // A function that acts once before the next frame, however often it is called.
  later(action) {
    let waiting = false;
    return () => {
      if (!waiting) requestAnimationFrame(() => ((waiting = false), action()));
      waiting = true;
    };
  },

  // One tab stop for a grid of elements (rows of columns): the arrow keys move the focus. Returns a function that
  // focuses a cell. `skip` are keys that the cells use themselves.
  roving(rows, { skip = [] } = {}) {
    let current = rows[0]?.[0];
    rows.flat().forEach((cell) => cell.setAttribute("tabindex", cell === current ? "0" : "-1"));
    const go = (cell) => {
      if (!cell) return false;
      current.setAttribute("tabindex", "-1");
      cell.setAttribute("tabindex", "0");
      current = cell;
      cell.focus();
      return true;
    };
    rows.forEach((row, i) =>
      row.forEach((cell, j) => {
        cell.addEventListener("keydown", (event) => {
          if (skip.includes(event.key) || event.ctrlKey || event.metaKey) return;
          const target = neighbour(rows, i, j, event.key);
          if (target && go(target)) event.preventDefault();
        });
        cell.addEventListener("focus", () => cell !== current && go(cell));
      }),
    );
    return (i, j) => go(rows[i]?.[j]);
  },
};

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

// toFixed rounds exact ties away from zero. A number is one only if its binary digits end at the next decimal place.
function rounded(x, digits) {
  const plain = x.toFixed(digits);
  const next = x.toFixed(digits + 1);
  const tie = Number(next) === x && next.endsWith("5") && Number.isInteger(x * 2 ** (digits + 1));
  if (tie && Number(plain.at(-1)) % 2 === 1) return next.slice(0, -1).replace(/\.$/, "");
  return /^-0\.?0*$/.test(plain) ? plain.slice(1) : plain;
}

function tiny(x, digits) {
  return x.toExponential(Math.max(0, Math.min(digits, 2))).replaceAll("-", "\u2212").replace("e+", "e");
}

// "q_i", "s_{t-1}" and single letters become variables with indices; the rest stays as it is.
regard.formula = (text) => {
  const parts = text.match(/[\p{L}](?![\p{L}])(_\{[^}]*\}|_[\p{L}\d])?|[\p{L}]{2,}|[^\p{L}]+/gu) ?? [];
  const elements = parts.map((part) => {
    const match = /^([\p{L}])(?:_\{?([^}]*)\}?)?$/u.exec(part);
    if (!match) return part;
    return regard.element("var", {}, match[1], match[2] ? regard.element("sub", {}, match[2]) : null);
  });
  return regard.element("span", { class: "math" }, elements);
};

// A whole number with commas between thousands.
regard.count = (number) => number.toLocaleString("en-US");

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

// A canvas with as many pixels as the screen, or paper, has for it.
regard.sharp = (canvas, width, height) => {
  const ratio = Math.min(printing ? 2 : devicePixelRatio || 1, 8192 / Math.max(width, height, 1));
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
};

// A colour of base.css as a canvas understands it: light-dark() is resolved by an element only.
regard.themeColour = (name) => {
  probe ??= document.body.appendChild(regard.element("i", { hidden: true }));
  probe.style.colorScheme = regard.dark() ? "dark" : "light";
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};
let probe = null;

regard.gradient = () => `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(regard.colour).join(", ")})`;

// ------------------------------------------------------------------------------------------------------ colours

// Stops in OKLCH, where equal steps of lightness look equal: [lightness, chroma, hue].
const STOPS = {
  light: [[0.99, 0.004, 265], [0.8, 0.095, 258], [0.55, 0.185, 264], [0.3, 0.13, 272]],
  dark: [[0.235, 0.015, 268], [0.42, 0.12, 266], [0.66, 0.155, 258], [0.93, 0.055, 240]],
};
const tables = { light: null, dark: null };

// The colours of the present theme. A browser takes long to determine the theme, so it is asked once for many colours.
function shades() {
  const theme = regard.dark() ? "dark" : "light";
  return (tables[theme] ??= Array.from({ length: 256 }, (_, i) => srgb(between(STOPS[theme], i / 255))));
}

const level = (t) => Math.round(255 * Math.min(1, Math.max(0, Number.isNaN(t) ? 0 : t)));

const shade = (t) => shades()[level(t)];

function between(stops, t) {
  const position = t * (stops.length - 1);
  const i = Math.min(Math.floor(position), stops.length - 2);
  return stops[i].map((from, k) => from + (position - i) * (stops[i + 1][k] - from));
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
  return linear.map((x) => Math.round(255 * Math.min(1, Math.max(0, x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055))));
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
  document.getElementById("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = regard.dark() ? "light" : "dark";
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  const print = (now) => () => {
    printing = now;
    document.querySelectorAll("details").forEach((part) => part.toggleAttribute("open", now || part.open));
    showTheme();
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
  addEventListener("pointerdown", (event) => event.target.closest(".term") || hideTip());
  showTheme();
}

// In a frame: tell frame.js around it the height of the page, and take the theme that it tells.
function startFrame() {
  let told = null;
  addEventListener("message", ({ source, data }) => {
    if (source !== parent || !data.regardTheme || data.regardTheme === told) return;
    told = document.documentElement.dataset.theme = data.regardTheme;
    showTheme();
  });
  const root = document.documentElement;
  const tell = () => root.offsetHeight && parent.postMessage({ regardHeight: Math.ceil(root.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(root);
}

let tip = null;

function showTip(target, text) {
  tip ??= document.body.appendChild(regard.element("div", { class: "tooltip", role: "tooltip", id: "tooltip" }));
  document.querySelectorAll('[aria-describedby="tooltip"]').forEach((old) => old.removeAttribute("aria-describedby"));
  target.setAttribute("aria-describedby", "tooltip");
  tip.replaceChildren(text);
  tip.hidden = false;
  const box = target.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
  const above = box.top - tip.offsetHeight - 8;
  tip.style.setProperty("left", `${left + scrollX}px`);
  tip.style.setProperty("top", `${(above < 0 ? box.bottom + 8 : above) + scrollY}px`);
}

function hideTip() {
  if (tip) tip.hidden = true;
}
