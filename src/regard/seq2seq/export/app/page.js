// The page of an exported model: a text, its outputs, and the view of alignments of regard's own pages.

import { Decoder } from "./decode.js";
import { packed, start } from "./form.js";

const { regard } = window;
const [output, alignment] = ["output", "alignment"].map((id) => document.getElementById(id));

const shown = (token) => token.replaceAll("\uffed", "");

function sentence({ source, outputs }) {
  const hypotheses = outputs.map(({ text, score, tokens, weights }) => ({
    text,
    score,
    tokens: tokens.map(shown),
    ...(weights && { weights: packed(weights, [tokens.length, source.length]), warnings: [] }),
  }));
  return { source: source.map(shown), hypotheses, links: [] };
}

start(Decoder.load, async (decoder, text) => {
  const found = await decoder.decode(text);
  output.value = found.outputs[0].text;
  alignment.replaceChildren();
  regard.draw("alignment", alignment, { sentences: [sentence(found)] });
  return found.outputs[0].cut ? "The output was cut off at the limit of its length." : "";
});
