"""Every public object can be pickled and copied, for processes and notebooks: with the same content, independently."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import regard
from regard import mask, nn, position, scores, seq2seq, show, weights
from regard.show import explanation, figures
from regard.show.page import heads, long_attention, section

COPIES: tuple[Callable[[Any], Any], ...] = (
    copy.copy,
    copy.deepcopy,
    lambda thing: pickle.loads(pickle.dumps(thing)),
)
X = np.linspace(-1, 1, 12).reshape(3, 4)


def cache() -> regard.KVCache:
    """Two sequences of different lengths in a ring."""
    result = regard.KVCache(2, 4, window=2, capacity=6)
    result.append(np.stack([X, X]), np.stack([X, X]), lengths=[1, 3])
    return result


def recorded() -> list[regard.Attention]:
    """What a block records."""
    with regard.record() as record:
        regard.attention(X, X, X, mask=mask.causal())
    return list(record)


def gradients() -> regard.Gradients:
    """The gradients of an attention."""
    return regard.attention_vjp(X, X, X)[1](X)


@functools.cache
def values() -> tuple[Any, ...]:
    """At least one object of every class; made by the first test, since some of them import much."""
    masks = (mask.causal(), mask.window(1, 1), mask.lengths(2), mask.prefix(2), mask.documents([0, 0, 1]))
    composed = (~mask.causal() | mask.lengths(2), mask.causal() & np.eye(3, dtype=bool), cache().mask)
    functions = (
        scores.dot(),
        scores.scaled_dot(),
        scores.cosine(2.0),
        scores.gaussian(2.0),
        scores.general(np.eye(4)),
        scores.additive(np.eye(4), None, np.ones(4)),
        scores.concat(np.ones((8, 2)), np.ones(2)),
        scores.location(np.ones((4, 3))),
    )
    positions = (
        position.alibi(2),
        position.t5_buckets(np.ones((32, 2))),
        position.linear(2.0),
        position.llama3(8.0, 1.0, 4.0, 8192),
        position.yarn(8.0, 8192),
        *(position.dynamic(8.0, 8192, 9000), position.longrope([1.0, 2.0], 8.0, 8192)),
    )
    return (
        *(*masks, *composed, *functions, *positions, weights.local_m(1), weights.local_p([1.0], 2.0)),
        *(weights.entmax(1.2), weights.sigmoid(-1.0), weights.relu()),
        regard.attend(X, X, X, mask=mask.causal()),
        regard.partial(X, X, X),
        *(recorded(), gradients(), cache(), nn.Adam(np.ones(3))),
        nn.multi_head_attention(X, None, *np.ones((4, 4, 4)), heads=2)[1](X),
        regard.explain(queries=X, keys=X, values=X, mask=mask.causal()),
        *(show.page(X, X, X), show.page(np.eye(3)), section.Section("heads", "title", {})),
        section.TokenLabels([["a", "b"], ["c", "d", "e"]]),
        heads.measures(np.eye(3)),
        long_attention.LongAttention(X, X).summary(0, 2),
        figures.Panel("loss", {"training": (X[0], X[1])}),
        *(seq2seq.Seq2Seq(), seq2seq.Vectors(3), seq2seq.Images(8, 8)),
    )


def same(left: Any, right: Any) -> bool:
    """Whether two things have the same type and content."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple):
        return (
            len(left) == len(right)
            and all(map(same, left, right))
            and same(attributes(left), attributes(right))
        )
    if isinstance(left, np.random.Generator):
        return left.bit_generator.state == right.bit_generator.state
    return same(content(left), content(right)) if hasattr(left, "__dict__") else bool(left == right)


def attributes(thing: Any) -> dict[str, Any]:
    """What an object of a class that extends a built-in one keeps besides."""
    return getattr(thing, "__dict__", {})


def content(thing: Any) -> Any:
    """The attributes of an object, or the state that it is pickled with."""
    return thing.__getstate__() if hasattr(type(thing), "__getstate__") else vars(thing)


@pytest.mark.slow
def test_a_copy_has_the_same_content() -> None:
    for thing, copied in itertools.product(values(), COPIES):
        assert same(copied(thing), thing), thing


@pytest.mark.slow
def test_every_class_that_a_package_exports_is_tried() -> None:
    modules: tuple[ModuleType, ...] = (regard, mask, scores, weights, position, nn, show)
    modules += (explanation, figures, section)
    exported = {getattr(module, name) for module in modules for name in module.__all__}
    abstract = {mask.Mask, position.Scaling, scores.Score, scores.Differentiable}
    abstract |= {weights.Normalizer, weights.DifferentiableNormalizer}
    assert {one for one in exported if inspect.isclass(one)} - abstract == {
        type(thing) for thing in values() if type(thing) in exported
    }


@pytest.mark.parametrize("copied", COPIES)
def test_long_attention_is_copied_with_its_options(copied: Callable[[Any], Any]) -> None:
    options = {"mask": mask.causal(), "bias": position.alibi(2), "scale": 2.0, "softcap": 3.0}
    x = np.stack([X, 2 * X])
    long = long_attention.LongAttention(x, x, score=scores.gaussian(2.0), **options)
    again = copied(long)
    assert same(again.summary(0, 2), long.summary(0, 2))
    show.page(again)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_trained_models_and_what_they_return_are_copied(family: str) -> None:
    sources, targets = ["a b", "b", "a", "b a"] * 5, ["b a", "b", "a", "a b"] * 5
    model = seq2seq.Seq2Seq(family=family, epochs=1).fit(sources, targets)
    translations = model.translate(sources[:2])
    for copied in COPIES:
        assert same(copied(model).translate(sources[:2]), translations)
        assert same(copied(translations), translations)
        both = seq2seq.Ensemble([model, model])
        assert same(copied(both).translate(["a"]), both.translate(["a"]))
        if family == "transformer":
            all_heads = model.heads(translations[0])
            assert same(copied(all_heads), all_heads)
        else:
            steps = model.decoder_steps(model.align(["a b"], ["b"])[0])
            assert same(copied(steps), steps)
