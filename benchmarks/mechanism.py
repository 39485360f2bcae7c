"""Print the speed, memory, size and import time of the mechanism beside plain NumPy.

    python benchmarks/mechanism.py

Speed: useful GFLOP/s (4 n m d for each head, half of it for causal), medians of rounds in which all contestants take
turns, beside what NumPy's own matrix product reaches in the same rounds. Memory: peak resident size above that of the
inputs and imports, each in a fresh process. Nothing is hidden: where plain NumPy wins, the table says so.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import regard
from regard import mask, scores

ROOT = Path(regard.__file__).parent


def plain(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """The expression that people write."""
    s = q @ k.swapaxes(-1, -2) / np.float32(q.shape[-1] ** 0.5)
    if seen is not None:
        s = np.where(seen, s, -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True)) @ v


def plain_additive(q: np.ndarray, k: np.ndarray, v: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Bahdanau's score as one expression: an n x m x h array."""
    s = np.tanh(q[..., :, None, :] + k[..., None, :, :]) @ vector
    w = np.exp(s - s.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True)) @ v


def interleaved(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Time every contestant once a round, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return times


def report(title: str, gflop: float, contestants: dict[str, Callable[[], object]], rounds: int) -> None:
    """Print one case."""
    a = np.ones((2048, 2048), np.float32)
    times = interleaved({"matrix product": lambda: a @ a, **contestants}, rounds)
    peak = 2 * 2048**3 / 1e9 / statistics.median(times.pop("matrix product"))
    base = statistics.median(times["plain NumPy"])
    print(f"\n{title}   (NumPy's matrix product in the same rounds: {peak:.0f} GFLOP/s)")
    for name, found in times.items():
        median = statistics.median(found)
        spread = (max(found) - min(found)) / median
        line = f"  {name:<24} {1e3 * median:9.2f} ms  +-{50 * spread:3.0f} %  {base / median:5.2f} x plain"
        print(line + (f"  {gflop / median:6.1f} GFLOP/s" if gflop else ""))


def speed(rounds: int) -> None:
    """Print the speed table."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    for n, d in ((512, 64), (4096, 64), (4096, 128)):
        q, k, v = draw(2, n, d), draw(2, n, d), draw(2, n, d)
        work = 2 * 4 * n * n * d / 1e9
        seen = np.tri(n, dtype=bool)
        report(
            f"dense, 2 heads, n = m = {n}, d = {d}, float32",
            work,
            {
                "plain NumPy": lambda q=q, k=k, v=v: plain(q, k, v),
                "regard, 1 thread": lambda q=q, k=k, v=v: regard.attention(q, k, v, threads=1),
                "regard": lambda q=q, k=k, v=v: regard.attention(q, k, v),
            },
            rounds,
        )
        report(
            f"causal, 2 heads, n = m = {n}, d = {d}, float32",
            work / 2,
            {
                "plain NumPy": lambda q=q, k=k, v=v, seen=seen: plain(q, k, v, seen),
                "regard": lambda q=q, k=k, v=v: regard.attention(q, k, v, mask=mask.causal()),
                "regard, window of 256": lambda q=q, k=k, v=v: regard.attention(
                    q, k, v, mask=mask.window(255, 0)
                ),
            },
            rounds,
        )
    q, k, v, vector = draw(512, 128), draw(512, 128), draw(512, 128), draw(128)
    additive = scores.additive(None, None, vector)
    report(
        "additive, n = m = 512, hidden 128, float32",
        0,
        {
            "plain NumPy": lambda: plain_additive(q, k, v, vector),
            "regard": lambda: regard.attention(q, k, v, score=additive),
        },
        rounds,
    )
    w = np.eye(4, 3)
    report(
        "tiny: 4 x 3",
        0,
        {"plain NumPy": lambda: plain(w, w, w), "regard": lambda: regard.attention(w, w, w)},
        100 * rounds,
    )


MEMORY = """
import sys, numpy as np, regard
from regard import mask, scores
sys.path.insert(0, {here!r})
from mechanism import plain
q, k, v = (np.random.default_rng(i).standard_normal(({n}, 64), dtype=np.float32) for i in range(3))
regard.attention(q[:64], k[:64], v[:64]); plain(q[:64], k[:64], v[:64])
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far

def kib(what):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(what))

before = kib("VmRSS")
{run}
print((kib("VmHWM") - before) / 1024)
"""


def memory() -> None:
    """Print the extra memory table."""
    runs = {
        "plain NumPy": "plain(q, k, v)",
        "regard.attention": "regard.attention(q, k, v)",
        "  causal": "regard.attention(q, k, v, mask=mask.causal())",
        "  additive score": "regard.attention(q[:, :16], k[:, :16], v, score=scores.additive(None, None, np.ones(16)))",
        "  entmax15": "regard.attention(q, k, v, normalize='entmax15')",
        "regard.attention_vjp": "c, back = regard.attention_vjp(q, k, v); back(c)",
    }
    print("\nextra memory, n = m = 8192, d = 64, float32 (the scores alone would be 256 MiB)")
    for name, run in runs.items():
        code = MEMORY.format(here=str(Path(__file__).parent), n=8192, run=run)
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        print(f"  {name:<24} {float(found.stdout):8.1f} MiB")


def cost() -> None:
    """Print what installing and importing cost."""
    size = sum(file.stat().st_size for file in ROOT.rglob("*.py"))
    script = "import time, numpy; s = time.perf_counter(); import regard; print(time.perf_counter() - s)"
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        for _ in range(7)
    ]
    after = 1e3 * min(float(run.stdout) for run in runs)
    print(f"\nsource files {size / 1024:.0f} KiB; import regard after NumPy {after:.1f} ms")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each case (default 5)")
    rounds = parser.parse_args().rounds
    print(f"regard {regard.__version__}, NumPy {np.__version__}, SciPy {importlib.metadata.version('scipy')}")
    speed(rounds)
    memory()
    cost()


if __name__ == "__main__":
    main()
