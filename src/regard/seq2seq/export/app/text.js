// Rules of text, from model.json: from a text to ids, and from tokens to a text. The same as text.py.

export const [START, END, UNKNOWN] = [1, 2, 3]; // ids; 0 is padding
const JOIN = "\uffed"; // in words: no space on this side
const BEGIN = "\u2581"; // in subwords: a word begins
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to replace
const CONTROL = /[\x01-\x1f\x7f-\x9f\u2028\u2029]/g;

const swapped = (text) => text.replace(/[ \u2423]/g, (sign) => (sign === " " ? "\u2423" : " ")); // how a space is written

export const lowered = (text) => text.replaceAll("İ", "i").toLowerCase(); // the dotted capital of Turkish is one letter

const otherApostrophe = (text) => text.replace(/['\u2019]/g, (sign) => (sign === "'" ? "\u2019" : "'")); // where it is known

// How often a group of known ids comes in a row, at most.
export function repetitions(ids) {
  let most = 1;
  for (let size = 1; 2 * size <= ids.length; size++) {
    let run = 0;
    for (let i = size; i < ids.length; i++) {
      run = ids[i] === ids[i - size] && ids[i] !== UNKNOWN ? run + 1 : 0;
      most = Math.max(most, Math.floor(run / size) + 1);
    }
  }
  return most;
}

// The ids that must not follow: with a limit, those of a group that would come more often in a row.
export function blocked(ids, most, copies = 0) {
  const found = ids.filter((id) => id === UNKNOWN).length < copies ? [0, START] : [0, START, UNKNOWN];
  if (most === null) return found;
  if (!ids.length) found.push(END);
  for (let size = 1; size * (most + 1) <= ids.length + 1; size++) {
    const tail = ids.slice(ids.length + 1 - (most + 1) * size);
    if (tail.slice(size).every((id, i) => id === tail[i]) && !tail.includes(UNKNOWN)) found.push(ids.at(-size));
  }
  return found;
}

export class Text {
  constructor(rules) {
    this.rules = rules;
    this.kind = rules.kind;
    this.tokens = rules.tokens;
    const own = rules.tokens.map((token, id) => [token, id]).slice(UNKNOWN + 1);
    this.ids = new Map(own);
    this.scores = new Map(rules.scores ? own.map(([token, id]) => [token, rules.scores[id]]) : []);
    this.pattern = rules.pattern && new RegExp(rules.pattern.replace("?P<", "?<"), "gu");
  }

  encode(tokens) {
    const lower = this.rules.lower && this.kind !== "subwords";
    const texts = lower ? tokens.map(lowered) : tokens;
    return texts.map((text) => this.ids.get(text) ?? this.ids.get(otherApostrophe(text)) ?? UNKNOWN);
  }

  tokenize(given) {
    let text = this.normalized(given.replace(CONTROL, " ").replaceAll("\ufeff", ""));
    if (!text.trim()) return [];
    if (this.kind === "characters") return Array.from(swapped(text));
    if (this.kind === "tokens") return text.split(" ").filter(Boolean);
    if (this.kind === "words") return this.words(text.replaceAll(JOIN, "\u25a0"));
    if (this.rules.lower) text = this.normalized(lowered(text));
    return text
      .replaceAll(BEGIN, "_")
      .split(" ")
      .filter(Boolean)
      .flatMap((word) => this.subwords(BEGIN + word));
  }

  detokenize(tokens) {
    if (this.kind === "characters") return swapped(tokens.join(""));
    if (this.kind === "subwords")
      return tokens
        .join("")
        .replaceAll(BEGIN, " ")
        .replace(/^ +| +$/g, "");
    const line = tokens.filter(Boolean).join(" ");
    return this.kind === "tokens"
      ? line
      : line.replaceAll(` ${JOIN}`, "").replaceAll(`${JOIN} `, "").replaceAll(JOIN, "");
  }

  tokenText(token) {
    if (this.kind === "subwords") return token.replaceAll(BEGIN, "");
    return this.kind === "tokens" ? token : this.detokenize([token]);
  }

  copyToken(token, source) {
    return this.kind === source.kind && this.kind !== "subwords"
      ? token
      : source.tokenText(token).replace(/^ +| +$/g, "");
  }

  normalized(text) {
    return this.rules.normalization === "none" ? text : text.normalize(this.rules.normalization);
  }

  words(text) {
    const tokens = [];
    let end = -1;
    for (const found of text.matchAll(this.pattern)) {
      const touches = found.index === end;
      end = found.index + found[0].length;
      const isWord = found.groups.word !== undefined;
      if (touches && isWord) tokens[tokens.length - 1] += JOIN;
      tokens.push((touches && !isWord ? JOIN : "") + found[0]);
    }
    return tokens;
  }

  subwords(word) {
    const letters = Array.from(word);
    const joined = [];
    let before = true; // whether the piece before is known: unknown ones in a row are one token
    for (const piece of this.rules.method === "bpe" ? this.merged(letters) : this.likeliest(letters)) {
      const known = this.scores.has(piece);
      if (known || before) joined.push(piece);
      else joined[joined.length - 1] += piece;
      before = known;
    }
    return joined;
  }

  // Merge the pair of the highest score, the first of equals, until no pair is a piece.
  merged(pieces) {
    const pairs = (start, end) => pieces.slice(start, end).map((piece, i) => this.pair(piece, pieces[start + i + 1]));
    const scores = pairs(0, pieces.length - 1);
    for (;;) {
      const most = scores.reduce((best, score) => Math.max(best, score), -Infinity);
      if (most === -Infinity) return pieces;
      const at = scores.indexOf(most);
      pieces.splice(at, 2, pieces[at] + pieces[at + 1]);
      const [start, end] = [Math.max(at - 1, 0), Math.min(at + 1, pieces.length - 1)];
      scores.splice(start, at + 2 - start, ...pairs(start, end));
    }
  }

  pair(first, second) {
    return this.scores.get(first + second) ?? -Infinity;
  }

  // Choose the segmentation with the largest sum of scores.
  likeliest(letters) {
    const unknown = Math.min(...this.scores.values()) - 10;
    const longest = [...this.scores.keys()].reduce((most, piece) => Math.max(most, Array.from(piece).length), 1);
    const best = [{ total: 0 }];
    for (let end = 1; end <= letters.length; end++) {
      let most = { total: -Infinity };
      for (let start = Math.max(0, end - longest); start < end; start++) {
        const piece = letters.slice(start, end).join("");
        const total = best[start].total + (this.scores.get(piece) ?? (end - start === 1 ? unknown : -Infinity));
        if (total > most.total) most = { total, start, piece };
      }
      best.push(most);
    }
    const pieces = [];
    for (let end = letters.length; end; end = best[end].start) pieces.push(best[end].piece);
    return pieces.reverse();
  }
}
