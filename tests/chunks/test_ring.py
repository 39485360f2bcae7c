"""The recipe of docs/ring.py: attention over a ring of MPI processes."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regard

RECIPE = Path(__file__).parents[2] / "docs" / "ring.py"
Array = NDArray[Any]


class Ring:
    """A communicator of threads, with the four methods of MPI that the recipe calls."""

    def __init__(self, rank: int, queues: list[dict[int, SimpleQueue[Array]]]) -> None:
        self.rank, self.queues = rank, queues

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return len(self.queues)

    def Isend(self, array: Array, to: int, tag: int) -> Any:
        self.queues[to][tag].put(array.copy())
        return SimpleNamespace(Wait=lambda: None)

    def Irecv(self, array: Array, source: int, tag: int) -> Any:
        def wait() -> None:
            array[...] = self.queues[self.rank][tag].get()

        return SimpleNamespace(Wait=wait)


@pytest.fixture
def ring_attention(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function of the recipe, whether MPI is installed or not."""
    module = ModuleType("mpi4py")
    module.MPI = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mpi4py", module)
    return runpy.run_path(str(RECIPE))["ring_attention"]


@pytest.mark.threads
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("causal", [False, True])
def test_the_ring_is_the_attention_of_one_process(ring_attention: Any, size: int, causal: bool) -> None:
    n, rng = 6, np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, size * n, 4)) for _ in range(3))
    queues: list[dict[int, SimpleQueue[Array]]] = [{0: SimpleQueue(), 1: SimpleQueue()} for _ in range(size)]

    def run(rank: int) -> Array:
        mine = slice(rank * n, (rank + 1) * n)
        arrays = (array[:, mine] for array in (q, k, v))
        return np.asarray(ring_attention(Ring(rank, queues), *arrays, causal=causal, softcap=3.0))

    with ThreadPoolExecutor(size) as pool:
        context = np.concatenate(list(pool.map(run, range(size))), axis=1)
    mask = regard.mask.causal() if causal else None
    np.testing.assert_allclose(context, regard.attention(q, k, v, mask=mask, softcap=3.0), atol=1e-13)


@pytest.mark.slow
def test_the_recipe_runs_under_mpi() -> None:
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("needs mpiexec")
    run = subprocess.run(
        [mpiexec, "-n", "3", sys.executable, str(RECIPE)], capture_output=True, text=True, check=True
    )
    errors = {
        int(rank): float(size)
        for rank, size in re.findall(r"process (\d) of 3: error ([\d.e+-]+)", run.stdout)
    }
    assert set(errors) == {0, 1, 2}
    assert max(errors.values()) < 1e-12


def test_the_recipe_is_short() -> None:
    assert len(RECIPE.read_text(encoding="utf-8").splitlines()) < 60
