// The page of an exported model: a text, its outputs, and the view of alignments of regard's own pages.

import { Decoder } from "./decode.js";

const { regard } = window;
const part = (id) => document.getElementById(id);
const [form, text, go, examples, status, output, alignment] = [
  "form",
  "text",
  "go",
  "examples",
  "status",
  "output",
  "alignment",
].map(part);

const shown = (token) => token.replaceAll("\uffed", "");

// A sentence of the view: weights as the bytes of a typed array, as its data are in a file.
function sentence({ source, outputs }) {
  const hypotheses = outputs.map(({ text, score, tokens, weights }) => ({
    text,
    score,
    tokens: tokens.map(shown),
    ...(weights && { weights: packed(weights, [tokens.length, source.length]), warnings: [] }),
  }));
  return { source: source.map(shown), hypotheses, links: [] };
}

function packed(numbers, shape) {
  const bytes = new Uint8Array(numbers.buffer);
  return { dtype: "float32", shape, base64: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) };
}

async function decode(decoder) {
  go.disabled = true;
  try {
    const found = await decoder.decode(text.value);
    output.value = found.outputs[0].text;
    alignment.replaceChildren();
    regard.draw("alignment", alignment, { sentences: [sentence(found)] });
    status.textContent = found.outputs[0].cut ? "The output was cut off at the limit of its length." : "";
  } catch (error) {
    status.textContent = `This text can't be decoded: ${error.message}`;
  }
  go.disabled = false;
}

async function start() {
  const decoder = await Decoder.load(document.baseURI);
  const lines = (await (await fetch("examples.tsv")).text()).split("\n").filter(Boolean);
  const choose = (example) => {
    text.value = example;
    return decode(decoder);
  };
  const buttons = lines
    .map((line) => line.split("\t")[0])
    .map((example) =>
      regard.element(
        "button",
        { type: "button", class: "quiet", onclick: () => choose(example) },
        regard.label(example),
      ),
    );
  examples.append(...buttons);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    decode(decoder);
  });
  text.disabled = go.disabled = false;
  status.textContent = "";
  await choose(lines[0].split("\t")[0]);
}

start().catch((error) => (status.textContent = `The model can't be loaded: ${error.message}`));
