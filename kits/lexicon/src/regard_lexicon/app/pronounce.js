// Pronounce the words of texts: known words as they are listed, others by the model. The same as pronounce.py.

import { Decoder } from "./decode.js";
import { lowered, UNKNOWN } from "./text.js";

const [MOST, BEAM, TAB, LINE] = [1000, 5, 9, 10]; // letters, hypotheses, bytes
const replaced = (text, signs) => Array.from(text, (sign) => signs[sign] ?? sign);
const CASES = { "": (text) => text, lower: lowered, upper: (text) => text.toUpperCase() };

export class TextPronouncer {
  // Load a folder. `unknown`: whether a word with letters that the model has never seen is a "guess", or left out ("skip").
  static async load(folder, unknown = "guess") {
    const decoder = await Decoder.load(folder);
    const rules = decoder.rules.pronouncer;
    Object.assign(decoder, { repetitions: rules.repetitions, copies: false });
    const cut = new RegExp(rules.word, "gu");
    const bytes = await (await fetch(new URL("lexicon.txt", folder))).arrayBuffer();
    const lexicon = new WordList(new Uint8Array(bytes));
    const guesses = unknown === "guess";
    return Object.assign(new TextPronouncer(), { decoder, rules, cut, lexicon, guesses });
  }

  // Return the answer of each word of a text: word, phones (between blanks), source (dictionary, model, guess where letters
  // are unknown, or skipped), probability (that the phones are right, null of a guess), unknown (letters), variants (all
  // that are listed, the most probable first); of the model also tokens and found, the outputs of decode.js.
  async pronounce(text) {
    const answers = [];
    for (const [word] of text.matchAll(this.cut)) answers.push(await this.word(word));
    return answers;
  }

  async word(given) {
    const long = Array.from(given).length > MOST;
    const word = long ? given : given.normalize("NFC");
    const answer = { word, phones: "", source: "skipped", probability: null, unknown: [], variants: [] };
    const variants = long ? [] : this.listed(word);
    if (variants.length) {
      const [{ phones, probability }] = variants;
      return { ...answer, phones, probability, source: "dictionary", variants: variants.map((one) => one.phones) };
    }
    return this.model(word, answer);
  }

  // The answer of the model alone.
  async model(word, answer) {
    const { tokens, letters, unknown } = this.read(word);
    const none = { ...answer, unknown };
    if (!this.mayGuess(word, letters, unknown)) return none;
    const hypotheses = await this.decoder.search(this.decoder.source.encode(tokens), BEAM);
    const found = hypotheses.map((one) => this.decoder.output(tokens, one));
    const [{ text: phones }] = found;
    if (!phones) return none;
    const spoken = { ...none, phones, tokens, found };
    if (unknown.length) return { ...spoken, source: "guess" };
    return { ...spoken, source: "model", probability: this.probability(hypotheses) };
  }

  // The variants of the dictionary: of the word as it is, with the signs there, or in another case.
  listed(word) {
    const { word_signs, word_case } = this.rules;
    const other = replaced(word, word_signs).join("");
    for (const text of [word, other, ...[word, other].map((text) => CASES[word_case](text).normalize("NFC"))]) {
      const variants = this.lexicon.variants(text);
      if (variants.length) return variants;
    }
    return [];
  }

  // Tokens, letters and unknown letters of the case and form in which the fewest letters are unknown.
  read(word) {
    const start = replaced(word, this.rules.letter_signs).slice(0, MOST + 1);
    const inCase = CASES[this.rules.letter_case];
    const texts = [inCase(start.join("")), start.map(inCase).join("")]; // a small sigma depends on its place
    const read = texts.flatMap((text) => ["NFC", "NFD"].map((form) => this.tokens(text.normalize(form))));
    return read.reduce((best, next) => (next.unknown.length < best.unknown.length ? next : best));
  }

  tokens(text) {
    const { source } = this.decoder;
    const tokens = source.tokenize(text);
    const ids = source.encode(tokens);
    const letters = tokens.map((token) => Array.from(source.tokenText(token)));
    const unknown = new Set(letters.filter((_, i) => ids[i] === UNKNOWN).flat());
    return { tokens, letters: letters.flat(), unknown: [...unknown] };
  }

  mayGuess(word, letters, unknown) {
    const short = letters.length && letters.length <= MOST && Array.from(word).length <= MOST;
    return short && (!unknown.length || (this.guesses && !letters.every((letter) => unknown.includes(letter))));
  }

  // The calibrated probability that the best hypothesis is right (Platt scaling); null without calibration.
  probability(hypotheses) {
    if (!this.decoder.rules.calibration) return null;
    const { intercept, share_slope, mass_slope } = this.decoder.rules.calibration;
    const rest = shares(hypotheses).slice(1);
    const mass = sum(hypotheses.map(({ ids, score }) => Math.exp(score * (ids.length + 1))));
    const odds = intercept + share_slope * logRatio(1, sum(rest)) + mass_slope * logRatio(mass, 1 - mass);
    return 1 / (1 + Math.exp(-Math.max(Math.min(odds, 30), -30)));
  }
}

// The probabilities of hypotheses, relative to the best one.
export function shares(hypotheses) {
  const length = (hypotheses[0].ids ?? hypotheses[0].tokens).length + 1;
  return hypotheses.map(({ score }) => Math.exp(length * (score - hypotheses[0].score)));
}

export const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

function logRatio(first, second) {
  const least = Math.exp(-20);
  return Math.max(Math.min(Math.log(Math.max(first, least) / Math.max(second, least)), 10), -10);
}

// A dictionary that is loaded as it is, and searched by bisection: pronounce.py describes the file.
class WordList {
  constructor(data) {
    this.data = data;
    this.start = data.indexOf(LINE) + 1;
    this.phones = this.text(0, this.start - 1).split(" ");
  }

  text(start, end) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.data.subarray(start, end));
  }

  variants(word) {
    const key = [...new TextEncoder().encode(word), TAB];
    let [low, high] = [this.start, this.data.length];
    while (low < high) {
      const line = Math.max(this.data.lastIndexOf(LINE, ((low + high) >> 1) - 1) + 1, low);
      if (this.order(line, key) < 0) low = this.data.indexOf(LINE, line) + 1;
      else high = line;
    }
    if (low >= this.data.length || this.order(low, key) !== 0) return [];
    const cells = this.text(low + key.length, this.data.indexOf(LINE, low)).split("\t");
    return cells.map((cell) => {
      const [codes, number] = cell.split(" ");
      const phones = Array.from(codes, (code) => this.phones[code.codePointAt(0) - 33]).join(" ");
      return { phones, probability: number === undefined ? null : Number(number) };
    });
  }

  // Whether a line begins with bytes (0), or comes before (-) or after (+) one that does.
  order(line, key) {
    const at = key.findIndex((byte, i) => this.data[line + i] !== byte);
    return at < 0 ? 0 : (this.data[line + at] ?? -1) - key[at];
  }
}
