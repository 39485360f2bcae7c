"""The recipe of docs/lines.py: lines translated and aligned on a cluster of two processes."""

from __future__ import annotations

import os
import runpy
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.seq2seq import Seq2Seq

distributed = pytest.importorskip("distributed", reason="a cluster needs distributed")
dask = pytest.importorskip("dask")
bag = pytest.importorskip("dask.bag")

pytestmark = [pytest.mark.threads, pytest.mark.slow]
RECIPE = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "docs" / "lines.py")))
NAMES = {"one": "un", "two": "deux", "three": "trois", "four": "quatre"}
LINES = [f"{first} {second}" for first in NAMES for second in NAMES]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    translated = [" ".join(NAMES[word] for word in line.split()) for line in LINES]
    Seq2Seq(epochs=60, seed=1).fit(LINES, translated).save(path)
    return str(path)


@pytest.fixture
def client() -> Iterator[Any]:
    """Two workers, each a process of one thread."""
    environment = dict(os.environ)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
    os.environ.clear()  # a cluster leaves settings of threads and memory there
    os.environ.update(environment)


def translations(model: str) -> list[str]:
    return [translation.text for translation in Seq2Seq.load(model).translate(LINES)]


def test_lines_are_translated_in_order_by_models_that_are_loaded_once(client: Any, model: str) -> None:
    def described(lines: Any) -> list[tuple[str, int, bytes]]:
        texts = RECIPE.translate(lines, model)
        mark = vars(RECIPE.model_of(model)).setdefault("mark", os.urandom(8))
        return [(text, os.getpid(), mark) for text in texts]

    lines = bag.from_sequence([f"{line}\n" for line in LINES], npartitions=8)
    texts, workers, marks = zip(*lines.map_partitions(described).compute(), strict=True)
    assert list(texts) == translations(model)
    assert len(set(marks)) == len(set(workers))


def test_a_worker_that_is_killed_changes_nothing(client: Any, model: str, tmp_path: Path) -> None:
    flag = tmp_path / "killed"

    def fatal(lines: Any) -> list[str]:
        """Translate, and kill the first process that comes to a certain line."""
        lines = list(lines)
        if LINES[9] in lines and not flag.exists():
            flag.write_text(str(os.getpid()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        return list(RECIPE.translate(lines, model))

    found = bag.from_sequence(LINES, npartitions=8).map_partitions(fatal).compute()
    assert int(flag.read_text(encoding="utf-8")) not in client.run(os.getpid).values()
    assert found == translations(model)


def test_files_are_written_in_the_order_of_the_lines(client: Any, model: str, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    parts = bag.read_text(str(tmp_path / "lines.txt"), blocksize=40)
    parts.map_partitions(RECIPE.translate, model).to_textfiles(str(tmp_path / "out" / "*.txt"))
    written = sorted((tmp_path / "out").iterdir())
    assert len(written) > 2
    texts = [line for file in written for line in file.read_text(encoding="utf-8").splitlines()]
    assert texts == translations(model)


def test_pairs_are_aligned(client: Any, model: str) -> None:
    pairs = [f"{line}\t{text}" for line, text in zip(LINES, translations(model), strict=True)]
    found = bag.from_sequence(pairs, npartitions=3).map_partitions(RECIPE.align, model).compute()
    aligned = Seq2Seq.load(model).align(*zip(*(pair.split("\t") for pair in pairs), strict=True))
    assert found == [" ".join(map(str, pair.alignment.argmax(axis=1))) for pair in aligned]
