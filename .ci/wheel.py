"""Checks a wheel: its tag, that every module and every part of a page is in it, and the one library in it, which must
be small, need nothing but the C library, and be what the package loads on that system.

`wheel.py native WHEEL` expects the library, `wheel.py numpy WHEEL` that there is none.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
# Bytes of the library; on Windows every function has a table for unwinding the stack.
LIMITS = {".so": 1_000_000, ".dylib": 1_000_000, ".dll": 1_100_000}
SYSTEM = {
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"),  # of glibc
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
    *("libc.so", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"),  # of musl
    *("KERNEL32.dll", "/usr/lib/libSystem.B.dylib"),
}
# Zig's linker for macOS takes no list of what to export: these two, and `operator new` and `delete`, which are weak.
MACOS = ("___dso_handle", "__mh_dylib_header", "__Zn", "__Zd")


def read(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linux(file: Path) -> tuple[list[str], list[str], str]:
    """What a library needs, what it exports, and the oldest system that it runs on."""
    text = read("readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms", file)
    symbols = re.findall(r"(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +\d+ (\S+)", text)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
    glibc = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", text)]
    return needed, symbols, f"manylinux_{max(glibc)[0]}_{max(glibc)[1]}" if glibc else "musllinux"


def windows(file: Path) -> tuple[list[str], list[str], str]:
    """The same; parts of the C library are called api-ms-win-crt-..., and belong to the system since Windows 10."""
    text = read("llvm-readobj", "--file-headers", "--coff-imports", "--coff-exports", file)
    assert "IMAGE_FILE_MACHINE_AMD64" in text, "the library is for another processor"
    needed = re.findall(r"Import \{\s+Name: (\S+)", text)
    symbols = re.findall(r"Export \{\s+Ordinal: \d+\s+Name: (\S+)", text)
    return [name for name in needed if not name.startswith("api-ms-win-crt-")], symbols, "win_amd64"


def macos(file: Path) -> tuple[list[str], list[str], str]:
    """The same."""
    text = read("llvm-objdump", "--macho", "--private-headers", "--exports-trie", file)
    needed = re.findall(r"cmd LC_LOAD\w*_DYLIB\s+cmdsize \d+\s+name (\S+)", text)
    symbols = [name for name in re.findall(r"(?m)^0x\w+ +(\S+)", text) if not name.startswith(MACOS)]
    (processor,) = re.findall(r"MH_MAGIC_64 +(\w+)", text)
    (oldest,) = re.findall(r"minos ([\d.]+)", text)
    tag = f"macosx_{oldest.replace('.', '_')}_{processor.lower()}"
    return needed, [name.removeprefix("_") for name in symbols], tag


def check_library(name: str, library: bytes) -> str:
    """The oldest system that a library runs on, after checking that it needs no library but the system's."""
    suffix = Path(name).suffix
    limit = LIMITS[suffix]
    assert len(library) < limit, f"the library has {len(library):,} bytes, {limit:,} are allowed"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "library")
        file.write_bytes(library)
        needed, symbols, runs_on = {".so": linux, ".dll": windows, ".dylib": macos}[suffix](file)
    assert set(needed) <= SYSTEM, f"the library needs {sorted(set(needed) - SYSTEM)}"
    assert symbols, "the library exports nothing"
    assert all(name.startswith("regard_") for name in symbols), f"the library exports {symbols}"
    return runs_on


def keeps(named: str, runs_on: str) -> bool:
    """Whether a library runs where the name of its wheel promises; a wheel for Linux may have several names."""
    if not runs_on.startswith(("manylinux", "musllinux")):
        return named == runs_on
    if named.startswith("linux_"):  # of the machine that built it, for itself
        return True
    if runs_on == "musllinux":
        return all(name.startswith("musllinux_") for name in named.split("."))
    promised = [tuple(map(int, pair)) for pair in re.findall(r"manylinux_(\d+)_(\d+)_", named)]
    return bool(promised) and tuple(map(int, runs_on.split("_")[1:])) <= min(promised)


def main(expected: str, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        libraries = [name for name in file.namelist() if name.endswith((".so", ".dylib", ".dll"))]
        sources = [name for name in file.namelist() if name.endswith((".cpp", ".h", "CMakeLists.txt"))]
        assert not sources, f"{wheel.name} has {sources}"
        needed = [*SOURCE.rglob("*.py"), *SOURCE.glob("regard/show/page/assets/**/*.*")]
        missing = sorted({path.relative_to(SOURCE).as_posix() for path in needed} - set(file.namelist()))
        assert not missing, f"{wheel.name} lacks {missing}"
        assert re.search(r"-py3-none-[^-]+\.whl$", wheel.name), f"the tag of {wheel.name}"
        if expected == "numpy":
            assert not libraries, f"{wheel.name} has {libraries}"
            print(f"{wheel.name}: no library")
            return
        assert not wheel.name.endswith("-any.whl"), f"{wheel.name} has a library but runs anywhere"
        assert len(libraries) == 1, f"{wheel.name} has {libraries}"
        library = file.read(libraries[0])
    runs_on = check_library(libraries[0], library)
    named = wheel.stem.rsplit("-", 1)[1]
    assert keeps(named, runs_on), f"{wheel.name} has a library for {runs_on}"
    loaded = {"win": "regard.dll", "macosx": "libregard.dylib"}.get(named.split("_")[0], "libregard.so")
    assert libraries[0] == f"regard/kernels/{loaded}", (
        f"{wheel.name} has {libraries[0]}, which is not loaded there"
    )
    print(f"{wheel.name}: {libraries[0]}, {len(library):,} bytes, {runs_on}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
