// A chapter: a question, what is said of it, a picture in which something can be moved, and a guess before one looks. What
// is closed until it is asked for stands below: drawers with numbers, and questions.

regard.view("chapter", (root, { name, parts: [picture, ...drawers] }) => {
  const texts = TEXTS.chapters[name];
  const shown = el("div.chapter-picture");
  root.id = name;
  const { look } = regard.part(picture, true)(shown) ?? {};
  const paragraphs = texts.text.map((text) => el("p", regard.rich(text)));
  const told = el("div.told", paragraphs, texts.predict && prediction(texts.predict, look));
  root.append(el("div.chapter-body", told, shown), ...drawers.map(drawerOf), ...questionsOf(texts));
  addToRail(root, texts.name);
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
  return el("div.prediction", el("p", el("b", words.title), " ", ask), el("div.choices", buttons), heard);
}

// ---------------------------------------------------------------------------------------------------------- rail

const rail = { list: null, links: new Map() };

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
  if (isSlides()) root.classList.toggle("left-out", rail.links.size > 1);
}

const isSlides = () => document.body.classList.contains("slides");

// Of slides, only the present chapter is shown.
regard.arrive = (place) => {
  const present = place.closest("section");
  if (isSlides()) rail.links.forEach((_, root) => root.classList.toggle("left-out", root !== present));
  place.scrollIntoView();
};

// The arrow keys go to another chapter where they do nothing else.
function slideKeys(event) {
  const by = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
  if (!by || event.defaultPrevented || event.target.closest("input, select, [role]:not(section), .rail")) return;
  const all = [...rail.links.keys()];
  const next = all[all.indexOf(rail.here ?? all[0]) + by];
  if (next) visit(next);
}

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
  heading.focus({ preventScroll: true });
  regard.arrive(root);
  here(root);
  regard.visited(root.id);
}

function printItems() {
  const present = rail.here ?? [...rail.links.keys()][0];
  const name = rail.links.get(present).textContent;
  const only = () => printOnly((root) => root === present);
  return [
    [TEXTS.page.all, () => printOnly(() => true)],
    [filled(TEXTS.page.this, { name }), only],
    [filled(TEXTS.page.embed, { name }), () => regard.copy(frameLine(present.id, name), "line")],
  ];
}

function printOnly(printed) {
  const mark = (shown) => rail.links.forEach((_, root) => root.classList.toggle("left-out", !shown(root)));
  mark(printed);
  print();
  mark((root) => !isSlides() || root === rail.here);
}

// A line of HTML that Jupyter, Quarto, MyST and Moodle take.
const frameLine = (id, name) =>
  `<iframe src="${location.href.replace(/#.*/s, "")}#${id}" title="${name}" width="100%" height="760" loading="lazy"></iframe>`;
