// A chapter: a question, what is said of it, a picture in which something can be moved, and a guess before one looks. What
// is closed until it is asked for stands below: drawers with numbers, and questions.

regard.view("chapter", (root, { name, parts: [picture, ...drawers] }) => {
  const texts = TEXTS.chapters[name];
  const shown = el("div.chapter-picture");
  root.id = name;
  const { look, step } = regard.part(picture, true)(shown) ?? {};
  const said = el(
    "div.said",
    texts.text.map((text) => el("p", regard.rich(text))),
  );
  const guess = texts.predict && prediction(texts.predict, look);
  const more = [...drawers.map(drawerOf), ...questionsOf(texts)];
  root.append(el("div.chapter-body", el("div.told", said, guess?.element), shown), ...more);
  addToRail(root, texts.name);
  if (isSlides()) addSlides(root, { said, shown, guess, step, more });
});

const questionsOf = ({ questions = {} }) =>
  Object.entries(questions).map(([title, text]) => regard.drawer(title, [el("p", regard.rich(text))]));

// A view that is drawn when its drawer is opened, by a reader or by a state that has its fields.
function drawerOf(part) {
  const draw = regard.part(part, true);
  const body = el("div");
  const drawer = regard.drawer(part.title, [body]);
  let drawn = false;
  const open = () => {
    drawer.open = true;
    if (!drawn) draw(body);
    drawn = true;
  };
  on(drawer, "toggle", () => drawer.open && open());
  regard.waiting(draw.section, open);
  return drawer;
}

// A question with answers to choose from: a wrong one gets a hint and a second try, then the answer is told and shown.
function prediction({ ask, choices, right, hint, answer }, look) {
  const words = TEXTS.predict;
  const heard = el("p.feedback", { role: "status", hidden: true });
  let tries = 0;
  const guess = (chosen) => {
    tries += 1;
    const done = chosen === right || tries === 2;
    const said = chosen === right ? words.right : done ? words.wrong : words.again;
    buttons[chosen].setAttribute("aria-pressed", "true");
    heard.classList.toggle("right", chosen === right);
    heard.hidden = false;
    put(heard, el("b", said), done ? answer : hint);
    if (!done) return;
    buttons.forEach((button) => button.setAttribute("aria-disabled", "true"));
    look?.();
    heard.closest("section").querySelector(".sentence")?.scrollIntoView({ block: "nearest" });
  };
  const choice = (text, k) =>
    el("button", { "aria-pressed": "false", onclick: () => buttons[k].ariaDisabled || guess(k) }, text);
  const buttons = choices.map(choice);
  const element = el("div.prediction", el("p", el("b", words.title), " ", ask), el("div.choices", buttons), heard);
  return { element, answer: () => tries < 2 && guess(right) };
}

// ---------------------------------------------------------------------------------------------------------- rail

const rail = { list: null, links: new Map(), asides: [], items: [] };

// A section that is no chapter: it is shown alone, when it is asked for.
regard.aside = (root, name) => {
  root.id = name;
  root.classList.add("left-out");
  rail.asides.push(root);
};

// The list of chapters beside them: where one is, and the way to each with the keyboard.
function addToRail(root, name) {
  rail.list ??= startRail();
  const go = (event) => {
    event.preventDefault();
    visit(root);
  };
  const link = el("a", { href: `#${root.id}`, onclick: go }, name);
  rail.links.set(root, link);
  rail.list.append(el("li", link));
  rail.seen.observe(root);
}

const isSlides = () => document.body.classList.contains("slides");

// --------------------------------------------------------------------------------------------------------- slides

const slides = { all: [], at: 0, parts: new Map(), place: el("p.slide-number", { "aria-hidden": "true" }) };

// One step a screen: what is said beside the picture, the steps of the picture, the guess and its answer, each drawer.
function addSlides(root, { said, shown, guess, step, more }) {
  const slide = (parts, act) => slides.all.push({ root, parts, act });
  slide([said, shown], () => step?.(Infinity));
  if (step) [1, 2, 3].forEach((number) => slide([said, shown], () => step(number)));
  if (guess) slide([guess.element, shown], () => step?.(Infinity));
  if (guess) slide([guess.element, shown], guess.answer);
  more.forEach((drawer) => slide([drawer], () => drawer.setAttribute("open", "")));
  slides.parts.set(root, [said, shown, guess?.element, ...more].filter(Boolean));
  if (slides.parts.size === 1) document.body.append(slides.place);
  root.classList.toggle("left-out", slides.parts.size > 1);
  if (slides.parts.size === 1) showSlide(0);
  placeSlide();
}

const placeSlide = () => put(slides.place, `${slides.at + 1} / ${slides.all.length}`);

function showSlide(at) {
  const { root, parts, act } = slides.all[at];
  slides.at = at;
  slides.parts.get(root).forEach((part) => part.classList.toggle("left-out", !parts.includes(part)));
  act?.();
  scrollTo(0, 0);
  placeSlide();
}

// The arrow keys go on and back where they do nothing else.
function slideKeys(event) {
  const by = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
  if (!by || event.defaultPrevented || event.target.closest("input, select, [role]:not(section), .rail")) return;
  const next = slides.at + by;
  if (!slides.all[next]) return;
  const { root } = slides.all[next];
  if (root !== slides.all[slides.at].root) visit(root);
  showSlide(next);
}

// ------------------------------------------------------------------------------------------------ where one is

// Of slides, only the present chapter is shown.
regard.arrive = (place) => {
  const present = place.closest("section");
  const alone = isSlides() || rail.asides.includes(present);
  leaveOut((root) => (alone ? root !== present : rail.asides.includes(root)));
  here(present);
  place.scrollIntoView();
  const first = slides.all.findIndex(({ root }) => root === present);
  if (first >= 0 && slides.all[slides.at].root !== present) showSlide(first);
};

const leaveOut = (isOut) =>
  [...rail.links.keys(), ...rail.asides].forEach((root) => root.classList.toggle("left-out", isOut(root)));

function startRail() {
  const { chapters, skip, print: title } = TEXTS.page;
  const list = el("ol");
  const first = () => visit([...rail.links.keys()][0]);
  const skipping = el("button.skip", { onclick: first }, skip);
  const printing = regard.menu(title, title, printItems);
  document.body.classList.add("with-rail");
  if (isSlides()) on(document, "keydown", slideKeys);
  document.getElementById("sections").before(el("nav.rail", { "aria-label": chapters }, skipping, list, printing));
  // A chapter is the present one while it fills the middle of the window.
  const middle = { rootMargin: "-45% 0px -50%" };
  rail.seen = new IntersectionObserver(
    (all) => all.forEach((part) => part.isIntersecting && here(part.target)),
    middle,
  );
  return list;
}

function here(root) {
  rail.here = root;
  rail.links.forEach((link, part) => link.setAttribute("aria-current", String(part === root)));
}

// Go to a chapter, with the focus and in the address.
function visit(root) {
  const heading = root.querySelector("h2");
  heading.setAttribute("tabindex", "-1");
  regard.arrive(root);
  heading.focus({ preventScroll: true });
  regard.visited(root.id);
}

function printItems() {
  const present = rail.links.has(rail.here) ? rail.here : [...rail.links.keys()][0];
  const name = rail.links.get(present).textContent;
  const only = () => printOnly((root) => root === present);
  return [
    [TEXTS.page.all, () => printOnly(() => true)],
    [filled(TEXTS.page.this, { name }), only],
    ...rail.items,
    [filled(TEXTS.page.embed, { name }), () => regard.copy(frameLine(present.id, name), "line")],
  ];
}

function printOnly(printed) {
  leaveOut((root) => !rail.links.has(root) || !printed(root));
  print();
  leaveOut((root) => rail.asides.includes(root) || (isSlides() && root !== rail.here));
}

// A line of HTML that Jupyter, Quarto, MyST and Moodle take.
const frameLine = (id, name) =>
  `<iframe src="${location.href.replace(/#.*/s, "")}#${id}" title="${name}" width="100%" height="760" loading="lazy"></iframe>`;
