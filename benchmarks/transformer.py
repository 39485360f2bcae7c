"""Print how fast a transformer is trained, beside the same model in PyTorch.

    python benchmarks/transformer.py [--tokens 1600] [--rounds 5]

Target words a second in steps of training: loss, gradient, clipping and Adam, with dropout and label smoothing. Both
train on the same batches of data/help-en-fr in turns, once with one thread and once with two; the ratio is the median
over the rounds. All target words compete in both (`regard train` compares some of a large vocabulary, which is faster
still). PyTorch has fused queries, keys and values, `scaled_dot_product_attention`, and its fused Adam.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from regard.nn import Adam
from regard.seq2seq import output, read_pairs
from regard.seq2seq.batch import Batch, Corpus, Numbered, batches
from regard.seq2seq.text import END, START
from regard.seq2seq.training import Recipe, _Halves
from regard.seq2seq.transformer import Transformer, TransformerNetwork

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
        Numbered([*source, END], [START, *target, END])
        for source, target in zip(sources, targets, strict=True)
    )


def _numbered(texts: list[list[str]]) -> list[list[int]]:
    words, counts = np.unique([word for text in texts for word in text], return_counts=True)
    frequent = words[np.argsort(-counts, kind="stable")][: WORDS - 4].tolist()
    numbers = {word: number for number, word in enumerate(frequent, 4)}
    return [[numbers.get(word, 3) for word in text] for text in texts]


def in_regard(config: Transformer, threads: int) -> Step:
    """Return a step of training here: a batch is two halves, each on a thread of its own where there are two."""
    network, rng = TransformerNetwork(config), np.random.default_rng(1)
    network.draw(rng, np.ones(config.target_words))
    other = ThreadPoolExecutor(1) if threads == 2 else None
    halves = _Halves(network, Recipe(dropout=DROPOUT, smoothing=SMOOTHING), other)
    adam = Adam(network.parameters.flat)

    def step(batch: Batch) -> object:
        _, gradient = halves(batch, rng.spawn(2))
        return adam.step(gradient, RATE)

    return step


def in_torch(config: Transformer, threads: int) -> Step:
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


def _model(c: Transformer) -> Any:
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
                nn.Embedding(count, c.width) for count in (c.source_words, c.target_words)
            )
            for table in (self.source, self.target):
                nn.init.normal_(table.weight, 0, c.width**-0.5)
            self.bias = nn.Parameter(torch.zeros(c.target_words))
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


def seconds(step: Step, some: list[Batch]) -> float:
    """Return how long it takes to train on some batches."""
    start = time.perf_counter()
    for batch in some:
        step(batch)
    return time.perf_counter() - start


def compare(config: Transformer, some: list[Batch], threads: int, rounds: int) -> None:
    """Print a line for one number of threads."""
    ours, theirs = in_regard(config, threads), in_torch(config, threads)
    for step in (ours, theirs):
        step(some[0])
    times = [(seconds(ours, some), seconds(theirs, some)) for _ in range(rounds)]
    words = sum(batch.words() for batch in some)
    here, there = (words / statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(b / a for a, b in times)
    print(f"{threads:>7}{here:>12,.0f}{there:>12,.0f}{ratio:>8.2f}", flush=True)


def main() -> None:
    """Compare, with one thread and with two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=1600, help="of a side of a batch, padding with it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=6, help="in a round")
    args = parser.parse_args()
    output._FREQUENT = WORDS  # all words compete
    pairs, config = corpus(), Transformer(WORDS, WORDS)
    some = [
        pairs.batch(numbers)
        for numbers in batches(pairs, args.tokens, np.random.default_rng(0))[: args.batches]
    ]
    padded = sum(batch.source.size + batch.target[1:].size for batch in some)
    real = sum(int(batch.lengths.sum()) + batch.words() for batch in some)
    print(f"{config}\n{len(some)} batches, {real} words, {padded / real - 1:.0%} padding\n")
    print("threads      regard     PyTorch   ratio")
    for threads in range(1, min(os.cpu_count() or 1, 2) + 1):
        compare(config, some, threads, args.rounds)


if __name__ == "__main__":
    main()
