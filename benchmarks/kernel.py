"""Compare regard's kernel with PyTorch, onnxruntime, JAX and plain NumPy, and with the limits of the machine.

    python benchmarks/kernel.py [--quick] [--only dense causal ...] [--threads 1 2] [--rounds 7] [--json FILE]

All contestants of a case take turns in one process. The limit of the machine (a loop of fused multiply-adds, or reading
the same keys and values) is measured before and after each turn of regard. The tables show medians over the rounds,
with minimum and maximum; shares and ratios are medians of those within a round. The header lists libraries that are not
installed. Rows in which regard is slower than its best peer are marked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import footprint
import numpy as np
from peers import LIBRARIES, Case, Data, Definition, Plain, PlainSciPy, QuantizedCache, Turn
from probe import Probe, compile_into
from record import add_option, keep, processor, save, spread
from threadpoolctl import threadpool_limits

from regard.kernels.library import instruction_sets, missing
from regard.kernels.matrix import multiply

GB = 1e9
SQUARE = 2048  # rows and columns of a matrix that is larger than the caches near a core
REFERENCE = "dense"  # the name under which the reference of a case is timed
TURN = 0.02  # seconds, the shortest turn
REST = 0.05  # seconds before a turn of several threads, since shared machines slow down a busy process
TOLERANCE = {"float64": 1e-10, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}  # between two results
# Environment variables that would slow NumPy down.
TUNING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
AS_INTEL = "set to use vectors of full width, as on Intel's processors (--as-installed leaves it as it is)"
AS_INSTALLED = "leave PyTorch's matrix library as it is: on AMD it uses vectors of half the width"


@dataclass(frozen=True)
class Section:
    """The cases of a table. `unit` is GFLOP/s, GB/s, ms or us."""

    title: str
    cases: Sequence[Case]
    unit: str = "GFLOP/s"
    references: Sequence[Case] = ()  # each case is compared with one, for regard only
    per_operation: bool = True  # compare the time of a useful operation, not that of a call
    libraries: Sequence[Any] = LIBRARIES
    one_thread: bool = False


@dataclass(frozen=True)
class Machine:
    """The number of threads of every contestant, and the measurement of the machine's limits."""

    threads: int
    probe: Probe | None


@dataclass
class Row:
    """The seconds of a call by contestant and round, and the limit: FLOPs or bytes a second, by round."""

    case: Case
    seconds: dict[str, list[float]]
    limit: list[float] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)


# --- the cases


def square(n: int, d: int, **options: Any) -> Case:
    """Return a case with n = m."""
    extra = "".join(f", {text}" for text in options.pop("text", ()))
    return Case(f"n = m = {n}, d = {d}{extra}", n=n, m=n, d=d, **options)


def dense(quick: bool) -> Section:
    """Return dense attention."""
    sizes = (512, 2048) if quick else (512, 2048, 4096)
    return Section("Dense, 8 heads, float32", [square(n, d) for d in (64, 128) for n in sizes])


def causal(quick: bool) -> Section:
    """Return causal attention, complete and with a window."""
    sizes = (2048,) if quick else (2048, 4096)
    cases = [square(n, d, mask="causal", text=("causal",)) for d in (64, 128)[: 2 - quick] for n in sizes]
    cases += [square(sizes[-1], 64, mask="window", text=("window of 256",))]
    return Section("Causal, 8 heads, float32", cases)


def window(quick: bool) -> Section:
    """Return a window in a long sequence, compared with dense attention."""
    n = 8192 if quick else 16384
    case = square(n, 64, lead=(1, 1), mask="window", text=("causal, window of 256",))
    reference = square(n, 64, lead=(1, 1))
    only_regard = LIBRARIES[:1]
    return Section(
        "A window compared with dense, 1 head, float32", [case], "ms", [reference], False, only_regard
    )


def masks(quick: bool) -> Section:
    """Return masks, compared with dense attention of the same useful work."""
    n, batch = (1000, 4) if quick else (4000, 4)
    cases = [
        square(n, 64, mask="random", text=("bool array",)),
        Case(f"{batch} sequences of {n}, key lengths", n, n, 64, lead=(batch, 2), mask="lengths"),
        square(n, 64, mask="documents", text=("4 documents",)),
    ]
    mean = round(float(cases[1].key_lengths.mean()))
    references = [
        replace(cases[0], mask=""),
        replace(cases[1], mask="", m=mean),
        replace(cases[2], mask="", n=n // 4, m=n // 4, lead=(4, 8)),
    ]
    return Section(
        "Masks compared with dense attention of the same useful work, float32", cases, references=references
    )


def types(quick: bool) -> Section:
    """Return the other data types."""
    n = 2048 if quick else 4096
    cases = [square(n, 64, dtype=dtype, text=(dtype,)) for dtype in ("bfloat16", "float16", "float64")]
    return Section("Data types, dense, 8 heads", cases)


def backward(quick: bool) -> Section:
    """Return the forward and the backward pass together."""
    n = 1024 if quick else 2048
    variants: dict[str, dict[str, Any]] = {
        "dense": {},
        "causal": {"mask": "causal"},
        "bias gradient": {"bias": True},
        "causal, bias gradient": {"mask": "causal", "bias": True},
    }
    cases = [square(n, 64, backward=True, text=(text,), **options) for text, options in variants.items()]
    return Section("Forward and backward (14 n m d a head), 8 heads, float32", cases)


def decode(quick: bool) -> Section:
    """Return one query and many keys."""
    m = 2048 if quick else 4096
    cases = [
        Case(f"{heads} key heads, {dtype}", 1, m, 128, lead=(1, 32), key_heads=heads % 32, dtype=dtype)
        for heads in (32, 8)
        for dtype in ("float32", "bfloat16", "float16")
    ]
    return Section(f"Decoding: one query, 32 heads, m = {m}, d = 128; reading K and V", cases, "GB/s")


def additive(quick: bool) -> Section:
    """Return Bahdanau's additive score."""
    n = 256 if quick else 512
    cases = [
        Case(text, n, n, 128, lead=(), score="additive", backward=text != "forward")
        for text in ("forward", "forward and backward")
    ]
    return Section(f"Additive score (Bahdanau), n = m = {n}, hidden 128, float32", cases, "ms")


def small(quick: bool) -> Section:
    """Return the smallest case, as in a first notebook."""
    case = Case("4 words of 3 numbers, float64", 4, 4, 3, lead=(), dtype="float64")
    libraries = (LIBRARIES[0], Definition, *LIBRARIES[1:], PlainSciPy)
    return Section("The smallest case", [case], "us", libraries=libraries, one_thread=True)


def sizes(quick: bool) -> Section:
    """Return few queries and keys, also with a mask and with gradients."""
    counts = (1, 8, 64) if quick else (1, 2, 4, 8, 16, 32, 64, 128)
    cases = [square(n, 64) for n in counts]
    cases += [
        square(16, 64, mask="causal", text=("causal",)),
        square(16, 64, backward=True, text=("gradients",)),
    ]
    return Section("Few queries and keys, 8 heads, float32", cases, "us")


def odd(quick: bool) -> Section:
    """Return sizes that are not round, compared with the next round ones."""
    cases = [square(n, 64) for n in (511, 513, 1000, 1023)]
    cases += [
        Case(f"n = {n}, m = {m}, d = 64", n, m, 64) for n, m in ((1023, 1024), (1024, 1023), (1001, 777))
    ]
    cases += [square(1024, d) for d in (33, 63, 65, 100, 127)]
    cases += [
        Case(f"n = m = 1024, d = {d}, e = {e}", 1024, 1024, d, e) for d, e in ((64, 65), (65, 64), (99, 33))
    ]
    cases = cases[::3] if quick else cases
    return Section(
        "Odd sizes compared with the next round ones, 8 heads, float32",
        cases,
        references=[*map(rounded, cases)],
        one_thread=True,
    )


def rounded(case: Case) -> Case:
    """Return the next case whose n and m are multiples of 64, and d and e of 16."""
    n, m = (-(-x // 64) * 64 for x in (case.n, case.m))
    d, e = (-(-x // 16) * 16 for x in (case.d, case.e))
    return replace(case, n=n, m=m, d=d, e=e)


SECTIONS: dict[str, Callable[[bool], Section]] = {
    make.__name__: make
    for make in (dense, causal, window, masks, types, backward, decode, additive, small, sizes, odd)
}


# --- the measurement


def settle(threads: int) -> None:
    """Wait until the threads of the last contestant have stopped polling for work, and the processors have rested."""
    time.sleep(REST if threads > 1 else 0)
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        busy = time.process_time()
        time.sleep(0.002)
        if time.process_time() - busy < 0.0005:
            return


def timed(call: Callable[[], Any], threads: int) -> float:
    """Return the seconds of a call, the mean over a turn."""
    settle(threads)
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    if seconds > 5 * TURN:
        return seconds
    count = max(1, round(TURN / seconds))
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def run(case: Case, reference: Case | None, section: Section, rounds: int, machine: Machine) -> Row:
    """Time all contestants in turns; the first of a round is the last of the next."""
    data = Data(case)
    turns = contestants(case, data, section, machine.threads)
    row = Row(case, {name: [] for name in turns}, wrong=disagreeing(case, turns))
    if reference is not None:
        turns[REFERENCE] = contestants(reference, Data(reference), section, machine.threads)["regard"]
        turns[REFERENCE].call()
        row.seconds[REFERENCE] = []
    names = list(turns)
    for _ in range(rounds):
        for name in names:
            before = limit(case, section, data, machine) if name == "regard" else None
            row.seconds[name].append(timed(turns[name].call, machine.threads))
            after = limit(case, section, data, machine) if name == "regard" else None
            row.limit += [(before + after) / 2] if before and after else []
        names.append(names.pop(0))
    return row


def contestants(case: Case, data: Data, section: Section, threads: int) -> dict[str, Turn]:
    """Return the turns of the libraries that are installed and have the operation."""
    libraries = [library(threads) for library in section.libraries]
    turns = {library.name: library.turn(case, data) for library in libraries if library.version}
    return {name: turn for name, turn in turns.items() if turn is not None}


def limit(case: Case, section: Section, data: Data, machine: Machine) -> float | None:
    """Return the machine's limit at this moment; None without a probe, or in a table of times."""
    probe = machine.probe
    if probe is None or section.unit not in ("GFLOP/s", "GB/s"):
        return None
    settle(machine.threads)
    if section.unit == "GB/s":
        return max(probe.read(*data.inputs[1:]) for _ in range(3))
    return probe.flops(case.dtype)


def disagreeing(case: Case, turns: dict[str, Turn]) -> dict[str, str]:
    """Call each contestant once; report those that differ from NumPy, or from regard where NumPy has no turn."""
    results = {name: np.asarray(turn.read(turn.call()), np.float64) for name, turn in turns.items()}
    reference = results.get(Plain.name, results["regard"])
    largest = np.abs(reference).max()
    allowed = dict.fromkeys(results, TOLERANCE[case.dtype]) | {QuantizedCache.name: QuantizedCache.tolerance}
    differences = {
        name: np.abs(x.reshape(reference.shape) - reference).max() / largest for name, x in results.items()
    }
    return {
        name: f"differs by {x:.1g} of the largest number ({allowed[name]:g} is allowed)"
        for name, x in differences.items()
        if not x <= allowed[name]
    }


# --- the tables


def work(case: Case, unit: str) -> float:
    """Return the GFLOPs or GB of a call; for a unit of time, how many of it a second has."""
    if unit == "GFLOP/s":
        return case.flops / GB
    if unit == "GB/s":
        size = {"float64": 8, "float32": 4}.get(case.dtype, 2)
        return int(np.prod(case.key_lead)) * case.m * (case.d + case.values) * size / GB
    return {"ms": 1e3, "us": 1e6}[unit]


def in_unit(row: Row, name: str, unit: str) -> list[float]:
    """Return the rounds of a contestant in the unit."""
    scale = work(row.case, unit)
    return [scale / s if "/s" in unit else scale * s for s in row.seconds.get(name, [])]


def cell(values: Sequence[float], wrong: bool = False) -> str:
    """Return median (minimum-maximum)."""
    if not values:
        return "-"
    low, middle, high = (number(f(values)) for f in (min, statistics.median, max))
    return f"{middle} ({low}-{high})" + "*" * wrong


def number(x: float) -> str:
    """Return three digits, or the nearest integer of a large number."""
    return f"{x:.0f}" if x >= 99.5 else f"{x:.3g}"


def quotient(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the median of the ratios within a round."""
    return statistics.median(x / y for x, y in zip(over, under, strict=True))


def best_peer(row: Row, section: Section) -> str | None:
    """Return the fastest peer whose result is right."""
    peers = [library.name for library in section.libraries if library.is_peer]
    eligible = [name for name in peers if name in row.seconds and name not in row.wrong]
    return min(eligible, key=lambda name: statistics.median(row.seconds[name]), default=None)


def verdict(row: Row, section: Section) -> str:
    """Return the speed relative to the best peer."""
    best = best_peer(row, section)
    if best is None:
        return ""
    ratio = quotient(row.seconds[best], row.seconds["regard"])
    return f"{ratio:.2f} x {best}" + ("  regard LOSES" if ratio < 1 else "")


def relative_cost(row: Row, reference: Case, section: Section) -> float:
    """Return the time relative to that of the reference."""
    scale = reference.flops / row.case.flops if section.per_operation else 1
    return scale * quotient(row.seconds["regard"], row.seconds[REFERENCE])


def cost_cell(row: Row, reference: Case, section: Section) -> str:
    """Return a relative time as it is printed."""
    cost = relative_cost(row, reference, section)
    return f"{cost:.2f} x" if section.per_operation else f"{100 * cost:.1f} %"


def table(section: Section, rows: Sequence[Row], threads: int) -> None:
    """Print a table."""
    names = [
        library.name for library in section.libraries if any(library.name in row.seconds for row in rows)
    ]
    limited = any(row.limit for row in rows)
    heads = ["", *(["limit"] if limited else []), "regard", *(["% of it"] if limited else [])]
    heads += [name for name in names if name != "regard"]
    heads += ["time / reference" if section.per_operation else "time / dense"] if section.references else []
    lines = [[*heads, "speed / best peer's"]]
    for i, row in enumerate(rows):
        cost = [cost_cell(row, section.references[i], section)] if section.references else []
        lines.append([*line(row, section, names, limited), *cost, verdict(row, section)])
    print(f"\n{section.title}: {section.unit}, {threads} thread{'s' * (threads > 1)}")
    aligned(lines)
    for row in rows:
        for name, difference in row.wrong.items():
            print(f"  * {name}, {row.case.label}: {difference}; it does not count as a peer here")


def line(row: Row, section: Section, names: Sequence[str], limited: bool) -> list[str]:
    """Return the cells of a case."""
    cells = [row.case.label]
    own = in_unit(row, "regard", section.unit)
    scaled = [x / GB for x in row.limit]
    if limited:
        cells.append(cell(scaled))
    cells.append(cell(own, "regard" in row.wrong))
    if limited:
        cells.append(f"{100 * quotient(own, scaled):.0f} %" if scaled else "-")
    return cells + [
        cell(in_unit(row, name, section.unit), name in row.wrong) for name in names if name != "regard"
    ]


def aligned(lines: Sequence[Sequence[str]]) -> None:
    """Print columns, the first and the last left-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        middle = [text.rjust(width) for text, width in zip(cells[1:-1], widths[1:-1], strict=True)]
        print("  ".join(["  " + cells[0].ljust(widths[0]), *middle, cells[-1]]).rstrip(), flush=True)


# --- a process for each table


def run_section(args: argparse.Namespace) -> None:
    """Measure a section with one number of threads, print its table and append its numbers to a file."""
    [name], [threads] = args.only, args.threads
    section = SECTIONS[name](args.quick)
    machine = Machine(threads, Probe(Path(args.probe), threads) if args.probe else None)
    rows = []
    for i, case in enumerate(section.cases):
        reference = section.references[i] if section.references else None
        rows.append(run(case, reference, section, args.rounds, machine))
    table(section, rows, threads)
    with Path(args.json).open("a") as file:
        for row, reference in zip_longest(rows, section.references):
            record = {"section": name, "case": row.case.label, "threads": threads, "unit": section.unit}
            cost = {"cost": relative_cost(row, reference, section)} if reference else {}
            file.write(json.dumps(record | figures(row, section) | cost) + "\n")


def figures(row: Row, section: Section) -> dict[str, Any]:
    """Return the figures of all contestants that are right, how many times as fast as each regard is, and the limit."""
    rounds = {name: in_unit(row, name, section.unit) for name in row.seconds if name not in row.wrong}
    limit = [x / GB for x in row.limit]
    limits = {"limit": spread(limit), "share": 100 * quotient(rounds["regard"], limit)} if limit else {}
    others = [name for name in rounds if name not in ("regard", REFERENCE)]
    gains = {name: quotient(row.seconds[name], row.seconds["regard"]) for name in others}
    return limits | {name: spread(values) for name, values in rounds.items()} | {"gains": gains}


def environment(threads: int, probe: Path | None, as_installed: bool) -> dict[str, str]:
    """Return the environment of a process with so many threads."""
    inherited = {name: value for name, value in os.environ.items() if name not in TUNING}
    counts = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    preload = {"LD_PRELOAD": str(probe)} if probe and not as_installed else {}  # see probe.cpp
    return inherited | counts | preload | {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}


def binder(threads: int) -> Callable[[], None] | None:
    """Return a function that binds its process to so many processors, if the system can: JAX has no option for it."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def start(name: str, threads: int, args: argparse.Namespace, probe: Path | None, results: Path) -> None:
    """Run a section in a process of its own."""
    command = [sys.executable, __file__, "--worker", "--only", name, "--threads", str(threads)]
    command += ["--rounds", str(args.rounds), "--json", str(results)] + ["--quick"] * args.quick
    command += ["--probe", str(probe)] if probe else []
    variables = environment(threads, probe, args.as_installed)
    if subprocess.run(command, env=variables, preexec_fn=binder(threads), check=False).returncode:
        print(f"\n{name}, {threads} threads: FAILED", flush=True)


def header(probe: Path | None, threads: Sequence[int], as_installed: bool) -> None:
    """Print the machine, the versions, and the missing libraries."""
    print(
        f"{processor()}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"
    )
    print(f"load before the start: {os.getloadavg()[0]:.1f}")
    versions = {library.name: library(1).version for library in LIBRARIES}
    print(", ".join(f"{name} {version}" for name, version in versions.items() if version))
    for name in (name for name, version in versions.items() if not version):
        print(f"{name} is not installed: left out")
    print("-: the library has no such operation; (minimum-maximum) over all rounds")
    print(
        "onnxruntime: MultiHeadAttention, for decoding GroupQueryAttention; masks but the causal one are arrays; "
        "int8 cache: its GroupQueryAttention, another result"
    )
    print(f"regard's kernel: {', '.join(instruction_sets()[:1]) or missing()}")
    for name in TUNING:
        if name in os.environ:
            print(f"{name}={os.environ[name]} is removed from the environment: it would slow NumPy down")
    if versions["PyTorch"] and "Intel" not in processor():
        print(f"PyTorch's matrix library: {'as installed' if as_installed or not probe else AS_INTEL}")
    if probe is None:
        print("no C++ compiler: the machine's limits are not measured")
        return
    for count in threads:
        limits(Probe(probe, count), count)


def limits(probe: Probe, threads: int) -> None:
    """Print the limits of the machine before the start."""
    data = np.ones(1 << 25, np.float32)
    peaks = (
        f"{dtype} {max(probe.flops(dtype) for _ in range(5)) / GB:.0f}"
        for dtype in ("float32", "float64", "bfloat16")
    )
    read = max(probe.read(data) for _ in range(9)) / GB
    print(
        f"limits with {threads} thread{'s' * (threads > 1)}: {', '.join(peaks)} GFLOP/s; reading {read:.0f} GB/s"
    )
    with threadpool_limits(threads, user_api="blas"):
        numpy = product(np.matmul)
    ours = f"; regard's for training: {product(multiply) / GB:.0f}" if threads == 1 else ""
    size = f"{SQUARE} x {SQUARE}"
    print(f"NumPy's product of two matrices of {size}, float32: {numpy / GB:.0f} GFLOP/s{ours}")


def product(multiply: Callable[[Any, Any], Any]) -> float:
    """Return the FLOP/s of a product of two matrices that are larger than the caches near a core."""
    a, b = np.random.default_rng(0).random((2, SQUARE, SQUARE), np.float32)
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        multiply(a, b)
        seconds.append(time.perf_counter() - start)
    return 2 * SQUARE**3 / min(seconds)


def print_memory() -> None:
    """Print a table of extra memory."""
    if not Path("/proc/self/clear_refs").exists():
        print("\nExtra memory: measured on Linux only")
        return
    installed = [library.name for library in LIBRARIES if library(1).version]
    print(
        f"\nExtra memory at n = m = {footprint.N}, d = 64, 1 head, float32: MiB (the scores alone are 256 MiB)"
    )
    rows = footprint.memory(installed)
    for label, cells in rows:
        measured = {name: float(text) for name, text in cells.items() if text.replace(".", "").isdigit()}
        keep(section="memory", case=label, unit="MiB", **measured)
    names = [library.name for library in LIBRARIES]
    aligned([["", *names, ""], *([label, *(cells[name] for name in names), ""] for label, cells in rows)])


def print_cost() -> None:
    """Print a table of installed sizes and import times."""
    print("\nInstalled size and import")
    lines = [["", "MB", "with dependencies", "import after NumPy, ms", ""]]
    for library in LIBRARIES:
        if library(1).version and library.name in footprint.PACKAGES:
            own, total = footprint.installed_size(library.name)
            keep(section="size", case=library.name, unit="MB", alone=own, total=total)
            times = [1e3 * s for s in footprint.import_times(library.name)]
            lines.append([library.name, number(own), number(total), cell(times), ""])
    aligned(lines)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    names = [*SECTIONS, "memory", "cost"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes and 3 rounds")
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="TABLE", help=", ".join(names)
    )
    parser.add_argument("--as-installed", action="store_true", help=AS_INSTALLED)
    counts = sorted({1, os.cpu_count() or 1})
    parser.add_argument(
        "--threads", type=int, nargs="+", default=counts, metavar="N", help="default: 1 and all"
    )
    parser.add_argument("--rounds", type=int, help="turns of each contestant in a case (default 7)")
    add_option(parser)
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 7)
    return args


def main() -> None:
    """Print all tables."""
    args = arguments()
    if args.worker:
        run_section(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        probe, results = compile_into(Path(folder)), Path(folder, "results")
        results.touch()
        header(probe, args.threads, args.as_installed)
        for name in (name for name in SECTIONS if name in args.only):
            alone = SECTIONS[name](args.quick).one_thread
            for threads in args.threads[:1] if alone else args.threads:
                start(name, threads, args, probe, results)
        for line in results.read_text().splitlines():
            keep(**json.loads(line))
        if "memory" in args.only:
            print_memory()
        if "cost" in args.only:
            print_cost()
    save(args.json)


if __name__ == "__main__":
    main()
