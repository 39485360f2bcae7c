"""Compare the speed of training a transformer with PyTorch: the same model and batches.

    python benchmarks/transformer.py [--threads 1 2] [--tokens 1600] [--rounds 9]

The unit is a target token a second, in training steps: loss, gradient, clipping and Adam, with dropout and label
smoothing. Both contestants train on the same batches of data/help-en-fr, each in a process of its own. They take turns
with a loop of multiply-adds; the share of its speed that the matrix products reach is printed. The tables show medians
over the rounds, with minimum and maximum; ratios are medians of those within a round. Both have a softmax over the
complete vocabulary (`regard train` has a sampled softmax for a large one, which is faster still). PyTorch has fused
queries, keys and values, `scaled_dot_product_attention`, and its fused Adam.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from probe import Probe
from record import installed, save
from turns import Tools, arguments, begin, compete, start_workers, take_turns

from regard._threads import TwoThreadMap, two_threads
from regard.nn import Adam
from regard.seq2seq import read_pairs
from regard.seq2seq.corpus.batching import Batch, Corpus, EncodedPair, batches
from regard.seq2seq.networks import output_layer as output
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources.text.vocabulary import END, START
from regard.seq2seq.training.config import ResolvedConfig
from regard.seq2seq.training.loop import _TwoThreadGradients

DATA = Path(__file__).parents[1] / "data" / "help-en-fr"
DROPOUT, SMOOTHING, RATE = 0.1, 0.1, 1e-4
VOCABULARY = 4000
Step = Callable[[Batch], object]


def corpus() -> Corpus:
    """Read the training pairs, as ids of the most frequent words."""
    pairs = read_pairs(DATA / "train.tsv.gz")
    sides = [[text.split() for text in side] for side in zip(*pairs, strict=True)]
    sources, targets = (_encoded(side) for side in sides)
    return Corpus(
        EncodedPair([*source, END], [START, *target, END])
        for source, target in zip(sources, targets, strict=True)
    )


def _encoded(texts: list[list[str]]) -> list[list[int]]:
    words, counts = np.unique([word for text in texts for word in text], return_counts=True)
    frequent = words[np.argsort(-counts, kind="stable")][: VOCABULARY - 4].tolist()
    ids = {word: i for i, word in enumerate(frequent, 4)}
    return [[ids.get(word, 3) for word in text] for text in texts]


def in_regard(config: TransformerConfig, each: TwoThreadMap) -> Step:
    """Return a training step of regard: two halves of the batch, each with a thread if there are two."""
    network, rng = TransformerNetwork(config), np.random.default_rng(1)
    network.initialize(rng, np.ones(config.target_tokens))
    training = ResolvedConfig(
        epochs=1,
        batch_tokens=1,
        learning_rate=RATE,
        warm_up=1,
        dropout=DROPOUT,
        label_smoothing=SMOOTHING,
        guided_alignment=0.0,
    )
    halves = _TwoThreadGradients(network, training, each)
    adam = Adam(network.parameters.flat)

    def step(batch: Batch) -> object:
        _, gradient = halves(batch, rng.spawn(2))
        return adam.step(gradient, RATE, each)

    return step


def in_torch(config: TransformerConfig, threads: int) -> Step:
    """Return a training step in PyTorch."""
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
    """Return the same model in PyTorch."""
    import torch
    from torch import nn
    from torch.nn.functional import dropout, linear, relu, scaled_dot_product_attention

    class Attention(nn.Module):
        def __init__(self, over_source: bool) -> None:
            super().__init__()
            self.norm, self.out = (
                nn.LayerNorm(c.model_size),
                nn.Linear(c.model_size, c.model_size, bias=False),
            )
            self.into = nn.Linear(c.model_size, c.model_size * (1 if over_source else 3), bias=False)
            self.keys = nn.Linear(c.model_size, 2 * c.model_size, bias=False) if over_source else None

        def forward(self, x: Any, mask: Any, memory: Any = None) -> Any:
            inner = self.into(self.norm(x))
            parts = [inner, *self.keys(memory).chunk(2, -1)] if self.keys else inner.chunk(3, -1)
            heads = (part.unflatten(-1, (c.heads, -1)).transpose(1, 2) for part in parts)
            context = scaled_dot_product_attention(*heads, attn_mask=mask, is_causal=mask is None)
            return x + dropout(self.out(context.transpose(1, 2).flatten(2)), DROPOUT)

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(c.model_size)
            self.into, self.out = (
                nn.Linear(c.model_size, c.feedforward_size),
                nn.Linear(c.feedforward_size, c.model_size),
            )

        def forward(self, x: Any) -> Any:
            return x + dropout(self.out(relu(self.into(self.norm(x)))), DROPOUT)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = (
                nn.Embedding(count, c.model_size) for count in (c.source_tokens, c.target_tokens)
            )
            for table in (self.source, self.target):
                nn.init.normal_(table.weight, 0, c.model_size**-0.5)
            self.bias = nn.Parameter(torch.zeros(c.target_tokens))
            self.encoder = nn.ModuleList(
                nn.ModuleList([Attention(False), FeedForward()]) for _ in range(c.encoder_layers)
            )
            self.decoder = nn.ModuleList(
                nn.ModuleList([Attention(False), Attention(True), FeedForward()])
                for _ in range(c.decoder_layers)
            )
            self.norms = nn.ModuleList([nn.LayerNorm(c.model_size), nn.LayerNorm(c.model_size)])
            angles = torch.arange(512)[:, None] / 10000 ** (torch.arange(0, c.model_size, 2) / c.model_size)
            self.positions = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

        def embed(self, table: Any, ids: Any) -> Any:
            return dropout(table(ids) * c.model_size**0.5 + self.positions[: ids.shape[1]], DROPOUT)

        def forward(self, source: Any, lengths: Any, target: Any) -> Any:
            visible = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
            x, y = self.embed(self.source, source), self.embed(self.target, target)
            for attention, feed_forward in self.encoder:
                x = feed_forward(attention(x, visible))
            memory = self.norms[0](x)
            for attention, cross_attention, feed_forward in self.decoder:
                y = feed_forward(cross_attention(attention(y, None), visible, memory))
            return linear(self.norms[1](y), self.target.weight, self.bias)

    return Model()


# --- a process for each contestant


@dataclass(frozen=True)
class Task:
    """The size of a batch in tokens of a side, and the number of batches and of threads."""

    tokens: int
    batches: int
    threads: int

    def training_batches(self) -> list[Batch]:
        """Return the batches of all contestants."""
        pairs = corpus()
        drawn = batches(pairs, self.tokens, np.random.default_rng(0))
        return [pairs.batch(positions) for positions in drawn[: self.batches]]

    def products(self) -> float:
        """Return the FLOPs of the matrix products for a target token, without padding."""
        config = TransformerConfig(VOCABULARY, VOCABULARY)
        matrices = {name: np.prod(shape) for name, shape in config.shapes().items() if len(shape) == 2}
        del matrices["source_embedding"]  # a table
        encoding = sum(
            n for name, n in matrices.items() if name.startswith("encoder") or "source_keys" in name
        )
        decoding = sum(matrices.values()) - encoding
        multiplied = tokens = 0.0
        for batch in self.training_batches():
            source, target = batch.lengths, (batch.target[1:] > 0).sum(0)
            attended = config.encoder_layers * source**2 + config.decoder_layers * target * (
                target / 2 + source
            )
            multiplied += (source * encoding + target * decoding + 2 * config.model_size * attended).sum()
            tokens += target.sum()
        # the backward pass has two products for each one of the forward pass
        return 3 * 2 * multiplied / tokens


def work(name: str, task: Task) -> None:
    """Take turns as a contestant: target tokens a second."""
    output._FREQUENT = VOCABULARY  # the softmax covers the complete vocabulary
    config, training = TransformerConfig(VOCABULARY, VOCABULARY), task.training_batches()
    with two_threads() as threads:
        if name == "regard":
            step = in_regard(config, TwoThreadMap(threads if task.threads == 2 else None))
        else:
            step = in_torch(config, task.threads)
        step(training[0])
        endless = cycle(training)

        def tokens() -> float:
            batch = next(endless)
            step(batch)
            return float(batch.target_tokens())

        take_turns(True, tokens)


def measure(task: Task, names: list[str], rounds: int, tools: Tools) -> None:
    """Run all contestants in turns, and print the table."""
    options = ["--tokens", str(task.tokens), "--batches", str(task.batches)]
    workers = start_workers(__file__, names, task.threads, options, tools)
    title = f"Target tokens, {task.threads} thread" + "s" * (task.threads > 1)
    limit = Probe(tools.probe, task.threads) if tools.probe else None
    compete(title, "tokens", workers, rounds, limit, task.products())


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = arguments(__doc__, ("regard", "PyTorch"))
    parser.add_argument(
        "--tokens", type=int, default=1600, help="of a side of a batch, with padding (default 1600)"
    )
    parser.add_argument("--batches", type=int, default=6, help="number of batches (default 6)")
    return parser.parse_args()


def main() -> None:
    """Print a table for each number of threads."""
    args = options()
    tasks = [Task(args.tokens, args.batches, threads) for threads in args.threads]
    if args.worker:
        work(args.worker, tasks[0])
        return
    names = ["regard", "PyTorch"] if installed("torch") else ["regard"]
    with begin(names, args.as_installed) as tools:
        training = tasks[0].training_batches()
        padded = sum(batch.source.size + batch.target[1:].size for batch in training)
        tokens = sum(int(batch.lengths.sum()) + batch.target_tokens() for batch in training)
        print(TransformerConfig(VOCABULARY, VOCABULARY))
        print(f"{len(training)} batches, {tokens} tokens, {padded / tokens - 1:.0%} padding")
        for task in tasks:
            measure(task, names, args.rounds, tools)
    save(args.json)


if __name__ == "__main__":
    main()
