"""`record`: which parts are recorded, of which threads, and under which names."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import regard
from regard.context import PARTS

X = np.random.default_rng(0).standard_normal((3, 4))


def attend_once() -> None:
    regard.attention(X, X, X)


@pytest.mark.parametrize(
    "keep", ["weights", ("weights",), ["lse", "context"], {"scores": 1}, (), PARTS], ids=str
)
def test_only_the_requested_parts_are_kept(keep: Any) -> None:
    attention = regard.attend(X, X, X)
    names = {keep} if isinstance(keep, str) else set(keep := list(keep))
    with regard.record(keep=keep) as recorded, regard.record() as everything:
        regard.attention(X, X, X)
        returned = regard.attend(X, X, X)
    assert len(recorded) == len(everything) == 2
    for record in recorded:
        for part in PARTS:
            assert hasattr(record, part) == (part in names)
            if part in names:
                np.testing.assert_array_equal(getattr(record, part), getattr(attention, part))
            assert hasattr(returned, part)  # the caller of attend gets all parts
            assert hasattr(everything[0], part)


def test_parts_that_were_not_kept_are_an_error() -> None:
    with regard.record(keep="weights") as recorded:
        attend_once()
    with pytest.raises(AttributeError) as error:
        recorded[0].scores  # noqa: B018
    assert str(error.value) == "scores was not kept: record(keep=...) kept weights"
    with pytest.raises(AttributeError, match="'Attention' object has no attribute 'wights'"):
        recorded[0].wights  # noqa: B018
    assert repr(recorded[0]) == "Attention(weights (3, 3))"
    for other in (
        copy.copy(recorded[0]),
        copy.deepcopy(recorded[0]),
        pickle.loads(pickle.dumps(recorded[0])),
    ):
        assert not hasattr(other, "context")
        np.testing.assert_array_equal(other.weights, recorded[0].weights)


def test_arrays_that_are_not_kept_are_freed() -> None:
    with regard.record(keep=("context", "lse")) as recorded:
        regard.attend(X, X, X)
    assert set(vars(recorded[0])) == {"context", "lse", "name"}


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"keep": "weight"}, ValueError, "keep must be one of .*did you mean 'weights'"),
        ({"keep": ["weights", "value"]}, ValueError, "keep must be one of"),
        ({"threads": 1}, TypeError, r"threads must be True or False\. Got 1 instead"),
    ],
)
def test_wrong_options_are_errors(options: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=r"(?s)" + message), regard.record(**options):
        pass
    with regard.record() as recorded:
        attend_once()
    assert len(recorded) == 1


# ---- names ----------------------------------------------------------------------------------------------------


def test_scopes_name_the_attention_of_every_function() -> None:
    with regard.record() as recorded:
        attend_once()
        with regard.named_scope("encoder"), regard.named_scope("layer 1"):
            attend_once()
            regard.attention_vjp(X, X, X)
            regard.partial(X, X, X)
            assert regard.attend(X, X, X).name == ""
        with regard.record(keep="lse") as inner, regard.named_scope("decoder"):
            attend_once()
    assert [a.name for a in recorded] == ["", *["encoder/layer 1"] * 4, "decoder"]
    assert [a.name for a in inner] == ["decoder"]
    assert repr(recorded[1]) == "Attention('encoder/layer 1', weights (3, 3), context (3, 4), float64)"


def test_a_scope_ends_though_an_error_is_raised() -> None:
    with pytest.raises(KeyError), regard.named_scope("broken"):
        raise KeyError
    with pytest.raises(TypeError, match=r"name must be a string\. Got int instead\."), regard.named_scope(3):  # type: ignore[arg-type]
        pass
    with regard.record() as recorded:
        attend_once()
    assert recorded[0].name == ""


# ---- threads --------------------------------------------------------------------------------------------------


def in_threads(count: int = 8) -> None:
    """Attend in several threads at once, each in a scope of its own."""

    def named(i: int) -> None:
        with regard.named_scope(f"thread {i}"):
            attend_once()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(named, range(count)))


@pytest.mark.threads
def test_law_12_all_threads_are_recorded_if_requested() -> None:
    with regard.record() as own, regard.record(threads=True, keep="weights") as of_all:
        attend_once()
        in_threads()
        with regard.record(threads=True) as inner:
            in_threads(2)
    in_threads()
    assert [a.name for a in own] == [""]
    names = ["", *(f"thread {i}" for i in range(8)), "thread 0", "thread 1"]
    assert sorted(a.name for a in of_all) == sorted(names)
    assert sorted(a.name for a in inner) == ["thread 0", "thread 1"]
    assert not any(hasattr(a, "scores") for a in of_all)


@pytest.mark.threads
def test_a_thread_started_before_is_recorded_inside_the_block_only() -> None:
    begin, done = threading.Event(), threading.Event()

    def work() -> None:
        begin.wait()
        attend_once()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    with regard.record(threads=True) as recorded:
        begin.set()
        done.wait()
    thread.join()
    attend_once()
    assert len(recorded) == 1


@pytest.mark.threads
def test_code_in_a_copy_of_the_context_is_recorded() -> None:
    async def tasks() -> None:
        await asyncio.gather(asyncio.to_thread(attend_once), asyncio.to_thread(attend_once))

    with regard.record() as recorded, regard.named_scope("block"), ThreadPoolExecutor(1) as pool:
        pool.submit(contextvars.copy_context().run, attend_once).result()
        pool.submit(attend_once).result()  # of no block
        asyncio.run(tasks())
    assert [a.name for a in recorded] == ["block"] * 3


@pytest.mark.threads
def test_blocks_of_several_threads_do_not_disturb_each_other() -> None:
    def alone(threads: bool) -> int:
        with regard.record(threads=threads) as recorded:
            attend_once()
        return len(recorded)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(alone, [False] * 8)) == [1] * 8
        assert min(pool.map(alone, [True] * 8)) >= 1
    with regard.record() as attentions:
        attend_once()
    assert len(attentions) == 1


def test_an_empty_list_says_that_only_attention_of_regard_is_recorded() -> None:
    with regard.record() as recorded:
        X @ X.T
    assert recorded == []
    assert repr(recorded).startswith("[] (nothing was recorded: regard.record keeps attention that regard")
    draw = (regard.show.page, regard.show.figures.heatmaps)
    for function, given in zip(draw, (recorded, [one.weights for one in recorded]), strict=True):
        with pytest.raises(ValueError, match=r"hint: regard\.record keeps attention that regard computes"):
            function(given)
    with regard.record() as recorded:
        attend_once()
    assert repr(recorded) == f"[{recorded[0]!r}]"
