"""Write the figures of README and docs, which stand in benchmarks/results, into the pages.

    python benchmarks/report.py

A page has them between `<!-- report: NAME -->` and `<!-- /report -->`, where NAME is a function of this file. The files
are written by `--json FILE` of the scripts, and state the command, the processor and the versions; those with a note
were transcribed. A figure is a number, or minimum, median and maximum. `tests/docs/test_report.py` compares the pages.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from regard.seq2seq.sources import Spec
from regard.seq2seq.training.defaults import choose_config

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("README.md", "docs/results.md", "kits/estimators/README.md")
BLOCK = re.compile(r"(<!-- report: (\w+) -->\n)(.*?)(<!-- /report -->)", re.DOTALL)

Row = dict[str, Any]
OTHERS = {
    "PyTorch": "P",
    "onnxruntime": "O",
    "onnxruntime GQA": "G",
    "NumPy": "N",
    "with SciPy": "S",
    "JAX": "J",
    "best other": "",
}


# --- files, figures and tables


@cache
def document(name: str) -> Mapping[str, Any]:
    """Return what a script has written."""
    stored: Mapping[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return stored


def rows(name: str, **fields: Any) -> list[Row]:
    """Return the rows of a file that have these fields."""
    return [row for row in document(name)["rows"] if all(row.get(key) == fields[key] for key in fields)]


def first(name: str, **fields: Any) -> Row:
    """Return the first such row."""
    return rows(name, **fields)[0]


def source(*names: str) -> str:
    """Return a line on processors, versions and commands, and whether the figures were transcribed."""
    stored = [document(name) for name in names]
    versions = ", ".join(f"{key} {value}" for key, value in stored[0]["versions"].items() if key != "regard")
    calls = ", ".join(f"`{call}`" for call in unique(each["command"] for each in stored))
    origin = "transcribed" if any("note" in each for each in stored) else ""
    return "; ".join(filter(None, [*unique(each["processor"] for each in stored), versions, calls, origin]))


def sources(*names: str) -> list[str]:
    """Return a list of such lines."""
    return [f"- {source(name)}" for name in names]


def options(name: str) -> str:
    """Return the options of the call of a script."""
    return " ".join(document(name)["command"].split()[2:])


def unique(texts: Iterable[str]) -> list[str]:
    """Return texts without repetitions."""
    return list(dict.fromkeys(texts))


def middle(value: float | list[float]) -> float:
    """Return a figure, or the median of several rounds."""
    return value[1] if isinstance(value, list) else value


def number(x: float) -> str:
    """Return three digits, or the nearest integer of a large number."""
    return f"{x:,.0f}" if x >= 99.5 else f"{x:.3g}"


def figure(value: float | list[float] | None) -> str:
    """Return a figure, with its range if there is one."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return f"{number(value[1])} ({number(value[0])} to {number(value[2])})"
    return number(value)


def extent(values: Sequence[float], show: Callable[[float], str] = number) -> str:
    """Return the smallest and the largest figure."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table; the first column is of words."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in ([*heads], rule, *lines)]


def wrap(sentence: str) -> list[str]:
    """Return the lines of a sentence."""
    return textwrap.wrap(sentence, 138, break_long_words=False, break_on_hyphens=False)


def bold(text: str, best: bool) -> str:
    """Return a cell, bold if it is the best."""
    return f"**{text}**" if best else text


# --- the kernel


class Machine(NamedTuple):
    """A file of `kernel.py`, and a number of threads."""

    name: str
    file: str
    threads: int

    def rows(self, unit: str) -> dict[tuple[str, str], Row]:
        """Return the rows of a unit by section and case."""
        return {
            (row["section"], row["case"]): row for row in rows(self.file, unit=unit, threads=self.threads)
        }


MACHINES = (
    Machine("AMD Zen 4", "kernel-zen4", 1),
    Machine("Intel Xeon", "kernel-xeon", 1),
    Machine("AMD Zen 3", "kernel-zen3", 1),
    Machine("Zen 4, 2 threads", "kernel-zen4", 2),
    Machine("Xeon, 2 threads", "kernel-xeon", 2),
    Machine("Zen 3, 2 threads", "kernel-zen3", 2),
)
PROCESSORS = {
    "kernel-zen4": "Zen 4",
    "kernel-xeon": "Xeon",
    "kernel-zen3": "Zen 3",
    "kernel-zen5": "Zen 5",
    "kernel-xeon-calls": "Xeon",
}
KERNELS = tuple(PROCESSORS)


def best_other(row: Row) -> tuple[str, float]:
    """Return the best of the others, and its figure: the highest rate or the shortest time."""
    best = min((name for name in OTHERS if name in row), key=lambda name: gain(row, name))
    return best, middle(row[best])


def gain(row: Row, name: str) -> float:
    """Return how many times as fast as another regard is: the median of the rounds, where they were kept."""
    if "gains" in row:
        return float(row["gains"][name])
    regard, other = middle(row["regard"]), middle(row[name])
    return regard / other if "/s" in row["unit"] else other / regard


def won(found: Iterable[Row]) -> list[bool]:
    """Return for each row whether regard is at least as fast as all others."""
    return [gain(row, best_other(row)[0]) >= 1 for row in found]


def share_of(measured: Sequence[bool]) -> str:
    """Return how many of how many."""
    return f"{sum(measured)} of {len(measured)}"


def kernel_summary() -> list[str]:
    """For each processor: the shares of the limit, and the speed relative to each library."""
    names = ("PyTorch", "onnxruntime", "onnxruntime GQA", "NumPy")
    lines = []
    for machine in MACHINES:
        found = [*machine.rows("GFLOP/s").values()]
        if found:
            shares = [row["share"] for row in found]
            cells = [extent(shares, "{:.0f}".format), share_of([share >= 80 for share in shares])]
            lines.append([machine.name, *cells, *(relative(found, name) for name in names)])
    heads = ["", "% of the limit", "80 % or more", *(f"times as fast as {name}" for name in names)]
    return [*table(heads, lines), "", *sources(*KERNELS[:3])]


def relative(found: Sequence[Row], name: str) -> str:
    """Return the range of the speed relative to a library, and in how many rows regard is faster."""
    gains = [gain(row, name) for row in found if name in row]
    return f"{extent(gains, '{:.3g}'.format)} ({share_of([x > 1 for x in gains])})" if gains else "-"


def kernel_rows() -> list[str]:
    """Every row of arithmetic with one thread: regard, and the best other."""
    return comparison("GFLOP/s", [machine for machine in MACHINES if machine.threads == 1])


def kernel_decoding() -> list[str]:
    """Every row of decoding, which reads memory, and onnxruntime's cache of int8, which regard does not have."""
    quantized = [row for file in KERNELS for row in rows(file, section="decode") if "int8 cache" in row]
    ratios = extent([gain(row, "int8 cache") for row in quantized], "{:.2f}".format)
    beside = (
        "onnxruntime also decodes from a cache of int8, with another result (errors of up to 5 % of the largest "
        f"number are allowed); regard, which has none, is {ratios} times as fast in float32."
    )
    return [*comparison("GB/s", MACHINES), "", *wrap(beside)]


def comparison(unit: str, machines: Iterable[Machine]) -> list[str]:
    """Return a table of the machines that have rows of this unit."""
    machines = [machine for machine in machines if machine.rows(unit)]
    keys = list(dict.fromkeys(key for machine in machines for key in machine.rows(unit)))
    heads = [
        f"{unit} by n = m" if unit == "GFLOP/s" else unit,
        *(head for machine in machines for head in (machine.name, "best other")),
    ]
    lines = [[title(*key), *(c for m in machines for c in pair(m.rows(unit).get(key)))] for key in keys]
    return table(heads, lines)


def title(section: str, case: str) -> str:
    """Return the name of a row."""
    case = case.removeprefix("n = m = ")
    return f"gradients, {case}" if section == "backward" else case


def pair(row: Row | None) -> tuple[str, str]:
    """Return regard's figure, with its share of the limit where memory is read, and the best other's."""
    if row is None:
        return "-", "-"
    name, other = best_other(row)
    share = f", {row['share']:.0f}%" if "share" in row and row["unit"] == "GB/s" else ""
    best = gain(row, name) >= 1
    return bold(
        figure(row["regard"]), best
    ) + share, f"{bold(number(other), not best)} {OTHERS[name]}".rstrip()


def kernel_calls() -> list[str]:
    """Rows that are times: small calls and the additive score."""
    found = [(file, row) for file in KERNELS for row in rows(file) if row["unit"] in ("us", "ms")]
    found = [(file, row) for file, row in found if any(name in row for name in OTHERS)]
    names = [name for name in OTHERS if any(name in row for _, row in found)]
    lines = []
    for file, row in found:
        name, _ = best_other(row)
        best = "regard" if gain(row, name) >= 1 else name
        kind = "additive score, n = m = 512, h = 128, " if row["section"] == "additive" else ""
        threads = ", 2 threads" if row.get("threads") == 2 else ""
        about = f"{kind}{row['case']}, {PROCESSORS[file]}{threads}, {row['unit'].replace('u', 'µ')}"
        lines.append([about, *(bold(figure(row.get(each)), each == best) for each in ("regard", *names))])
    return [*table(["time of a call", "regard", *names], lines), "", source("kernel-xeon-calls")]


def memory() -> list[str]:
    """Extra memory of a call."""
    names = ("regard", "PyTorch", "onnxruntime", "NumPy", "JAX")
    lines = []
    for row in rows("footprint", section="memory"):
        least = min(row[name] for name in names if name in row)
        cells = (bold(figure(row[name]), row[name] == least) if name in row else "-" for name in names)
        lines.append([row["case"], *cells])
    return [*table(["extra MiB", *names], lines), "", source("footprint")]


def accuracy() -> list[str]:
    """The largest error of contexts."""
    names = ("regard", "PyTorch", "onnxruntime", "NumPy")
    lines = []
    for row in rows("accuracy"):
        least = min(row[name] for name in names)
        lines.append([row["case"], *(bold(figure(row[name]), row[name] == least) for name in names)])
    return [*table(["largest error, median of nine draws", *names], lines), "", source("accuracy")]


def sizes_of_packages() -> list[str]:
    """Installed sizes."""
    found = rows("footprint", section="size")
    cells = [[row["case"], number(row["alone"]), number(row["total"])] for row in found]
    return table(["installed, MB, without bytecode", "alone", "with dependencies"], cells)


def speed() -> list[str]:
    """The sentence on the kernel alone."""
    long, decoding = (won(r for m in MACHINES for r in m.rows(unit).values()) for unit in ("GFLOP/s", "GB/s"))
    calls = won(row for file in KERNELS for row in rows(file) if row["unit"] == "us")
    gradients = first("footprint", section="memory", case="forward and backward")
    names = [f"{name} {releases(name)}" for name in ("PyTorch", "onnxruntime", "NumPy")]
    return wrap(
        f"On {len({machine.file for machine in MACHINES})} processors the kernel was as fast as "
        f"{', '.join(names[:-1])} and {names[-1]} or faster in {share_of(long)} measurements of long sequences, "
        f"in {share_of(decoding)} of decoding and in {share_of(calls)} of small calls; its gradients take "
        f"{number(gradients['regard'])} MiB of extra memory where PyTorch's take {number(gradients['PyTorch'])}."
    )


def releases(name: str) -> str:
    """Return the releases of a library with which the kernel was compared."""
    versions = {".".join(document(machine.file)["versions"][name].split(".")[:2]) for machine in MACHINES}
    return " and ".join(sorted(versions))


def installed() -> list[str]:
    """The sentence of the README on its size."""
    found = {row["case"]: row["alone"] for row in rows("footprint", section="size")}
    others = " and ".join(f"{name} {number(found[name])}" for name in ("PyTorch", "onnxruntime"))
    return [
        f"The package takes about {found['regard']:.0f} MB ({others}), dependencies and bytecode not counted."
    ]


# --- models of PyTorch

FAMILIES = {"llama": "Llama", "gemma2": "Gemma 2: softcap, window", "gpt_oss": "GPT-OSS: sinks, window"}
IMPLEMENTATIONS = ("regard", "sdpa", "eager", "flex_attention")
BY_THREADS = ("torch-models-1", "torch-models-2")


def torch_models() -> list[str]:
    """Time and memory of whole models with one thread and with two, beside PyTorch's implementations."""
    cases = [
        {key: row[key] for key in ("model", "task", "tokens")}
        for row in rows(BY_THREADS[0], implementation="regard")
    ]
    heads = ["", "tokens", *IMPLEMENTATIONS, "difference of logits"]
    return [*table(heads, map(model_line, cases)), "", *sources(*BY_THREADS)]


def model_line(case: Row) -> list[str]:
    """Return the figures of a model, a task and a number of tokens."""
    alone, two = ({row["implementation"]: row for row in rows(name, **case)} for name in BY_THREADS)
    least = min(middle(row["times"]) for row in alone.values() if "times" in row)
    cells = [model_cell(alone[name], two.get(name, {}), least) for name in IMPLEMENTATIONS]
    apart = alone["regard"]["difference"]
    about = f"{FAMILIES[case['model']]}, {case['task']}"
    return [about, f"{case['tokens']:,}", *cells, "-" if apart is None else f"{apart:.0e}"]


def model_cell(alone: Row, two: Row, least: float) -> str:
    """Return seconds of regard, or how many times as long another takes with one thread and with two, and memory."""
    if "times" not in alone:
        return "-"
    times = " / ".join(f"{middle(row['times']):.2f}" for row in (alone, two) if "times" in row)
    time = f"{number(middle(alone['seconds']))} s" if alone["implementation"] == "regard" else times
    return f"{bold(time, middle(alone['times']) == least)}, {number(alone['mib'])} MiB"


def gains(other: str, **fields: Any) -> list[float]:
    """Return how many times as long as regard another implementation takes with one thread."""
    found = rows(BY_THREADS[0], implementation=other, **fields)
    return [middle(row["times"]) for row in found if "times" in row]


def own_model() -> list[str]:
    """The sentence of the README on a user's own model."""
    eager, sdpa, flex = (
        extent(gains(name, tokens=8192), "{:.1f}".format) for name in ("eager", "sdpa", "flex_attention")
    )
    every = [gain for name in IMPLEMENTATIONS[1:] for gain in gains(name)]
    memory = extent([eager / ours for ours, eager in memory_pairs(tokens=8192)], "{:.1f}".format)
    return wrap(
        "**In your own model of PyTorch** on a CPU (shapes of Llama, Gemma 2 and GPT-OSS, 8,192 tokens, one thread): "
        f'Transformers\' "eager" takes {eager} times as long as regard and {memory} times the memory, flex_attention '
        f'{flex}, "sdpa", where a model has it, {sdpa} times as long. regard was as fast or faster in '
        f"{share_of([gain >= 1 for gain in every])} measurements, and at most {1 / min(every):.2f} times as slow "
        "([tables](docs/results.md#your-own-model))."
    )


def memory_pairs(**fields: Any) -> list[tuple[float, float]]:
    """Return the peaks of memory of regard and of "eager" in each case that both can run."""
    eager = rows(BY_THREADS[0], implementation="eager", **fields)
    ours = rows(BY_THREADS[0], implementation="regard", **fields)
    return [(a["mib"], b["mib"]) for a, b in zip(ours, eager, strict=True) if "mib" in b]


def softcap_memory() -> list[str]:
    """The sentence on the memory of a model with softcap."""
    [(ours, eager)] = memory_pairs(model="gemma2", task="forward", tokens=8192)
    share = f"{100 * ours / eager:.0f} % of the memory of eager"
    return [f"A forward pass over 8,192 tokens with softcap (Gemma 2) takes {share}."]


RECORDERS = {
    "nothing": "a forward pass",
    "record": "`regard.torch.record`",
    "page": "the same, and a page",
    "output_attentions": "`output_attentions=True`",
    "attnread": "attnread",
    "bertviz": "bertviz, a page",
    "attnview": "attnview, a page",
}


def recording() -> list[str]:
    """Time and memory of what shows the attention of a model."""
    lengths = unique(f"{row['tokens']}" for row in rows("torch-recording"))
    lines = [recorder_line(name, lengths) for name in RECORDERS]
    heads = ["seconds, MiB, MB of the page", *(f"{int(n):,} tokens" for n in lengths), "offline"]
    return [*table(heads, lines), "", source("torch-recording")]


def recorder_line(name: str, lengths: Iterable[str]) -> list[str]:
    """Return the figures of a contestant for each number of tokens."""
    found = [rows("torch-recording", contestant=name, tokens=int(n)) for n in lengths]
    offline = {row["offline"] for of in found for row in of if "offline" in row}
    answer = "-" if not offline else "yes" if offline == {True} else "no"
    return [RECORDERS[name], *(recorder_cell(of[0]) if of else "-" for of in found), answer]


def recorder_cell(row: Row) -> str:
    """Return seconds, memory and size of the page."""
    if "seconds" not in row:
        return "-"
    parts = [f"{number(middle(row['seconds']))} s", f"{number(row['mib'])} MiB"]
    return ", ".join([*parts, *([f"{number(row['page'])} MB"] if "page" in row else [])])


def recording_cost() -> list[str]:
    """The sentence on what recording costs."""
    found = rows("torch-recording-cost", contestant="cost")
    shares = ", ".join(f"{100 * row['overhead']:.0f} % for {row['tokens']:,}" for row in found)
    longest, alone = (rows("torch-recording", contestant=name)[-1] for name in ("record", "nothing"))
    return wrap(
        f"Beyond the copies of queries and keys recording takes, of a forward pass, {shares} tokens. The block for "
        f"{longest['tokens']:,} tokens needs {number(longest['mib'])} MiB beside the model, the pass alone "
        f"{number(alone['mib'])} (`{document('torch-recording-cost')['command']}`)."
    )


# --- encoder-decoders


def translation() -> list[str]:
    """The sentence of the README on BLEU, with and without attention."""
    scores = {kind: [row["BLEU"] for row in rows("translate", attention=kind)] for kind in (True, False)}
    sentences = first("translate")["sentences"]
    seeds = len(scores[True])
    return wrap(
        f"On {sentences:,} held-out sentences of at most 12 tokens, a model with attention reaches BLEU "
        f"{extent(scores[True], '{:.1f}'.format)}, one without {extent(scores[False], '{:.1f}'.format)} "
        f"(the same pairs and epochs, {seeds} seed{'s' * (seeds > 1)}, `python benchmarks/translate.py`); "
        "the longer the sentence, the larger the difference:"
    )


def length() -> list[str]:
    """The picture of BLEU by length, with its text."""
    found = rows("length")
    with_attention = extent([row["attention"] for row in found], "{:.0f}".format)
    peak = max(found, key=lambda row: float(row["without"]))
    text = (
        f"BLEU against the number of tokens in the source: with attention {with_attention} at every length; without, "
        f"{peak['without']:.0f} at {peak['tokens']} tokens and {found[-1]['without']:.0f} at {found[-1]['tokens']}."
    )
    return [f"![{text}](docs/images/length.png)"]


def sentences() -> list[str]:
    """BLEU after some minutes of training, for single models and ensembles."""
    found = rows("help") + rows("help-ensemble")
    keys = unique(f"{row['minutes']} {row['models']}" for row in found)
    lines = []
    for minutes, models in sorted(tuple(map(int, key.split())) for key in keys):
        of = [row for row in found if (row["minutes"], row["models"]) == (minutes, models)]
        cells = [
            scores(of, language, measure) for language in ("fr", "de") for measure in ("BLEU 12", "BLEU 15")
        ]
        name = f"{minutes} minute{'s' * (minutes > 1)}"
        lines.append([name if models == 1 else f"ensemble of {models}, {name} each", *cells])
    heads = [f"English to {language}, ≤ {n} tokens" for language in ("French", "German") for n in (12, 15)]
    return [*table(["BLEU", *heads], lines), "", source("help", "help-ensemble")]


def complexity() -> list[str]:
    """BLEU with and without attention by what makes sentences of one length difficult."""
    lines = [
        [
            f"{row['group']} {row['measure']}"
            if row["measure"] == "rare words"
            else f"reordered: {row['group']}",
            f"{row['sentences']}",
            *(f"{row[key]:.1f}" for key in ("tokens", "attention", "without")),
            f"{row['attention'] / row['without']:.1f}",
        ]
        for row in rows("complexity")
    ]
    return [
        *table(["", "sentences", "mean tokens", "with attention", "without", "times"], lines),
        "",
        source("complexity"),
    ]


def scores(found: Iterable[Row], language: str, measure: str) -> str:
    """Return the range of a measure."""
    values = [row[measure] for row in found if row["language"] == language and measure in row]
    return extent(values, "{:.1f}".format) if values else "-"


def phonemes() -> list[str]:
    """Error rates of letters to phonemes."""
    files = ("pronunciation-zen3", "pronunciation-memory", "pronunciation-no-extras")
    lines = []
    for name in files:
        for row in (row for row in rows(name) if "WER" in row):
            published = row["note"].startswith("published")
            about = f"published: {row['what']}" if published else f"{row['what']}, {row['note']}"
            call = f" `{options(name)}`" if row["what"].startswith("regard") and options(name) else ""
            lines.append([about + call, f"{row['PER']:g}", f"{row['WER']:g}"])
    return [*table(["", "phonemes wrong, %", "words wrong, %"], lines), "", *sources(*files)]


STRESS = re.compile(r", (with stress|without stress|stress dropped)")


def shipped() -> list[str]:
    """Error rates of models that ship, on CMUdict with stress, and how well calibrated their probabilities are."""
    files = ("lexicons", "lexicons-extras-6", "lexicons-extras-20")
    heads = ["phonemes wrong, %", "words wrong, %", "without stress, %", "calibration error, %"]
    lines = [line for name in files for line in models_of(name)]
    return [*table(["", *heads, "kept with 98 % right, %"], lines), "", *sources(*files)]


def models_of(name: str) -> Iterator[list[str]]:
    """Yield a line for each model of a file, which has a row with stress and perhaps one without."""
    found = [row for row in rows(name) if "WER" in row]
    for what in unique(STRESS.sub("", row["what"]) for row in found):
        kept, *dropped = (row for row in found if STRESS.sub("", row["what"]) == what)
        ours = what.startswith("regard")
        calibration = first(name, what="probabilities") if ours else {}
        about = ", ".join(filter(None, (what, kept["note"]))) + f" `{options(name)}`" * ours
        measures = [(kept, "PER"), (kept, "WER"), ((dropped or [{}])[0], "WER")]
        measures += [(calibration, "error"), (calibration, "kept")]
        yield [about, *(f"{row[rate]:g}" if rate in row else "-" for row, rate in measures)]


def exported() -> list[str]:
    """Speed and memory of exported files."""
    lines = [[row["what"], figure(row["figure"])] for row in rows("export")]
    return [*table(["exported files, one thread", ""], lines), "", source("export")]


LANGUAGES = {
    "ca": "Catalan",
    "cs": "Czech",
    "nl": "Dutch",
    "fr": "French",
    "de": "German",
    "it": "Italian",
    "pt": "Portuguese",
    "ru": "Russian",
    "es": "Spanish",
    "sv": "Swedish",
}


def languages() -> list[str]:
    """Error rates of ten languages beside those of Phonetisaurus."""
    lines = []
    for file, kind in (("gruut", ""), ("gruut-german", ", all words")):
        for code in unique(row["what"].split(",")[0] for row in rows(file)):
            peer, ours = (first(file, what=f"{code}, {who}") for who in ("Phonetisaurus", "regard"))
            trained, tested = re.findall(r"[\d,]+(?= \w+ words)", ours["note"])
            rates = [f"{row[rate]:.2f}" for rate in ("PER", "WER") for row in (peer, ours)]
            lines.append([LANGUAGES[code] + kind, trained, tested, *rates])
    heads = [
        f"{part} wrong, %: {who}" for part in ("phonemes", "words") for who in ("Phonetisaurus", "regard")
    ]
    return [*table(["", "training words", "test words", *heads], lines), "", source("gruut", "gruut-german")]


def alignments() -> list[str]:
    """Alignment error rates on the Greek New Testament, of regard and of peers."""
    kinds = {
        "eflomal": "eflomal",
        "fast_align": "fast_align",
        "attention: both": "regard",
        "attention: again": "regard again",
    }
    lines = []
    for file, note in (("alignment", ""), ("alignment-ensemble", ", three models a direction")):
        for row in rows(file, verses="on all verses"):
            if (name := kinds.get(row["links"])) and (not note or "regard" in name):
                figures = (f"{row[key]:.3f}" for key in ("error", "precision", "recall"))
                lines.append([name + note, *figures])
    return [
        *table(["", "error rate", "precision", "recall"], lines),
        "",
        source("alignment", "alignment-ensemble"),
    ]


def faithfulness() -> list[str]:
    """How often the most important input is the most needed one, how ranks agree, and what tokens lose."""
    columns = [("top", kind) for kind in ("weights", "posterior", "contribution", "random")]
    columns += [("correlation", kind) for kind in ("weights", "posterior")]
    columns += [("comprehensiveness", kind) for kind in ("weights", "erasure", "random")]
    lines = []
    for row in rows("faithfulness", kind="weights"):
        model = {key: row[key] for key in ("task", "network", "guided")}
        of_kind = {found["kind"]: found for found in rows("faithfulness", **model)}
        if row["task"] == "planted":
            continue
        name = f"{row['task']}, {row['network']}{', guided' * row['guided']}"
        right = f"{100 * middle(row['right']):.0f}"
        cells = (interval(of_kind[kind][field], field) if kind in of_kind else "-" for field, kind in columns)
        lines.append([name, str(row["seeds"]), right, *cells])
    heads = [f"{'ranks' if field == 'correlation' else 'lost'}: {kind}" for field, kind in columns[4:]]
    return [
        *table(["", "models", "right, %", *(f"{kind}, %" for _, kind in columns[:4]), *heads], lines),
        "",
        source("faithfulness"),
    ]


def normalizations() -> list[str]:
    """What other normalisations than the softmax reach at equal steps."""
    tasks = unique(row["task"] for row in rows("normalizations"))
    lines = []
    for name in unique(row["normalize"] for row in rows("normalizations")):
        cells = [name]
        for task in tasks:
            found = rows("normalizations", task=task, normalize=name)
            cells += normalized(found[0]) if found else ["-"] * 4
        lines.append(cells)
    heads = [f"{task}: {what}" for task in tasks for what in ("quality", "zeros, %", "top, %", "steps/s")]
    return [*table(["", *heads], lines), "", source("normalizations")]


def normalized(row: Row) -> list[str]:
    """Return the cells of a normalisation of a task."""
    quality = f"BLEU {row['bleu']:.1f}" if "bleu" in row else ""
    quality += "".join(f"{row[key]:.0f} % {key}" for key in ("errors", "wrong") if key in row)
    shares = (f"{100 * row[key]:.0f}" for key in ("zeros", "top"))
    return [quality, *shares, f"{row['steps_per_second']:.1f}"]


def interval(figures: Sequence[float], field: str) -> str:
    """Return a mean with its interval; a share in percent."""
    low, value, high = (100 * x for x in figures) if field == "top" else figures
    return "{1:.{0}f} ({2:.{0}f} to {3:.{0}f})".format(0 if field == "top" else 2, value, low, high)


def planted() -> list[str]:
    """How often each kind of importance names the letter that is known to matter."""
    found = [row for row in rows("faithfulness", task="planted") if "planted" in row]
    kinds = unique(row["kind"] for row in found)
    lines = [
        [
            name,
            *(
                interval(row["planted"], "top")
                for kind in kinds
                for row in found
                if (row["network"], row["kind"]) == (name, kind)
            ),
        ]
        for name in unique(row["network"] for row in found)
    ]
    return table(["names the letter that matters, %", *kinds], lines)


SIZES = ((500, 500), (3000, 3000), (20_000, 6000), (1_000_000, 30_000))


def model_sizes() -> list[str]:
    """Return the sizes of model files with default sizes, computed from the shapes of their parameters."""
    lines = []
    for pairs, tokens in SIZES:
        cells = (f"{megabytes(family, pairs, tokens):.1f}" for family in ("recurrent", "transformer"))
        lines.append([f"{pairs:,}", f"{tokens:,}", *cells])
    return table(["pairs", "tokens of each vocabulary", "recurrent, MB", "transformer, MB"], lines)


def megabytes(family: str, pairs: int, tokens: int) -> float:
    """Return four bytes for each parameter."""
    shapes = choose_config(family, pairs, Spec(tokens=tokens), tokens, {}).shapes()
    return 4e-6 * sum(map(math.prod, shapes.values()))


def networks() -> list[str]:
    """Speed and memory of translating and training beside PyTorch."""
    files = ("translating-xeon", "training-xeon", "translating-zen3", "training-zen3")
    lines = []
    for file in files:
        for case in unique(row["case"] for row in rows(file)):
            ours, other = (first(file, case=case, contestant=name) for name in ("regard", "PyTorch"))
            best = middle(ours["rate"]) >= middle(other["rate"])
            cells = [c for row, b in ((ours, best), (other, not best)) for c in rated(row, b)]
            lines.append([f"{case}, {document(file)['processor']}", *cells])
    heads = ["a second", "regard", "% of the limit", "MiB", "PyTorch", "% of the limit", "MiB"]
    return [*table(heads, lines), "", *sources(*files)]


def rated(row: Row, best: bool) -> list[str]:
    """Return rate, share of the limit and peak memory."""
    return [bold(figure(row["rate"]), best), *(figure(row.get(key)) for key in ("share", "memory"))]


# --- estimators

ESTIMATORS = (
    "attention",
    "KNeighbors",
    "SVR / SVC",
    "boosted trees",
    "Gaussian process",
    "KernelReg",
    "NadarayaWatson",
)


def estimators() -> list[str]:
    """Quality of each estimator on each table; mean and standard deviation over folds."""
    lines = []
    for row in rows("estimators"):
        if "table" in row:
            top = max(row[name][0] for name in ESTIMATORS if name in row)
            cells = [quality(row.get(name), top) for name in ESTIMATORS]
            lines.append([row["table"].replace("*", "\\*"), *cells])
        else:
            cells = [", ".join(f"{x:.2g}" for x in row.get(name, ())) or "-" for name in ESTIMATORS]
            lines.append([f"seconds to {row['seconds']}: median, most", *cells])
    return [*table(["", *ESTIMATORS], lines), "", source("estimators")]


def quality(figures: Sequence[float] | None, top: float) -> str:
    """Return mean ± deviation, and the log loss."""
    if figures is None:
        return "-"
    mean, deviation, *loss = figures
    return bold(f"{mean:.1f} ± {deviation:.1f}", mean == top) + "".join(f", {x:.2f}" for x in loss)


def estimator_ranks() -> list[str]:
    """On how many tables attention is the best and the worst, and how far it is from the best."""
    found = {
        row["table"].split(",")[0].strip("*"): {name: row[name][0] for name in ESTIMATORS if name in row}
        for row in rows("estimators")
        if "table" in row
    }
    best, worst = (
        [name for name, means in found.items() if means["attention"] == extreme(means.values())]
        for extreme in (max, min)
    )
    behind = [max(means.values()) - means["attention"] for means in found.values()]
    better = [means["attention"] > means["KNeighbors"] for means in found.values()]
    return wrap(
        f"By the mean over the folds (ties count), attention with its defaults is the best of up to {len(ESTIMATORS)} "
        f"estimators on {len(best)} of {len(found)} tables ({', '.join(best)}) "
        f"and the worst on {len(worst)} ({', '.join(worst)}). It is within one percentage point of the best on "
        f"{share_of([gap <= 1 for gap in behind])} (median gap {statistics.median(behind):.1f}, largest "
        f"{max(behind):.1f}), and better than KNeighbors on {share_of(better)}."
    )


# --- pages

BLOCKS: dict[str, Callable[[], list[str]]] = {
    make.__name__: make
    for make in (
        *(
            speed,
            installed,
            translation,
            length,
            sentences,
            complexity,
            phonemes,
            shipped,
            exported,
            languages,
        ),
        *(
            alignments,
            faithfulness,
            normalizations,
            planted,
            model_sizes,
            kernel_summary,
            kernel_rows,
            kernel_decoding,
            kernel_calls,
            memory,
        ),
        *(accuracy, sizes_of_packages, networks, estimators, estimator_ranks),
        *(torch_models, own_model, softcap_memory, recording, recording_cost),
    )
}


def filled(page: str) -> str:
    """Return a page with its figures."""
    return BLOCK.sub(lambda block: block[1] + "\n".join(BLOCKS[block[2]]()) + "\n" + block[4], page)


def main() -> None:
    """Write all pages."""
    for name in PAGES:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
