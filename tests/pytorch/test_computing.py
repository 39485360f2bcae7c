"""`regard.torch.attention`, and regard's kernel in the place of PyTorch's in models of other people."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from errors import error

import regard

models = pytest.importorskip("models_of_others")
torch = models.torch
sdpa = torch.nn.functional.scaled_dot_product_attention
pytestmark = pytest.mark.slow

ROUNDING = {"float64": 1e-12, "float32": 1e-5, "float16": 2**-8, "bfloat16": 2**-5}


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    torch.manual_seed(0)
    regard.torch.register()


def drawn(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    return [torch.randn(*shape).to(getattr(torch, dtype)).requires_grad_() for shape in shapes]


def by_hand(q: Any, k: Any, v: Any, mask: Any, bias: Any, scale: float, softcap: float, sink: Any) -> Any:
    """The formula in PyTorch's operations, for grouped heads."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    logits = softcap * torch.tanh(q @ k.mT * scale / softcap) + bias
    logits = logits.masked_fill(~mask, -torch.inf)
    logits = torch.cat([logits, sink[:, None, None].expand(*logits.shape[:-1], 1)], -1)
    return logits.softmax(-1)[..., :-1] @ v


@pytest.mark.parametrize("dtype", ROUNDING)
def test_context_and_gradients_are_those_of_pytorch(dtype: str) -> None:
    arrays = drawn((2, 4, 9, 8), (2, 4, 13, 8), (2, 4, 13, 6), dtype=dtype)
    visible = (torch.rand(2, 1, 9, 13) > 0.4).expand(2, 4, 9, 13)
    found = regard.torch.attention(*arrays, mask=visible, scale=0.3)
    expected = sdpa(*arrays, attn_mask=visible, scale=0.3)
    weights = torch.randn(found.shape).to(found.dtype)
    assert found.dtype == expected.dtype
    rounding = {"atol": ROUNDING[dtype], "rtol": ROUNDING[dtype]}
    torch.testing.assert_close(found, expected, **rounding)
    for own, other in zip(
        torch.autograd.grad(found, arrays, weights),
        torch.autograd.grad(expected, arrays, weights),
        strict=True,
    ):
        torch.testing.assert_close(own, other, atol=4 * ROUNDING[dtype], rtol=4 * ROUNDING[dtype])


def test_every_option_has_its_gradients() -> None:
    arrays = drawn((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 2), (4, 5, 7), (4,), dtype="float64")
    mask = regard.mask.causal("end") & regard.mask.window(3, 0, "end")
    visible = torch.from_numpy(mask.dense(5, 7))

    def compute(q: Any, k: Any, v: Any, bias: Any, sink: Any) -> Any:
        return regard.torch.attention(q, k, v, mask=mask, bias=bias, scale=0.4, softcap=1.5, sink=sink)

    expected = by_hand(*arrays[:3], visible, arrays[3], 0.4, 1.5, arrays[4])
    torch.testing.assert_close(compute(*arrays), expected)
    assert torch.autograd.gradcheck(compute, arrays)


def test_tensors_are_read_in_any_order_and_never_written() -> None:
    q, k, v = (torch.randn(2, 9, 3, 8).transpose(1, 2) for _ in range(3))
    q.requires_grad_()
    before = [x.clone() for x in (q, k, v)]
    found = regard.torch.attention(q, k[:, :1], v[:, :1].expand(2, 3, 9, 8))
    torch.testing.assert_close(found, sdpa(q, k[:, :1], v[:, :1].expand(2, 3, 9, 8)))
    found.backward(torch.ones(()).expand(found.shape))
    assert all(torch.equal(*pair) for pair in zip((q, k, v), before, strict=True))


def test_a_gradient_is_computed_only_where_it_is_wanted() -> None:
    q, k, v = drawn((3, 4), (5, 4), (5, 4))
    found = regard.torch.attention(q.detach(), k, v.detach())
    found.sum().backward()
    assert (q.grad, v.grad) == (None, None)
    assert k.grad is not None
    with torch.no_grad():
        assert not regard.torch.attention(q, k, v).requires_grad
    with torch.inference_mode():
        assert regard.torch.attention(q, k, v).shape == (3, 4)


def test_what_can_not_be_differentiated_is_refused() -> None:
    q, k, v = drawn((3, 4), (5, 4), (5, 4))
    found = regard.torch.attention(q * 1, k, v)
    with torch.no_grad():
        k += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()
    with pytest.raises(ValueError, match=r"has no second derivatives: create_graph must be False\."):
        torch.autograd.grad(regard.torch.attention(q, k, v).sum(), q, create_graph=True)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({0: np.zeros((3, 4))}, "query must be a tensor of PyTorch. Got ndarray instead."),
        (
            {1: torch.zeros(3, 4, device="meta")},
            "key must be in the memory of the CPU. Got a tensor on meta instead.",
        ),
        ({2: torch.zeros(3, 4).to_sparse()}, "value must be a dense tensor. Got torch.sparse_coo instead."),
        (
            {0: torch.zeros(3, 4).int()},
            "query must be of type float32, float64, float16, bfloat16. Got int32 instead.",
        ),
        ({"mask": torch.zeros(3, 3)}, "mask must be of type bool. Got float32 instead."),
    ],
)
def test_other_tensors_are_refused(changed: dict[Any, Any], expected: str) -> None:
    arrays = [changed.get(i, torch.zeros(3, 4)) for i in range(3)]
    options = {name: x for name, x in changed.items() if isinstance(name, str)}
    assert error(TypeError, regard.torch.attention, *arrays, **options) == expected


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"
)  # PyTorch's compiler reads it
def test_a_compiled_model_calls_it_between_two_graphs() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return regard.torch.attention(x + 1, x, x) * 2

    x = torch.randn(2, 5, 8, requires_grad=True)
    expected, found = Layer()(x), torch.compile(Layer(), backend="eager")(x)
    assert torch.equal(found, expected)
    assert torch.equal(torch.autograd.grad(found.sum(), x)[0], torch.autograd.grad(expected.sum(), x)[0])


@pytest.mark.parametrize("name", models.OF_TRANSFORMERS)
def test_a_model_of_transformers_computes_the_same_with_regard(name: str) -> None:
    model, run = models.make(name, "eager")
    found = models.numbers(run(regarding := copy.deepcopy(model)))  # as it is
    regarding.set_attn_implementation("regard")
    outputs = [models.numbers(run(one)) for one in (model, regarding)]
    assert torch.equal(outputs[0], found)
    torch.testing.assert_close(outputs[1], outputs[0], atol=1e-5, rtol=1e-5)
    gradients = []
    for one, output in zip((model, regarding), outputs, strict=True):
        output.square().mean().backward()
        gradients.append([p.grad for p in one.parameters() if p.grad is not None])
    for own, other in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["decoder", "grouped keys", "window", "softcap", "sinks", "encoder-decoder"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_generation_has_the_same_tokens(name: str, cache: str) -> None:
    model, _ = models.make(name, "eager")
    prompt, mask = models.ids(6), torch.ones(2, 6, dtype=torch.long)
    mask[0, : 0 if name == "encoder-decoder" else 2] = 0  # padding on the left
    options = {"max_new_tokens": 6, "do_sample": False, "num_beams": 1, "attention_mask": mask}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}
    expected = model.generate(prompt, **options)
    model.set_attn_implementation("regard")
    assert model.generate(prompt, **options).tolist() == expected.tolist()


MASKING = models.transformers.masking_utils
BOTH_SIDES = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": True}
MASKS = {  # a mask function, and what Transformers passes with it
    "causal": (MASKING.causal_mask_function, {}),
    "all": (MASKING.bidirectional_mask_function, BOTH_SIDES),
    "window": (MASKING.sliding_window_causal_mask_function(4), {"local_size": 4}),
    "both sides": (MASKING.sliding_window_bidirectional_mask_function(2), {"local_size": 2} | BOTH_SIDES),
    "chunks": (MASKING.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long)), {"local_size": 4}),
    "own": (
        MASKING.and_masks(MASKING.causal_mask_function, lambda b, h, q, k: (q + k) % 3 > 0),
        {"allow_is_causal_skip": False},
    ),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(
    ("n", "m", "q_offset", "kv_offset"),
    [(9, 9, 0, 0), (1, 9, 8, 0), (4, 9, 5, 0), (4, 6, 5, 3), (4, 9, 2, 0)],
)
@pytest.mark.parametrize("padded", [None, 0, 3])
def test_masks_are_those_of_transformers(
    name: str, n: int, m: int, q_offset: int, kv_offset: int, padded: int | None
) -> None:
    """A band is a tensor without memory, which is filled where a model computes with it."""
    function, options = MASKS[name]
    padding = (
        None if padded is None else torch.arange(q_offset + n).expand(2, -1) >= torch.tensor([[0], [padded]])
    )
    given = {"batch_size": 2, "q_length": n, "kv_length": m, "q_offset": q_offset, "kv_offset": kv_offset}
    given |= {"mask_function": function, "attention_mask": padding}
    expected = MASKING.sdpa_mask(**given, allow_is_causal_skip=False)
    found = models.transformers.AttentionMaskInterface()["regard"](**given, **options)
    if found is None:  # all keys, or those up to the query's own, by the rule of sdpa
        assert n in (1, m) or name == "all"
        visible = torch.ones(n, m, dtype=torch.bool)
        assert torch.equal(
            (visible if name == "all" or n == 1 else visible.tril()).expand(expected.shape), expected
        )
        return
    assert found.shape == expected.shape
    assert torch.equal(found & True, expected)
    assert hasattr(found, "regard_mask") == (name not in ("chunks", "own"))
    assert not hasattr(found, "regard_mask") or found.stride() == (0, 0, 0, 0)


def test_calls_that_regard_can_not_compute_are_refused_or_left_to_pytorch() -> None:
    model, run = models.make("decoder", "regard")
    expected = (
        "regard drops no weights, so dropout must be 0. Got 0.1 instead.\n"
        '  hint: otherwise="pytorch" leaves such calls to PyTorch'
    )
    assert error(ValueError, run, model.train()) == expected
    x = torch.randn(2, 3, 8)
    with regard.torch.replacing():
        assert error(ValueError, sdpa, x, x, x, dropout_p=0.1) == expected
    regard.torch.register(otherwise="pytorch")
    try:
        torch.manual_seed(1)
        found = models.numbers(run(model))
        torch.manual_seed(1)
        model.set_attn_implementation("sdpa")
        assert torch.equal(models.numbers(run(model)), found)
        windowed, run = models.make("window", "regard")
        for layer in windowed.train().model.layers:
            layer.self_attn.attention_dropout = 1e-9
        torch.testing.assert_close(models.numbers(run(windowed)), models.numbers(run(windowed.eval())))
    finally:
        regard.torch.register()
    with regard.torch.replacing(otherwise="pytorch"):
        torch.manual_seed(1)
        found = sdpa(x, x, x, dropout_p=0.5)
    torch.manual_seed(1)
    assert torch.equal(sdpa(x, x, x, dropout_p=0.5), found)


@pytest.mark.parametrize("name", ["vit of timm", "nn.Transformer", "by name", "encoder", "grouped keys"])
def test_any_model_computes_the_same_with_its_calls_replaced(name: str) -> None:
    model, run = models.make(name)
    expected = models.numbers(run(model))
    with regard.torch.replacing(), regard.torch.record() as recorded:
        found = models.numbers(run(model))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert {call.error for call in recorded} == {0.0}  # regard's kernel computed each of them
    before = torch.overrides._len_torch_function_stack()
    with pytest.raises(ZeroDivisionError), regard.torch.replacing():
        raise ZeroDivisionError
    assert torch.overrides._len_torch_function_stack() == before


def test_softcap_needs_no_array_of_all_pairs() -> None:
    import tracemalloc

    model, _ = models.make("softcap", "regard")
    tokens = models.ids(3000)[:1]
    tracemalloc.start()
    with torch.no_grad():
        model.model(tokens)
    _, peak = tracemalloc.get_traced_memory()  # of NumPy's arrays
    tracemalloc.stop()
    assert peak < 3000 * 3000
