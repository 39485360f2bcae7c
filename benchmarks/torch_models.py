"""Compare regard with PyTorch's and Transformers' attention inside whole models with random weights.

    python benchmarks/torch_models.py [--models llama gemma2 gpt_oss bert] [--tokens 512 2048 8192] [--threads 2]
        [--rounds 3] [--spin] [--record] [--json FILE]

Models have 8 layers of 512, 8 heads of 64 and 4 key heads (bert: 8), in float32. Tasks: a forward pass over all
tokens; the generation of 64 tokens after a prompt; a training step (forward, backward, no optimizer). Beside each other
are the `attn_implementation`s "regard", "sdpa", "eager" and "flex_attention", where a model has them.

Each contestant is a process of its own, so that its threads and its peak memory are its own; they take turns. A table
shows the best time of the rounds, the peak memory beyond that of the loaded model, and the largest difference of the
logits from those of the first implementation. PyTorch's threads wait for work by spinning with --spin, as GNU's OpenMP
does by default, and sleep without. A contestant that can't run a task is "-", with its reason below.

--record measures `regard.torch.record` instead: forward passes without it, with it, and with `output_attentions=True`.

Needs torch and transformers (5 or later).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

MODELS = ("llama", "gemma2", "gpt_oss", "bert")
IMPLEMENTATIONS = ("regard", "sdpa", "eager", "flex_attention")
TASKS = ("forward", "generation", "training")
GENERATED = 64
RECORDING = ("nothing", "record", "output_attentions")
Run = Callable[[], Any]


def model_of(name: str, implementation: str) -> Any:
    """Return a model with random weights, the same ones for each implementation."""
    import torch
    import transformers

    sizes = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "vocab_size": 1000}
    sizes |= {"intermediate_size": 1536, "max_position_embeddings": 8192 + GENERATED}
    grouped = sizes | {
        "num_key_value_heads": 4,
        "head_dim": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config, kind = {
        "llama": lambda: (transformers.LlamaConfig(**grouped), transformers.LlamaForCausalLM),
        "gemma2": lambda: (
            transformers.Gemma2Config(**grouped, sliding_window=512),
            transformers.Gemma2ForCausalLM,
        ),
        "gpt_oss": lambda: (
            transformers.GptOssConfig(
                **grouped, sliding_window=128, num_local_experts=2, num_experts_per_tok=1
            ),
            transformers.GptOssForCausalLM,
        ),
        "bert": lambda: (transformers.BertConfig(**sizes), transformers.BertForMaskedLM),
    }[name]()
    torch.manual_seed(0)
    model = kind(config).eval()
    model.set_attn_implementation(implementation)
    return model


def task_of(task: str, model: Any, tokens: int) -> Run:
    """Return a call of a model, which returns its logits."""
    import torch

    ids = torch.randint(3, 1000, (1, tokens), generator=torch.Generator().manual_seed(1))

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


def recorded(how: str, model: Any, tokens: int) -> Run:
    """Return a forward pass, with what a user sees of its attention."""
    import torch

    import regard.torch

    forward = task_of("forward", model, tokens)

    def record() -> Any:
        with regard.torch.record(model):
            return forward()

    def output_attentions() -> Any:
        ids = torch.randint(3, 1000, (1, tokens), generator=torch.Generator().manual_seed(1))
        with torch.inference_mode():
            return model(ids, output_attentions=True).logits

    return {"nothing": forward, "record": record, "output_attentions": output_attentions}[how]


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Run one job in this process: the best time, the peak of memory, and some of the logits."""
    import torch

    import regard.torch

    torch.set_num_threads(job["threads"])
    regard.torch.register()
    model = model_of(job["model"], job["implementation"])
    make = recorded if job["task"] in RECORDING else task_of
    run = make(job["task"], model, job["tokens"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(job["rounds"]):
        start = time.perf_counter()
        logits = run()
        seconds.append(time.perf_counter() - start)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    part = logits.flatten()[:: max(1, logits.numel() // 10000)]
    return {"seconds": min(seconds), "mib": peak, "logits": part.tolist()}


def result_of(job: dict[str, Any], spin: bool) -> dict[str, Any]:
    """Run a job in a process of its own; return what it measured, or why it could not."""
    waiting = {} if spin else {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    done = subprocess.run(command, env=os.environ | waiting, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        return job | {"reason": lines[-1][:200]}
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return job | measured


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with the difference of their logits from those of the first one that has any, in their place."""
    reference: list[float] = next((row["logits"] for row in rows if "logits" in row), [])
    for row in rows:
        logits = row.pop("logits", None)
        if logits is not None:
            row["difference"] = max((abs(a - b) for a, b in zip(logits, reference, strict=True)), default=0.0)
    return rows


def print_table(rows: list[dict[str, Any]], columns: tuple[str, ...], key: str) -> None:
    """Print a row for each model, task and number of tokens: seconds, MiB and the difference of each contestant."""
    print("| model | task | tokens |", " | ".join(columns), "|")
    print("|---|---|---:|" + "---:|" * len(columns))
    groups: dict[tuple[str, str, int], dict[str, str]] = {}
    for row in rows:
        cell = "-" if "reason" in row else "{seconds:.3g} s, {mib:,.0f} MiB, {difference:.0e}".format(**row)
        task = "forward" if key == "task" else row["task"]
        groups.setdefault((row["model"], task, row["tokens"]), {})[row[key]] = cell
    for (model, task, tokens), cells in groups.items():
        print(f"| {model} | {task} | {tokens:,} |", " | ".join(cells.get(name, "") for name in columns), "|")
    for row in rows:
        if "reason" in row:
            print(
                f"{row['model']}, {row['task']}, {row['tokens']:,}, {row['implementation']}: {row['reason']}"
            )


def main() -> None:
    """Measure, print the table, and write the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--tokens", nargs="+", type=int, default=[512, 2048, 8192])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--implementations", nargs="+", choices=IMPLEMENTATIONS, default=IMPLEMENTATIONS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spin", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        print(json.dumps(work(given.job)))
        return
    # A pass that returns its weights is one of "eager".
    contestants = [(how, "eager" if how == "output_attentions" else "sdpa") for how in RECORDING]
    rows = []
    for model in given.models:
        for tokens in given.tokens:
            for task in ["record"] if given.record else given.tasks:
                if task == "generation" and model == "bert":
                    continue
                pairs = contestants if given.record else [(task, name) for name in given.implementations]
                options = {"model": model, "tokens": tokens, "threads": given.threads, "rounds": given.rounds}
                jobs = [options | {"task": what, "implementation": name} for what, name in pairs]
                rows += compared([result_of(job, given.spin) for job in jobs])
    key = "task" if given.record else "implementation"
    print_table(rows, RECORDING if given.record else tuple(given.implementations), key)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
