"""Print how fast the captioner of `make caption` is trained here and in PyTorch: the same network and batch.

    python benchmarks/captions.py [--threads 1 2] [--rounds 9] [--pictures 32] [--as-trained] [--no-compile]

One batch: scenes of two handwritten digits with captions such as "a seven left of a two", all of one length, so that
there is no padding. A step is the loss of all words, its gradients, and Adam with the gradient's length clipped, in
float32. By default there is no dropout; with --as-trained both have the dropout of `make caption`.

Every contestant is a process of its own, so its peak memory is its own; they take turns, and so does a loop of
multiply-adds, of whose speed the products of matrices take the share that is printed. Printed are medians over the
rounds with minimum and maximum; ratios are medians of what they were within a round. The losses of the first two steps
are compared: from the same parameters all must come to the same. `torch.compile` is reported separately.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from probe import Probe
from turns import Tools, compare, compete, start_workers, take_turns, training_arguments

from regard._threads import TwoThreadMap, two_threads
from regard.nn import Adam
from regard.seq2seq import Images
from regard.seq2seq.corpus.batching import Batch, EncodedPair, collate
from regard.seq2seq.networks.inputs.images import _EPSILON, ImageInput
from regard.seq2seq.networks.inputs.kinds import input_of
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.sources.text.vocabulary import END, SPECIAL, START
from regard.seq2seq.training.config import ResolvedConfig
from regard.seq2seq.training.loop import _TwoThreadGradients

SCENES = Path(__file__).parents[1] / "data" / "digits" / "scenes.py"
EMBEDDING, ENCODER, STATE, HIDDEN = 64, 64, 128, 64  # as in the Makefile
RATE, DROPOUT, CLIP, BETAS = 1e-3, 0.1, 1.0, (0.9, 0.99)
WORDS = 6  # of each caption
AGREE = 1e-4  # by how much losses may differ
Step = Callable[[], float]


@cache
def scenes() -> ModuleType:
    """Return the script that draws scenes, as a module."""
    spec = importlib.util.spec_from_file_location("scenes", SCENES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses need it
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Task:
    """A training step: the pictures of a batch, the number of threads, and whether there is dropout."""

    pictures: int
    threads: int
    as_trained: bool

    @property
    def dropout(self) -> float:
        """Return the rate of dropout."""
        return DROPOUT if self.as_trained else 0.0

    @cached_property
    def _examples(self) -> list[tuple[Any, list[str]]]:
        """Return pictures and the words of their captions."""
        drawn = scenes().draw_scenes(scenes().read_digits(), "train", 50 * self.pictures, seed=1)
        examples: Iterator[Any] = ((scene.picture, scene.caption.split()) for scene in drawn)
        return [example for example in examples if len(example[1]) == WORDS][: self.pictures]

    @cached_property
    def words(self) -> list[str]:
        """Return the words of all captions."""
        return sorted({word for _, caption in self._examples for word in caption})

    def batch(self) -> Batch:
        """Return the batch."""
        source, number = (
            Images(scenes().SIZE, scenes().SIZE),
            {w: i for i, w in enumerate(self.words, len(SPECIAL))},
        )
        return collate(
            [
                EncodedPair(source.read(picture), [START, *(number[word] for word in caption), END])
                for picture, caption in self._examples
            ]
        )

    def inputs(self) -> ImageInput:
        """Return the input of the network."""
        inputs = input_of(Images(scenes().SIZE, scenes().SIZE).spec)
        assert isinstance(inputs, ImageInput)
        return inputs

    def network(self) -> RecurrentNetwork:
        """Return the network with the parameters that all start from."""
        tokens = len(SPECIAL) + len(self.words)
        config = RecurrentConfig(0, tokens, EMBEDDING, ENCODER, STATE, HIDDEN, inputs=self.inputs())
        network = RecurrentNetwork(config)
        network.initialize(np.random.default_rng(1), np.ones(tokens))
        return network

    def products(self) -> float:
        """Return the FLOPs of the products that train a picture.

        The backward pass has two products for each one of the forward pass, but pictures need no gradient.
        """
        network = self.network()
        sizes = {name: math.prod(x.shape) for name, x in network.parameters.items() if x.ndim > 1}
        for name in ("image_rows", "image_columns"):
            del sizes[name]  # are added
        cells = math.prod(self.inputs().grid)
        first, start = 4 * cells * sizes.pop("image_0_weight"), sizes.pop("start_weight")
        reading = sum(sizes.pop(name) for name in list(sizes) if name.startswith(("image", "key")))
        writing = sum(sizes.values()) + cells * (HIDDEN + 2 * ENCODER)
        return 2 * (2 * first + 3 * (start + cells * reading + (WORDS + 1) * writing))


# --- the contestants: each makes a step, which returns the loss


def regard_step(task: Task, each: TwoThreadMap) -> Step:
    """Return a step as `regard train` takes it: two halves of the batch, a thread for each if there are two."""
    network, batch, rng = task.network(), task.batch(), np.random.default_rng(1)
    config = ResolvedConfig(
        epochs=1,
        batch_tokens=1,
        learning_rate=RATE,
        warm_up=1,
        dropout=task.dropout,
        label_smoothing=0.0,
        guided_alignment=0.0,
    )
    halves = _TwoThreadGradients(network, config, each)
    adam = Adam(network.parameters.flat, beta1=BETAS[0], beta2=BETAS[1], clip=CLIP)

    def step() -> float:
        loss, gradient = halves(batch, rng.spawn(2))
        adam.step(gradient, RATE, each)
        return loss

    return step


def torch_step(task: Task, compiled: bool = False) -> Step:
    """Return a step as it is written for PyTorch: channels last, the decoder's steps by hand, a fused Adam."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(task.threads)
    torch.manual_seed(1)
    model = torch_model(torch, task.network(), task.dropout)
    batch, inputs = task.batch(), task.inputs()
    (h, w), cell = inputs.grid, inputs.cell
    cells = batch.source.reshape(h, w, -1, cell, cell)
    pictures = torch.from_numpy(cells.transpose(2, 0, 3, 1, 4).reshape(-1, 1, h * cell, w * cell))
    target = torch.from_numpy(batch.target)
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, fused=True)
    loss_of = torch.compile(model) if compiled else model

    def step() -> float:
        adam.zero_grad()
        loss = loss_of(pictures, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        return float(loss.detach())

    return step


def torch_model(torch: Any, network: RecurrentNetwork, rate: float) -> Any:
    """Return the same network with the same parameters."""
    nn = torch.nn
    inputs = network.config.inputs
    assert isinstance(inputs, ImageInput)
    last = len(inputs.filters) - 1
    p = {
        name: torch.from_numpy(_turned(name, array, f"image_{last}_"))
        for name, array in network.parameters.items()
    }

    class Model(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.ParameterDict({name: nn.Parameter(x) for name, x in p.items()})
            for x in self.p.values():
                if x.ndim == 4:
                    x.data = x.data.contiguous(memory_format=torch.channels_last)
            self.little, self.much = nn.Dropout(rate / 2), nn.Dropout(rate)

        def norm(self, name: str, x: Any) -> Any:
            """Normalise the channels, which lie side by side in memory."""
            p, x = self.p, x.permute(0, 2, 3, 1)
            x = nn.functional.layer_norm(x, x.shape[-1:], p[name + "gain"], p[name + "shift"], _EPSILON)
            return x.permute(0, 3, 1, 2)

        def stage(self, name: str, x: Any, **options: Any) -> Any:
            p = self.p
            return torch.relu(
                self.norm(name, torch.conv2d(x, p[name + "weight"], p[name + "bias"], **options))
            )

        def annotate(self, x: Any) -> Any:
            p = self.p
            for number in range(last):
                x = self.stage(f"image_{number}_", x, stride=2, padding=1)
            # the last stage begins at the other end: the padding is below and on the right
            x = self.stage(f"image_{last}_", nn.functional.pad(x, (0, 1, 0, 1)), stride=2)
            inner = self.stage("image_inner_", x, padding=1)
            outer = torch.conv2d(inner, p["image_outer_weight"], p["image_outer_bias"])
            x = self.norm("image_outer_", x + outer).permute(0, 2, 3, 1)  # (B, h, w, F)
            y = nn.functional.linear(x, p["image_out_weight"], p["image_out_bias"])
            y = y + (p["image_rows"][:, None] + p["image_columns"])
            return self.little(y.flatten(1, 2))  # (B, h * w, C)

        def forward(self, pictures: Any, target: Any) -> Any:
            p, linear = self.p, nn.functional.linear
            values = self.annotate(pictures)
            state = torch.tanh(linear(values.mean(1), p["start_weight"], p["start_bias"]))
            keys = linear(values, p["key_weight"])
            words = self.little(nn.functional.embedding(target[:-1], p["target_embedding"]))
            inputs = linear(words, p["decoder_word"], p["decoder_bias"])
            states, contexts = [], []
            for step_inputs in inputs:
                between = gru(step_inputs, linear(state, p["decoder_state"]), state)
                hidden = torch.tanh(linear(between, p["query_weight"])[:, None] + keys)
                weights = torch.softmax(hidden @ p["attention_vector"], -1)
                context = torch.bmm(weights[:, None], values)[:, 0]
                outside = linear(context, p["decoder_context"], p["decoder_bias_after"])
                state = gru(outside, linear(between, p["decoder_state_after"]), between)
                states.append(state)
                contexts.append(context)
            summed = linear(words, p["readout_word"], p["readout_bias"])
            summed = summed + linear(torch.stack(states), p["readout_state"])
            readout = self.much(torch.tanh(summed + linear(torch.stack(contexts), p["readout_context"])))
            logits = linear(readout.flatten(0, 1), p["target_embedding"], p["output_bias"])
            return nn.functional.cross_entropy(logits, target[1:].flatten())

    def gru(outside: Any, inside: Any, state: Any) -> Any:
        """Return the state after a step, from the products with the inputs and with the previous state."""
        gates = torch.sigmoid(outside[:, : 2 * STATE] + inside[:, : 2 * STATE])
        reset, update = gates.chunk(2, -1)
        candidate = torch.tanh(outside[:, 2 * STATE :] + reset * inside[:, 2 * STATE :])
        return torch.lerp(candidate, state, update)

    return Model()


def _turned(name: str, x: Any, from_the_end: str) -> Any:
    """Return a parameter in PyTorch's layout."""
    if x.ndim == 4:
        x = x[::-1, ::-1] if name.startswith(from_the_end) else x
        return np.ascontiguousarray(x.transpose(3, 2, 0, 1))
    unchanged = x.ndim != 2 or name in ("target_embedding", "image_rows", "image_columns")
    return x.copy() if unchanged else np.ascontiguousarray(x.T)


CONTESTANTS: Mapping[str, Callable[[Task, TwoThreadMap], Step]] = {
    "regard": regard_step,
    "PyTorch": lambda task, _: torch_step(task),
    "PyTorch, compiled": lambda task, _: torch_step(task, compiled=True),
}


# --- one process for a contestant


def work(name: str, task: Task) -> None:
    """Answer each line that comes with pictures a second, and the end with the peak memory."""
    with two_threads() as threads:
        step = CONTESTANTS[name](task, TwoThreadMap(threads if task.threads == 2 else None))
        losses = [step(), step()]
        for _ in range(3):
            step()

        def pictures() -> float:
            step()
            return task.pictures

        take_turns(losses, pictures)


def measure(names: list[str], task: Task, rounds: int, tools: Tools) -> None:
    """Let all take turns, and print the table."""
    options = ["--pictures", str(task.pictures)] + ["--as-trained"] * task.as_trained
    workers = start_workers(__file__, names, task.threads, options, tools)
    title = f"Pictures, {task.threads} thread" + "s" * (task.threads > 1)
    limit = Probe(tools.probe, task.threads) if tools.probe else None
    losses = compete(title, "pictures", workers, rounds, limit, task.products())
    for name, own_losses in losses.items():
        apart = np.abs(np.subtract(own_losses, losses["regard"])).max()
        if not task.as_trained and not apart <= AGREE:
            print(f"  {name}: the losses of the first steps differ by {apart:.1g} ({AGREE:g} is allowed)")
    print("  losses of the first two steps: " + ", ".join(f"{loss:.4f}" for loss in losses["regard"]))


def main() -> None:
    """Print a table for each number of threads."""
    parser = training_arguments(__doc__, CONTESTANTS, as_trained="with the dropout of `make caption`")
    parser.add_argument(
        "--pictures", type=int, default=32, help="of a batch (default 32, as `make caption` has)"
    )
    args = parser.parse_args()
    compare(args, CONTESTANTS, lambda threads: Task(args.pictures, threads, args.as_trained), work, measure)


if __name__ == "__main__":
    main()
