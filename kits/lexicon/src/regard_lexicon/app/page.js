// The page of an exported pronouncer: words, their phones, and how the model attended to the letters.

import { packed, start } from "./form.js";
import { shares, sum, TextPronouncer } from "./pronounce.js";

const { regard } = window;
const el = regard.element;
const [output, alignment, go, main, title] = ["#output", "#alignment", "#go", "main", "h1"].map((name) =>
  document.querySelector(name),
);
const percent = (share) => `${(100 * share).toFixed(1)} %`;

go.textContent = "Pronounce";
document.querySelector("label[for=text]").textContent = "Words";

// What the card says: the name, the error rate on words that were not learned, the licence.
function describe({ pronouncer, card = {} }) {
  document.title = title.textContent = `Pronunciation: ${pronouncer.name}`;
  const { lines, count, wrong } = card.exported ?? {};
  const rate = wrong && `${percent(wrong["beam 5"])} of ${count.toLocaleString("en")} ${lines} come out wrong.`;
  const licence = card.licence && `Licence of the dictionary: ${card.licence}.`;
  main.prepend(el("p", {}, [rate, licence].filter(Boolean).join(" ")));
}

// Where the phones come from: a mark for guesses.
function source({ source, probability, unknown }) {
  const listed = [...unknown].join(", ");
  if (source === "guess") return el("mark", {}, `guess: the model does not know ${listed}`);
  if (source === "model" && probability === null) return "by the model";
  if (source === "model") return `right with a probability of ${percent(probability)}`;
  return source === "dictionary" ? "in the dictionary" : el("mark", {}, `skipped: the model does not know ${listed}`);
}

function row(answer) {
  const phones = answer.variants.length ? answer.variants : [answer.phones];
  return el(
    "p",
    {},
    regard.label(answer.word),
    " ",
    el("b", {}, phones.join(" / ")),
    " ",
    el("small", {}, source(answer)),
  );
}

// A word of the view: its letters without the end, and the answers with their shares of the probability of all.
function word({ word, tokens, found }) {
  const all = shares(found);
  const hypotheses = found.map(({ text, tokens: phones, weights }, i) => ({
    text,
    score: Math.round((1000 * all[i]) / sum(all)) / 1000,
    tokens: phones,
    ...(weights && {
      weights: packed(withoutEnd(weights, tokens.length), [phones.length, tokens.length]),
      warnings: [],
    }),
  }));
  return { source: tokens, text: word, hypotheses, links: [] };
}

const withoutEnd = (weights, letters) => weights.filter((_, i) => i % (letters + 1) < letters);

async function load(folder) {
  const pronouncer = await TextPronouncer.load(folder);
  describe(pronouncer.decoder.rules);
  return pronouncer;
}

start(load, async (pronouncer, text) => {
  const answers = await pronouncer.pronounce(text);
  output.replaceChildren(...answers.map(row));
  alignment.replaceChildren();
  const modelled = [];
  for (const answer of answers) modelled.push(answer.found ? answer : await pronouncer.model(answer.word, answer));
  const sentences = modelled.filter(({ found }) => found).map(word);
  const scored = "The number is the share of an answer in the probability of all of them.";
  if (sentences.length) regard.draw("alignment", alignment, { sentences, scored, noun: "Word" });
  return answers.some(({ found }) => found?.[0].cut) ? "An output was cut off at the limit of its length." : "";
});
