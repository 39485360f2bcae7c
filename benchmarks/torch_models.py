"""Compare regard with PyTorch's and Transformers' attention inside whole models with random weights.

    python benchmarks/torch_models.py [--models llama gemma2 gpt_oss] [--tokens 512 2048 8192] [--rounds 5]
        [--settings "2 threads" "2 threads that sleep" "1 thread"] [--tasks forward generation training] [--json FILE]

Models have 2 layers of 512, 8 heads of 64 and 4 key heads, in float32; Gemma 2 has softcap and a window of 512 in one
layer, GPT-OSS sinks and a window of 128 in one layer. Tasks: a forward pass over all tokens; the generation of 64
tokens after a prompt; a training step (forward, backward, no optimizer). Beside each other are the
`attn_implementation`s "regard", "sdpa", "eager" and "flex_attention", where a model has them.

They take turns (see `contestants.py`); the table has the median of the times, of one thread those of the processor,
how many times as long as regard the others take (the median of the ratios of the rounds), the peak memory beyond that
of the loaded model, and the largest difference of the logits from those of "eager", or of "sdpa" where that can't run.
Threads of PyTorch spin for a moment while they wait, unless they are told to sleep.

Needs torch and transformers (5 or later).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from contestants import Contestant, Prepare, Run, serve, take_turns, times, untimed
from record import Row, add_option, keep, save

IMPLEMENTATIONS = ("regard", "sdpa", "eager", "flex_attention")
REFERENCES = ("eager", "sdpa")
GENERATED = 64
LAYERS = 2
SETTINGS: dict[str, tuple[int, dict[str, str]]] = {
    "2 threads": (2, {}),
    "2 threads that sleep": (2, {"OMP_WAIT_POLICY": "passive"}),
    "1 thread": (1, {}),
}
SIZES = {
    "hidden_size": 512,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 1536,
    "vocab_size": 1000,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# The names of a model's classes, and its own options.
MODELS: dict[str, tuple[str, Row]] = {
    "llama": ("Llama", {}),
    "gemma2": ("Gemma2", {"sliding_window": 512}),
    "gpt_oss": ("GptOss", {"sliding_window": 128, "num_local_experts": 2, "num_experts_per_tok": 1}),
}


def model_of(name: str, implementation: str, longest: int) -> Any:
    """Return a model with random weights, the same ones for each implementation."""
    import torch
    import transformers

    kind, options = MODELS[name]
    config = getattr(transformers, f"{kind}Config")(
        **SIZES, **options, max_position_embeddings=longest + GENERATED
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    model.set_attn_implementation(implementation)
    return model


def ids_of(tokens: int) -> Any:
    """Return random tokens (1, tokens)."""
    import torch

    return torch.randint(3, SIZES["vocab_size"], (1, tokens), generator=torch.Generator().manual_seed(1))


def task_of(task: str, model: Any, tokens: int) -> Run:
    """Return a call of a model, which returns its logits."""
    import torch

    ids = ids_of(tokens)

    def forward() -> Any:
        with torch.inference_mode():
            return model(ids).logits

    def generate() -> Any:
        options = {"min_new_tokens": GENERATED, "max_new_tokens": GENERATED, "do_sample": False}
        done = model.generate(ids, **options, output_logits=True, return_dict_in_generate=True)
        return torch.stack(done.logits)

    def train() -> Any:
        model.zero_grad()
        logits = model(ids).logits
        torch.nn.functional.cross_entropy(logits[0], ids[0]).backward()
        return logits.detach()

    return {"forward": forward, "generation": generate, "training": train}[task]


def load(options: Row) -> Prepare:
    """Return what prepares the tasks of a model; a run saves its logits."""
    import torch

    import regard.torch

    torch.set_num_threads(options["threads"])
    regard.torch.register()
    model = model_of(options["model"], options["implementation"], options["longest"])

    def prepare(job: Row) -> Run:
        torch.compiler.reset()  # a function that was compiled for too many cases would not be compiled any more
        run = task_of(job["task"], model, job["tokens"])
        logits = Path(job["folder"], f"{options['implementation']}.npy")
        logits.unlink(missing_ok=True)

        def run_and_save() -> None:
            output = run()
            if not logits.exists():
                np.save(logits, output.numpy())

        return run_and_save

    return prepare


def differences(folder: str, names: list[str]) -> dict[str, float]:
    """Return the largest distance of each contestant's logits from those of the reference."""
    logits = {name: np.load(Path(folder, f"{name}.npy")) for name in names}
    reference = next((logits[name] for name in REFERENCES if name in logits), None)
    if reference is None:
        return {}
    return {name: float(np.abs(x - reference).max()) for name, x in logits.items()}


def rows_of(answers: dict[str, list[Row]], clock: str, folder: str) -> dict[str, Row]:
    """Return the figures of each contestant."""
    rows = {name: untimed(measured) for name, measured in answers.items()}
    finished = [name for name, row in rows.items() if "reason" not in row]
    apart = differences(folder, finished)
    for name in finished:
        rows[name] |= times(answers[name], answers["regard"], clock) | {"difference": apart.get(name)}
    return rows


def describe(row: Row) -> str:
    """Return a row as a line of text."""
    if "reason" in row:
        return f"- ({row['reason']})"
    median = [x[1] if isinstance(x, list) else x for x in (row["seconds"], row["times"])]
    return "{:.3g} s, {:.2f} times, {mib:.0f} MiB, first {first:.1f} s, difference {difference}".format(
        *median, **row
    )


def compare(setting: str, model: str, args: argparse.Namespace) -> None:
    """Measure a model in a setting, and keep the rows."""
    threads, waiting = SETTINGS[setting]
    common = {"model": model, "threads": threads, "longest": max(args.tokens)}
    contestants = {
        name: Contestant(__file__, {**common, "implementation": name}, {**os.environ, **waiting})
        for name in args.implementations
    }
    clock = "processor" if threads == 1 else "seconds"
    failed: dict[tuple[str, str], Row] = {}  # what can't run a task can't run it with more tokens
    for tokens in args.tokens:
        for task in args.tasks:
            case = {"model": model, "task": task, "tokens": tokens, "setting": setting}
            able = {name: c for name, c in contestants.items() if (name, task) not in failed}
            with tempfile.TemporaryDirectory() as folder:
                rows = rows_of(take_turns(able, {**case, "folder": folder}, args.rounds), clock, folder)
            failed |= {(name, task): row for name, row in rows.items() if "reason" in row}
            rows |= {name: row for (name, of), row in failed.items() if of == task}
            for name, row in rows.items():
                print(*case.values(), f"{name}:", describe(row), flush=True)
                keep(**case, implementation=name, **row)
    for contestant in contestants.values():
        contestant.close()


def main() -> None:
    """Measure, print and write the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tokens", nargs="+", type=int, default=[512, 2048, 8192])
    tasks = ("forward", "generation", "training")
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--implementations", nargs="+", choices=IMPLEMENTATIONS, default=IMPLEMENTATIONS)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["2 threads", "1 thread"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    add_option(parser)
    args = parser.parse_args()
    if args.worker:
        serve(lambda: load(args.worker))
        return
    for setting in args.settings:
        for model in args.models:
            compare(setting, model, args)
    save(args.json)


if __name__ == "__main__":
    main()
