"""Print what regard's kernel reaches beside PyTorch, onnxruntime, JAX and plain NumPy, and beside the machine's limits.

    python benchmarks/kernel.py [--quick] [--only dense causal ...] [--threads 1 2] [--rounds 7]

Every case is one process in which all contestants take turns, with the machine's own limits (a loop of fused
multiply-adds; reading the same keys and values) before and after regard's turn. Printed are medians over the rounds,
with minimum and maximum; shares and ratios are medians of what they were within a round. What is not installed is left
out, and the first lines say so. Where regard loses, the line says so.
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
from pathlib import Path
from typing import Any

import footprint
import numpy as np
from peers import LIBRARIES, Case, Data, Definition, Plain, PlainSciPy, Turn
from probe import Probe, compile_into
from threadpoolctl import threadpool_limits

from regard.kernels.library import instruction_sets, missing
from regard.kernels.matrix import multiply

GB = 1e9
SQUARE = 2048  # rows and columns of a matrix that no near cache holds
TWIN = "dense"  # the name of a contestant that is no library
TURN = 0.02  # seconds that a turn takes at least
REST = 0.05  # seconds before it, of several threads: who has used all of a shared processor gets less for a while
TOLERANCE = {"float64": 1e-10, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}  # between two contestants
# Left from the environment, these would slow NumPy down.
TUNING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
AT_HOME = "told that the processor is Intel's, or it would use half of its vectors (--as-installed)"
AS_INSTALLED = "do not tell PyTorch's matrix library that it is at home: it halves its vectors on AMD"


@dataclass(frozen=True)
class Section:
    """Cases that belong in one table. `unit` is GFLOP/s, GB/s, ms or us."""

    title: str
    cases: Sequence[Case]
    unit: str = "GFLOP/s"
    twins: Sequence[Case] = ()  # what each is compared with, by regard alone
    by_work: bool = True  # per useful operation, not in all
    libraries: Sequence[Any] = LIBRARIES
    one_thread: bool = False


@dataclass(frozen=True)
class Machine:
    """How many threads everybody may use, and what tells the machine's limits."""

    threads: int
    probe: Probe | None


@dataclass
class Row:
    """What one case gave: round by round the seconds of a call of each, and the machine's limit a second."""

    case: Case
    seconds: dict[str, list[float]]
    limit: list[float] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)


# --- what is measured


def square(n: int, d: int, **options: Any) -> Case:
    """Return a case with n = m."""
    extra = "".join(f", {text}" for text in options.pop("text", ()))
    return Case(f"n = m = {n}, d = {d}{extra}", n=n, m=n, d=d, **options)


def dense(quick: bool) -> Section:
    """Return the plain case."""
    sizes = (512, 2048) if quick else (512, 2048, 4096)
    return Section("Dense, 8 heads, float32", [square(n, d) for d in (64, 128) for n in sizes])


def causal(quick: bool) -> Section:
    """Return causal attention, all of the past and a window of it."""
    sizes = (2048,) if quick else (2048, 4096)
    cases = [square(n, d, mask="causal", text=("causal",)) for d in (64, 128)[: 2 - quick] for n in sizes]
    cases += [square(sizes[-1], 64, mask="window", text=("window of 256",))]
    return Section("Causal, 8 heads, float32", cases)


def window(quick: bool) -> Section:
    """Return a window in a long sequence, compared with the whole of it."""
    n = 8192 if quick else 16384
    case = square(n, 64, lead=(1, 1), mask="window", text=("causal, window of 256",))
    twin = square(n, 64, lead=(1, 1))
    only_regard = LIBRARIES[:1]
    return Section("A window beside dense, 1 head, float32", [case], "ms", [twin], False, only_regard)


def masks(quick: bool) -> Section:
    """Return what only some pairs are seen of, compared with dense attention of the same useful work."""
    n, batch = (1000, 4) if quick else (4000, 4)
    cases = [
        square(n, 64, mask="random", text=("bool array",)),
        Case(f"{batch} sequences of {n}, key lengths", n, n, 64, lead=(batch, 2), mask="lengths"),
        square(n, 64, mask="documents", text=("4 documents",)),
    ]
    mean = round(float(cases[1].key_lengths.mean()))
    twins = [
        replace(cases[0], mask=""),
        replace(cases[1], mask="", m=mean),
        replace(cases[2], mask="", n=n // 4, m=n // 4, lead=(4, 8)),
    ]
    return Section("Masks beside dense attention of the same useful work, float32", cases, twins=twins)


def types(quick: bool) -> Section:
    """Return the other number formats."""
    n = 2048 if quick else 4096
    cases = [square(n, 64, dtype=dtype, text=(dtype,)) for dtype in ("bfloat16", "float16", "float64")]
    return Section("Number formats, dense, 8 heads", cases)


def backward(quick: bool) -> Section:
    """Return forward and backward together."""
    n = 1024 if quick else 2048
    kinds: dict[str, dict[str, Any]] = {
        "dense": {},
        "causal": {"mask": "causal"},
        "bias gradient": {"bias": True},
        "causal, bias gradient": {"mask": "causal", "bias": True},
    }
    cases = [square(n, 64, backward=True, text=(text,), **options) for text, options in kinds.items()]
    return Section("Forward and backward (14 n m d a head), 8 heads, float32", cases)


def decode(quick: bool) -> Section:
    """Return one query against many keys."""
    m = 2048 if quick else 4096
    cases = [
        Case(f"{heads} key heads, {dtype}", 1, m, 128, lead=(1, 32), key_heads=heads % 32, dtype=dtype)
        for heads in (32, 8)
        for dtype in ("float32", "bfloat16", "float16")
    ]
    return Section(f"Decoding: one query, 32 heads, m = {m}, d = 128; K and V read", cases, "GB/s")


def additive(quick: bool) -> Section:
    """Return Bahdanau's score."""
    n = 256 if quick else 512
    both = [
        Case(text, n, n, 128, lead=(), score="additive", backward=text != "forward")
        for text in ("forward", "forward and backward")
    ]
    return Section(f"Additive score (Bahdanau), n = m = {n}, hidden 128, float32", both, "ms")


def small(quick: bool) -> Section:
    """Return the case of the first notebook anybody writes, and few queries and keys."""
    words = Case("4 words of 3 numbers, float64", 4, 4, 3, lead=(), dtype="float64")
    libraries = (LIBRARIES[0], Definition, *LIBRARIES[1:], PlainSciPy)
    return Section("The smallest case", [words], "us", libraries=libraries, one_thread=True)


def sizes(quick: bool) -> Section:
    """Return few queries and keys, with an option and with gradients, too."""
    counts = (1, 8, 64) if quick else (1, 2, 4, 8, 16, 32, 64, 128)
    cases = [square(n, 64) for n in counts]
    cases += [
        square(16, 64, mask="causal", text=("causal",)),
        square(16, 64, backward=True, text=("gradients",)),
    ]
    return Section("Few queries and keys, 8 heads, float32", cases, "us")


def odd(quick: bool) -> Section:
    """Return sizes that are not round, compared with the next round ones by useful operation."""
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
        "Odd sizes beside the next round ones, 8 heads, float32",
        cases,
        twins=[*map(rounded, cases)],
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


# --- how it is measured


def settle(threads: int) -> None:
    """Wait until the threads of whoever had the last turn have stopped looking for more, and have rested."""
    time.sleep(REST if threads > 1 else 0)
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        busy = time.process_time()
        time.sleep(0.002)
        if time.process_time() - busy < 0.0005:
            return


def timed(call: Callable[[], Any], threads: int) -> float:
    """Return the seconds a call takes, warm, over a turn."""
    settle(threads)
    start = time.perf_counter()
    call()
    took = time.perf_counter() - start
    if took > 5 * TURN:
        return took
    count = max(1, round(TURN / took))
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def run(case: Case, twin: Case | None, section: Section, rounds: int, measured: Machine) -> Row:
    """Let everybody take turns, whoever is first in one round last in the next."""
    data = Data(case)
    turns = contestants(case, data, section, measured.threads)
    row = Row(case, {name: [] for name in turns}, wrong=disagreeing(case, turns))
    if twin is not None:
        turns[TWIN] = contestants(twin, Data(twin), section, measured.threads)["regard"]
        turns[TWIN].call()
        row.seconds[TWIN] = []
    names = list(turns)
    for _ in range(rounds):
        for name in names:
            before = limit(case, section, data, measured) if name == "regard" else None
            row.seconds[name].append(timed(turns[name].call, measured.threads))
            after = limit(case, section, data, measured) if name == "regard" else None
            row.limit += [(before + after) / 2] if before and after else []
        names.append(names.pop(0))
    return row


def contestants(case: Case, data: Data, section: Section, threads: int) -> dict[str, Turn]:
    """Return who takes part: who is installed and can do this."""
    libraries = [library(threads) for library in section.libraries]
    turns = {library.name: library.turn(case, data) for library in libraries if library.version}
    return {name: turn for name, turn in turns.items() if turn is not None}


def limit(case: Case, section: Section, data: Data, measured: Machine) -> float | None:
    """Return what the machine can do at this moment, if that is known and what counts."""
    probe = measured.probe
    if probe is None or section.unit not in ("GFLOP/s", "GB/s"):
        return None
    settle(measured.threads)
    if section.unit == "GB/s":
        return max(probe.read(*data.inputs[1:]) for _ in range(3))
    return probe.flops(case.dtype)


def disagreeing(case: Case, turns: dict[str, Turn]) -> dict[str, str]:
    """Call everybody once; say who differs from NumPy, or from regard where NumPy has no turn, and by how much."""
    found = {name: np.asarray(turn.read(turn.call()), np.float64) for name, turn in turns.items()}
    reference = found.get(Plain.name, found["regard"])
    allowed, largest = TOLERANCE[case.dtype], np.abs(reference).max()
    apart = {
        name: np.abs(x.reshape(reference.shape) - reference).max() / largest for name, x in found.items()
    }
    return {
        name: f"differs by {x:.1g} of the largest number ({allowed:g} is allowed)"
        for name, x in apart.items()
        if not x <= allowed
    }


# --- how it is told


def work(case: Case, unit: str) -> float:
    """Return what a call does, in the unit's first half."""
    if unit == "GFLOP/s":
        return case.flops / GB
    if unit == "GB/s":
        size = {"float64": 8, "float32": 4}.get(case.dtype, 2)
        return int(np.prod(case.key_lead)) * case.m * (case.d + case.values) * size / GB
    return {"ms": 1e3, "us": 1e6}[unit]


def shown(row: Row, name: str, unit: str) -> list[float]:
    """Return a contestant's rounds in the unit."""
    scale = work(row.case, unit)
    return [scale / s if "/s" in unit else scale * s for s in row.seconds.get(name, [])]


def cell(values: Sequence[float], wrong: bool = False) -> str:
    """Return median (minimum-maximum)."""
    if not values:
        return "-"
    low, middle, high = (number(f(values)) for f in (min, statistics.median, max))
    return f"{middle} ({low}-{high})" + "*" * wrong


def number(x: float) -> str:
    """Return three digits, or the whole number."""
    return f"{x:.0f}" if x >= 99.5 else f"{x:.3g}"


def quotient(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the median of what it is in each round."""
    return statistics.median(x / y for x, y in zip(over, under, strict=True))


def best_peer(row: Row, section: Section) -> str | None:
    """Return who is fastest beside regard, of those that are right."""
    peers = [library.name for library in section.libraries if library.is_peer]
    able = [name for name in peers if name in row.seconds and name not in row.wrong]
    return min(able, key=lambda name: statistics.median(row.seconds[name]), default=None)


def verdict(row: Row, section: Section) -> str:
    """Return how regard stands to the best peer."""
    best = best_peer(row, section)
    if best is None:
        return ""
    ratio = quotient(row.seconds[best], row.seconds["regard"])
    return f"{ratio:.2f} x {best}" + ("  regard LOSES" if ratio < 1 else "")


def beside(row: Row, twin: Case, section: Section) -> str:
    """Return the cost beside that of the twin."""
    by = twin.flops / row.case.flops if section.by_work else 1
    ratio = by * quotient(row.seconds["regard"], row.seconds[TWIN])
    return f"{ratio:.2f} x" if section.by_work else f"{100 * ratio:.1f} %"


def table(section: Section, rows: Sequence[Row], threads: int) -> None:
    """Print one table."""
    names = [
        library.name for library in section.libraries if any(library.name in row.seconds for row in rows)
    ]
    limited = any(row.limit for row in rows)
    heads = ["", *(["limit"] if limited else []), "regard", *(["% of it"] if limited else [])]
    heads += [name for name in names if name != "regard"]
    heads += [{True: "cost beside", False: "time / dense"}[section.by_work]] if section.twins else []
    lines = [[*heads, "speed beside the best"]]
    for i, row in enumerate(rows):
        lines.append(
            line(row, section, names, limited)
            + ([beside(row, section.twins[i], section)] if section.twins else [])
        )
        lines[-1].append(verdict(row, section))
    plural = "" if threads == 1 else "s"
    print(f"\n{section.title}: {section.unit}, {threads} thread{plural}")
    aligned(lines)
    for row in rows:
        for name, difference in row.wrong.items():
            print(f"  * {name}, {row.case.label}: {difference}; it does not count as a peer here")


def line(row: Row, section: Section, names: Sequence[str], limited: bool) -> list[str]:
    """Return the cells of one case."""
    cells = [row.case.label]
    own = shown(row, "regard", section.unit)
    scaled = [x / GB for x in row.limit]
    if limited:
        cells.append(cell(scaled))
    cells.append(cell(own, "regard" in row.wrong))
    if limited:
        cells.append(f"{100 * quotient(own, scaled):.0f} %" if scaled else "-")
    return cells + [
        cell(shown(row, name, section.unit), name in row.wrong) for name in names if name != "regard"
    ]


def aligned(lines: Sequence[Sequence[str]]) -> None:
    """Print columns, the first and the last to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        middle = [text.rjust(width) for text, width in zip(cells[1:-1], widths[1:-1], strict=True)]
        print("  ".join(["  " + cells[0].ljust(widths[0]), *middle, cells[-1]]).rstrip(), flush=True)


# --- one process for a table, and one for all


def work_on(args: argparse.Namespace) -> None:
    """Measure one section with one number of threads, print its table and leave its numbers in a file."""
    [name], [threads] = args.only, args.threads
    section = SECTIONS[name](args.quick)
    measured = Machine(threads, Probe(Path(args.probe), threads) if args.probe else None)
    rows = []
    for i, case in enumerate(section.cases):
        twin = section.twins[i] if section.twins else None
        rows.append(run(case, twin, section, args.rounds, measured))
    table(section, rows, threads)
    for row in rows:
        values = {name: shown(row, name, section.unit) for name in row.seconds}
        record = {"section": name, "threads": threads, "case": row.case.label, "unit": section.unit}
        record |= {"limit": [x / GB for x in row.limit], "values": values, "wrong": row.wrong}
        with Path(args.json).open("a") as file:
            file.write(json.dumps(record) + "\n")


def environment(threads: int, probe: Path | None, as_installed: bool) -> dict[str, str]:
    """Return what a process with so many threads needs to be told before it starts."""
    kept = {name: value for name, value in os.environ.items() if name not in TUNING}
    counts = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    at_best = {"LD_PRELOAD": str(probe)} if probe and not as_installed else {}  # see probe.cpp
    return kept | counts | at_best | {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}


def start(name: str, threads: int, args: argparse.Namespace, probe: Path | None, results: Path) -> None:
    """Run one section in a process that is kept to so many processors: JAX knows no other way."""
    command = [sys.executable, __file__, "--worker", "--only", name, "--threads", str(threads)]
    command += ["--rounds", str(args.rounds), "--json", str(results)] + ["--quick"] * args.quick
    command += ["--probe", str(probe)] if probe else []

    def keep() -> None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])

    able = keep if hasattr(os, "sched_setaffinity") else None
    told = environment(threads, probe, args.as_installed)
    if subprocess.run(command, env=told, preexec_fn=able, check=False).returncode:
        print(f"\n{name}, {threads} threads: FAILED", flush=True)


def header(probe: Path | None, threads: Sequence[int], as_installed: bool) -> None:
    """Print the machine, the versions, and what is missing."""
    print(
        f"{processor()}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"
    )
    print(f"load before the start: {os.getloadavg()[0]:.1f}")
    found = {library.name: library(1).version for library in LIBRARIES}
    print(", ".join(f"{name} {version}" for name, version in found.items() if version))
    for name in (name for name, version in found.items() if not version):
        print(f"{name} is not installed: left out")
    print(
        "-: the library has no such operation; (minimum-maximum) over all rounds; onnxruntime's operators are"
    )
    print("MultiHeadAttention and, for decoding, GroupQueryAttention; masks without a name there are arrays")
    print(f"regard's kernel: {', '.join(instruction_sets()[:1]) or missing()}")
    for name in TUNING:
        if name in os.environ:
            print(f"{name}={os.environ[name]} is left out of the environment: it would slow NumPy down")
    if found["PyTorch"] and "Intel" not in processor():
        print(f"PyTorch's matrix library: {'as installed' if as_installed or not probe else AT_HOME}")
    if probe is None:
        print("no C++ compiler: the machine's limits are not measured")
        return
    for count in threads:
        limits(Probe(probe, count), count)


def limits(probe: Probe, threads: int) -> None:
    """Print the machine's limits before the start."""
    data = np.ones(1 << 25, np.float32)
    peaks = (
        f"{dtype} {max(probe.flops(dtype) for _ in range(5)) / GB:.0f}"
        for dtype in ("float32", "float64", "bfloat16")
    )
    read = max(probe.read(data) for _ in range(9)) / GB
    print(f"limits with {threads} threads: {', '.join(peaks)} GFLOP/s; reading {read:.0f} GB/s")
    with threadpool_limits(threads, user_api="blas"):
        numpy = product(np.matmul)
    beside = f"; regard's for training: {product(multiply) / GB:.0f}" if threads == 1 else ""
    size = f"{SQUARE} x {SQUARE}"
    print(f"NumPy's product of two matrices of {size}, float32: {numpy / GB:.0f} GFLOP/s{beside}")


def product(multiply: Callable[[Any, Any], Any]) -> float:
    """Return what a product that fills the machine reaches where numbers have to come from memory, FLOP/s."""
    a, b = np.random.default_rng(0).random((2, SQUARE, SQUARE), np.float32)
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        multiply(a, b)
        seconds.append(time.perf_counter() - start)
    return 2 * SQUARE**3 / min(seconds)


def processor() -> str:
    """Return the name of the processor, where that is known."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = next((text.partition(":")[2].strip() for text in lines if text.startswith("model name")), "")
    return named or platform.machine()


def tell_memory() -> None:
    """Print the table of extra memory."""
    if not Path("/proc/self/clear_refs").exists():
        print("\nExtra memory: measured on Linux only")
        return
    here = [library.name for library in LIBRARIES if library(1).version]
    print(
        f"\nExtra memory at n = m = {footprint.N}, d = 64, 1 head, float32: MiB (the scores alone are 256 MiB)"
    )
    rows = [[label, *cells, ""] for label, cells in footprint.memory(here)]
    aligned([["", *(library.name for library in LIBRARIES), ""], *rows])


def tell_cost() -> None:
    """Print the table of what installing and importing costs."""
    print("\nInstalled size and import")
    lines = [["", "MB", "with all it needs", "import after NumPy, ms", ""]]
    for library in LIBRARIES:
        if library(1).version and library.name in footprint.PACKAGES:
            own, whole = footprint.installed_size(library.name)
            times = [1e3 * s for s in footprint.import_times(library.name)]
            lines.append([library.name, number(own), number(whole), cell(times), ""])
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
    both = sorted({1, os.cpu_count() or 1})
    parser.add_argument(
        "--threads", type=int, nargs="+", default=both, metavar="N", help="default: 1 and all"
    )
    parser.add_argument("--rounds", type=int, help="turns of everybody in each case (default 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also keep all rounds, one case a line")
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 7)
    return args


def main() -> None:
    """Print everything."""
    args = arguments()
    if args.worker:
        work_on(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        probe, results = compile_into(Path(folder)), args.json or Path(folder, "results")
        results.write_text("")
        header(probe, args.threads, args.as_installed)
        for name in (name for name in SECTIONS if name in args.only):
            alone = SECTIONS[name](args.quick).one_thread
            for threads in args.threads[:1] if alone else args.threads:
                start(name, threads, args, probe, results)
        if "memory" in args.only:
            tell_memory()
        if "cost" in args.only:
            tell_cost()


if __name__ == "__main__":
    main()
