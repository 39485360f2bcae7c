// Decode texts with an exported model, by onnxruntime-web. The same as decode.py, with all outputs that a beam finds.

import * as ort from "./ort.wasm.bundle.min.mjs";
import { blocked, END, repetitions, START, Text, UNKNOWN } from "./text.js";

ort.env.wasm.numThreads = 1; // more threads need a page that is isolated from others

export class Decoder {
  // Load a model from its folder.
  static async load(folder) {
    const decoder = new Decoder();
    const rules = await (await fetch(new URL("model.json", folder))).json();
    decoder.rules = rules;
    decoder.source = new Text(rules.source);
    decoder.target = new Text(rules.target);
    decoder.limit = rules.limit;
    decoder.repetitions = rules.repetitions;
    decoder.copies = rules.copies;
    decoder.encoder = await graph(new URL("encoder.onnx", folder), rules);
    decoder.step = await graph(new URL("step.onnx", folder), rules);
    return decoder;
  }

  // Return the source's tokens with its end, and the outputs, the best first: text, tokens, score,
  // weights (row by row), cut (whether it was cut off at the limit).
  async decode(text, beam = 5) {
    const source = this.source.tokenize(text);
    const names = [...source, "</s>"];
    if (!source.length)
      return { source: names, outputs: [{ text: "", tokens: [], score: 0, weights: new Float32Array(), cut: false }] };
    const found = await this.search(this.source.encode(source), beam);
    return { source: names, outputs: found.map((one) => this.output(source, one)) };
  }

  output(source, { ids, score, rows, cut }) {
    const unknown = this.source.encode(source).flatMap((id, i) => (id === UNKNOWN ? [i] : []));
    const tokens = ids.map((id, row) => {
      if (id !== UNKNOWN) return this.target.tokens[id];
      const weights = unknown.map((i) => (rows ? rows[row][i] : 0)); // it copies the likeliest one that is left
      const [at] = unknown.splice(weights.indexOf(Math.max(...weights)), 1);
      return this.target.copyToken(source[at], this.source);
    });
    const weights = rows && Float32Array.from(rows.slice(0, ids.length).flatMap((row) => Array.from(row)));
    return { text: this.target.detokenize(tokens), tokens, score, weights, cut };
  }

  async search(source, beam) {
    const lengths = integers([source.length + 1]);
    let given = { source: integers([...source, END], [1, source.length + 1]), lengths };
    given = { ...given, ...(await run(this.encoder, given)) };
    const most = this.limit[0] * (source.length + 1) + this.limit[1];
    const often = this.repetitions && this.copies ? Math.max(this.repetitions, repetitions(source)) : this.repetitions;
    const copies = this.copies ? source.filter((id) => id === UNKNOWN).length : 0;
    let live = [{ total: 0, ids: [START], rows: [] }];
    const done = [];
    for (let length = 1; length <= most; length++) {
      const out = await run(this.step, { ...given, token: integers(live.map(({ ids }) => ids.at(-1))) });
      const grown = [];
      const never = live.map(({ ids }) => new Set(blocked(ids.slice(1), often, copies)));
      best(live, out.log_probs, 2 * beam, never).forEach(({ total, parent, token }, rank) => {
        const rows = out.weights && [...live[parent].rows, row(out.weights, parent)];
        const one = { total, ids: [...live[parent].ids, token], rows, parent };
        if (token !== END) grown.push(one);
        else if (rank < beam) done.push({ ...one, score: total / length });
      });
      live = grown.slice(0, beam);
      if (
        !live.length ||
        ((done.length >= beam || (beam === 1 && done.length)) && last(done, beam) >= live[0].total / most)
      )
        break;
      given.state = selected(
        out.new_state,
        live.map(({ parent }) => parent),
      );
    }
    const outputs = done.length ? done : [{ ...live[0], ids: [...live[0].ids, END], score: live[0].total / most }];
    outputs.sort((first, second) => second.score - first.score);
    const cut = !done.length;
    return outputs.slice(0, beam).map(({ ids, score, rows }) => ({ ids: ids.slice(1, -1), score, rows, cut }));
  }
}

// The score that a further output must exceed: with a beam of 1, the first output is the last.
const last = (done, beam) => (beam === 1 ? Infinity : done.map(({ score }) => score).sort((a, b) => b - a)[beam - 1]);

const integers = (numbers, dims = [numbers.length]) =>
  new ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), dims);

// Load a graph, whose metadata must have the parameters of model.json: files may be of two models.
async function graph(url, rules) {
  const found = await fetch(url);
  if (!found.ok) throw new Error(`${url}: ${found.status}`);
  const bytes = new Uint8Array(await found.arrayBuffer());
  if (!new TextDecoder("latin1").decode(bytes).includes(rules.parameters)) {
    throw new Error("encoder.onnx, step.onnx and model.json are not of one model: export it again");
  }
  return ort.InferenceSession.create(bytes);
}

async function run(session, given) {
  return session.run(Object.fromEntries(session.inputNames.map((name) => [name, given[name]])));
}

function row({ data, dims }, index) {
  const size = dims.slice(1).reduce((product, dim) => product * dim, 1);
  return data.slice(index * size, (index + 1) * size);
}

// Rows of a state for the next step.
function selected(state, rows) {
  const parts = rows.map((index) => row(state, index));
  const data = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.forEach((part, i) => data.set(part, i * part.length));
  return new ort.Tensor("float32", data, [rows.length, ...state.dims.slice(1)]);
}

// The most probable continuations, in falling order; of equals, the first.
function best(live, { data, dims }, count, never) {
  const kept = [];
  live.forEach(({ total }, parent) => {
    for (let token = END; token < dims[1]; token++) {
      if (never[parent].has(token)) continue;
      const sum = total + data[parent * dims[1] + token];
      if (kept.length === count && sum <= kept[count - 1].total) continue;
      let at = kept.length;
      while (at && kept[at - 1].total < sum) at--;
      kept.splice(at, 0, { total: sum, parent, token });
      kept.length = Math.min(kept.length, count);
    }
  });
  return kept;
}
