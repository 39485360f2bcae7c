"""Checks a wheel: its tag, and the one library in it, which must be small and need nothing but the C library.

`wheel.py native WHEEL` expects the library, `wheel.py numpy WHEEL` that there is none.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIMIT = 1_000_000  # bytes of the library
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def dynamic_section(library: Path) -> str:
    options = ["--wide", "--dynamic", "--version-info", "--dyn-syms"]
    return subprocess.run(["readelf", *options, library], check=True, capture_output=True, text=True).stdout


def check_library(library: bytes) -> str:
    """The oldest Linux that a library runs on, after checking that it needs no library but the system's."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "library")
        file.write_bytes(library)
        text = dynamic_section(file)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
    assert needed <= SYSTEM, f"the library needs {sorted(needed - SYSTEM)}"
    symbols = re.findall(r"(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +\d+ (\S+)", text)
    assert symbols, "the library exports nothing"
    assert all(name.startswith("regard_") for name in symbols), f"the library exports {symbols}"
    glibc = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", text))
    return "manylinux_" + "_".join(map(str, glibc[:2]))


def main(expected: str, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        libraries = [name for name in file.namelist() if name.endswith((".so", ".dylib", ".dll"))]
        sources = [name for name in file.namelist() if name.endswith((".cpp", ".h", "CMakeLists.txt"))]
        assert not sources, f"{wheel.name} has {sources}"
        assert re.search(r"-py3-none-[^-]+\.whl$", wheel.name), f"the tag of {wheel.name}"
        if expected == "numpy":
            assert not libraries, f"{wheel.name} has {libraries}"
            print(f"{wheel.name}: no library")
            return
        assert not wheel.name.endswith("-any.whl"), f"{wheel.name} has a library but runs anywhere"
        assert len(libraries) == 1, f"{wheel.name} has {libraries}"
        library = file.read(libraries[0])
    assert len(library) < LIMIT, f"the library has {len(library):,} bytes"
    runs_on = check_library(library) if libraries[0].endswith(".so") else "not checked"
    print(f"{wheel.name}: {libraries[0]}, {len(library):,} bytes, {runs_on}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
