// A number that can be dragged sideways, changed with the arrow keys, or typed.

const STEP = 0.1;
const PIXELS = 6; // of a drag for one step

regard.digits = 2; // after the point, until a reader asks for more

// As short as it can be read: whole numbers without a point, others with up to these digits after it.
function short(x, digits = regard.digits) {
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return regard.format(x, 0);
  const text = withDigits(Number(x), digits);
  return localized(text.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""));
}

// A number as people type it, also as "1,5" or "1/2"; NaN if it is none.
function parsed(text) {
  const parts = text
    .replaceAll("\u2212", "-")
    .replaceAll(",", ".")
    .split("/")
    .map((part) => part.trim());
  const [above, below = 1, ...more] = parts.map((part) => (NUMBER.test(part) ? Number(part) : NaN));
  return more.length ? NaN : above / below;
}

// {element, set(value)}: `change` is called with each new value. Only numbers that fit are accepted; a drag and the keys
// stop at the least one.
regard.number = ({ value, name, change, step = STEP, least = -Infinity, fits = (x) => x >= least }) => {
  const typed = { type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false" };
  const known = { role: "spinbutton", "aria-label": name, "aria-describedby": "number-help" };
  const input = el("input.number", { ...typed, ...known });
  let present = value;
  let before = value;

  const show = () => {
    input.value = short(present, 4);
    input.style.setProperty("--characters", Math.max(3, input.value.length));
    input.setAttribute("aria-valuenow", String(present));
    input.setAttribute("aria-valuetext", input.value);
    input.removeAttribute("aria-invalid");
  };
  const set = (x) => {
    present = x;
    if (document.activeElement !== input || input.dataset.typing === undefined) show();
  };
  const by = (start, steps) => {
    const next = Math.max(least, Number((start + steps * step).toFixed(10)));
    if (next === present) return;
    present = next;
    shown();
    change(next);
  };

  const shown = () => {
    delete input.dataset.typing;
    show();
  };
  on(input, "focus", () => {
    before = present;
    input.select();
  });
  // What is no number here is left out, and said.
  const done = () => {
    const typed = input.getAttribute("aria-invalid") && input.value;
    shown();
    if (typed) announce(filled(TEXTS.computing.unfit, { text: typed, number: input.value }), input);
  };
  on(input, "blur", done);
  on(input, "input", () => {
    input.dataset.typing = "";
    const typed = parsed(input.value);
    const fitting = Number.isFinite(typed) && fits(typed);
    input.toggleAttribute("aria-invalid", false);
    if (!fitting) return input.setAttribute("aria-invalid", "true");
    present = typed;
    input.setAttribute("aria-valuenow", String(typed));
    change(typed);
  });
  const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
  on(input, "keydown", (event) => {
    if (steps[event.key]) {
      event.preventDefault();
      by(present, steps[event.key] * (event.shiftKey ? 10 : 1));
    } else if (event.key === "Enter" || event.key === "Escape") {
      if (event.key === "Escape" && before !== present) {
        present = before;
        change(before);
      }
      if (event.key === "Enter") done();
      else shown();
      input.select();
    }
  });
  draggable(input, () => present, by);
  show();
  return { element: input, set };
};

// A press without a movement gives the focus, so that a number can be typed.
function draggable(input, value, by) {
  let drag = null;
  on(input, "mousedown", (event) => event.preventDefault());
  on(input, "pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { x: event.clientX, start: value(), moved: false };
    input.setPointerCapture(event.pointerId);
  });
  on(input, "pointermove", (event) => {
    if (!drag) return;
    const distance = event.clientX - drag.x;
    if (!drag.moved && Math.abs(distance) < PIXELS / 2) return;
    drag.moved = true;
    input.classList.add("dragged");
    by(drag.start, Math.round(distance / PIXELS) * (event.shiftKey ? 10 : 1));
  });
  const end = (event) => {
    if (drag && !drag.moved && event.type === "pointerup") input.focus();
    drag = null;
    input.classList.remove("dragged");
  };
  on(input, "pointerup pointercancel", end);
}
