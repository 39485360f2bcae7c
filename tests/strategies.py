"""The inputs of the tests: every option with its oracle twin, shapes, dtypes, strides, and the hypothesis strategies.

`OPTIONS` is the list of options that "for every option" means in the laws. Each entry builds, for given sizes, the
keyword arguments of the package and the keyword arguments of the oracle from the same random numbers; a mask
is written out there as a dense bool array from its definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import ml_dtypes
import numpy as np
import oracle
from hypothesis import strategies as st
from numpy.typing import NDArray

import regard

Array = NDArray[Any]
BATCH, HEADS, KEY_HEADS = 2, 4, 2
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Sizes:
    """One draw's letters, and the random numbers for its option."""

    n: int
    m: int
    d: int
    e: int
    dtype: Any
    rng: np.random.Generator

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """Normal numbers in the draw's dtype."""
        return (self.rng.standard_normal(shape) * scale).astype(self.dtype)

    @property
    def i(self) -> Array:
        """Query numbers as a column."""
        return np.arange(self.n)[:, None]

    @property
    def j(self) -> Array:
        """Key numbers as a row."""
        return np.arange(self.m)[None, :]


@dataclass(frozen=True)
class Option:
    """The package's keyword arguments, and the oracle's for the same thing."""

    regard: dict[str, Any]
    exact: dict[str, Any] = field(default_factory=dict)
    proportional: bool = True  # an error of a logit moves a weight in proportion to the weight
    cotangent: bool = True  # has gradients
    needs: str = ""  # "" or "same": d' must be d


Builder = Callable[[Sizes], Option]


def scaled(d: int) -> float:
    """1 / sqrt(d)"""
    return 1 / math.sqrt(d) if d else 1.0


def basic(s: Sizes, **exact: Any) -> dict[str, Any]:
    """The oracle's arguments for the default score, changed by `exact`."""
    return {"score": oracle.dot(), "scale": scaled(s.d), **exact}


def plain(**options: Any) -> Builder:
    """An option that needs no numbers of the draw and has the same name in the oracle."""
    return lambda s: Option(options, basic(s, **options))


def masked(build: Callable[[Sizes], tuple[Any, Array]], bias: bool = False) -> Builder:
    """An option with a mask, as an object or an array, and its dense twin."""

    def option(s: Sizes) -> Option:
        mask, dense = build(s)
        extra = {"bias": s.normal(s.n, s.m)} if bias else {}
        return Option({"mask": mask, **extra}, basic(s, mask=dense, **extra))

    return option


def biased(build: Callable[[Sizes], Array]) -> Builder:
    """An option with a bias, as an array."""

    def option(s: Sizes) -> Option:
        bias = build(s)
        return Option({"bias": bias}, basic(s, bias=bias))

    return option


def scored(build: Callable[[Sizes], tuple[Any, oracle.Score]]) -> Builder:
    """An option of the score, scale 1 by default."""

    def option(s: Sizes) -> Option:
        score, exact = build(s)
        return Option({"score": score}, {"score": exact, "scale": 1.0})

    return option


def weighed(name: Any, exact: oracle.Normalize, proportional: bool = True, **rest: Any) -> Builder:
    """An option of step two."""
    return lambda s: Option({"normalize": name}, basic(s, normalize=exact), proportional=proportional, **rest)


def manhattan(queries: Array, keys: Array) -> Array:
    """A score of the user's: -sum |q - k|, with no gradient."""
    result: Array = -np.abs(queries[..., :, None, :] - keys[..., None, :, :]).sum(axis=-1)
    return result


class Manhattan:
    """The same score as an object with gradients: sharpness times -sum |q - k|."""

    def __init__(self, sharpness: Array) -> None:
        self.sharpness = sharpness

    def __call__(self, queries: Array, keys: Array) -> Array:
        return np.asarray(self.sharpness * manhattan(queries, keys))

    def vjp(self, queries: Array, keys: Array) -> tuple[Array, Callable[[Array], Any]]:
        """Scores and their pullback."""
        difference = queries[..., :, None, :] - keys[..., None, :, :]
        distance = np.abs(difference).sum(axis=-1)

        def pullback(dscores: Array) -> tuple[Array, Array, dict[str, Array]]:
            slope = -self.sharpness * np.sign(difference) * dscores[..., None]
            return (
                slope.sum(axis=-2),
                -slope.sum(axis=-3),
                {"sharpness": np.asarray(-(distance * dscores).sum())},
            )

        return np.asarray(-self.sharpness * distance), pullback


def off_by_one(logits: Array) -> Array:
    """A normalisation of the user's, with no gradient: exp(z_j) / (1 + sum exp(z))."""
    powers = np.exp(logits)
    return np.asarray(powers / (1 + powers.sum(axis=-1, keepdims=True)))


class OffByOne:
    """The same as an object with gradients, of logits times a sharpness; it is NaN at masked keys."""

    def __init__(self, sharpness: Array) -> None:
        self.sharpness = sharpness

    def __call__(self, logits: Array) -> Array:
        return np.where(np.isneginf(logits), np.nan, off_by_one(self.sharpness * logits))

    def vjp(self, logits: Array) -> tuple[Array, Callable[[Array], Any]]:
        """Weights and their pullback."""
        weights = off_by_one(self.sharpness * logits)

        def pullback(dweights: Array) -> tuple[Array, dict[str, Array]]:
            slope = weights * (dweights - (weights * dweights).sum(axis=-1, keepdims=True))
            learned = np.where(np.isneginf(logits), 0, logits * slope).sum()
            return self.sharpness * slope, {"sharpness": np.asarray(learned)}

        return self(logits), pullback


def user_normalizer(s: Sizes) -> Option:
    """A normalisation with a learned number."""
    sharpness = np.asarray(0.75, s.dtype)
    return Option({"normalize": OffByOne(sharpness)}, basic(s, normalize=oracle.off_by_one(0.75)))


def exact_scaled(score: oracle.Score, factor: float) -> oracle.Score:
    """factor times a score."""
    return oracle.Score(
        value=lambda q, k, j: factor * score.value(q, k, j),
        magnitude=lambda q, k, j: abs(factor) * score.magnitude(q, k, j),
        terms=score.terms,
    )


def perceptron(s: Sizes, d: int, h: int = 5) -> tuple[Array, Array, Array, Array]:
    """Random arrays for the additive score: (d, h), (d, h), (h,), (h,)."""
    return s.normal(d, h), s.normal(d, h), s.normal(h), s.normal(h)


def additive(bias: bool) -> Builder:
    """Bahdanau's score with both projections."""

    def build(s: Sizes) -> tuple[Any, oracle.Score]:
        wq, wk, v, b = perceptron(s, s.d)
        extra = (b,) if bias else ()
        return regard.scores.additive(wq, wk, v, *extra), oracle.additive(wq, wk, v, *extra)

    return scored(build)


def additive_projected(s: Sizes) -> tuple[Any, oracle.Score]:
    """Bahdanau's score on queries and keys that are projected already."""
    v, b = s.normal(s.d), s.normal(s.d)
    return regard.scores.additive(None, None, v, b), oracle.additive(None, None, v, b)


def general(s: Sizes) -> tuple[Any, oracle.Score]:
    """Luong's bilinear score."""
    weight = s.normal(s.d, s.d, scale=0.5)
    return regard.scores.general(weight), oracle.general(weight)


def concat(s: Sizes) -> tuple[Any, oracle.Score]:
    """Luong's concat score."""
    weight, vector = s.normal(2 * s.d, 5), s.normal(5)
    return regard.scores.concat(weight, vector), oracle.concat(weight, vector)


def location(s: Sizes) -> tuple[Any, oracle.Score]:
    """Luong's location score, with room for more keys than there are."""
    weight = s.normal(s.d, s.m + 2)
    return regard.scores.location(weight), oracle.location(weight)


def user_object(s: Sizes) -> tuple[Any, oracle.Score]:
    """A score object of the user's, with a learned number."""
    return Manhattan(np.asarray(0.75, dtype=s.dtype)), exact_scaled(oracle.manhattan(), 0.75)


def random_mask(s: Sizes) -> tuple[Any, Array]:
    """A bool array for each sequence and head; some rows have no visible key."""
    dense = s.rng.random((BATCH, HEADS, s.n, s.m)) < 0.4
    return dense, dense


def key_lengths(s: Sizes) -> tuple[Any, Array]:
    """Key lengths by sequence, one of them 0."""
    keys = np.array([[0], [min(2, s.m)]])
    return regard.mask.lengths(keys), s.j < keys[..., None, None]


def both_lengths(s: Sizes) -> tuple[Any, Array]:
    """Key and query lengths by sequence."""
    keys, queries = np.array([[min(3, s.m)], [s.m]]), np.array([[s.n], [min(1, s.n)]])
    dense = (s.j < keys[..., None, None]) & (s.i < queries[..., None, None])
    return regard.mask.lengths(keys, queries), dense


def documents(s: Sizes) -> tuple[Any, Array]:
    """Ids of queries and of keys by sequence."""
    queries, keys = s.rng.integers(0, 3, (BATCH, 1, s.n)), s.rng.integers(0, 3, (BATCH, 1, s.m))
    return regard.mask.documents(queries, keys), queries[..., :, None] == keys[..., None, :]


def composed(s: Sizes) -> tuple[Any, Array]:
    """(causal & not window) | lengths"""
    keys = np.array([[min(1, s.m)], [0]])
    mask = (regard.mask.causal(align="end") & ~regard.mask.window(1, 0, align="start")) | regard.mask.lengths(
        keys
    )
    causal = s.j <= s.i + s.m - s.n
    window = (s.i - 1 <= s.j) & (s.j <= s.i)
    return mask, (causal & ~window) | (s.j < keys[..., None, None])


def minus_infinity(s: Sizes) -> Array:
    """A bias by head in which -inf masks keys, in one row all of them."""
    bias = s.normal(HEADS, s.n, s.m)
    bias[s.rng.random(bias.shape) < 0.4] = -np.inf
    bias[0, :1] = -np.inf
    return bias


def aligned(s: Sizes, align: str) -> tuple[Any, Array]:
    """The argument `align`, "lengths" for each sequence's last key, and the key of each query (n, 1) or (..., n, 1)."""
    if align == "lengths":
        keys = s.rng.integers(0, s.m, (BATCH, 1), endpoint=True) - s.n
        return keys, s.i + keys[..., None, None]
    return align, s.i + (s.m - s.n if align == "end" else 0)


def alibi(align: str) -> Builder:
    """ALiBi of 4 heads under a causal mask: slopes 2^-2, 2^-4, 2^-6, 2^-8 times j - i."""
    slopes = np.array([0.25, 0.0625, 0.015625, 0.00390625])

    def build(s: Sizes) -> Option:
        at, centre = aligned(s, align)
        options = {"mask": regard.mask.causal(align=at), "bias": regard.position.alibi(HEADS, align=at)}
        added = -slopes[:, None, None] * np.abs(centre - s.j)
        return Option(options, basic(s, mask=s.j <= centre, bias=added))

    return build


def t5_bucket(distance: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """The bucket of j - i = `distance` (Raffel et al. 2020): exact up to half, then logarithmic up to max_distance."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        back = abs(distance)
    else:
        back = max(-distance, 0)
    exact = buckets // 2
    if back < exact:
        return first + back
    wide = (
        buckets - exact
    )  # bucket exact + k begins at exact * (max_distance / exact)^(k / wide): in integers
    k = 0
    while k + 1 < wide and back**wide * exact ** (k + 1) >= max_distance ** (k + 1) * exact**wide:
        k += 1
    return first + exact + k


def t5(align: str) -> Builder:
    """T5 buckets of 4 heads, both directions."""

    def build(s: Sizes) -> Option:
        table, (at, centre) = s.normal(8, HEADS), aligned(s, align)
        bucket = np.vectorize(lambda x: t5_bucket(int(x), 8, 16, True), otypes=[int])(s.j - centre)
        added = table.T[np.arange(HEADS)[:, None, None], bucket]
        bias = regard.position.t5_buckets(table, max_distance=16, align=at)
        return Option({"bias": bias}, basic(s, bias=added))

    return build


def local_p(s: Sizes) -> Option:
    """Luong's local-p window around positions in quarters, so that its edges are exact in every dtype."""
    positions = s.rng.integers(0, 4 * max(s.m, 1), (BATCH, HEADS, s.n)).astype(s.dtype) / s.dtype(4)
    options = {"normalize": regard.weights.local_p(positions, 2.0)}
    near = np.abs(s.j - positions[..., None].astype(np.float64)) <= 2  # keys outside are masked
    return Option(options, basic(s, mask=near, normalize=oracle.local_p(positions, 2.0)))


def everything(s: Sizes) -> Option:
    """Score, scale, softcap, bias, mask at once."""
    wq, wk, v, b = perceptron(s, s.d)
    mask, dense = documents(s)
    common = {"bias": s.normal(HEADS, 1, s.m), "scale": -0.5, "softcap": 0.9}
    score, exact = regard.scores.additive(wq, wk, v, b), oracle.additive(wq, wk, v, b)
    return Option(
        {"score": score, "mask": mask, **common},
        {"score": exact, "mask": dense, **common},
    )


def window(left: int | None, right: int | None, align: str) -> Builder:
    """A sliding window, None for no bound."""

    def build(s: Sizes) -> tuple[Any, Array]:
        at, centre = aligned(s, align)
        low = -1 if left is None else centre - left
        high = s.m if right is None else centre + right
        return regard.mask.window(left, right, align=at), (low <= s.j) & (s.j <= high)

    return masked(build)


def local_m(width: int, align: str) -> Builder:
    """Luong's local-m window: keys outside are masked."""

    def build(s: Sizes) -> Option:
        at, centre = aligned(s, align)
        near = np.abs(s.j - centre) <= width
        return Option({"normalize": regard.weights.local_m(width, align=at)}, basic(s, mask=near))

    return build


def score_and_mask(s: Sizes) -> Option:
    """The dot product under a random mask for all heads; rows without a visible key occur."""
    visible = s.rng.random((s.n, s.m)) < 0.4
    return Option({"score": "dot", "mask": visible}, {"score": oracle.dot(), "scale": 1.0, "mask": visible})


def sunk(build: Callable[[Sizes], tuple[Any, Option]]) -> Builder:
    """An option with a sink, which has the same name in the oracle."""

    def option(s: Sizes) -> Option:
        sink, rest = build(s)
        return Option(rest.regard | {"sink": sink}, rest.exact | {"sink": np.asarray(sink, np.float64)})

    return option


OPTIONS: dict[str, Builder] = {
    "default": plain(),
    "score-dot": lambda s: Option({"score": "dot"}, {"score": oracle.dot(), "scale": 1.0}),
    "score-scaled_dot": lambda s: Option({"score": "scaled_dot"}, basic(s)),
    "score-cosine": scored(lambda s: (regard.scores.cosine(2.5), oracle.cosine(2.5))),
    "score-general": scored(general),
    "score-additive": additive(bias=False),
    "score-additive-bias": additive(bias=True),
    "score-additive-projected": scored(additive_projected),
    "score-concat": scored(concat),
    "score-location": scored(location),
    "score-gaussian": scored(lambda s: (regard.scores.gaussian(1.5), oracle.gaussian(1.5))),
    "score-function": lambda s: Option(
        {"score": manhattan}, {"score": oracle.manhattan(), "scale": 1.0}, cotangent=False
    ),
    "score-object": scored(user_object),
    "scale": plain(scale=0.3),
    "scale-negative": plain(scale=-0.7),
    "scale-zero": plain(scale=0.0),
    "softcap": plain(softcap=0.8),
    "bias-matrix": biased(lambda s: s.normal(s.n, s.m)),
    "bias-row": biased(lambda s: s.normal(s.m)),
    "bias-column": biased(lambda s: s.normal(BATCH, 1, s.n, 1)),
    "bias-minus-infinity": biased(minus_infinity),
    "bias-alibi": alibi("end"),
    "bias-alibi-lengths": alibi("lengths"),
    "bias-t5": t5("start"),
    "bias-t5-lengths": t5("lengths"),
    "mask-array": masked(random_mask),
    "mask-array-and-bias": masked(random_mask, bias=True),
    "mask-key-row": masked(lambda s: ((s.j[0] % 3 != 0), np.broadcast_to(s.j % 3 != 0, (s.n, s.m)))),
    "mask-nothing": masked(lambda s: (np.False_ & (s.i == s.j), np.zeros((s.n, s.m), bool))),
    "mask-causal-start": masked(lambda s: (regard.mask.causal(align="start"), s.j <= s.i)),
    "mask-causal-end": masked(lambda s: (regard.mask.causal(align="end"), s.j <= s.i + s.m - s.n)),
    "mask-window-start": window(1, 2, "start"),
    "mask-window-end": window(2, 0, "end"),
    "mask-window-left": window(1, None, "start"),
    "mask-window-right": window(None, 1, "end"),
    "mask-causal-lengths": window(None, 0, "lengths"),
    "mask-window-lengths": window(2, 1, "lengths"),
    "mask-prefix": masked(lambda s: (regard.mask.prefix(2, align="start"), (s.j <= s.i) | (s.j < 2))),
    "mask-lengths": masked(key_lengths),
    "mask-lengths-both": masked(both_lengths),
    "mask-documents": masked(documents),
    "mask-composed": masked(composed),
    "normalize-sparsemax": weighed("sparsemax", oracle.sparsemax, proportional=False),
    "normalize-entmax15": weighed("entmax15", oracle.entmax15, proportional=False),
    "normalize-hard": weighed("hard", oracle.hard, cotangent=False),
    "normalize-entmax-1.25": weighed(regard.weights.entmax(1.25), oracle.entmax(1.25), proportional=False),
    "normalize-entmax-1.75": weighed(regard.weights.entmax(1.75), oracle.entmax(1.75), proportional=False),
    "normalize-sigmoid": weighed(regard.weights.sigmoid(), oracle.sigmoid()),
    "normalize-sigmoid-bias": weighed(regard.weights.sigmoid(-0.5), oracle.sigmoid(-0.5)),
    "normalize-relu": weighed(regard.weights.relu(), oracle.relu, proportional=False),
    "normalize-function": weighed(off_by_one, oracle.off_by_one(), cotangent=False),
    "normalize-object": user_normalizer,
    "normalize-local_m-start": local_m(2, "start"),
    "normalize-local_m-end": local_m(1, "end"),
    "normalize-local_m-lengths": local_m(1, "lengths"),
    "normalize-local_p": local_p,
    "sink": sunk(lambda s: (s.normal(HEADS, scale=2.0), plain()(s))),
    "sink-shared": sunk(lambda s: (0.0, score_and_mask(s))),
    "sink-batch": sunk(lambda s: (s.normal(BATCH, 1, scale=2.0), alibi("end")(s))),
    "sink-none": sunk(lambda s: (np.array([-np.inf, 1, -np.inf, -1], s.dtype), plain(softcap=0.8)(s))),
    "sink-everything": sunk(lambda s: (s.normal(BATCH, HEADS), everything(s))),
    "everything": everything,
}
SOFTMAX_OPTIONS = [name for name in OPTIONS if not name.startswith("normalize")]
SMOOTH_OPTIONS = [
    name for name in OPTIONS if name not in ("score-function", "normalize-hard", "normalize-function")
]


@dataclass(frozen=True)
class Case:
    """Arrays with an option: everything that one call takes."""

    queries: Array
    keys: Array
    values: Array
    option: Option

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Queries, keys, values."""
        return self.queries, self.keys, self.values

    @cached_property
    def answer(self) -> oracle.Answer:
        """The results of the oracle."""
        return oracle.attend(*self.arrays, **self.option.exact)


def read_only(array: Array) -> Array:
    """The same array, not to be written."""
    array = np.asarray(array)
    array.flags.writeable = False
    return array


@cache
def case(
    name: str, dtype: Any = np.float32, n: int = 7, m: int = 9, d: int = 4, e: int = 3, seed: int = 0
) -> Case:
    """The named option on (2, 4, n, d) queries and (2, 2, m, .) keys and values, all read-only."""
    s = Sizes(n, m, d, e, np.dtype(dtype).type, np.random.default_rng(seed))
    arrays = s.normal(BATCH, HEADS, n, d), s.normal(BATCH, KEY_HEADS, m, d), s.normal(BATCH, KEY_HEADS, m, e)
    return Case(*(read_only(x) for x in arrays), OPTIONS[name](s))


def gradients(arrays: tuple[Any, ...], dcontext: Array, **options: Any) -> dict[str, Array]:
    """All gradients of a call by name."""
    _, pullback = regard.attention_vjp(*arrays, **options)
    pulled = pullback(dcontext)
    named = {name: getattr(pulled, name) for name in ("queries", "keys", "values", "bias", "sink")}
    named |= {f"score.{name}": x for name, x in (pulled.score or {}).items()}
    named |= {f"normalize.{name}": x for name, x in pulled.normalize.items()}
    return {name: x for name, x in named.items() if x is not None}


# ---- strides -------------------------------------------------------------------------------------------------


def reversed_rows(x: Array) -> Array:
    """Negative strides along the last two dimensions."""
    axes = (slice(None, None, -1),) * min(x.ndim, 2)
    return np.ascontiguousarray(x[(..., *axes)])[(..., *axes)]


def every_other(x: Array) -> Array:
    """A stride of two elements along the last dimension, with NaN (or junk) in between."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)
    wide[...] = np.nan if x.dtype.kind == "f" else 77
    wide[..., ::2] = x
    return wide[..., ::2]


def unaligned(x: Array) -> Array:
    """Data that begins one byte after an aligned address."""
    raw = np.zeros(x.nbytes + 1, dtype=np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape) if x.size else x
    if x.size:
        view[...] = x
    return view


def swapped(x: Array) -> Array:
    """The other byte order; dtypes that have none come back as they are."""
    return x if x.dtype.kind == "V" or x.dtype.itemsize == 1 else x.astype(x.dtype.newbyteorder("S"))


def fortran(x: Array) -> Array:
    """First dimension fastest."""
    return np.asfortranarray(x)


def swapped_axes(x: Array) -> Array:
    """Stored (..., d, n), as a transposed view."""
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2) if x.ndim > 1 else x


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "reversed": reversed_rows,
    "every-other": every_other,
    "unaligned": unaligned,
    "byte-swapped": swapped,
    "fortran": fortran,
    "transposed": swapped_axes,
}


def layouts() -> st.SearchStrategy[Callable[[Array], Array]]:
    """One way to lay an array out."""
    return st.sampled_from([np.ascontiguousarray, *LAYOUTS.values()])


# ---- hypothesis ----------------------------------------------------------------------------------------------


@st.composite
def leads(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Leading dimensions of queries, keys, values that broadcast, perhaps with grouped heads, perhaps of size 0."""
    rank = draw(st.integers(0, 3))
    full = [draw(st.sampled_from([0, 1, 2, 2, 3, 4])) for _ in range(rank)]

    def one() -> tuple[int, ...]:
        shape = [size if draw(st.booleans()) else 1 for size in full]
        return tuple(shape[draw(st.integers(0, rank)) if rank else 0 :])

    queries, keys, values = one(), one(), one()
    if rank and draw(st.booleans()):  # several query heads read one key head
        heads, key_heads = draw(st.sampled_from([(4, 2), (6, 2), (6, 3), (3, 1)]))
        keys = (1,) * (rank - len(keys)) + keys  # heads are split only where all dimensions exist
        queries, keys = (*full[:-1], heads), (*keys[:-1], key_heads)
        values = (*values[:-1], draw(st.sampled_from([1, key_heads])))
    return queries, keys, values


@st.composite
def broadcast_shapes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to this one."""
    start = draw(st.integers(0, len(shape)))
    return tuple(size if draw(st.booleans()) else 1 for size in shape[start:])


@st.composite
def mask_objects(
    draw: st.DrawFn, n: int, m: int, depth: int = 2, lead: tuple[int, ...] = ()
) -> tuple[Any, Array]:
    """A mask object composed with & | ~, and its dense twin, which broadcasts to (*lead, n, m)."""
    i, j = np.arange(n)[:, None], np.arange(m)[None, :]
    align: Any = draw(st.sampled_from(["start", "end"]))
    centre = i + (m - n if align == "end" else 0)
    leaves = ["causal", "window", "lengths", "documents", "prefix", "array"]
    kind = draw(st.sampled_from([*leaves, "&", "|", "~"] if depth else leaves))

    def integers(most: int, *trailing: int) -> Array:
        rng = np.random.default_rng(draw(st.integers(0, 2**20)))
        return rng.integers(0, most, (*draw(broadcast_shapes(lead)), *trailing), endpoint=True)

    if draw(st.booleans()):
        align = integers(n + m) - n
        centre = i + align[..., None, None]
    if kind == "causal":
        return regard.mask.causal(align=align), j <= centre
    if kind == "window":
        left, right = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        return regard.mask.window(left, right, align=align), (centre - left <= j) & (j <= centre + right)
    if kind == "lengths":
        keys, queries = integers(m), integers(n)
        dense = (j < keys[..., None, None]) & (i < queries[..., None, None])
        return regard.mask.lengths(keys, queries), dense
    if kind == "documents":
        of_queries, of_keys = integers(2, n), integers(2, m)
        if draw(st.booleans()):
            of_queries, of_keys = np.sort(of_queries), np.sort(of_keys)
        dense = of_queries[..., :, None] == of_keys[..., None, :]
        return regard.mask.documents(of_queries, of_keys), dense
    if kind == "prefix":
        length = integers(m)
        dense = (j <= centre) | (j < length[..., None, None])
        return regard.mask.prefix(length, align=align), dense
    if kind == "array":
        array = integers(1, n, m).astype(bool)
        return regard.mask.as_mask(array), array
    left_mask, left_dense = draw(mask_objects(n, m, depth - 1, lead))
    if kind == "~":
        return ~left_mask, ~left_dense
    right_mask, right_dense = draw(mask_objects(n, m, depth - 1, lead))
    if kind == "&":
        return left_mask & right_mask, left_dense & right_dense
    return left_mask | right_mask, left_dense | right_dense


@st.composite
def cases(draw: st.DrawFn, dtype: Any = np.float32) -> Case:
    """Any shapes and strides with a mask, a bias, a scale and a softcap drawn independently; numbers from a seed."""
    query_lead, key_lead, value_lead = draw(leads())
    n, m, d, e = (draw(st.integers(0, 5)) for _ in range(4))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    size = draw(st.sampled_from([0.1, 1.0, 6.0]))

    def array(*shape: int) -> Array:
        return read_only(draw(layouts())((rng.standard_normal(shape) * size).astype(dtype)))

    queries, keys, values = array(*query_lead, n, d), array(*key_lead, m, d), array(*value_lead, m, e)
    options: dict[str, Any] = {}
    exact: dict[str, Any] = {"score": oracle.dot(), "scale": scaled(d)}
    if draw(st.booleans()):
        options["mask"], exact["mask"] = draw(mask_objects(n, m))
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(n, m), (1, m), (n, 1), (m,), ()]))
        options["bias"] = exact["bias"] = read_only(rng.standard_normal(shape).astype(dtype))
    if draw(st.booleans()):
        options["scale"] = exact["scale"] = draw(st.sampled_from([1.0, 0.25, -1.5, 0.0]))
    if draw(st.booleans()):
        options["softcap"] = exact["softcap"] = draw(st.sampled_from([0.5, 5.0]))
    return Case(queries, keys, values, Option(options, exact))
