"""Print how fast Bahdanau's encoder-decoder translates here and in PyTorch: the same model, batches and search.

    python benchmarks/translating.py [--threads 1 2] [--rounds 9] [--beams 1 5] [--epochs 2] [--batches 6]

The model (embeddings of 96, states of 128, 2,500 words) is trained here for some seconds on data/help-en-fr. Both get
its numbers and the same numbered batches of 64 held-out sentences, each batch of like lengths: in regard
`regard.seq2seq.decoding.beam`, with attention weights, in PyTorch a loop under `inference_mode` that is written here.
What has ended leaves the batch in both, and both search until nothing better can come. With two threads regard
translates two batches at a time; PyTorch's own threads share each product.

Every contestant is a process of its own, so its peak memory is its own; they take turns, and so does a loop of
multiply-adds, of whose speed the products of a greedy search take the share that is printed. Printed are medians over
the rounds with minimum and maximum; ratios are medians of what they were within a round. The translations are compared,
word by word.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers import installed
from probe import Probe
from training import EMBEDDING, HIDDEN, SENTENCES, STATE, multiplied, torch_model
from trial import sides
from turns import Tools, Worker, arguments, begin, compete, take_turns

from regard._threads import Workers, two_threads
from regard.seq2seq import Seq2Seq, read_pairs
from regard.seq2seq.data.batching import Ids, source_batch
from regard.seq2seq.data.vocabulary import END, START
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.search import longest

DATA = Path(__file__).parents[1] / "data" / "help-en-fr"
LONGEST, VOCABULARY = 25, 2500  # tokens of a side; words of a side
DIFFERENT = 0.005  # of the translations may be: two words can be equally probable but for rounding
SourceBatch = tuple[Ids, Ids]  # (T, B) and lengths (B,)
Words = list[list[int]]
Translate = Callable[[list[SourceBatch]], list[Words]]
Threads = tuple[Workers, Workers]


@dataclass(frozen=True)
class Task:
    """What is translated, and how."""

    path: str  # of the model
    batches: int
    width: int
    threads: int

    def model(self) -> Seq2Seq:
        """Read the model that everybody has."""
        return Seq2Seq.load(self.path)

    def batches_of(self, model: Seq2Seq) -> list[SourceBatch]:
        """Return full batches, from short to long."""
        tokenizer = model.model.source_tokenizer
        sources = [tokenizer.cut(source) for source, _ in read_pairs(DATA / "test.tsv.gz")]
        rows = sorted(([*tokenizer.encode(s), END] for s in sources if len(s) <= LONGEST), key=len)
        starts = np.linspace(0, len(rows) // SENTENCES - 1, self.batches).astype(int) * SENTENCES
        return [source_batch(rows[start : start + SENTENCES]) for start in starts.tolist()]

    def products(self, found: list[Words]) -> float | None:
        """Return the FLOPs of a sentence's products; with a beam they depend on where a search may stop."""
        if self.width > 1:
            return None
        model = self.model()
        parameters = model.model.network.parameters
        source = np.concatenate([lengths for _, lengths in self.batches_of(model)])
        target = [len(words) + 1 for batch in found for words in batch]  # the end is predicted, too
        sizes = zip(source.tolist(), target, strict=True)
        return float(np.mean([n * multiplied(parameters, m, n) for m, n in sizes]))


def trained(path: Path, epochs: int) -> None:
    """Train the model and write it into a file."""
    sizes = {"embedding": EMBEDDING, "encoder": STATE, "decoder": STATE, "attention": HIDDEN}
    network = {"style": "bahdanau", **sizes}
    model = Seq2Seq(network=network, vocabulary=VOCABULARY, max_tokens=LONGEST, epochs=epochs)
    model.fit(*sides(read_pairs(DATA / "train.tsv.gz")), valid=sides(read_pairs(DATA / "valid.tsv.gz")))
    model.save(path)


# --- the contestants


def in_regard(task: Task, model: Seq2Seq, threads: Threads) -> Translate:
    """Return regard's search, with a thread for every other batch if there are two."""

    def search(batch: SourceBatch) -> Words:
        return [list(best.tokens) for (best,) in beam(model.model.network, *batch, width=task.width)]

    def translate(batches: list[SourceBatch]) -> list[Words]:
        if task.threads == 1:
            return [search(batch) for batch in batches]
        waiting = [threads[i % 2].submit(search, batch) for i, batch in enumerate(batches)]
        return [found.result() for found in waiting]

    return translate


def in_torch(task: Task, model: Seq2Seq, _: Threads) -> Translate:
    """Return PyTorch's."""
    import torch

    torch.set_num_threads(task.threads)
    reader = Reader(torch, torch_model(model.model.network.parameters).eval())
    search = Greedy(reader) if task.width == 1 else Beam(reader, task.width)

    def translate(batches: list[SourceBatch]) -> list[Words]:
        with torch.inference_mode():
            return [search(*map(torch.from_numpy, batch)) for batch in batches]

    return translate


CONTESTANTS: dict[str, Callable[[Task, Seq2Seq, Threads], Translate]] = {
    "regard": in_regard,
    "PyTorch": in_torch,
}


class Reader:
    """The model's two halves in PyTorch: what reads a batch, and a step of k hypotheses of each of its sentences."""

    def __init__(self, torch: Any, model: Any) -> None:
        self.torch, self.model, p = torch, model, model.p
        # inputs side by side, so that each step takes one product for all of them
        self.into = torch.cat([p["decoder_word"], p["decoder_context"]], 1)
        self.out = torch.cat([p["readout_word"], p["readout_state"], p["readout_context"]], 1)

    def read(self, source: Any, lengths: Any) -> tuple[Any, Any, Any, Any]:
        """Return the first states (B, D), keys (B, T, A), values (B, T, C), and where there is no word (B, 1, T)."""
        torch, p, linear = self.torch, self.model.p, self.torch.nn.functional.linear
        words = self.model.source(source)
        padded = bool((lengths < len(source)).any())
        if padded:
            pack = torch.nn.utils.rnn.pack_padded_sequence
            packed, ends = self.model.encoder(pack(words, lengths, enforce_sorted=False))
            annotations, _ = torch.nn.utils.rnn.pad_packed_sequence(packed)
        else:
            annotations, ends = self.model.encoder(words)
        state = torch.tanh(linear(torch.cat([ends[0], ends[1]], -1), p["start_weight"], p["start_bias"]))
        values = annotations.transpose(0, 1).contiguous()
        nothing = torch.arange(len(source)) >= lengths[:, None]
        return state, linear(values, p["key_weight"]), values, nothing[:, None] if padded else None

    def step(self, words: Any, state: Any, keys: Any, values: Any, nothing: Any) -> tuple[Any, Any]:
        """Return the states (B k, D) after the words (B k,), and the logits (B k, V) of what follows."""
        torch, p, linear = self.torch, self.model.p, self.torch.nn.functional.linear
        batch = len(keys)
        y = torch.nn.functional.embedding(words, p["target_embedding"])
        query = linear(state, p["query_weight"]).view(batch, -1, 1, HIDDEN)
        scores = (query + keys[:, None]).tanh_() @ p["attention_vector"]
        if nothing is not None:
            scores.masked_fill_(nothing, -torch.inf)
        context = torch.bmm(scores.softmax(-1), values).flatten(0, 1)
        state = torch.gru_cell(
            torch.cat([y, context], 1), state, self.into, p["decoder_state"], p["decoder_bias"]
        )
        readout = linear(torch.cat([y, state, context], 1), self.out, p["readout_bias"]).tanh_()
        return state, linear(readout, p["target_embedding"], p["output_bias"])


class Greedy:
    """The most probable word at every step."""

    def __init__(self, reader: Reader) -> None:
        self.torch, self.reader = reader.torch, reader

    def __call__(self, source: Any, lengths: Any) -> Words:
        """Translate a batch."""
        torch = self.torch
        state, *seen = self.reader.read(source, lengths)
        most, rows = longest(lengths), torch.arange(len(lengths))  # which sentences go on
        words, found = (
            torch.full_like(lengths, START),
            torch.zeros(len(lengths), int(most.max()), dtype=torch.long),
        )
        for t in range(int(most.max())):
            state, logits = self.reader.step(words, state, *seen)
            logits[:, :END] = -torch.inf  # neither PAD nor START
            words = logits.argmax(-1)
            found[rows, t] = words
            going = (words != END) & (t + 1 < most)
            if not going.all():
                kept = going.nonzero()[:, 0]
                if not len(kept):
                    break
                rows, words, state, most = (x[kept] for x in (rows, words, state, most))
                seen = [None if x is None else x[kept] for x in seen]
        return [[word for word in row if word > END] for row in found.tolist()]


class Beam:
    """The best of the k most probable beginnings, by the mean log-probability of its words."""

    def __init__(self, reader: Reader, width: int) -> None:
        self.torch, self.reader, self.width = reader.torch, reader, width

    def __call__(self, source: Any, lengths: Any) -> Words:
        """Translate a batch."""
        torch, k = self.torch, self.width
        state, *seen = self.reader.read(source, lengths)
        state = state.repeat_interleave(k, 0)
        most, rows = longest(lengths), torch.arange(len(lengths))
        totals = torch.full((len(lengths), k), -torch.inf)
        totals[:, 0] = 0
        words = torch.full((len(lengths) * k,), START)
        said = torch.zeros(len(lengths), k, 0, dtype=torch.long)  # what each beginning has said
        bars, best = torch.full((len(lengths),), -torch.inf), list[list[int]]([] for _ in lengths)
        for t in range(int(most.max())):
            state, logits = self.reader.step(words, state, *seen)
            logs = logits.log_softmax(-1).view(len(rows), k, -1)
            logs[:, :, :END] = -torch.inf
            logs += totals[:, :, None]
            top, flat = logs.flatten(1).topk(2 * k)  # half of them may be ENDs
            parents, words = flat // logs.shape[-1], flat % logs.shape[-1]
            ends = words == END
            scores, ranks = (top / (t + 1))[:, :k].masked_fill(~ends[:, :k], -torch.inf).max(1)
            for i in (scores > bars).nonzero()[:, 0].tolist():
                best[rows[i]] = said[i, parents[i, ranks[i]]].tolist()
            bars = torch.maximum(bars, scores)
            live = ~ends & (top / most[:, None] > bars[:, None])
            live &= live.cumsum(1) <= k
            order = live.int().sort(dim=1, descending=True, stable=True).indices[:, :k]
            totals = top.masked_fill(~live, -torch.inf).gather(1, order)
            parents, words = parents.gather(1, order), words.gather(1, order)
            said = torch.cat([said.gather(1, parents[:, :, None].expand(-1, -1, t)), words[:, :, None]], 2)
            grown = live.any(1)
            going = grown & (t + 1 < most)
            for i in (~going & bars.isneginf()).nonzero()[:, 0].tolist():
                best[rows[i]] = said[i, 0].tolist()  # broken off
            if not going.any():
                break
            places = (torch.arange(len(rows))[:, None] * k + parents)[going].flatten()
            state = state[places]
            if not going.all():
                rows, most, bars, totals, words, said = (
                    x[going] for x in (rows, most, bars, totals, words, said)
                )
                seen = [None if x is None else x[going] for x in seen]
            words = words.flatten()
        return best


# --- one process for a contestant


def work(name: str, task: Task) -> None:
    """Tell the translations, then sentences a second whenever asked, and the peak memory at the end."""
    model = task.model()
    batches = task.batches_of(model)
    count = sum(len(lengths) for _, lengths in batches)
    with two_threads() as threads:
        translate = CONTESTANTS[name](task, model, threads)

        def sentences() -> float:
            translate(batches)
            return count

        take_turns(translate(batches), sentences)


def measure(names: list[str], task: Task, rounds: int, tools: Tools) -> None:
    """Let all take turns, and print the table."""
    workers = {}
    for name in names:
        command = [__file__, "--worker", name, "--threads", str(task.threads), "--beams", str(task.width)]
        command += ["--model", task.path, "--batches", str(task.batches)]
        blas = 1 if name == "regard" else task.threads
        workers[name] = Worker(command, task.threads, blas, tools.preload)
    how = "greedy" if task.width == 1 else f"beam of {task.width}"
    print(f"\nSentences, {how}, {task.threads} thread" + "s" * (task.threads > 1))
    limit = Probe(tools.probe, task.threads) if tools.probe else None
    found = compete("sentences", workers, rounds, limit, task.products(workers["regard"].first))
    for name, translations in found.items():
        compare(name, translations, found["regard"])


def compare(name: str, found: list[Words], wanted: list[Words]) -> None:
    """Say how many translations are not the same."""
    pairs = [pair for batches in zip(found, wanted, strict=True) for pair in zip(*batches, strict=True)]
    different = sum(a != b for a, b in pairs)
    if different:
        verdict = "" if different <= DIFFERENT * len(pairs) else ": TOO MANY"
        print(f"  {name}: {different} of {len(pairs)} translations differ{verdict}")


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5], metavar="K", help="default: 1 and 5")
    parser.add_argument("--batches", type=int, default=6, help="that are translated in turn (default 6)")
    parser.add_argument("--epochs", type=int, default=2, help="of training (default 2)")
    parser.add_argument("--model", metavar="FILE", help="a model of this kind, so that none is trained")
    return parser.parse_args()


def main() -> None:
    """Print everything."""
    args = options()
    if args.worker:
        work(args.worker, Task(args.model, args.batches, args.beams[0], args.threads[0]))
        return
    names = [name for name in CONTESTANTS if name == "regard" or installed("torch")]
    with tempfile.TemporaryDirectory() as folder, begin(names, args.as_installed) as tools:
        path = Path(args.model or Path(folder, "model.safetensors"))
        if not args.model:
            trained(path, args.epochs)
        for width in args.beams:
            for threads in args.threads:
                measure(names, Task(str(path), args.batches, width, threads), args.rounds, tools)


if __name__ == "__main__":
    main()
