"""The files of onnxruntime-web, which npm packs: for browsers and for Node."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

__all__ = ["BROWSER", "NODE", "packed"]

ORT = "onnxruntime-web@1.30.0"
SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
BROWSER = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
NODE = ("ort.node.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")


def packed(names: tuple[str, ...]) -> Path:
    """Return the folder of these files in the user's cache; skip the test where npm can't get them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "regard-tests", ORT)
    if not all((cache / name).is_file() for name in names):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm on the path, which packs onnxruntime-web")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([npm, "pack", "--silent", ORT], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"npm can't pack {ORT}: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
            _unpack(Path(folder, done.stdout.split()[-1]), cache, names)
    return cache


def _unpack(archive: Path, cache: Path, names: tuple[str, ...]) -> None:
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == SHA512
    cache.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as files:
        for name in names:
            member = files.extractfile(f"package/dist/{name}")
            assert member is not None
            partial = cache / f"{name}.{os.getpid()}"
            partial.write_bytes(member.read())
            partial.replace(cache / name)  # other processes of tests do the same
