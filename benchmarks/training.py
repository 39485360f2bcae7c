"""Compare the speed of training Bahdanau's encoder-decoder with PyTorch: the same model, batches and arithmetic.

    python benchmarks/training.py [--threads 1 2] [--rounds 9] [--words 2500] [--as-trained] [--no-compile]

A batch has 64 sentences of 12 tokens on both sides, with frequencies by Zipf's law. A step is the loss of all tokens,
its gradients, gradient clipping and Adam, in float32. By default there is no dropout, and the softmax covers the
complete vocabulary. With --as-trained both have dropout, and regard has a sampled softmax, as `regard train`.

Each contestant is a process of its own, so that its peak memory is its own. They take turns with a loop of
multiply-adds; the share of its speed that the matrix products reach is printed. The tables show medians over the
rounds, with minimum and maximum; ratios are medians of those within a round. The losses of the first step, from the
same parameters, must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from probe import Probe
from turns import Tools, compare, compete, start_workers, take_turns, training_arguments

from regard._threads import TwoThreadMap, Workers, two_threads
from regard.nn import Adam
from regard.seq2seq.corpus.batching import Batch
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.sources.text.vocabulary import START

SENTENCES, TOKENS, EMBEDDING, STATE, HIDDEN = 64, 12, 96, 128, 96
RATE, SMOOTHING, DROPOUT, CLIP, BETAS = 1e-3, 0.1, 0.2, 1.0, (0.9, 0.99)
AGREE = 1e-4  # the largest difference of losses
Step = Callable[[], float]
Threads = tuple[Workers, Workers]


@dataclass(frozen=True)
class Task:
    """The size of each vocabulary, the number of threads, and whether there is dropout, as `regard train` has it."""

    vocabulary: int
    threads: int
    as_trained: bool

    def batch(self) -> Batch:
        """Return the batch, without padding."""
        rng = np.random.default_rng(0)
        frequency = 1 / np.arange(1, self.vocabulary - 3)
        source, target = (
            4 + rng.choice(len(frequency), (size, SENTENCES), p=frequency / frequency.sum())
            for size in (TOKENS, TOKENS + 1)
        )
        target[0] = START
        return Batch(source, np.full(SENTENCES, TOKENS), target)

    def network(self) -> RecurrentNetwork:
        """Return the network with the initial parameters of all contestants."""
        config = RecurrentConfig(
            self.vocabulary, self.vocabulary, EMBEDDING, STATE, STATE, HIDDEN, style="bahdanau"
        )
        network = RecurrentNetwork(config)
        network.initialize(np.random.default_rng(1), np.ones(self.vocabulary))
        return network


def multiplied(parameters: Mapping[str, np.ndarray], source: float, target: float) -> float:
    """Return the FLOPs of the matrix products of so many source and target tokens, for one target token."""
    matrices = {name: x.size for name, x in parameters.items() if "bias" not in name}
    del matrices["source_embedding"], matrices["attention_vector"]  # a table; a part of `attending`
    once = matrices.pop("start_weight")
    encoding = sum(matrices.pop(name) for name in list(matrices) if name.startswith(("encoder", "key")))
    attending = HIDDEN + 2 * STATE  # a score, and its part of the context
    decoding = sum(matrices.values()) + source * attending
    return 2 * (once + source * encoding + target * decoding) / target


# --- the contestants: functions that return a step, which returns the loss


def regard_step(task: Task, threads: Threads) -> Step:
    """Return a step as in `regard train`: two halves of the batch, each with a thread if there are two."""
    network, batch = task.network(), task.batch()
    adam = Adam(network.parameters.flat, beta1=BETAS[0], beta2=BETAS[1], clip=CLIP)
    each = TwoThreadMap(threads if task.threads == 2 else None)
    halves = [batch.part(slice(half, None, 2)) for half in range(2)]
    gradient = type(network.parameters)(network.config.shapes())
    rngs = [np.random.default_rng(half) if task.as_trained else None for half in range(2)]

    def gradient_of(half: int) -> tuple[float, dict[str, np.ndarray]]:
        dropout = DROPOUT if task.as_trained else 0.0
        loss, pullback = network.loss(
            halves[half], LossOptions(dropout=dropout, label_smoothing=SMOOTHING), rngs[half]
        )
        return loss / 2, pullback(0.5)

    def step() -> float:
        losses, parts = zip(*each(gradient_of, range(2)), strict=True)

        def sum_up(names: list[str]) -> None:
            for name in names:
                np.add(parts[0][name], parts[1][name], out=gradient[name])

        each(sum_up, (list(gradient)[half::2] for half in range(2)))
        adam.step(gradient.flat, RATE, each)
        return float(sum(losses))

    return step


def torch_step(task: Task, compiled: bool = False) -> Step:
    """Return a step in PyTorch: nn.GRU, a loop over the decoder's steps, the fused Adam."""
    import torch

    torch.set_num_threads(task.threads)
    model = torch_model(task.network().parameters, DROPOUT if task.as_trained else 0.0)
    batch = task.batch()
    source, target = torch.from_numpy(batch.source), torch.from_numpy(batch.target)
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, fused=True)
    loss_of = torch.compile(model) if compiled else model

    def step() -> float:
        adam.zero_grad()
        loss = loss_of(source, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        return float(loss.detach())

    return step


def torch_model(parameters: Mapping[str, np.ndarray], rate: float = 0.0) -> Any:
    """Return the model in PyTorch, with the same parameters."""
    import torch
    from torch import nn

    p = {name: torch.from_numpy(array.copy()) for name, array in parameters.items()}

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # PyTorch's matrices are transposed; its second bias is not in the model, and stays 0
            transposed = {name: x.T.contiguous() if x.ndim == 2 else x for name, x in p.items()}
            names = [name for name in p if not name.startswith(("encoder", "source"))]
            self.p = nn.ParameterDict({name: nn.Parameter(transposed[name]) for name in names})
            self.p["target_embedding"] = nn.Parameter(p["target_embedding"])
            self.source = nn.Embedding.from_pretrained(p["source_embedding"], freeze=False)
            self.encoder = nn.GRU(EMBEDDING, STATE, bidirectional=True)
            for direction, suffix in enumerate(("l0", "l0_reverse")):
                parts = {
                    "weight_ih": p["encoder_input"][:, direction].T,
                    "weight_hh": p["encoder_state"][direction].T,
                    "bias_ih": p["encoder_bias"][direction],
                    "bias_hh": torch.zeros(3 * STATE),
                }
                for name, x in parts.items():
                    getattr(self.encoder, f"{name}_{suffix}").data.copy_(x)
                getattr(self.encoder, f"bias_hh_{suffix}").requires_grad_(False)
            self.half_dropout, self.dropout = nn.Dropout(rate / 2), nn.Dropout(rate)

        def forward(self, source: Any, target: Any) -> Any:
            p, linear = self.p, nn.functional.linear
            annotations = self.half_dropout(
                self.encoder(self.half_dropout(self.source(source)))[0]
            )  # (T, B, 2H)
            final = torch.cat([annotations[-1, :, :STATE], annotations[0, :, STATE:]], -1)
            state = torch.tanh(linear(final, p["start_weight"], p["start_bias"]))
            values = annotations.transpose(0, 1).contiguous()
            keys = linear(values, p["key_weight"])
            embedded = self.half_dropout(nn.functional.embedding(target[:-1], p["target_embedding"]))
            inputs = linear(embedded, p["decoder_word"], p["decoder_bias"])
            states, contexts = [], []
            for x in inputs:
                hidden = torch.tanh(linear(state, p["query_weight"])[:, None] + keys)
                weights = torch.softmax(hidden @ p["attention_vector"], -1)
                context = torch.bmm(weights[:, None], values)[:, 0]
                from_input = x + linear(context, p["decoder_context"])
                from_state = linear(state, p["decoder_state"])
                gates = torch.sigmoid(from_input[:, : 2 * STATE] + from_state[:, : 2 * STATE])
                reset, update = gates.chunk(2, -1)
                candidate = torch.tanh(from_input[:, 2 * STATE :] + reset * from_state[:, 2 * STATE :])
                state = torch.lerp(candidate, state, update)
                states.append(state)
                contexts.append(context)
            summed = linear(embedded, p["readout_word"], p["readout_bias"])
            summed = summed + linear(torch.stack(states), p["readout_state"])
            readout = self.dropout(torch.tanh(summed + linear(torch.stack(contexts), p["readout_context"])))
            logits = linear(readout.flatten(0, 1), p["target_embedding"], p["output_bias"])
            return nn.functional.cross_entropy(logits, target[1:].flatten(), label_smoothing=SMOOTHING)

    return Model()


CONTESTANTS: dict[str, Callable[[Task, Threads], Step]] = {
    "regard": regard_step,
    "PyTorch": lambda task, _: torch_step(task),
    "PyTorch, compiled": lambda task, _: torch_step(task, compiled=True),
}


# --- a process for each contestant


def work(name: str, task: Task) -> None:
    """Take turns as a contestant: print the first loss, then target tokens a second."""
    with two_threads() as threads:
        step = CONTESTANTS[name](task, threads)
        loss = step()
        for _ in range(4):
            step()

        def tokens() -> float:
            step()
            return SENTENCES * TOKENS

        take_turns(loss, tokens)


def measure(names: list[str], task: Task, rounds: int, tools: Tools) -> None:
    """Run all contestants in turns, and print the table."""
    options = ["--words", str(task.vocabulary)] + ["--as-trained"] * task.as_trained
    workers = start_workers(__file__, names, task.threads, options, tools)
    title = f"Target tokens, {task.threads} thread" + "s" * (task.threads > 1)
    # the backward pass has two products for each one of the forward pass; a sampled softmax has fewer
    products = None if task.as_trained else 3 * multiplied(task.network().parameters, TOKENS, TOKENS)
    limit = Probe(tools.probe, task.threads) if tools.probe else None
    losses = compete(title, "tokens", workers, rounds, limit, products)
    for name, loss in losses.items():
        difference = abs(loss - losses["regard"])
        if not task.as_trained and not difference <= AGREE:
            print(f"  {name}: the loss of the first step differs by {difference:.1g} ({AGREE:g} is allowed)")
    print(f"  loss of the first step: {losses['regard']:.4f}")


def main() -> None:
    """Print a table for each number of threads."""
    parser = training_arguments(
        __doc__, CONTESTANTS, as_trained="with dropout; regard with a sampled softmax"
    )
    parser.add_argument("--words", type=int, default=2500, help="tokens of each vocabulary (default 2500)")
    args = parser.parse_args()
    compare(args, CONTESTANTS, lambda threads: Task(args.words, threads, args.as_trained), work, measure)


if __name__ == "__main__":
    main()
