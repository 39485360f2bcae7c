"""Compare `regard.torch.record` with what else shows the attention of a model: time, memory, and size of the page.

    python benchmarks/torch_recording.py [--tokens 128 512 2048 20000] [--contestants nothing record ...]
        [--threads 2] [--rounds 5] [--json FILE]

The model is the Llama-shaped one of `torch_models.py` with random weights: 2 layers, 8 heads of 64, 4 key heads. Beside
each other are

    nothing              a forward pass
    record               a forward pass in a block of `record`, which keeps queries and keys
    cost                 both in turns, and copies of what was recorded alone: what else recording takes
    page                 the same, and the page of it
    output_attentions    a forward pass that returns its weights
    attnread             `extract_attention`, of all heads
    bertviz, attnview    a forward pass that returns its weights, and the page of it (`head_view`, `render_html`)

They take turns, each in a process of its own (`contestants.py`); memory is the peak beyond that of the loaded model. A
page is offline if it names no script on another machine. What needs an array of all pairs of tokens is not tried where
the weights of one layer alone are more than the memory that a contestant may have.

Needs torch, transformers (5 or later), bertviz, attnview, and attnread with nnsight.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from typing import Any

from contestants import MEMORY, Contestant, Prepare, Run, serve, take_turns, times, untimed
from record import Row, add_option, keep, save
from torch_models import SIZES, ids_of, model_of, task_of

LONGEST = 20_000
TURNS = 40
REMOTE_SCRIPT = re.compile(r"""["'(]https?://[^"')\s]*(?:\.js|\.min|\.css)\b""")


def labels(tokens: int) -> list[str]:
    """Return a text for each token."""
    return [f"t{i}" for i in range(tokens)]


def about_page(html: str) -> Row:
    """Return the size of a page in MB, and whether it needs no network."""
    return {"page": len(html.encode()) / 1e6, "offline": REMOTE_SCRIPT.search(html) is None}


def forward(model: Any, tokens: int) -> Run:
    """A forward pass."""
    return task_of("forward", model, tokens)


def recorded(model: Any, tokens: int) -> Run:
    """A forward pass in a block of `record`."""
    import regard.torch

    run = forward(model, tokens)

    def record() -> Any:
        with regard.torch.record(model) as calls:
            run()
        return calls

    return record


def cost(model: Any, tokens: int) -> Run:
    """The share of a forward pass that recording takes beyond the copies, of the least times of all in turns."""
    alone, record = forward(model, tokens), recorded(model, tokens)

    def run() -> Row:
        passed, recording, copying = map(min, zip(*(_turn(alone, record) for _ in range(TURNS)), strict=True))
        return {"overhead": (recording - copying) / passed - 1}

    return run


def _turn(alone: Run, record: Run) -> tuple[float, float, float]:
    """Return the time of a pass, of a recorded pass, and of copies of what was recorded."""
    passed, _ = _processor_time(alone)
    recording, calls = _processor_time(record)
    copying, _ = _processor_time(lambda: [(call.queries.copy(), call.keys.copy()) for call in calls])
    return passed, recording, copying


def _processor_time(run: Run) -> tuple[float, Any]:
    start = time.process_time()
    output = run()
    return time.process_time() - start, output


def page_of_recorded(model: Any, tokens: int) -> Run:
    """A page of what was recorded."""
    from regard.show import page

    run = recorded(model, tokens)
    return lambda: about_page(page(run(), tokens=labels(tokens)).html)


def weights(model: Any, tokens: int) -> Run:
    """A forward pass that returns its weights."""
    import torch

    ids = ids_of(tokens)

    def run() -> Any:
        with torch.inference_mode():
            return model(ids, output_attentions=True).attentions

    return run


def attnread(model: Any, tokens: int) -> Run:
    """The weights that attnread finds by further passes."""
    from attnread import extract_attention

    return lambda: extract_attention(model, {"input_ids": ids_of(tokens)}) and None


def bertviz(model: Any, tokens: int) -> Run:
    """A page of bertviz."""
    from bertviz import head_view

    run = weights(model, tokens)
    return lambda: about_page(head_view(run(), labels(tokens), html_action="return").data)


def attnview(model: Any, tokens: int) -> Run:
    """A page of attnview."""
    from attnview import AttentionPattern, AttentionStudy, render_html

    run = weights(model, tokens)

    def render() -> Row:
        layers = tuple(AttentionPattern.from_data(layer[0], tokens=labels(tokens)) for layer in run())
        return about_page(render_html(AttentionStudy(layers, tuple(map(str, range(len(layers)))))))

    return render


# What prepares a run, and the attention of the model that it needs.
CONTESTANTS: dict[str, tuple[Callable[[Any, int], Run], str]] = {
    "nothing": (forward, "sdpa"),
    "cost": (cost, "sdpa"),
    "record": (recorded, "sdpa"),
    "page": (page_of_recorded, "sdpa"),
    "attnread": (attnread, "sdpa"),
    "output_attentions": (weights, "eager"),
    "bertviz": (bertviz, "eager"),
    "attnview": (attnview, "eager"),
}
WITHOUT_PAIRS = ("nothing", "record", "page")


def load(options: Row) -> Prepare:
    """Return what prepares the runs of a contestant."""
    import torch

    torch.set_num_threads(options["threads"])
    make, implementation = CONTESTANTS[options["contestant"]]
    model = model_of("llama", implementation, LONGEST)
    return lambda job: make(model, job["tokens"])


def rows_of(answers: dict[str, list[Row]], clock: str) -> dict[str, Row]:
    """Return the figures of each contestant."""
    rows = {name: untimed(measured) for name, measured in answers.items()}
    for name, row in rows.items():
        if "reason" not in row:
            row |= times(answers[name], answers.get("nothing", answers[name]), clock)
            row |= {
                key: value
                for key, value in answers[name][-1].items()
                if key in ("page", "offline", "overhead")
            }
    return rows


def main() -> None:
    """Measure, print and write the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", nargs="+", type=int, default=[128, 512, 2048, LONGEST])
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    add_option(parser)
    args = parser.parse_args()
    if args.worker:
        serve(lambda: load(args.worker))
        return
    options = {name: {"contestant": name, "threads": args.threads} for name in args.contestants}
    contestants = {name: Contestant(__file__, of) for name, of in options.items()}
    clock = "processor" if args.threads == 1 else "seconds"
    for tokens in args.tokens:
        fits = 4 * SIZES["num_attention_heads"] * tokens**2 < MEMORY << 30
        able = {name: c for name, c in contestants.items() if fits or name in WITHOUT_PAIRS}
        for name, row in rows_of(take_turns(able, {"tokens": tokens}, args.rounds), clock).items():
            print(f"{tokens:,} tokens, {name}:", json.dumps(row), flush=True)
            keep(tokens=tokens, contestant=name, threads=args.threads, **row)
    for contestant in contestants.values():
        contestant.close()
    save(args.json)


if __name__ == "__main__":
    main()
