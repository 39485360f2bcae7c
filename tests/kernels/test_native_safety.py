"""Memory safety of the native kernel: guard pages, sanitizers, floating-point modes, deep masks."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fresh import printed

import regard
from regard.kernels import library

SETS = library.instruction_sets()
HERE = Path(__file__).parent
KEPT = HERE.parents[1] / "build" / "sanitizers"
SOURCE = Path(library.__file__).parent / "source"
needs_library = pytest.mark.skipif(not SETS, reason=library.missing() or "there is a library")
slow = pytest.mark.slow


def run(*command: str, timeout: int = 1800) -> subprocess.CompletedProcess[str]:
    """Run a program."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


# ---- guard pages ------------------------------------------------------------------------------------------------


@slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mmap and mprotect are called as on Linux")
@pytest.mark.parametrize("side", ["end", "start"])
def test_nothing_is_accessed_outside_of_any_array(isa: str, side: str) -> None:
    done = run(sys.executable, str(HERE / "native" / "guarded.py"), isa, side)
    last = done.stdout.splitlines()[-1:]
    assert (done.returncode, last) == (0, ["done"]), f"it was at {last}\n{done.stderr}"


# ---- sanitizers -------------------------------------------------------------------------------------------------

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
COMMON = ["-O1", "-g1", "-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-fno-sanitize-recover=all"]
AVX2 = ["-mavx2", "-mfma", "-mf16c"] if "avx2" in SETS else []
NAME = "neon" if platform.machine() in ("aarch64", "arm64") else "baseline"


def kept(name: str, *of: object) -> Path:
    """Where a program is kept, as long as the sources, the compiler and `of` are the same."""
    assert COMPILER is not None
    sources = sorted([*SOURCE.rglob("*.*"), HERE / "native" / "driver.cpp"])
    text = repr((run(COMPILER, "--version").stdout, of, [path.read_bytes() for path in sources]))
    return KEPT / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def built(directory: Path, sanitizer: str, flags: list[str]) -> Path:
    """The driver with the kernel; a minute's work, unless it is kept. Skip if the sanitizer is not available."""
    program = kept(sanitizer, COMMON, flags, Path(__file__).read_bytes())
    if not program.exists():
        made = build(directory, sanitizer, flags)
        KEPT.mkdir(parents=True, exist_ok=True)
        for older in KEPT.glob(f"{sanitizer}-*"):
            older.unlink(missing_ok=True)
        partial = shutil.copy(made, program.with_name(f"{program.name}.{os.getpid()}"))
        Path(partial).replace(program)
    return program


def build(directory: Path, sanitizer: str, flags: list[str]) -> Path:
    """Compile the kernel, with the driver."""
    assert COMPILER is not None
    command = [COMPILER, *COMMON, f"-I{SOURCE}", f"-fsanitize={sanitizer}"]
    probe = directory / "probe.cpp"
    probe.write_text("int main() {}")
    if run(*command, str(probe), "-o", str(directory / "probe")).returncode:
        pytest.skip(f"the compiler has no -fsanitize={sanitizer}")
    memory = directory / "memory.cpp"
    text, limit = (
        (SOURCE / "library" / "memory.cpp").read_text(),
        "constexpr int64_t CACHED_BYTES = PREDICTION_BYTES;",
    )
    assert limit in text  # memory that is kept from call to call would hide writes a little too far
    memory.write_text(text.replace(limit, "constexpr int64_t CACHED_BYTES = 0;"))
    kernels = [SOURCE / "attention.cpp", *(SOURCE / "training").glob("*.cpp")]
    parts = [path for path in (SOURCE / "library").glob("*.cpp") if path.name != "memory.cpp"]
    units = {
        **{path.stem: [*flags, f"-DISA={NAME}", str(path)] for path in kernels},
        **{path.stem: [f"-DREGARD_HAVE_{NAME.upper()}", str(path)] for path in (*parts, memory)},
        "driver": [str(HERE / "native" / "driver.cpp")],
    }
    objects = {name: str(directory / f"{name}.o") for name in units}
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run, *command, *unit, "-c", "-o", objects[name]) for name, unit in units.items()]
    for one in jobs:
        assert one.result().returncode == 0, one.result().stderr
    linked = run(*command, *objects.values(), "-o", str(directory / "driver"), "-pthread")
    assert linked.returncode == 0, linked.stderr
    return directory / "driver"


@slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_address_and_undefined_behaviour_sanitizers_find_nothing(tmp_path: Path) -> None:
    driver = built(tmp_path, "address,undefined", AVX2)
    done = run(str(driver), "200", "1")
    assert done.returncode == 0, done.stdout + done.stderr


@slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_the_thread_sanitizer_finds_nothing(tmp_path: Path) -> None:
    """Three callers at once, each with one thread, and with two or five."""
    driver = built(tmp_path, "thread", [])
    done = run(str(driver), "60", "3")
    assert done.returncode == 0, done.stdout + done.stderr


# ---- masks as deep as one likes -----------------------------------------------------------------------------------

DEEP = """
    import numpy as np, regard
    x = np.random.default_rng(0).standard_normal((60, 4))
    for depth in (30, 31, 32, 33, 40, 300):
        mask = regard.mask.window(9, 9)
        for i in range(depth):
            mask = (regard.mask.window(i % 5 + 3, i % 3 + 4) & mask) if i % 2 else (~regard.mask.window(0, 0) | mask)
        np.testing.assert_allclose(regard.attention(x, x, x, mask=mask), regard.attend(x, x, x, mask=mask).context)
    print("done")
    """


@slow
def test_masks_nested_deeper_than_the_kernels_stack() -> None:
    assert printed(DEEP, warnings="ignore") == "done\n"


# ---- the floating-point mode ----------------------------------------------------------------------------------------


def subnormals_survive() -> bool:
    """Whether numbers below the normal range are kept, as operands and as results."""
    tiny, small = np.full(64, 1e-40, np.float32), np.full(64, 1e-38, np.float32)
    one, tenth = np.float32(1), np.float32(0.1)
    singles = bool((tiny * one == np.float32(1e-40)).all() and (small * tenth > 0).all() and (tiny > 0).all())
    return singles and float.fromhex("0x1p-1070") * 0.5 > 0


@needs_library
def test_law_12_subnormals_survive_use_in_every_thread() -> None:
    x = np.random.default_rng(0).standard_normal((4, 200, 8)).astype(np.float32)
    values = np.full((4, 200, 3), 1e-41, np.float32)

    def use(threads: int) -> bool:
        context, pullback = regard.attention_vjp(x, x, values, kernel="native", threads=threads)
        pullback(context)
        nonzero = bool(
            (np.abs(context - np.float32(1e-41)) < 1e-43).all()
        )  # by the kernel's own threads, too
        return nonzero and subnormals_survive()

    assert use(1)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, [1, 2, 3, 4] * 3))
    assert subnormals_survive()
