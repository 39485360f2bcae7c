// The state of a page: what its views keep, as one object of texts. The address after #, a saved copy and the list of
// undo are this object, and a page is drawn from it alone.

const keepers = []; // {prefix, get, parse, show} of each view with a state
const closed = new Map(); // what draws a view that is not drawn yet, by the prefix of its fields
let visited = ""; // the chapter in the address
const past = { entries: [], at: 0, changed: "" };
const MOST_STEPS = 200; // that can be undone

// A view keeps its state: get() returns {field: text} of what differs from the page as it was made; parse(fields) the
// state of such an object, or throws an Error; show(state) draws it. `passing` are fields whose change is no step of undo,
// and `lasting` those that undo leaves as they are.
// `undone` is false where nothing can be. A view that is drawn outside of the sections of a page keeps nothing.
regard.keep = (section, { get, parse, show, passing = [], lasting = [], undone = true }) => {
  if (section === null) return;
  const prefix = prefixOf(section);
  closed.delete(prefix);
  const named = (names) => names.map((name) => prefix + name);
  const prefixed = () => Object.fromEntries(Object.entries(get()).map(([name, text]) => [prefix + name, text]));
  const names = { passing: named([...passing, ...lasting]), lasting: named(lasting) };
  keepers.push({ prefix, get: prefixed, parse, show, undone, ...names });
};

const prefixOf = (section) => (section ? `${section}.` : "");

// A view that draw() draws when its state is asked for.
regard.waiting = (section, draw) => closed.set(prefixOf(section), draw);

// The same for a view whose state is view.state, has these fields, began as fresh() and is drawn by draw().
regard.keepFields = (section, view, fresh, fields, draw, passing = []) => {
  const restored = (state) => {
    view.state = state;
    draw();
  };
  regard.keep(section, {
    get: () => regard.fields.write(fields, view.state, fresh()),
    parse: (texts) => regard.fields.read(fields, texts, fresh()),
    show: restored,
    passing,
    undone: passing.length < Object.keys(fields).length,
  });
};

// A view {state, change(part)} with such a state.
regard.kept = (section, fresh, fields, draw, passing) => {
  const view = { state: fresh() };
  view.change = (part) => {
    Object.assign(view.state, part);
    draw(view);
    regard.changed();
  };
  regard.keepFields(section, view, fresh, fields, () => draw(view), passing);
  return view;
};

const present = () => Object.assign({}, ...keepers.map(({ get }) => get()));

const all = (part) => keepers.flatMap((keeper) => keeper[part]);

// The names of the fields that differ.
const differing = (a, b) =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((name) => a[name] !== b[name]).sort();

// Views call this after a change. Changes of one number that follow each other are one step, until the focus leaves it,
// or another drag begins.
regard.changed = () => {
  if (restoring || !past.entries.length) return;
  const now = present();
  const names = differing(now, past.entries[past.at] ?? {});
  if (!names.length) return;
  const edited = names.filter((name) => !all("passing").includes(name)).join();
  if (edited && edited !== past.changed) past.entries.splice(++past.at, Infinity, now);
  else past.entries[past.at] = now;
  if (edited) {
    past.entries.length = past.at + 1;
    past.changed = edited;
    // A number that is dragged there and back has not changed.
    if (past.at && !differing(now, past.entries[past.at - 1]).length) {
      past.entries.length = past.at--;
      seal();
    }
  }
  if (past.entries.length > MOST_STEPS) {
    past.entries.shift();
    past.at--;
  }
  shown();
};

function goBack(by) {
  const to = past.entries[past.at + by];
  if (!to) return;
  const now = present();
  const next = { ...to };
  all("lasting").forEach((name) => {
    if (name in now) next[name] = now[name];
    else delete next[name];
  });
  past.at += by;
  past.changed = "";
  restore(next, now);
  past.entries[past.at] = present();
  shown();
}

const owns = (prefix, name) => (prefix ? name.startsWith(prefix) : !/^\d+\./.test(name));

let restoring = false;

// Draw the views whose fields differ. Nothing is drawn if one of them has a fault.
function restore(fields, now = present()) {
  const known = new Set();
  closed.forEach((draw, prefix) => Object.keys(fields).some((name) => owns(prefix, name)) && draw());
  const states = keepers.map(({ prefix, parse }) => {
    const own = Object.keys(fields).filter((name) => owns(prefix, name));
    own.forEach((name) => known.add(name));
    return parse(Object.fromEntries(own.map((name) => [name.slice(prefix.length), fields[name]])));
  });
  const unknown = Object.keys(fields).find((name) => !known.has(name));
  if (unknown) throw new Error(unknownField(unknown));
  const names = differing(fields, now);
  restoring = true;
  keepers.forEach(({ prefix, show }, k) => {
    if (names.some((name) => owns(prefix, name))) show(states[k]);
  });
  restoring = false;
}

// -------------------------------------------------------------------------------------------------- state as text

// Letters, digits and ._,;~- only, which no program that passes a link on changes. The check at the end finds a link that
// was cut off.
regard.written = (fields = present()) => {
  const parts = Object.entries(fields).map(([name, own]) => `${name}=${own}`);
  const text = parts.join("&");
  return text && `${text}&check=${check(text)}`;
};

regard.read = (written) => {
  const text = unescaped(written);
  const [, inside, sum] = /^(.*)&check=(\w+)$/s.exec(text) ?? [];
  if (inside === undefined) throw new Error(FAULTS.end);
  if (check(inside) !== sum) throw new Error(FAULTS.changed);
  return Object.fromEntries(inside.split("&").map((part) => part.split("=")));
};

function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// FNV-1a with 32 bits.
function check(text) {
  let sum = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193);
  return (sum >>> 0).toString(36);
}

// How values are written: {write(value), read(text, base)}, where `base` is the value of the page as it was made. What
// can't be read is an Error.
regard.CODES = {
  integer: (below) => ({
    write: String,
    read: (text) => fitting(/^\d+$/.test(text) && text < below, Number(text), text),
  }),
  integers: (below, different = false) => ({
    write: (list) => list.join(),
    read: (text, base) => {
      const list = text.split(",").map(regard.CODES.integer(below).read);
      return fitting(list.length === base.length && (!different || new Set(list).size === list.length), list, text);
    },
  }),
  number: (fits = () => true) => ({
    write: decimal,
    read: (text) => fitting(isDecimal(text) && fits(Number(text)), Number(text), text),
  }),
  choice: (choices) => ({ write: String, read: (text) => fitting(choices.includes(text), text, text) }),
  flag: () => ({ write: String, read: (text) => fitting(["true", "false"].includes(text), text === "true", text) }),
  texts: () => ({
    write: (texts) => texts.map(word).join(),
    read: (text, base) => fitting(text.split(",").length === base.length, text.split(",").map(unword), text),
  }),
  matrix: () => ({
    write: (rows) => rows.map((row) => row.map(decimal).join()).join(";"),
    read: (text, base) => {
      const rows = text.split(";").map((row) => row.split(","));
      const fits = (row, i) => row.length === base[i]?.length && row.every(isDecimal);
      const numbers = rows.map((row) => row.map(Number));
      return fitting(rows.length === base.length && rows.every(fits), numbers, text);
    },
  }),
  list: () => {
    const { write, read } = regard.CODES.matrix();
    return { write: (list) => write([list]), read: (text, base) => read(text, [base])[0] };
  },
  optional: (code) => ({
    write: (x) => (x === null ? "none" : code.write(x)),
    read: (text, base) => (text === "none" ? null : code.read(text, base)),
  }),
};

// Fields of a state, {name: code}. The path of a code leads to its value; without one, the name does.
regard.fields = {
  at: (state, path) => path.split(".").reduce((part, name) => part?.[name], state) ?? null,

  // The texts of the fields that differ from those of another state.
  write(fields, state, base) {
    const texts = Object.entries(fields).map(([name, { path = name, write }]) => {
      const [own, other] = [state, base].map((one) => write(regard.fields.at(one, path)));
      return own === other ? [] : [[name, own]];
    });
    return Object.fromEntries(texts.flat());
  },

  // Put texts into a state.
  read(fields, texts, state) {
    for (const [name, text] of Object.entries(texts)) {
      if (!Object.hasOwn(fields, name)) throw new Error(unknownField(name));
      const { path = name, read } = fields[name];
      const inner = path.split(".").slice(0, -1).join(".");
      const part = inner ? regard.fields.at(state, inner) : state;
      part[path.split(".").at(-1)] = read(text, regard.fields.at(state, path));
    }
    return state;
  },
};

const FAULTS = TEXTS.tools.faults;

const unknownField = (name) => filled(FAULTS.unknown, { name: name.slice(0, 30) });

function fitting(fits, value, text) {
  if (!fits) throw new Error(filled(FAULTS.unfit, { text: text.slice(0, 30) }));
  return value;
}

const decimal = (x) => (Object.is(x, -0) ? "-0" : String(x).replace("+", ""));
const isDecimal = (text) => /^-?\d+(\.\d+)?(e-?\d+)?$/.test(text) && Number.isFinite(Number(text));
const word = (text) => {
  const escaped = encodeURIComponent(text.replace(/\p{Surrogate}/gu, "?"));
  return escaped.replace(/[~!'()*]/g, (x) => `%${x.charCodeAt(0).toString(16)}`).replaceAll("%", "~");
};
const unword = (text) => decodeURIComponent(text.replaceAll("~", "%"));

// ------------------------------------------------------------------------------------------- address, tools, file

// Show the element that an address names.
regard.arrive = (place) => place.scrollIntoView();

// The element that an address names after #, and the state after it.
function addressed(address) {
  const [, fragment = ""] = /#(.*)/s.exec(address) ?? [];
  const [, name, rest] = /^([^&]*)&?(.*)$/s.exec(fragment);
  const place = document.getElementById(unescaped(name));
  return place ? [place, rest] : [null, fragment];
}

// The state that the address has, or else that of a saved copy. To go to a chapter changes no state.
function readAddress(address = location.href) {
  const [place, written] = addressed(address);
  visited = place?.id ?? "";
  if (place) regard.arrive(place);
  if (place && !written && past.entries.length) return;
  const saved = document.getElementById("sections").dataset.state ?? "";
  document.getElementById("broken")?.remove();
  try {
    restore(written || saved ? regard.read(written || saved) : {});
  } catch (fault) {
    const text = filled(TEXTS.tools.address, { why: fault.message });
    document.getElementById("sections").before(el("p.warning", { id: "broken", role: "alert" }, text));
    if (saved && written) restore(regard.read(saved));
  }
}

regard.visited = (name) => {
  visited = name;
  shown();
};

const fragment = (fields) => [visited, regard.written(fields)].filter(Boolean).join("&");

function writeAddress() {
  const written = fragment();
  try {
    history.replaceState(history.state, "", written ? `#${written}` : location.href.replace(/#.*/s, ""));
  } catch {
    // the address of srcdoc, or of a frame in a sandbox, is not the page's
  }
}

let writing = null;

// Browsers refuse to write the address more often than some times in a second.
function shown() {
  clearTimeout(writing);
  writing = setTimeout(writeAddress, 300);
  showEnds();
}

function showEnds() {
  const [back, forth] = document.querySelectorAll(".tools [data-by]");
  back?.setAttribute("aria-disabled", String(past.at === 0));
  forth?.setAttribute("aria-disabled", String(past.at === past.entries.length - 1));
}

const seal = () => {
  past.changed = "";
};

function startState() {
  if (!keepers.length) return;
  const step = (by, text, key) =>
    el("button.quiet", { "data-by": by, title: `${text} (${key})`, onclick: () => goBack(by) }, text);
  const texts = TEXTS.tools;
  const steps = [step(-1, texts.undo, texts.keys.undo), step(1, texts.redo, texts.keys.redo)];
  const undone = keepers.some((keeper) => keeper.undone);
  const share = regard.menu(texts.share, texts.share, () => [
    [texts.save, regard.save],
    ...(regard.hasAddress() ? [[texts.link, regard.copyLink]] : []),
  ]);
  document
    .getElementById("theme")
    .before(el("div.tools", { role: "group", "aria-label": texts.page }, undone && steps, share));
  on(window, "pointerdown focusout", seal);
  on(window, "keydown", undoKeys);
  readAddress();
  past.entries = [present()];
  on(window, "hashchange", ({ newURL }) => {
    readAddress(newURL);
    seal();
    regard.changed();
  });
  showEnds();
}

function undoKeys(event) {
  if (event.key === "Enter") seal();
  const by = { z: event.shiftKey ? 1 : -1, y: 1 }[event.key.toLowerCase()];
  if (!by || !(event.ctrlKey || event.metaKey) || event.altKey) return;
  if (event.target.matches("textarea, input:not(.number, [type='range'], [type='checkbox'])")) return;
  event.preventDefault();
  goBack(by);
}

regard.hasAddress = () => !/^(about|blob|data):/.test(location.protocol);

regard.copyLink = (changed = {}) =>
  regard.copy(`${location.href.replace(/#.*/s, "")}#${fragment({ ...present(), ...changed })}`, "link");

// The page as a file that opens in this state: the elements of the file itself, without what was drawn into it.
regard.save = (changed = {}) => {
  const copy = document.documentElement.cloneNode(true);
  copy.querySelector("#sections").replaceChildren();
  const drawn = copy.querySelectorAll(".tools, #broken, body > :not(header, main, script, noscript)");
  drawn.forEach((part) => part.remove());
  copy.removeAttribute("data-theme");
  copy.querySelector("#sections").dataset.state = regard.written({ ...present(), ...changed });
  regard.download("html", `<!doctype html>\n${copy.outerHTML}\n`, document.title);
};
