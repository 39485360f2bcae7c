"""Law 10: the complete text of every error of the mechanism."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from errors import assert_raises, transcript
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import regard
from regard import _check, mask, nn, position, scores, weights


def o(*shape: int) -> NDArray[np.float64]:
    """Ones of this shape."""
    return np.ones(shape)


Q, K, V = o(2, 5, 4), o(2, 7, 4), o(2, 7, 3)


def with_shapes(queries: Any, keys: Any, values: Any) -> str:
    """The shapes in the legend's letters."""
    rows = (("queries", queries, "n, d"), ("keys", keys, "m, d"), ("values", values, "m, e"))
    return "".join(f"\n  {name:<7} {np.shape(x)!s:<16} is (..., {letters})" for name, x, letters in rows)


# ---- three arrays: raised by every function ------------------------------------------------------------------------

ARRAYS = """\
o(2, 5, 64), o(2, 7, 32), o(2, 7, 8)
    ValueError: queries and keys must share their last dimension d: 64 and 32{shapes}
      hint: scores.general and scores.additive compare different sizes
Q, K, o(2, 6, 3)
    ValueError: keys and values must share their length m: 7 and 6{shapes}
      hint: every key has one value
o(4), K, V
    ValueError: queries must have at least 2 dimensions: 1{shapes}
      hint: one vector is queries[None, :]
Q, K, 3.0
    ValueError: values must have at least 2 dimensions: 0{shapes}
      hint: one number is [[values]]
o(5, 5, 4), K, V
    ValueError: the number of query heads must be a multiple of the number of key heads: 5 and 2{shapes}
      hint: heads are the last leading dimension; query head i reads key head i // group
Q, o(4, 7, 4), o(4, 7, 3)
    ValueError: the number of query heads must be a multiple of the number of key heads: 2 and 4{shapes}
      hint: heads are the last leading dimension; query head i reads key head i // group
o(4, 8, 5, 4), o(4, 7, 4), o(4, 7, 3)
    ValueError: leading dimensions must broadcast: (4, 8), (4,) and (4,){shapes}
      hint: keys and values without a dimension for heads get one by [..., None, :, :]
o(6, 5, 4), K, o(3, 7, 3)
    ValueError: leading dimensions must broadcast: (6,), (2,) and (3,){shapes}
[[1, 2], [3]], K, V
    ValueError: queries must be an array of numbers; its rows have different lengths.
      hint: pad them to one length
Q, np.array([["a"]]), V
    TypeError: keys must hold real numbers. Got dtype <U1 instead.
Q, K, np.array([[None]])
    TypeError: values must hold real numbers. Got dtype object instead.
Q * 1j, K, V
    TypeError: queries must hold real numbers. Got dtype complex128 instead.
      hint: attention is defined here for real numbers
"""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "attend": regard.attend,
    "attention": regard.attention,
    "attention_vjp": regard.attention_vjp,
    "partial": regard.partial,
}
every_function = pytest.mark.parametrize("function", FUNCTIONS)


@every_function
def test_arrays(function: str) -> None:
    for arrays, text in transcript(ARRAYS):
        shapes = with_shapes(*eval(arrays)) if "{shapes}" in text else ""
        assert_raises(f"regard.{function}({arrays})", text.format(shapes=shapes), globals())


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="this system has no longer floats")
def test_long_doubles() -> None:
    text = f"TypeError: queries must be float64 or smaller. Got dtype {np.dtype(np.longdouble)} instead."
    assert_raises(
        "regard.attend(Q.astype(np.longdouble), K, V)", f"{text}\n  hint: use .astype(float)", globals()
    )


# ---- options of a call: raised by every function -------------------------------------------------------------------

OPTIONS = """\
score="scaled_dott"
    ValueError: score must be one of 'scaled_dot', 'dot', 'cosine', 'gaussian'. Got 'scaled_dott' instead.
      hint: did you mean 'scaled_dot'?
score="general"
    ValueError: score must be one of 'scaled_dot', 'dot', 'cosine', 'gaussian'. Got 'general' instead.
      hint: for scores with parameters pass an object, such as scores.general(weight)
score=scores.general
    TypeError: score must be an instance, not a class: scores.general(...)
score=3
    TypeError: score must be a name, a regard.scores object or a function. Got int instead.
score=scores.general(o(4, 3))
    ValueError: weight must have shape (d, d') = (4, 4). Got shape (4, 3) instead.{shapes}
score=scores.additive(o(3, 5), o(4, 5), o(5))
    ValueError: the last dimension of queries must be 3 (query_weight: its rows). Got 4 instead.{shapes}
score=scores.additive(o(4, 5), o(3, 5), o(5))
    ValueError: the last dimension of keys must be 3 (key_weight: its rows). Got 4 instead.{shapes}
score=scores.additive(None, o(4, 5), o(5))
    ValueError: the last dimension of queries must be 5 (projected queries or keys: d = h). Got 4 instead.{shapes}
score=scores.concat(o(7, 5), o(5))
    ValueError: weight must have d + d' = 4 + 4 rows. Got shape (7, 5) instead.{shapes}
score=scores.location(o(4, 5))
    ValueError: weight must have shape (d, M) = (4, at least 7). Got shape (4, 5) instead.{shapes}
score=scores.cosine(o(3))
    ValueError: sharpness must broadcast to (..., n) = (2, 5). Got shape (3,) instead.{shapes}
mask=o(5, 7)
    TypeError: mask must be bool (True = visible) or a regard.mask object. Got dtype float64 instead.
      hint: an array that is added to the scores is bias=
# as tokenizers give it; added to the scores it would mask nothing
mask=np.ones((5, 7), int)
    TypeError: mask must be bool (True = visible) or a regard.mask object. Got dtype int64 instead.
      hint: use .astype(bool) if 1 means visible
mask=np.ones((7, 5), bool)
    ValueError: mask must broadcast to (..., n, m) = (2, 5, 7). Got shape (7, 5) instead.{shapes}
      hint: did you mean mask.T?
mask=np.ones((3, 5, 7), bool)
    ValueError: mask must broadcast to (..., n, m) = (2, 5, 7). Got shape (3, 5, 7) instead.{shapes}
mask=np.ones((3, 2, 5, 7), bool)
    ValueError: mask must broadcast to (..., n, m) = (2, 5, 7). Got shape (3, 2, 5, 7) instead.{shapes}
mask=mask.causal
    TypeError: mask must be an instance, not a class: mask.causal(...)
mask=mask.causal()
    ValueError: causal needs align="start" or align="end" where n != m: 5 and 7{shapes}
      hint: "start": query 0 is aligned with key 0; "end": the last query with the last key (a cache)
mask=~mask.window(1, 1)
    ValueError: window needs align="start" or align="end" where n != m: 5 and 7{shapes}
      hint: "start": query 0 is aligned with key 0; "end": the last query with the last key (a cache)
mask=mask.prefix(1)
    ValueError: prefix needs align="start" or align="end" where n != m: 5 and 7{shapes}
      hint: "start": query 0 is aligned with key 0; "end": the last query with the last key (a cache)
mask=mask.causal(align=[1, 2, 3])
    ValueError: align must broadcast to (...) = (2,). Got shape (3,) instead.{shapes}
      hint: one for each sentence of (batch, heads, ...) has shape (batch, 1)
mask=mask.prefix(9, align="end")
    ValueError: length of prefix must be at most 7. Got 9 instead.{shapes}
mask=mask.lengths([3, 8])
    ValueError: keys of lengths must be at most 7. Got 8 instead.{shapes}
mask=mask.lengths(3, [6, 6])
    ValueError: queries of lengths must be at most 5. Got 6 instead.{shapes}
mask=mask.lengths([1, 2, 3])
    ValueError: keys of lengths must broadcast to (...) = (2,). Got shape (3,) instead.{shapes}
      hint: one for each sentence of (batch, heads, ...) has shape (batch, 1)
mask=mask.documents([0, 0, 0], [0] * 7)
    ValueError: queries of documents must broadcast to (..., n) = (2, 5). Got shape (3,) instead.{shapes}
mask=mask.documents([0] * 5)
    ValueError: keys of documents must broadcast to (..., m) = (2, 7). Got shape (5,) instead.{shapes}
bias=np.ones((5, 7), bool)
    TypeError: bias must hold numbers that are added to the scores. Got dtype bool instead.{shapes}
      hint: a bool array of visible keys is mask=
bias=o(7, 5)
    ValueError: bias must broadcast to (..., n, m) = (2, 5, 7). Got shape (7, 5) instead.{shapes}
      hint: did you mean bias.T?
bias=o(3, 2, 5, 7)
    ValueError: bias must broadcast to (..., n, m) = (2, 5, 7). Got shape (3, 2, 5, 7) instead.{shapes}
bias="alibi"
    TypeError: bias must hold real numbers. Got dtype <U5 instead.{shapes}
bias=position.alibi(3, align="end")
    ValueError: slopes must have one entry for each of the 2 query heads. Got 3 instead.{shapes}
      hint: heads are the last leading dimension of queries (..., heads, n, d)
bias=position.alibi(2)
    ValueError: alibi needs align="start" or align="end" where n != m: 5 and 7{shapes}
      hint: "start": query 0 is aligned with key 0; "end": the last query with the last key (a cache)
bias=position.alibi(2, align=[1, 2, 3])
    ValueError: align must broadcast to (...) = (2,). Got shape (3,) instead.{shapes}
      hint: one for each sentence of (batch, heads, ...) has shape (batch, 1)
bias=position.t5_buckets(o(8, 2), align=[1, 2, 3])
    ValueError: align must broadcast to (...) = (2,). Got shape (3,) instead.{shapes}
      hint: one for each sentence of (batch, heads, ...) has shape (batch, 1)
bias=position.t5_buckets(o(8, 3), align="end")
    ValueError: table must have one entry for each of the 2 query heads. Got 3 instead.{shapes}
      hint: heads are the last leading dimension of queries (..., heads, n, d)
bias=position.t5_buckets(o(8, 2))
    ValueError: t5_buckets needs align="start" or align="end" where n != m: 5 and 7{shapes}
      hint: "start": query 0 is aligned with key 0; "end": the last query with the last key (a cache)
score=scores.Score()
    TypeError: score must be a name, a regard.scores object or a function. Got Score instead.
mask=mask.Mask()
    TypeError: mask must have a method bind(layout). Got Mask without.{shapes}
scale="x"
    TypeError: scale must be a number. Got 'x' instead.
scale=np.nan
    ValueError: scale must be finite. Got nan instead.
softcap=0
    ValueError: softcap must be greater than 0. Got 0.0 instead.
softcap=-1.5
    ValueError: softcap must be greater than 0. Got -1.5 instead.
softcap=np.inf
    ValueError: softcap must be finite. Got inf instead.
"""


@every_function
def test_options(function: str) -> None:
    for option, text in transcript(OPTIONS):
        expected = text.format(shapes=with_shapes(Q, K, V))
        assert_raises(f"regard.{function}(Q, K, V, {option})", expected, globals())


STEP_TWO = """\
normalize="softmin"
    ValueError: normalize must be one of 'softmax', 'sparsemax', 'entmax15', 'hard'. Got 'softmin' instead.
      hint: did you mean 'softmax'?
normalize="local"
    ValueError: normalize must be one of 'softmax', 'sparsemax', 'entmax15', 'hard'. Got 'local' instead.
      hint: or an object of regard.weights: {objects}; or a function of rows
normalize=weights.entmax(0.5)
    ValueError: alpha must be at least 1. Got 0.5 instead.
      hint: 1 is softmax, 1.5 is entmax15, 2 is sparsemax
normalize=weights.entmax
    TypeError: normalize must be an instance, not a class: weights.entmax(...)
normalize=weights.local_m(1, align=[1, 2, 3])
    ValueError: align must broadcast to (...) = (2,). Got shape (3,) instead.{shapes}
      hint: one for each sentence of (batch, heads, ...) has shape (batch, 1)
normalize=weights.local_p(o(4), 1.0)
    ValueError: positions must broadcast to (..., n) = (2, 5). Got shape (4,) instead.{shapes}
"""


class Wrong:
    """A normalisation of the user's that does not do what it should."""

    def __init__(self, weights: Any, gradient: Any = 0.0) -> None:
        self.weights, self.gradient = weights, gradient

    def __call__(self, logits: Any) -> Any:
        return self.weights(logits)

    def vjp(self, logits: Any) -> Any:
        return logits, lambda dweights: self.gradient


class NoPullback:
    """A score or normalisation of the user's whose `vjp` is the function alone."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *arrays: Any) -> Any:
        return self.function(*arrays)

    vjp = __call__


OF_ROWS = """\
regard.attend(Q, K, V, normalize=Wrong(lambda logits: logits[..., :1]))
    ValueError: normalize(logits) must have shape (2, 5, 7). Got (2, 5, 1) instead.
regard.attention(Q, K, V, normalize=Wrong(lambda logits: logits.sum(-1)))
    ValueError: normalize(logits) must have shape (2, 5, 7). Got (2, 5) instead.
regard.attention(Q, K, V, normalize=Wrong(lambda logits: "weights"))
    TypeError: normalize(logits) must hold real numbers. Got dtype <U7 instead.
regard.attention_vjp(Q, K, V, normalize=Wrong(lambda logits: logits))[1](o(2, 5, 3))
    ValueError: dlogits must have shape (2, 5, 7). Got () instead.
regard.attention_vjp(Q, K, V, normalize=lambda logits: logits)
    TypeError: normalize must have a method vjp(logits) -> (weights, pullback) for gradients.
      hint: see regard.weights.DifferentiableNormalizer
regard.attention_vjp(Q, K, V, normalize=NoPullback(weights.softmax))[1](o(2, 5, 3))
    TypeError: normalize.vjp(logits) must be (result, pullback). Got ndarray instead.
      hint: the second is a function of the result's gradient, as regard.nn.relu returns it
regard.attention_vjp(Q, K, V, score=NoPullback(scores.dot()))[1](o(2, 5, 3))
    TypeError: score.vjp(queries, keys) must be (result, pullback). Got ndarray instead.
      hint: the second is a function of the result's gradient, as regard.nn.relu returns it
regard.linear.attention(K, K, V, feature=np.exp)
    TypeError: feature(queries) must be (result, pullback). Got ndarray instead.
      hint: the second is a function of the result's gradient, as regard.nn.relu returns it
nn.multi_head_attention(Q, None, *[o(4, 4)] * 4, heads=1, rotate=regard.position.rotary)
    TypeError: rotate(x) must be (result, pullback). Got ndarray instead.
      hint: the second is a function of the result's gradient, as regard.nn.relu returns it
regard.partial(Q, K, V, normalize="sparsemax")
    TypeError: partial takes no option 'normalize'.
      hint: the softmax alone can be computed in parts that are merged; regard.attention has normalize=
regard.outofcore.attention(Q, K, V, normalize=weights.relu())
    TypeError: attention takes no option 'normalize'.
      hint: the softmax alone can be computed in parts that are merged; regard.attention has normalize=
"""


def test_functions_of_the_user() -> None:
    for call, text in transcript(OF_ROWS):
        assert_raises(call, text, globals())


@pytest.mark.parametrize("function", ["attend", "attention", "attention_vjp"])
def test_step_two(function: str) -> None:
    objects = "entmax(alpha), sigmoid(), relu(), local_m(width), local_p(positions, width)"
    for option, text in transcript(STEP_TWO):
        expected = text.format(shapes=with_shapes(Q, K, V), objects=objects)
        assert_raises(f"regard.{function}(Q, K, V, {option})", expected, globals())


# ---- everything else: one call, one text -------------------------------------------------------------------------

_MASKED = np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 2.0)


@pytest.mark.parametrize("masked", [_MASKED, list(_MASKED)], ids=["array", "list"])
def test_a_masked_array_is_refused_as_every_argument(masked: Any) -> None:
    x = np.eye(2)
    some = regard.partial(x, x, x)
    for call in (
        lambda: regard.attention(masked, x, x),
        lambda: regard.attend(x, masked, x),
        lambda: regard.attention_vjp(x, x, masked),
        lambda: regard.attention_vjp(x, x, x)[1](masked),
        lambda: regard.partial_vjp(x, x, x, some, masked),
        lambda: regard.merge(regard.Partial(masked, some.lse)),
        lambda: regard.attention(x, x, x, mask=masked),
        lambda: regard.attention(x, x, x, bias=masked),
        lambda: regard.attention(x, x, x, sink=masked),
        lambda: regard.scores.general(masked),
        lambda: regard.mask.lengths(masked),
        lambda: regard.position.t5_buckets(masked),
        lambda: regard.position.rotary(masked),
        lambda: regard.weights.softmax(masked),
        lambda: regard.KVCache((), 2, capacity=2).append(masked, x),
        lambda: regard.explain(queries=masked, keys=x, values=x),
        lambda: regard.seq2seq.Vectors(2).read(masked),
    ):
        with pytest.raises(TypeError, match="masked array"):
            call()
    rule = rf"^x must be an array of float32 or float64\. Got {type(masked).__name__} instead\."
    with pytest.raises(TypeError, match=rule):
        regard.nn.linear(masked, x, x[0])


def composed(count: int) -> mask.Mask:
    """So many masks joined by |."""
    return reduce(operator.or_, [mask.lengths(1)] * count)


CALLS = """\
regard.attend(np.ma.masked_equal(Q, 1.0), K, V)
    TypeError: queries must be a plain array. Got a masked array instead.
      hint: fill it, and pass the visible pairs as mask=
regard.attend(None, K, V)
    TypeError: queries must hold real numbers. Got NoneType instead.
regard.attend(Q, K, V, scale="2")
    TypeError: scale must be a number. Got '2' instead.
regard.attend(*(x.astype(np.float32) for x in (Q, K, V)), scale=1e39)
    ValueError: scale must be a number that float32 can hold. Got 1e+39 instead.
regard.attend(*(x.astype(np.float32) for x in (Q, K, V)), softcap=1e-46)
    ValueError: softcap must be at least 1.18e-38, the smallest normal number of float32. Got 1e-46 instead.
regard.attention(*(x.astype(np.float32) for x in (Q, K, V)), normalize=weights.local_p(1.0, 1e-46))
    ValueError: width must be at least 1.18e-38, the smallest normal number of float32. Got 1e-46 instead.
regard.attend(*(x.astype(np.float32) for x in (Q, K, V)), normalize=weights.local_p(1.0, 1e39))
    ValueError: width must be a number that float32 can hold. Got 1e+39 instead.
mask.causal() & None
    TypeError: mask must be bool (True = visible) or a regard.mask object. Got NoneType instead.
regard.attend(Q, K, V, mask=mask.lengths(1).dense)
    TypeError: mask must be bool (True = visible) or a regard.mask object. Got method instead.
position.t5_buckets(np.zeros((8, 1)), bidirectional="no")
    TypeError: bidirectional must be True or False. Got 'no' instead.
position.rotary(Q, interleaved="no")
    TypeError: interleaved must be True or False. Got 'no' instead.
mask.causal() and mask.window(1, 1)
    TypeError: masks must be composed with & | ~.
      hint: not with and, or, not: a mask is neither true nor false
regard.attend(Q, K, V, mask="causal")
    TypeError: mask must be bool or a regard.mask object. Got 'causal' instead.
      hint: mask.causal()
regard.attend(Q, K, V, mask=[[True], [True, False]])
    ValueError: mask must be an array of bools; its rows have different lengths.
      hint: each row needs as many columns as there are keys
regard.attend(Q, Q, Q, bias=mask.causal())
    TypeError: bias must be an array of numbers, a position.alibi or a position.t5_buckets.
      queries (2, 5, 4)        is (..., n, d)
      keys    (2, 5, 4)        is (..., m, d)
      values  (2, 5, 4)        is (..., m, e)
      hint: pass an object, not a class: position.alibi(heads); a mask is mask=
regard.merge(regard.Partial(o(4, 2), o(3)))
    ValueError: context and lse of a part must be (..., n, e) and (..., n): (4, 2) and (3,)
regard.attention(Q, K, V, kernel="blockd")
    ValueError: kernel must be one of 'auto', 'native', 'blocked'. Got 'blockd' instead.
      hint: did you mean 'blocked'?
regard.attention(Q, K, V, threads=10**30)
    ValueError: threads must be at most 2147483648. Got 1000000000000000000000000000000 instead.
regard.attention(Q, K, V, scale=10**400)
    ValueError: scale must be finite. Got inf instead.
scores.dot()(o(2, 5, 64), o(2, 7, 32))
    ValueError: queries and keys must share their last dimension d: 64 and 32
      queries (2, 5, 64)       is (..., n, d)
      keys    (2, 7, 32)       is (..., m, d)
      hint: scores.general and scores.additive compare different sizes
scores.gaussian()(o(2, 5, 4), o(3, 7, 4))
    ValueError: leading dimensions must broadcast: (2,) and (3,)
      queries (2, 5, 4)        is (..., n, d)
      keys    (3, 7, 4)        is (..., m, d)
scores.concat(o(8, 5), o(5))(o(4), K)
    ValueError: queries must have at least 2 dimensions: 1
      queries (4,)             is (..., n, d)
      keys    (2, 7, 4)        is (..., m, d)
      hint: one vector is queries[None, :]
mask.lengths(None)
    TypeError: keys of lengths must hold integers. Got dtype object instead.
mask.lengths(np.uint64(2**64 - 1))
    ValueError: keys of lengths must be at most 9223372036854775807. Got 18446744073709551615 instead.
mask.lengths([1, 2], [1, 2, 3]).dense(3, 3)
    ValueError: keys and queries of lengths must broadcast: (2,) and (3,)
mask.documents(np.zeros((2, 3), int), np.zeros((3, 3), int)).dense(3, 3)
    ValueError: queries and keys of documents must broadcast: (2,) and (3,)
composed(400)
    ValueError: masks must be composed at most 700 deep. Got 701 instead.
      hint: make one bool array of many masks, or one documents() (each | is three levels)
regard.attention(Q, K, V, score=scores.gaussian(1e-320))
    ValueError: width must be at least 2.23e-308, the smallest normal number of float64. Got 1e-320 instead.
position.alibi([0.5, np.nan])
    ValueError: slopes must hold finite numbers. Got nan at index (1,) from 0 instead.
regard.attention(Q, K, V, threads=0)
    ValueError: threads must be at least 1. Got 0 instead.
regard.attention_vjp(Q, K, V, threads=1.5)
    TypeError: threads must be an integer. Got 1.5 instead.
regard.attention_vjp(Q, K, V, wanted=("keys", "value"))
    ValueError: wanted must be one of 'queries', 'keys', 'values'. Got 'value' instead.
      hint: did you mean 'values'?
regard.attention(Q, K, V, out=o(2, 5, 4))
    ValueError: out must have shape (2, 5, 3) and dtype float64. Got shape (2, 5, 4) and dtype float64 instead.
regard.attention(Q, K, V, out=np.empty((2, 5, 3), np.float32))
    ValueError: out must have shape (2, 5, 3) and dtype float64. Got shape (2, 5, 3) and dtype float32 instead.
regard.attention(Q, K, V, out=[0])
    TypeError: out must be an array. Got list instead.
      hint: np.empty((2, 5, 3), np.float64)
regard.attention(Q, K, V, out=np.broadcast_to(0.0, (2, 5, 3)))
    ValueError: out must be writeable. Got a read-only array instead.
regard.attention_vjp(Q, K, V, score=lambda queries, keys: queries)
    TypeError: score must have a method vjp(queries, keys) -> (scores, pullback) for gradients.
      hint: see regard.scores.Differentiable
regard.attend(Q, K, V, score=lambda queries, keys: o(3, 3))
    ValueError: score(queries, keys) must broadcast to (..., n, m) = (2, 5, 7). Got shape (3, 3) instead.
regard.attention_vjp(Q, K, V)[1](o(2, 5, 4))
    ValueError: dcontext must have the shape of the context (..., n, e) = (2, 5, 3). Got (2, 5, 4) instead.
regard.merge()
    ValueError: merge needs at least one part: 0
      hint: a part without keys is the neutral element
regard.merge(1)
    TypeError: merge takes Partial objects. Got int instead.
      hint: merge(*parts)
regard.merge(regard.partial(Q, K, V), regard.partial(Q[:1], K[:1], V[:1]))
    ValueError: parts must have one shape of context: (2, 5, 3) and (1, 5, 3)
mask.causal(align="left")
    ValueError: align must be one of 'start', 'end'. Got 'left' instead.
mask.window(-1, 2)
    ValueError: left must be at least 0. Got -1 instead.
mask.window(1, 2.5)
    TypeError: right must be an integer. Got 2.5 instead.
mask.lengths(1.5)
    TypeError: keys of lengths must hold integers. Got dtype float64 instead.
mask.lengths([-1, 2])
    ValueError: keys of lengths must be at least 0. Got -1 instead.
mask.documents([0.5])
    TypeError: queries of documents must hold integers. Got dtype float64 instead.
(mask.lengths([1, 2]) & mask.lengths([1, 2, 3])).dense(3, 3)
    ValueError: composed masks must broadcast: (2,) and (3,)
mask.causal() & o(3, 3)
    TypeError: mask must be bool (True = visible) or a regard.mask object. Got dtype float64 instead.
      hint: an array that is added to the scores is bias=
mask.causal().dense(-1, 2)
    ValueError: n must be at least 0. Got -1 instead.
position.alibi(0)
    ValueError: slopes must be at least 1. Got 0 instead.
position.alibi(1, align="middle")
    ValueError: align must be one of 'start', 'end'. Got 'middle' instead.
position.alibi(1, align=0.5)
    TypeError: align must hold integers. Got dtype float64 instead.
position.alibi(o(2, 2))
    ValueError: slopes must have shape (heads,). Got shape (2, 2) instead.
position.t5_buckets(o(3))
    ValueError: table must have shape (buckets, heads). Got shape (3,) instead.
position.t5_buckets(o(8, 1), align=0.5)
    TypeError: align must hold integers. Got dtype float64 instead.
position.t5_buckets(o(5, 1))
    ValueError: table must have at least 4 buckets, a multiple of 2. Got 5 instead.
position.t5_buckets(o(32, 1), max_distance=8)
    ValueError: max_distance must be at least 9. Got 8 instead.
position.t5_buckets(o(8, 2)).bucket([0.5])
    TypeError: distances must hold integers. Got dtype float64 instead.
position.t5_buckets(o(8, 2)).bucket("far")
    TypeError: distances must hold integers. Got dtype <U3 instead.
position.t5_buckets(o(8, 2)).bucket(-(2**63))
    ValueError: distances must be at least -9223372036854775807. Got -9223372036854775808 instead.
position.rotary(o(3, 5))
    ValueError: dims must be even and at most d = 5. Got 5 instead.
      hint: dims= rotates the first coordinates only
position.rotary(o(3, 4), dims=6)
    ValueError: dims must be even and at most d = 4. Got 6 instead.
      hint: dims= rotates the first coordinates only
position.rotary(o(4))
    ValueError: x must be (..., n, d). Got shape (4,) instead.
position.rotary(o(3, 4), [1, 2])
    ValueError: positions must broadcast to (..., n) = (3,). Got shape (2,) instead.
position.rotary(o(3, 4), base=0)
    ValueError: base must be greater than 0. Got 0.0 instead.
position.sinusoidal(-1, 4)
    ValueError: n must be at least 0. Got -1 instead.
scores.general(o(3))
    ValueError: weight must have shape (d, d'). Got shape (3,) instead.
scores.additive(o(4, 5), o(4, 6), o(5))
    ValueError: key_weight must end in the hidden size h = 5 of vector. Got shape (4, 6) instead.
scores.additive(o(4, 5), o(4, 5), o(5, 1))
    ValueError: vector must have shape (h,). Got shape (5, 1) instead.
scores.additive(o(4, 5), o(4, 5), o(5), o(4))
    ValueError: bias must end in the hidden size h = 5 of vector. Got shape (4,) instead.
scores.concat(o(8, 5), o(4))
    ValueError: weight must end in the hidden size h = 4 of vector. Got shape (8, 5) instead.
scores.concat(o(4, 3), o(3)).project_keys(3.0)
    ValueError: keys must have shape (..., m, 1 to 3). Got shape () instead.
regard.merge(regard.Partial([[1.0]], [0.0]), regard.Partial([[1.0], [2.0]], [0.0, 1.0]))
    ValueError: parts must have one shape of context: (1, 1) and (2, 1)
regard.merge(regard.Partial(None, None))
    TypeError: context must hold real numbers. Got NoneType instead.
scores.gaussian(0.0)
    ValueError: width must be greater than 0. Got 0.0 instead.
weights.local_m(-1)
    ValueError: width must be at least 0. Got -1 instead.
weights.local_m(1, align="middle")
    ValueError: align must be one of 'start', 'end'. Got 'middle' instead.
weights.local_m(1, align=None)
    ValueError: align must be one of 'start', 'end'. Got None instead.
weights.local_m(1, align=0.5)
    TypeError: align must hold integers. Got dtype float64 instead.
weights.local_p([1.0], 0.0)
    ValueError: width must be greater than 0. Got 0.0 instead.
weights.predict_positions(o(2, 3), o(3), o(3), 4)
    ValueError: weight must have shape (d, h). Got shape (3,) instead.
"""


def test_calls() -> None:
    for call, text in transcript(CALLS):
        assert_raises(call, text, globals())


def test_every_first_line_states_a_rule() -> None:
    """A rule and the rejected input, in one line that the command line can print alone."""
    for _, text in transcript(ARRAYS + OPTIONS + STEP_TWO + CALLS):
        first = text.splitlines()[0]
        assert any(word in first for word in (" must ", " needs ", " takes ")), first
        assert len(first) <= 160, first


SHAPES_OF_OPTIONS = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@pytest.mark.slow
@given(SHAPES_OF_OPTIONS, SHAPES_OF_OPTIONS)
def test_an_option_fits_where_numpy_broadcasts_it_without_enlarging(
    shape: tuple[int, ...], target: tuple[int, ...]
) -> None:
    try:
        fits = np.broadcast_shapes(shape, target) == target
    except ValueError:
        fits = False
    if fits:
        _check.broadcast("mask", shape, target, "(..., n, m)")
        return
    with pytest.raises(ValueError) as caught:
        _check.broadcast("mask", shape, target, "(..., n, m)")
    text = f"mask must broadcast to (..., n, m) = {target}. Got shape {shape} instead."
    rule, _, hint = str(caught.value).partition("\n  hint: did you mean ")
    assert rule == text
    if hint:  # what the hint suggests works
        array = eval(hint.removesuffix("?"), {"mask": np.ones(shape)})
        assert np.broadcast_shapes(array.shape, target) == target


# ---- hints ---------------------------------------------------------------------------------------------------------

HEADS = o(2, 8, 5, 4), o(2, 8, 7, 4), o(2, 8, 7, 3)
ONE_DIMENSION: dict[str, tuple[Any, Any, Any, str]] = {
    "a value for each key": (o(3, 4), o(5, 4), o(5), "one number for each row is values[:, None]"),
    "the values of one key": (o(3, 4), o(1, 4), o(5), "one vector is values[None, :]"),
    "the value of one key": (o(3, 4), o(1, 4), o(1), "one number for each row is values[:, None]"),
    "one query": (o(4), o(5, 4), o(5, 3), "one vector is queries[None, :]"),
    "queries of size 1": (o(3), o(5, 1), o(5, 3), "one number for each row is queries[:, None]"),
    "one key": (o(3, 4), o(4), o(1, 3), "one vector is keys[None, :]"),
    "keys of size 1": (o(3, 1), o(5), o(5, 3), "one number for each row is keys[:, None]"),
    "nobody knows": (
        o(3),
        o(5),
        o(5),
        "one vector is queries[None, :]; one number for each row is queries[:, None]",
    ),
    "a number": (3.0, o(5, 4), o(5, 3), "one number is [[queries]]"),
}


def hint_of(call: Callable[[], Any], kind: type[Exception] = ValueError) -> str:
    """The hint of the error that the call raises."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value).partition("\n  hint: ")[2]


@every_function
def test_one_dimensional_arrays(function: str) -> None:
    for name, (*arrays, hint) in ONE_DIMENSION.items():
        assert hint_of(lambda arrays=arrays: FUNCTIONS[function](*arrays)) == hint, name


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((2, 7), "mask[:, None, None, :]"),  # one for each key of a sentence
        ((2, 5), "mask[:, None, :, None]"),  # for each query
        ((2, 8), "mask[:, :, None, None]"),
        ((8, 7), "mask[:, None, :]"),
        ((2, 5, 7), "mask[:, None, :, :]"),
        ((5,), "mask[:, None]"),
        ((7, 5), "mask.T"),
        ((2, 8, 7, 5), "mask.swapaxes(-1, -2)"),
        ((3, 7), ""),
    ],
)
def test_masks_and_biases_that_lack_dimensions(shape: tuple[int, ...], fits: str) -> None:
    hint = f"did you mean {fits}?" if fits else ""
    assert hint_of(lambda: regard.attend(*HEADS, mask=np.ones(shape, bool))) == hint
    assert hint_of(lambda: regard.attention(*HEADS, bias=o(*shape))) == hint.replace("mask", "bias")


def test_other_arrays_that_lack_dimensions() -> None:
    queries = o(2, 8, 5, 4)
    ids = np.zeros((2, 5), int)
    assert hint_of(lambda: position.rotary(queries, o(2, 5))) == "did you mean positions[:, None, :]?"
    packed = mask.documents(ids)
    assert hint_of(lambda: regard.attend(queries, queries, queries, mask=packed)) == (
        "did you mean queries[:, None, :]?"
    )
    near = weights.local_p(o(2, 5), 1.0)
    assert hint_of(lambda: regard.attend(queries, queries, queries, normalize=near)) == (
        "did you mean positions[:, None, :]?"
    )
    score = scores.cosine(o(2, 5))
    assert hint_of(lambda: regard.attend(queries, queries, queries, score=score)) == (
        "did you mean sharpness[:, None, :]?"
    )


LINEAR: dict[str, Callable[[], Any]] = {
    "weight": lambda: regard.attend(o(5, 4), o(5, 6), o(5, 6), score=scores.general(o(6, 4))),
    "query_weight": lambda: scores.additive(o(9, 4), o(9, 6), o(9)),
    "key_weight": lambda: scores.additive(None, o(9, 6), o(9)),
    "weight of concat": lambda: scores.concat(o(9, 8), o(9)),
    "weight of location": lambda: regard.attend(Q, K, V, score=scores.location(o(9, 4))),
    "weight of predicted positions": lambda: weights.predict_positions(o(3, 4), o(9, 4), o(9), 5),
    "weight of linear": lambda: nn.linear(o(3, 4), o(5, 4), o(5)),
    "hidden_weight": lambda: nn.perceptron(o(3, 4), o(9, 4), o(9), o(2, 9), o(2)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_weights_in_the_layout_of_pytorch(name: str) -> None:
    weight = name.split(" ")[0]
    assert hint_of(LINEAR[name]) == f"{weight}.T, if it is PyTorch's, which is (out, in)"


def test_weights_that_do_not_fit_when_transposed_have_no_such_hint() -> None:
    assert hint_of(lambda: nn.linear(o(3, 4), o(5, 6))) == ""
    assert hint_of(lambda: scores.additive(o(3, 4), o(3, 4), o(9))) == ""
    assert hint_of(lambda: nn.linear(o(3, 4), o(4, 5))[1](o(5, 3))) == ""  # a gradient is not a weight


@pytest.mark.parametrize(
    ("ragged", "sentences"),
    [
        ([[1, 2], [3]], False),
        ([1, [2, 3]], False),
        (np.array([[1, 2], [3]], object), False),
        ([[[1, 2], [3, 4]], [[5, 6]]], True),
        ([np.ones((2, 3)), np.ones((1, 3))], True),
        ([[[[1], [2]], [[3]]]], True),
    ],
)
def test_ragged_lists(ragged: Any, sentences: bool) -> None:
    hidden = "; mask=regard.mask.lengths(counts) hides what is added" if sentences else ""
    text = "ValueError: keys must be an array of numbers; its rows have different lengths."
    expected = f"{text}\n  hint: pad them to one length{hidden}"
    assert_raises("regard.attend(Q, ragged, V)", expected, globals() | {"ragged": ragged})


FOREIGN = {  # options of other libraries, and what must be in the hint
    "is_causal": "mask=regard.mask.causal()",
    "attn_mask": "mask=",
    "dropout_p": "leave it out",
    "key_padding_mask": "regard.mask.lengths(",
    "attention_mask": "[:, None, None, :]",
    "enable_gqa": "fewer heads",
    "need_weights": "regard.attend(...).weights",
    "average_attn_weights": "regard.attend(...).weights",
    "output_attentions": "regard.record()",
    "sliding_window": "regard.mask.window(w - 1, 0)",
    "window_size": "regard.mask.window(w - 1, 0)",
    "softmax_scale": "scale=",
    "logits_soft_cap": "softcap=",
    "segment_ids": "regard.mask.documents(",
    "alibi_slopes": "regard.position.alibi(",
    "query": "in this order",
    "softcp": "did you mean softcap=?",
    "masks": "did you mean mask=?",
}


@every_function
def test_options_of_other_libraries(function: str) -> None:
    for option, needed in FOREIGN.items():
        with pytest.raises(TypeError, match=f"^{function} takes no option {option!r}\\.\n  hint: ") as caught:
            FUNCTIONS[function](Q, K, V, **{option: True})
        assert needed in str(caught.value).partition("\n  hint: ")[2], option
        assert caught.value.__suppress_context__


@every_function
def test_options_by_position_and_unknown_ones(function: str) -> None:
    rule = f"TypeError: {function} takes 3 arrays by position, queries, keys, values. Got "
    hint = "\n  hint: options such as mask= are given by name"
    assert_raises(f"regard.{function}(Q, K, V, None)", f"{rule}4 instead.{hint}", globals())
    assert_raises(f"regard.{function}(Q, K)", f"{rule}2 instead.", globals())
    assert hint_of(lambda: FUNCTIONS[function](Q, K, V, banana=1), TypeError).startswith(
        "its options are score, mask"
    )


def test_a_type_error_inside_is_raised_unchanged() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        regard.attend(Q, K, V, score=lambda queries: queries)


def test_wrapped_functions_keep_their_signature() -> None:
    for name, function in FUNCTIONS.items():
        parameters = inspect.signature(function).parameters
        assert list(parameters)[:4] == ["queries", "keys", "values", "score"]
        assert (function.__name__, function.__module__.split(".")[0]) == (name, "regard")


# ---- sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["attend", "attention", "attention_vjp", "partial"])
def test_at_most_32_dimensions(function: str) -> None:
    x = np.zeros((1,) * 31 + (2, 3))
    with pytest.raises(ValueError, match=r"^queries must have at most 32 dimensions\. Got 33 instead\.$"):
        getattr(regard, function)(x, x, x)
    x = x[0]
    assert getattr(regard, function)(x, x[0], x[0]) is not None


def test_masks_of_more_than_32_dimensions_are_rejected() -> None:
    ids, x = np.ones((1,) * 33 + (2,), int), np.zeros((2, 3))
    documents = regard.mask.documents(ids, ids)
    for invalid_mask in (
        documents,
        documents & regard.mask.lengths(np.ones((1,) * 33, int)),
        ids[..., None] > 0,
    ):
        with pytest.raises(ValueError, match=r"must (broadcast|have at most 32 dimensions)"):
            regard.attention(x, x, x, mask=invalid_mask)


@pytest.mark.parametrize("strides", [(8, 8), (0, 8), (16, 8), (-8, 8)])
def test_out_that_overlaps_itself(strides: tuple[int, int]) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(64)[32:], (4, 4), strides)
    text = rf"^out must have memory of its own for each number\. Got strides \({strides[0]}, 8\) at shape \(4, 4\)"
    with pytest.raises(ValueError, match=text):
        regard.attention(np.eye(4), np.eye(4), np.eye(4), out=out)


def test_out_may_have_any_strides_without_overlap() -> None:
    expected = regard.attention(np.eye(4), np.eye(4), np.eye(4))
    for out in (np.zeros((8, 8))[::-2, ::2], np.zeros((4, 4)).T, np.zeros((4, 4), order="F")[::-1]):
        assert regard.attention(np.eye(4), np.eye(4), np.eye(4), out=out) is out
        np.testing.assert_array_equal(out, expected)


def test_sizes_beyond_any_memory() -> None:
    """An empty context costs nothing however many queries there are; what can't be held is refused with its numbers."""
    one, empty = np.ones((1, 1), np.float32), np.ones((1, 0), np.float32)
    many = np.broadcast_to(np.float32(1), (1 << 60, 1))
    for kernel in ("auto", "blocked"):
        assert regard.attention(many, one, empty, kernel=kernel).shape == (1 << 60, 0)
        assert regard.attention_vjp(many, one, empty, kernel=kernel)[0].shape == (1 << 60, 0)
    with pytest.raises(
        ValueError, match=rf"^attend keeps arrays .* of at most {1 << 48} numbers: {1 << 60}\n"
    ):
        regard.attend(many, one, empty)
    batch = np.broadcast_to(np.float32(1), (1 << 40, 0, 1))
    for function in (regard.attend, regard.attention, regard.partial):
        with pytest.raises(ValueError, match=rf"must hold at most {1 << 31} attentions: {1 << 40}\n"):
            function(batch, one, empty)
