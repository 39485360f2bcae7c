"""Compare the speed of translating with Bahdanau's encoder-decoder with PyTorch: the same model, batches and search.

    python benchmarks/translating.py [--threads 1 2] [--rounds 9] [--beams 1 5] [--epochs 2] [--batches 6]

The model (embeddings of 96, states of 128, 2,500 tokens) is trained here for some seconds on data/help-en-fr. Both
contestants get its parameters and the same encoded batches of 64 held-out sentences of similar lengths. regard runs
`regard.seq2seq.decoding.beam`, with attention weights; PyTorch runs a loop under `inference_mode` that is written here.
Both remove finished sentences from the batch, and search until no better hypothesis is possible. With two threads
regard translates two batches at once; PyTorch's own threads share each product.

Each contestant is a process of its own, so that its peak memory is its own. They take turns with a loop of
multiply-adds; the share of its speed that the products of a greedy search reach is printed. The tables show medians
over the rounds, with minimum and maximum; ratios are medians of those within a round. The translations are compared,
token by token.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from probe import Probe
from record import installed, save
from training import EMBEDDING, HIDDEN, SENTENCES, STATE, multiplied, torch_model
from trial import sides
from turns import Tools, arguments, begin, compete, start_workers, take_turns

from regard._threads import Workers, two_threads
from regard.seq2seq import Seq2Seq, read_pairs
from regard.seq2seq.corpus.batching import Ids, source_batch
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.search import longest
from regard.seq2seq.sources.text.vocabulary import END, START

DATA = Path(__file__).parents[1] / "data" / "help-en-fr"
LONGEST, VOCABULARY = 25, 2500  # tokens of a sentence; of each vocabulary
DIFFERENT = 0.005  # share of translations that may differ: rounding decides between equally probable tokens
SourceBatch = tuple[Ids, Ids]  # (T, B) and lengths (B,)
Targets = list[list[int]]  # the ids of each sentence of a batch
Translate = Callable[[list[SourceBatch]], list[Targets]]
Threads = tuple[Workers, Workers]


@dataclass(frozen=True)
class Task:
    """A model, batches, a beam and a number of threads."""

    path: str
    batches: int
    width: int
    threads: int

    def model(self) -> Seq2Seq:
        """Load the model."""
        return Seq2Seq.load(self.path)

    def batches_of(self, model: Seq2Seq) -> list[SourceBatch]:
        """Return batches of held-out sentences, from short to long ones."""
        tokenizer = model.model.source.tokenizer
        sources = [tokenizer.tokenize(source) for source, _ in read_pairs(DATA / "test.tsv.gz")]
        rows = sorted(([*tokenizer.encode(s), END] for s in sources if len(s) <= LONGEST), key=len)
        starts = np.linspace(0, len(rows) // SENTENCES - 1, self.batches).astype(int) * SENTENCES
        return [source_batch(rows[start : start + SENTENCES]) for start in starts.tolist()]

    def products(self, translated: list[Targets]) -> float | None:
        """Return the FLOPs of a sentence's matrix products; with a beam they depend on when the search ends."""
        if self.width > 1:
            return None
        model = self.model()
        parameters = model.network.parameters
        source = np.concatenate([lengths for _, lengths in self.batches_of(model)])
        target = [len(ids) + 1 for batch in translated for ids in batch]  # END is predicted, too
        sizes = zip(source.tolist(), target, strict=True)
        return float(np.mean([n * multiplied(parameters, m, n) for m, n in sizes]))


def train(path: Path, epochs: int) -> None:
    """Train the model and save it."""
    sizes = {"embedding": EMBEDDING, "encoder": STATE, "decoder": STATE, "attention": HIDDEN}
    network = {"style": "bahdanau", **sizes}
    model = Seq2Seq(network=network, vocabulary=VOCABULARY, max_tokens=LONGEST, epochs=epochs)
    model.fit(*sides(read_pairs(DATA / "train.tsv.gz")), valid=sides(read_pairs(DATA / "valid.tsv.gz")))
    model.save(path)


# --- the contestants


def in_regard(task: Task, model: Seq2Seq, threads: Threads) -> Translate:
    """Return the search of regard; with two threads, each translates every other batch."""

    def search(batch: SourceBatch) -> Targets:
        return [list(best.tokens) for (best,) in beam(model.network, *batch, width=task.width)]

    def translate(batches: list[SourceBatch]) -> list[Targets]:
        if task.threads == 1:
            return [search(batch) for batch in batches]
        futures = [threads[i % 2].submit(search, batch) for i, batch in enumerate(batches)]
        return [future.result() for future in futures]

    return translate


def in_torch(task: Task, model: Seq2Seq, _: Threads) -> Translate:
    """Return the search in PyTorch."""
    import torch

    torch.set_num_threads(task.threads)
    network = TorchModel(torch, torch_model(model.network.parameters).eval())
    search = Greedy(network) if task.width == 1 else Beam(network, task.width)

    def translate(batches: list[SourceBatch]) -> list[Targets]:
        with torch.inference_mode():
            return [search(*map(torch.from_numpy, batch)) for batch in batches]

    return translate


CONTESTANTS: dict[str, Callable[[Task, Seq2Seq, Threads], Translate]] = {
    "regard": in_regard,
    "PyTorch": in_torch,
}


class TorchModel:
    """The model in PyTorch: an encoder, and a decoder's step for k hypotheses of each sentence."""

    def __init__(self, torch: Any, model: Any) -> None:
        self.torch, self.model, p = torch, model, model.p
        # matrices next to each other, so that each step takes one product
        self.into = torch.cat([p["decoder_word"], p["decoder_context"]], 1)
        self.out = torch.cat([p["readout_word"], p["readout_state"], p["readout_context"]], 1)

    def encode(self, source: Any, lengths: Any) -> tuple[Any, Any, Any, Any]:
        """Return the first states (B, D), keys (B, T, A), values (B, T, C), and the mask of padding (B, 1, T)."""
        torch, p, linear = self.torch, self.model.p, self.torch.nn.functional.linear
        embedded = self.model.source(source)
        is_padded = bool((lengths < len(source)).any())
        if is_padded:
            pack = torch.nn.utils.rnn.pack_padded_sequence
            packed, ends = self.model.encoder(pack(embedded, lengths, enforce_sorted=False))
            annotations, _ = torch.nn.utils.rnn.pad_packed_sequence(packed)
        else:
            annotations, ends = self.model.encoder(embedded)
        state = torch.tanh(linear(torch.cat([ends[0], ends[1]], -1), p["start_weight"], p["start_bias"]))
        values = annotations.transpose(0, 1).contiguous()
        padding = torch.arange(len(source)) >= lengths[:, None]
        return state, linear(values, p["key_weight"]), values, padding[:, None] if is_padded else None

    def step(self, tokens: Any, state: Any, keys: Any, values: Any, padding: Any) -> tuple[Any, Any]:
        """Return the states (B k, D) after the tokens (B k,), and the logits (B k, V) of the next ones."""
        torch, p, linear = self.torch, self.model.p, self.torch.nn.functional.linear
        batch = len(keys)
        y = torch.nn.functional.embedding(tokens, p["target_embedding"])
        query = linear(state, p["query_weight"]).view(batch, -1, 1, HIDDEN)
        scores = (query + keys[:, None]).tanh_() @ p["attention_vector"]
        if padding is not None:
            scores.masked_fill_(padding, -torch.inf)
        context = torch.bmm(scores.softmax(-1), values).flatten(0, 1)
        state = torch.gru_cell(
            torch.cat([y, context], 1), state, self.into, p["decoder_state"], p["decoder_bias"]
        )
        readout = linear(torch.cat([y, state, context], 1), self.out, p["readout_bias"]).tanh_()
        return state, linear(readout, p["target_embedding"], p["output_bias"])


class Greedy:
    """Greedy search: the most probable token at every step."""

    def __init__(self, model: TorchModel) -> None:
        self.torch, self.model = model.torch, model

    def __call__(self, source: Any, lengths: Any) -> Targets:
        """Translate a batch."""
        torch = self.torch
        state, *encoded = self.model.encode(source, lengths)
        limits, rows = longest(lengths), torch.arange(len(lengths))  # the unfinished sentences
        tokens = torch.full_like(lengths, START)
        translated = torch.zeros(len(lengths), int(limits.max()), dtype=torch.long)
        for t in range(int(limits.max())):
            state, logits = self.model.step(tokens, state, *encoded)
            logits[:, :END] = -torch.inf  # neither PAD nor START
            tokens = logits.argmax(-1)
            translated[rows, t] = tokens
            going = (tokens != END) & (t + 1 < limits)
            if not going.all():
                unfinished = going.nonzero()[:, 0]
                if not len(unfinished):
                    break
                rows, tokens, state, limits = (x[unfinished] for x in (rows, tokens, state, limits))
                encoded = [None if x is None else x[unfinished] for x in encoded]
        return [[token for token in row if token > END] for row in translated.tolist()]


class Beam:
    """Beam search: k hypotheses, ranked by the mean log-probability of their tokens."""

    def __init__(self, model: TorchModel, width: int) -> None:
        self.torch, self.model, self.width = model.torch, model, width

    def __call__(self, source: Any, lengths: Any) -> Targets:
        """Translate a batch."""
        torch, k = self.torch, self.width
        state, *encoded = self.model.encode(source, lengths)
        state = state.repeat_interleave(k, 0)
        limits, rows = longest(lengths), torch.arange(len(lengths))
        totals = torch.full((len(lengths), k), -torch.inf)
        totals[:, 0] = 0
        tokens = torch.full((len(lengths) * k,), START)
        hypotheses = torch.zeros(len(lengths), k, 0, dtype=torch.long)  # the tokens of each hypothesis
        best_scores, best = torch.full((len(lengths),), -torch.inf), list[list[int]]([] for _ in lengths)
        for t in range(int(limits.max())):
            state, logits = self.model.step(tokens, state, *encoded)
            logs = logits.log_softmax(-1).view(len(rows), k, -1)
            logs[:, :, :END] = -torch.inf
            logs += totals[:, :, None]
            top, flat = logs.flatten(1).topk(2 * k)  # half of them can be END
            parents, tokens = flat // logs.shape[-1], flat % logs.shape[-1]
            ends = tokens == END
            scores, ranks = (top / (t + 1))[:, :k].masked_fill(~ends[:, :k], -torch.inf).max(1)
            for i in (scores > best_scores).nonzero()[:, 0].tolist():
                best[rows[i]] = hypotheses[i, parents[i, ranks[i]]].tolist()
            best_scores = torch.maximum(best_scores, scores)
            live = ~ends & (top / limits[:, None] > best_scores[:, None])
            live &= live.cumsum(1) <= k
            order = live.int().sort(dim=1, descending=True, stable=True).indices[:, :k]
            totals = top.masked_fill(~live, -torch.inf).gather(1, order)
            parents, tokens = parents.gather(1, order), tokens.gather(1, order)
            hypotheses = torch.cat(
                [hypotheses.gather(1, parents[:, :, None].expand(-1, -1, t)), tokens[:, :, None]], 2
            )
            going = live.any(1) & (t + 1 < limits)
            for i in (~going & best_scores.isneginf()).nonzero()[:, 0].tolist():
                best[rows[i]] = hypotheses[i, 0].tolist()  # cut off at the largest length
            if not going.any():
                break
            positions = (torch.arange(len(rows))[:, None] * k + parents)[going].flatten()
            state = state[positions]
            if not going.all():
                rows, limits, best_scores, totals, tokens, hypotheses = (
                    x[going] for x in (rows, limits, best_scores, totals, tokens, hypotheses)
                )
                encoded = [None if x is None else x[going] for x in encoded]
            tokens = tokens.flatten()
        return best


# --- a process for each contestant


def work(name: str, task: Task) -> None:
    """Take turns as a contestant: print the translations, then sentences a second."""
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
    """Run all contestants in turns, and print the table."""
    options = ["--beams", str(task.width), "--model", task.path, "--batches", str(task.batches)]
    workers = start_workers(__file__, names, task.threads, options, tools)
    search = "greedy" if task.width == 1 else f"beam of {task.width}"
    title = f"Sentences, {search}, {task.threads} thread" + "s" * (task.threads > 1)
    limit = Probe(tools.probe, task.threads) if tools.probe else None
    translated = compete(title, "sentences", workers, rounds, limit, task.products(workers["regard"].first))
    for name, translations in translated.items():
        compare(name, translations, translated["regard"])


def compare(name: str, translated: list[Targets], reference: list[Targets]) -> None:
    """Print how many translations differ."""
    ours, others = ([ids for batch in batches for ids in batch] for batches in (reference, translated))
    different = sum(a != b for a, b in zip(ours, others, strict=True))
    if different:
        verdict = "" if different <= DIFFERENT * len(ours) else ": TOO MANY"
        print(f"  {name}: {different} of {len(ours)} translations differ{verdict}")


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5], metavar="K", help="default: 1 and 5")
    parser.add_argument("--batches", type=int, default=6, help="number of batches (default 6)")
    parser.add_argument("--epochs", type=int, default=2, help="of training (default 2)")
    parser.add_argument(
        "--model", metavar="FILE", help="a model of this configuration, instead of training one"
    )
    return parser.parse_args()


def main() -> None:
    """Print a table for each beam and number of threads."""
    args = options()
    if args.worker:
        work(args.worker, Task(args.model, args.batches, args.beams[0], args.threads[0]))
        return
    names = [name for name in CONTESTANTS if name == "regard" or installed("torch")]
    with tempfile.TemporaryDirectory() as folder, begin(names, args.as_installed) as tools:
        path = Path(args.model or Path(folder, "model.safetensors"))
        if not args.model:
            train(path, args.epochs)
        for width in args.beams:
            for threads in args.threads:
                measure(names, Task(str(path), args.batches, width, threads), args.rounds, tools)
    save(args.json)


if __name__ == "__main__":
    main()
