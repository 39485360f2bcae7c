"""Print how fast a transformer is trained, beside the same model in PyTorch.

    python benchmarks/transformer.py [--threads 1 2] [--tokens 1600] [--rounds 9]

Target words a second in steps of training: loss, gradient, clipping and Adam, with dropout and label smoothing. Both
train on the same batches of data/help-en-fr, each in a process of its own; they take turns, and so does a loop of
multiply-adds, of whose speed the products of matrices take the share that is printed. Printed are medians over the
rounds with minimum and maximum; ratios are medians of what they were within a round. All target words compete in both
(`regard train` compares some of a large vocabulary, which is faster still). PyTorch has fused queries, keys and values,
`scaled_dot_product_attention`, and its fused Adam.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from peers import installed
from probe import Probe
from turns import Tools, Worker, arguments, begin, compete, take_turns

from regard._threads import Each, two_threads
from regard.nn import Adam
from regard.seq2seq import read_pairs
from regard.seq2seq.data.batching import Batch, Corpus, EncodedPair, batches
from regard.seq2seq.data.vocabulary import END, START
from regard.seq2seq.networks import output_layer as output
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.training.loop import Recipe, _Halves

__all__ = ["in_regard", "in_torch"]

DATA = Path(__file__).parents[1] / "data" / "help-en-fr"
DROPOUT, SMOOTHING, RATE = 0.1, 0.1, 1e-4
WORDS = 4000
Step = Callable[[Batch], object]


def corpus() -> Corpus:
    """Read the training pairs, as numbers of the most frequent words."""
    pairs = read_pairs(DATA / "train.tsv.gz")
    sides = [[text.split() for text in side] for side in zip(*pairs, strict=True)]
    sources, targets = (_numbered(side) for side in sides)
    return Corpus(
        EncodedPair([*source, END], [START, *target, END])
        for source, target in zip(sources, targets, strict=True)
    )


def _numbered(texts: list[list[str]]) -> list[list[int]]:
    words, counts = np.unique([word for text in texts for word in text], return_counts=True)
    frequent = words[np.argsort(-counts, kind="stable")][: WORDS - 4].tolist()
    numbers = {word: number for number, word in enumerate(frequent, 4)}
    return [[numbers.get(word, 3) for word in text] for text in texts]


def in_regard(config: TransformerConfig, each: Each) -> Step:
    """Return a step of training here: a batch is two halves, each on a thread of its own where there are two."""
    network, rng = TransformerNetwork(config), np.random.default_rng(1)
    network.draw(rng, np.ones(config.target_tokens))
    halves = _Halves(network, Recipe(dropout=DROPOUT, smoothing=SMOOTHING), each)
    adam = Adam(network.parameters.flat)

    def step(batch: Batch) -> object:
        _, gradient = halves(batch, rng.spawn(2))
        return adam.step(gradient, RATE, each)

    return step


def in_torch(config: TransformerConfig, threads: int) -> Step:
    """Return a step of training in PyTorch."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.manual_seed(1)
    model = _model(config)
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.99), fused=True)

    def step(batch: Batch) -> object:
        torch.set_num_threads(threads)
        source, lengths, target = (
            torch.from_numpy(np.ascontiguousarray(ids.T))
            for ids in (batch.source, batch.lengths, batch.target)
        )
        logits = model(source, lengths, target[:, :-1])
        loss = cross_entropy(
            logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=SMOOTHING
        )
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return adam.step()

    return step


def _model(c: TransformerConfig) -> Any:
    """Return the same model as a module of PyTorch."""
    import torch
    from torch import nn
    from torch.nn.functional import dropout, linear, relu, scaled_dot_product_attention

    class Attend(nn.Module):
        def __init__(self, over_source: bool) -> None:
            super().__init__()
            self.norm, self.out = nn.LayerNorm(c.width), nn.Linear(c.width, c.width, bias=False)
            self.into = nn.Linear(c.width, c.width * (1 if over_source else 3), bias=False)
            self.keys = nn.Linear(c.width, 2 * c.width, bias=False) if over_source else None

        def forward(self, x: Any, mask: Any, memory: Any = None) -> Any:
            found = self.into(self.norm(x))
            parts = [found, *self.keys(memory).chunk(2, -1)] if self.keys else found.chunk(3, -1)
            heads = (part.unflatten(-1, (c.heads, -1)).transpose(1, 2) for part in parts)
            context = scaled_dot_product_attention(*heads, attn_mask=mask, is_causal=mask is None)
            return x + dropout(self.out(context.transpose(1, 2).flatten(2)), DROPOUT)

    class Think(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(c.width)
            self.into, self.out = nn.Linear(c.width, c.hidden), nn.Linear(c.hidden, c.width)

        def forward(self, x: Any) -> Any:
            return x + dropout(self.out(relu(self.into(self.norm(x)))), DROPOUT)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = (
                nn.Embedding(count, c.width) for count in (c.source_tokens, c.target_tokens)
            )
            for table in (self.source, self.target):
                nn.init.normal_(table.weight, 0, c.width**-0.5)
            self.bias = nn.Parameter(torch.zeros(c.target_tokens))
            self.encoder = nn.ModuleList(
                nn.ModuleList([Attend(False), Think()]) for _ in range(c.encoder_layers)
            )
            self.decoder = nn.ModuleList(
                nn.ModuleList([Attend(False), Attend(True), Think()]) for _ in range(c.decoder_layers)
            )
            self.norms = nn.ModuleList([nn.LayerNorm(c.width), nn.LayerNorm(c.width)])
            angles = torch.arange(512)[:, None] / 10000 ** (torch.arange(0, c.width, 2) / c.width)
            self.positions = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

        def enter(self, table: Any, ids: Any) -> Any:
            return dropout(table(ids) * c.width**0.5 + self.positions[: ids.shape[1]], DROPOUT)

        def forward(self, source: Any, lengths: Any, target: Any) -> Any:
            seen = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
            x, y = self.enter(self.source, source), self.enter(self.target, target)
            for look, think in self.encoder:
                x = think(look(x, seen))
            memory = self.norms[0](x)
            for look, look_over, think in self.decoder:
                y = think(look_over(look(y, None), seen, memory))
            return linear(self.norms[1](y), self.target.weight, self.bias)

    return Model()


# --- one process for a contestant


@dataclass(frozen=True)
class Task:
    """What is trained on: so many batches, and how many tokens each has on a side."""

    tokens: int
    batches: int
    threads: int

    def some(self) -> list[Batch]:
        """Return the batches."""
        pairs = corpus()
        drawn = batches(pairs, self.tokens, np.random.default_rng(0))
        return [pairs.batch(numbers) for numbers in drawn[: self.batches]]

    def products(self) -> float:
        """Return the FLOPs of the products that train a target word; padding is not counted."""
        config, some = TransformerConfig(WORDS, WORDS), self.some()
        shapes = config.shapes()
        matrices = {name: np.prod(shape) for name, shape in shapes.items() if len(shape) == 2}
        del matrices["source_embedding"]  # is looked up
        reading = sum(
            n for name, n in matrices.items() if name.startswith("encoder") or "source_keys" in name
        )
        writing = sum(matrices.values()) - reading
        multiplied = words = 0.0
        for batch in some:
            source, target = batch.lengths, (batch.target[1:] > 0).sum(0)
            looked = config.encoder_layers * source**2 + config.decoder_layers * target * (
                target / 2 + source
            )
            multiplied += (source * reading + target * writing + 2 * config.width * looked).sum()
            words += target.sum()
        return 3 * 2 * multiplied / words  # the way back has two products for each one of the way there


def work(name: str, task: Task) -> None:
    """Answer each line that comes with target words a second, and the end with the peak memory."""
    output._FREQUENT = WORDS  # all words compete
    config, some = TransformerConfig(WORDS, WORDS), task.some()
    with two_threads() as threads:
        if name == "regard":
            step = in_regard(config, Each(threads if task.threads == 2 else None))
        else:
            step = in_torch(config, task.threads)
        step(some[0])
        turns = cycle(some)

        def words() -> float:
            batch = next(turns)
            step(batch)
            return float(batch.target_tokens())

        take_turns(True, words)


def measure(task: Task, names: list[str], rounds: int, tools: Tools) -> None:
    """Let all take turns, and print the table."""
    workers = {}
    for name in names:
        command = [__file__, "--worker", name, "--threads", str(task.threads)]
        command += ["--tokens", str(task.tokens), "--batches", str(task.batches)]
        # regard's threads are those of the two halves; BLAS keeps to one, as in `regard train`
        blas = 1 if name == "regard" else task.threads
        workers[name] = Worker(command, task.threads, blas, tools.preload)
    print(f"\nTarget words, {task.threads} thread" + "s" * (task.threads > 1))
    limit = Probe(tools.probe, task.threads) if tools.probe else None
    compete("words", workers, rounds, limit, task.products())


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = arguments(__doc__, ("regard", "PyTorch"))
    parser.add_argument("--tokens", type=int, default=1600, help="of a side of a batch, padding with it")
    parser.add_argument("--batches", type=int, default=6, help="that are trained on in turn (default 6)")
    return parser.parse_args()


def main() -> None:
    """Compare, with one thread and with two."""
    args = options()
    tasks = [Task(args.tokens, args.batches, threads) for threads in args.threads]
    if args.worker:
        work(args.worker, tasks[0])
        return
    names = ["regard", "PyTorch"] if installed("torch") else ["regard"]
    with begin(names, args.as_installed) as tools:
        some = tasks[0].some()
        padded = sum(batch.source.size + batch.target[1:].size for batch in some)
        real = sum(int(batch.lengths.sum()) + batch.target_tokens() for batch in some)
        print(f"{TransformerConfig(WORDS, WORDS)}")
        print(f"{len(some)} batches, {real} words, {padded / real - 1:.0%} padding")
        for task in tasks:
            measure(task, names, args.rounds, tools)


if __name__ == "__main__":
    main()
