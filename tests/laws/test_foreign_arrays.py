"""Arrays of other libraries at every door: read as NumPy's, or a TypeError that names the argument and the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from foreign import Arrayed, DoorLaws, Exported, Tensor, each, in_lists

import regard
from regard import linear, mask, nn, outofcore, position, scores, weights
from regard.seq2seq.sources import Vectors
from regard.show import explanation, figures, page, terminal
from regard.show.page.alignment import aligned
from regard.show.page.heads import measures
from regard.show.page.long_attention import LongAttention

Reader = Callable[[Any], Any]

A = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
COLUMN = np.random.default_rng(1).normal(size=(32, 1)).astype(np.float32)
P = weights.softmax(A)
HALF = np.float32(0.5)

DOORS: dict[str, tuple[Reader, Any]] = {
    "queries": (lambda x: regard.attention(x, A, A), A),
    "keys": (lambda x: regard.attend(A, x, A).context, A),
    "values": (lambda x: regard.partial(A, A, x).context, A),
    "mask": (lambda x: regard.attention(A, A, A, mask=x), A > 0),
    "bias": (lambda x: regard.attention(A, A, A, bias=x), A),
    "sink": (lambda x: regard.attention(A, A, A, sink=x), HALF),
    "scale": (lambda x: regard.attention(A, A, A, scale=x), HALF),
    "softcap": (lambda x: regard.attention(A, A, A, softcap=x), HALF),
    "dcontext": (lambda x: regard.attention_vjp(A, A, A)[1](x).queries, A),
    "context": (lambda x: regard.merge(regard.Partial(x, A[:, 0])).context, A),
    "decay": (lambda x: linear.attention(A, A, A, rule="gated", decay=x)[0], -np.abs(A)),
    "beta": (lambda x: linear.attention(A, A, A, rule="delta", beta=x)[0], P[0]),
    "state": (lambda x: linear.attention(A, A, A, state=x)[0], A),
    "dstate": (lambda x: linear.attention_vjp(A, A, A)[1](A, x)["keys"], A),
    "sharpness": (lambda x: scores.cosine(x)(A, A), HALF),
    "width": (lambda x: scores.gaussian(x)(A, A), HALF),
    "weight": (lambda x: scores.general(x)(A, A), A),
    "query_weight": (lambda x: scores.additive(x, A, A[0])(A, A), A),
    "vector": (lambda x: scores.additive(A, A, x)(A, A), A[0]),
    "weight: concat": (lambda x: scores.concat(x, A[0])(A, A), np.concatenate([A, A])),
    "keys of lengths": (
        lambda x: regard.attention(A[None], A[None], A[None], mask=mask.lengths(x)),
        np.array([3]),
    ),
    "queries of documents": (
        lambda x: regard.attention(A, A, A, mask=mask.documents(x)),
        np.array([0, 0, 1, 1]),
    ),
    "slopes": (lambda x: regard.attention(A[None], A[None], A[None], bias=position.alibi(x)), A[0, :1]),
    "table": (lambda x: regard.attention(A[None], A[None], A[None], bias=position.t5_buckets(x)), COLUMN),
    "x": (lambda x: position.rotary(x), A),
    "positions": (lambda x: regard.attention(A, A, A, normalize=weights.local_p(x, 2)), np.arange(4.0)),
    "logits": (lambda x: weights.sparsemax(x), A),
    "keys: cache": (lambda x: regard.KVCache((), 4, capacity=8).append(x, A), A),
    "queries: disk": (lambda x: outofcore.attention(x, A, A), A),
    "mask: layer": (lambda x: nn.multi_head_attention(A, None, A, A, A, A, heads=2, mask=x)[0], A > 0),
    "ids": (lambda x: nn.embed(A, x)[0], np.array([0, 1])),
    "an example": (lambda x: Vectors(4).read(x), A),
    "the positions of an example": (lambda x: Vectors(4, positions=3).read((A, x)), A[:, :3]),
    "weights": (lambda x: page(x).html, P),
    "weights: layers": (lambda x: page([x, x]).sections[0].data["groups"][0]["weights"]["base64"], P),
    "queries: page": (lambda x: page(x, A, A).html, A),
    "scale: page": (lambda x: page(A, A, A, scale=x).html, HALF),
    "weights: terminal": (lambda x: terminal.heatmap(x), P),
    "values: table": (lambda x: terminal.table(x), A),
    "x or y of a line": (lambda x: terminal.curves({"a": (x, A[1])}), A[0] ** 2),
    "weights: measures": (lambda x: measures(x), P),
    "weights: alignment": (lambda x: aligned(x, list("abcd"), list("abcd")), P),
    "queries: long": (lambda x: LongAttention(x, A).summary(0, 2), A),
    "bias: long": (lambda x: LongAttention(A, A, bias=x).summary(0, 2), A),
    "queries: explain": (lambda x: str(explanation.explain(queries=x)), A),
    "words": (lambda x: str(explanation.explain(x, A, A, A)), A),
    "sink: explain": (lambda x: str(explanation.explain(queries=A, sink=x)), HALF),
    "scale: explain": (lambda x: explanation.explain(queries=A, scale=x).in_browser().html, HALF),
    "weights: figure": (lambda x: figures.heatmap(x).get_images()[0].get_array(), P),
    "weights: figures": (lambda x: len(figures.heatmaps([x, x]).axes), P),
}
door = each(DOORS)


class TestDoors(DoorLaws):
    """Each of them."""


LAYERS = {
    "linear": lambda x: nn.linear(x, A),
    "layer_norm": lambda x: nn.layer_norm(x, A[0], A[0]),
    "cross_entropy": lambda x: nn.cross_entropy(x, np.arange(4)),
    "heads": lambda x: nn.split_heads(x, heads=2),
    "gradients": lambda x: nn.check_gradients(lambda a: (a, lambda dy: (dy,)), [x]),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_take_arrays_of_numpy_and_say_how_to_make_them(layer: str) -> None:
    for given, calls in (
        (Tensor(A), r"np\.asarray\(.+\.detach\(\)\)"),
        (Exported(A), r"np\.from_dlpack\(.+\)"),
    ):
        with pytest.raises(TypeError, match=f"must be an array of float32 or float64.*\n  hint: {calls}$"):
            LAYERS[layer](given)


def test_results_are_written_to_arrays_of_numpy() -> None:
    class Shared(Tensor):
        def numpy(self) -> Any:
            return np.asarray(self)

    out = Shared(np.zeros_like(A))
    with pytest.raises(
        TypeError, match=r"^out must be an array.*\n  hint: out\.detach\(\)\.numpy\(\) shares"
    ):
        regard.attention(A, A, A, out=out)
    regard.attention(A, A, A, out=out.detach().__array__())
    np.testing.assert_array_equal(out.array, regard.attention(A, A, A))
    with pytest.raises(TypeError, match=r"hint: np\.empty\(\(4, 4\), np\.float32\)"):
        regard.attention(A, A, A, out=Exported(A))


def test_what_is_stored_needs_a_dtype_of_numpy() -> None:
    stored = type(
        "Stored", (Tensor,), {"shape": (4, 4), "__getitem__": lambda self, index: self.array[index]}
    )(A)
    with pytest.raises(
        TypeError, match=r"^keys must have a dtype of NumPy.*\n  hint: np\.asarray\(keys\.detach"
    ):
        outofcore.attention(A, stored, A)


def test_small_floats_of_numpy_are_an_error_with_the_way_out() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    small = A.astype(ml_dtypes.float8_e4m3fn)
    for read in (DOORS["queries"][0], DOORS["weights"][0]):
        with pytest.raises(
            TypeError, match=r"Got dtype float8_e4m3fn instead.\n  hint: use \.astype\(np\.float32\)"
        ):
            read(small)


def test_a_dask_array_is_not_computed_in_silence() -> None:
    da = pytest.importorskip("dask.array")
    hint = "regard.dask computes attention chunk by chunk"
    for name in ("queries", "mask", "weights", "sink"):
        read, array = DOORS[name]
        with pytest.raises(
            TypeError, match=f"^{name} must be in memory. Got a Dask array instead.(\n.*)*\n  hint: {hint}"
        ):
            read(da.from_array(np.asarray(array)))


class Sparse:
    """A sparse matrix of SciPy, or with another method a lazy frame of polars: no array, until a call makes one."""

    def __init__(self, call: str, array: Any) -> None:
        setattr(self, call, lambda: np.asarray(array))


@pytest.mark.parametrize("call", ["toarray", "collect"])
def test_what_a_call_makes_an_array_is_an_error_with_that_call(door: Any, call: str) -> None:
    name, read, array = door
    rule = rf"^{name} must be (an array|a number).*\. Got Sparse instead: "
    for wrong in (Sparse(call, array), [Sparse(call, array)] * 2):
        with pytest.raises(TypeError, match=rule) as error:
            read(wrong)
        assert str(error.value).endswith(f"hint: use .{call}()")


def views(shown: Any) -> Iterator[Any]:
    return (
        (one["name"], one["layers"], one["weights"]["shape"])
        for one in page(shown).sections[0].data["groups"]
    )


def test_a_list_of_arrays_is_the_layers_of_a_model() -> None:
    """As `outputs.attentions` of Transformers: for each layer (1, h, n, m)."""
    layers = tuple(Arrayed(np.full((1, 2, 3, 4), 0.25)) for _ in range(5))
    assert list(views(layers)) == [("3 × 4", ["1", "2", "3", "4", "5"], [5, 2, 3, 4])]
    assert list(views(np.stack(layers))) == [("weights", ["1", "2", "3", "4", "5"], [5, 2, 3, 4])]
    assert list(views([np.eye(2), np.eye(3), np.eye(2)])) == [
        ("2 × 2", ["1", "3"], [2, 1, 2, 2]),
        ("3 × 3", ["2"], [1, 1, 3, 3]),
    ]
    assert list(views(in_lists(np.eye(3)))) == [("weights", ["1"], [1, 1, 3, 3])]


@pytest.mark.slow
def test_a_figure_takes_the_layers_of_one_sentence() -> None:
    layers = tuple(Arrayed(np.full((1, 2, 3, 4), 0.25)) for _ in range(2))
    assert [ax.get_title() for ax in figures.heatmaps(layers).axes[:4]] == [
        f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2)
    ]
