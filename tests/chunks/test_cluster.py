"""Attention on a cluster of processes: a worker that is killed, memory that is spilled, a chunk that fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regard

distributed = pytest.importorskip("distributed", reason="a cluster needs distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

from regard.dask import attention, attention_vjp  # noqa: E402

pytestmark = pytest.mark.threads
Array = NDArray[Any]
SPILLING = {
    "distributed.worker.memory.target": 0.05,  # of the limit: what is managed beyond goes to the disk
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers, each a process of one thread, that spill what exceeds 20 MB."""
    folder, environment = tmp_path_factory.mktemp("cluster"), dict(os.environ)
    with (
        dask.config.set({**SPILLING, "temporary-directory": str(folder)}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, memory_limit="400 MB", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
    os.environ.clear()  # a cluster leaves settings of threads and memory there
    os.environ.update(environment)


def arrays(n: int = 400, size: int = 16) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((2, n, size)) for _ in range(3)]


def assert_near(mine: Array, theirs: Array) -> None:
    """Not to the bit: products of NumPy may be rounded differently in another process."""
    np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)


def lazily(*given: Array, rows: int) -> list[Any]:
    return [da.from_array(array, chunks=(1, rows, -1)) for array in given]


@pytest.mark.slow
def test_result_and_gradients_of_a_cluster_are_those_of_one_thread(client: Any) -> None:
    mask = regard.mask.window(50, 0) & regard.mask.lengths([400, 150])
    bias = regard.position.alibi(2)
    context, pullback = attention_vjp(*lazily(*arrays(), rows=100), mask=mask, bias=bias, sink=0.3)
    gradients = pullback(da.ones_like(context))
    lazy = [context, *gradients[:4], gradients.sink]
    expected = dask.compute(*lazy, scheduler="sync")
    for mine, theirs in zip(dask.compute(*lazy), expected, strict=True):
        assert_near(mine, theirs)
    np.testing.assert_allclose(
        expected[0], regard.attention(*arrays(), mask=mask, bias=bias, sink=0.3), atol=1e-13
    )


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing_in_the_result(client: Any, tmp_path: Path) -> None:
    flag = tmp_path / "killed"

    def fatal(queries: Array, keys: Array) -> Array:
        """Score by the dot product, and kill the first process that comes to a certain chunk."""
        if (keys == 7).any() and not flag.exists():
            flag.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return np.asarray(queries @ keys.swapaxes(-1, -2))

    q, k, v = arrays()
    k[1, 250] = 7
    result = attention(*lazily(q, k, v, rows=50), score=fatal, mask=regard.mask.causal()).compute()
    assert int(flag.read_text()) not in client.run(os.getpid).values()
    expected = attention(*lazily(q, k, v, rows=50), score=fatal, mask=regard.mask.causal())
    assert_near(result, expected.compute(scheduler="sync"))


@pytest.mark.slow
def test_memory_that_is_spilled_to_the_disk_comes_back(client: Any) -> None:
    rng = da.random.default_rng(0)
    drawn = [rng.normal(size=(2, 40_000, 48), chunks=(1, 5_000, 48)) for _ in range(3)]  # 31 MB each
    mask = regard.mask.window(100, 100)
    stored = client.persist(drawn)
    distributed.wait(stored)
    context = client.persist(attention(*stored, mask=mask))
    distributed.wait(context)
    spilled = client.run(lambda dask_worker: len(dask_worker.data.disk))
    assert sum(spilled.values()) > 0
    expected = attention(*drawn, mask=mask).compute(scheduler="sync")
    assert_near(context.compute(), expected)


@pytest.mark.slow
def test_a_chunk_that_fails_names_its_chunk(client: Any) -> None:
    def fragile(queries: Array, keys: Array) -> Array:
        if (keys == 7).any():
            raise ZeroDivisionError("of the user")
        return np.asarray(queries @ keys.swapaxes(-1, -2))

    q, k, v = arrays()
    k[1, 250] = 7
    context = attention(*lazily(q, k, v, rows=100), score=fragile)
    message = r"attention of queries 0:100, keys 200:300 of \[1:2\] failed: ZeroDivisionError: of the user"
    with pytest.raises(RuntimeError, match=message):
        context[:, :100].compute()


@pytest.mark.slow
def test_a_lost_input_is_an_error_that_names_it(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "values.npy"

    def load(block: Array) -> Array:
        return np.load(path)[: len(block)]

    q, k, v = (array[:, :, :] for array in lazily(*arrays(), rows=100))
    with pytest.raises(FileNotFoundError, match=r"values\.npy"):
        attention(q, k, v.map_blocks(load, dtype=float)).compute()


@pytest.mark.slow
def test_processes_without_a_cluster() -> None:
    context = attention(*lazily(*arrays(120), rows=50), mask=regard.mask.causal())
    with dask.config.set(scheduler="processes", num_workers=2):
        result = context.compute()
    assert_near(result, context.compute(scheduler="sync"))
