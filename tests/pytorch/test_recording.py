"""`regard.torch.record`: models of other people's code run unchanged, and every call proves itself."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard._recorded import joined
from regard.show import page

models = pytest.importorskip("models_of_others")
torch = models.torch
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def state(model: Any) -> list[Any]:
    """What a block might leave behind."""
    module, functional = torch.nn.modules.module, torch.nn.functional
    hooks = [len(vars(module)[name]) for name in ("_global_forward_hooks", "_global_forward_pre_hooks")]
    own = [(len(m._forward_hooks), len(m._forward_pre_hooks), sorted(vars(m))) for m in model.modules()]
    functions = [functional.scaled_dot_product_attention, functional.multi_head_attention_forward]
    interface = models.transformers.AttentionInterface
    modes = torch.overrides._len_torch_function_stack()
    known = [
        interface.get_interface,
        dict(interface._global_mapping),
        torch.backends.mha.get_fastpath_enabled(),
    ]
    return [hooks, own, functions, known, modes, torch.get_rng_state().tolist(), torch.is_grad_enabled()]


@pytest.mark.parametrize(("name", "implementation"), models.IMPLEMENTATIONS)
def test_every_call_is_recorded_and_its_context_is_the_models(name: str, implementation: str) -> None:
    model, run = models.make(name, implementation)
    expected, before = models.numbers(run(model)), state(model)
    with regard.torch.record(model) as recorded:
        found = models.numbers(run(model))
    if name == "nn.Transformer":  # outside of the block its fused layers round in another way
        torch.testing.assert_close(found, expected)
    else:
        assert torch.equal(found, expected)
    assert state(model) == before
    assert len(recorded) == models.MODELS[name][1]
    assert all(call.error <= 1e-5 for call in recorded), recorded
    assert all(call.name in dict(model.named_modules()) for call in recorded)
    assert not recorded.unseen


@pytest.mark.parametrize("name", ["encoder", "decoder", "vit", "grouped keys", "window", "softcap", "sinks"])
def test_the_weights_are_those_that_the_model_returns(name: str) -> None:
    model, run = models.make(name, "eager")
    model.config.output_attentions = True
    with regard.torch.record(model, keep="weights") as recorded:
        expected = run(model).attentions
    for call, weights in zip(recorded, expected, strict=True):
        np.testing.assert_allclose(call.weights, weights.numpy(), atol=2e-6)


def test_the_weights_of_multi_head_attention_are_those_that_it_returns() -> None:
    layer, x = torch.nn.MultiheadAttention(8, 2, kdim=6, vdim=5).eval(), torch.randn(4, 3, 8)
    keys, values = torch.randn(5, 3, 6), torch.randn(5, 3, 5)
    hidden, added = torch.rand(4, 5) > 0.7, torch.zeros(3, 5).masked_fill(torch.rand(3, 5) > 0.8, -torch.inf)
    hidden[:, 0], added[:, 0] = False, 0
    with regard.torch.record() as recorded:
        options = {"attn_mask": hidden, "key_padding_mask": added.isneginf(), "average_attn_weights": False}
        _, weights = layer(x, keys, values, **options)
        layer(x[:, 0], keys[:, 0], values[:, 0], need_weights=False)
    np.testing.assert_allclose(recorded[0].weights, weights.numpy(), atol=1e-6)
    assert max(call.error for call in recorded) < 1e-6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["encoder", "window", "softcap", "nn.Transformer"])
def test_other_types_state_their_error(name: str, dtype: str) -> None:
    model, run = models.make(name)
    x = torch.randn(2, 7, 32, dtype=getattr(torch, dtype))
    model = model.to(x.dtype)
    with regard.torch.record(model) as recorded:
        model(x, x) if name == "nn.Transformer" else run(model)
    rounding = {"float16": 2**-7, "bfloat16": 2**-4, "float64": 1e-6}[dtype]  # a softmax in float32
    assert all(call.error <= rounding for call in recorded), recorded
    assert recorded[0].queries.dtype == (np.float64 if dtype == "float64" else np.float32)
    assert dtype == "float64" or f"in {dtype}" in repr(recorded[0])


def test_padding_on_the_left_and_inference_mode() -> None:
    model, _ = models.make("grouped keys", "eager")
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, :4] = 0
    with torch.inference_mode(), regard.torch.record(model) as recorded:
        expected = model(models.ids(9), attention_mask=mask, output_attentions=True).attentions
    np.testing.assert_allclose(recorded[1].weights, expected[1].numpy(), atol=2e-6)
    assert max(call.error for call in recorded) < 1e-5
    assert recorded[0].bias is recorded[1].bias  # the layers share one copy


def test_a_model_whose_output_differs_is_reported() -> None:
    def too_large(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2) * 1.1, None

    models.transformers.AttentionInterface.register("too_large", too_large)
    try:
        model, run = models.make("vit", "too_large")
        with (
            pytest.warns(UserWarning, match=r"the weights of layers.0.attention, error .e-0., are not those"),
            regard.torch.record(model, only="layers.0.*") as recorded,
        ):
            run(model)
        assert recorded[0].error > 1e-2
    finally:
        del models.transformers.AttentionInterface._global_mapping["too_large"]


def test_a_query_whose_context_is_not_a_number_is_reported() -> None:
    layer, x = torch.nn.MultiheadAttention(8, 2).eval(), torch.randn(3, 1, 8)
    hidden = torch.tensor([[False] * 3, [True] * 3, [False] * 3])
    with pytest.warns(UserWarning, match="error nan, are not those"), regard.torch.record() as recorded:
        layer(x, x, x, attn_mask=hidden)
    assert np.isnan(recorded[0].error)
    assert recorded[0].weights[0, 0, 1].tolist() == [0, 0, 0]


def test_an_error_in_the_model_leaves_nothing_behind() -> None:
    model, run = models.make("decoder", "eager")
    before = state(model)
    with pytest.raises(IndexError), regard.torch.record(model) as recorded:
        models.numbers(run(model)) + models.numbers(model(torch.full((1, 3), 1000)))
    assert len(recorded) == 2
    assert state(model) == before


def test_nested_blocks_each_record_and_a_block_can_run_twice() -> None:
    model, run = models.make("encoder", "eager")
    layer, x = torch.nn.MultiheadAttention(8, 2).eval(), torch.randn(4, 3, 8)
    before = state(model)
    for _ in range(2):
        with regard.torch.record(model) as outer:
            run(model)
            with regard.torch.record() as inner:
                run(model)
                layer(x, x, x)
        assert [len(outer), len(inner)] == [5, 3]
        assert [call.step for call in outer] == [1, 1, 2, 2, 3]
    assert state(model) == before


@pytest.mark.threads
def test_only_the_calls_of_its_own_thread_are_recorded() -> None:
    model, run = models.make("window", "eager")
    interface = models.transformers.AttentionInterface
    original = interface.get_interface
    opened, closed, found = threading.Event(), threading.Event(), []

    def other() -> None:
        with torch.no_grad(), regard.torch.record() as recorded:
            opened.set()
            closed.wait()
            run(model)
        found.append(len(recorded))

    thread = threading.Thread(target=other)
    with regard.torch.record(model) as recorded:
        thread.start()
        opened.wait()
    closed.set()  # the first block to open is closed first
    thread.join()
    assert (len(recorded), found) == (0, [2])
    assert interface.get_interface is original


def test_a_limit_stops_before_it_is_exceeded_and_nothing_is_lost() -> None:
    model, run = models.make("decoder")
    one = 2 * 2 * 11 * 32 * 4  # bytes of queries and keys
    with pytest.raises(ValueError) as error, regard.torch.record(model, limit=one + 100) as recorded:
        run(model)
    assert str(error.value) == (
        "record keeps at most 5,732 bytes: transformer.h.1.attn needs 5,632 after 5,632.\n"
        '  hint: only="..." records some modules, limit= sets another limit'
    )
    assert [call.name for call in recorded] == ["transformer.h.0.attn"]
    with regard.torch.record(model, limit=2 * one) as recorded:
        run(model)
    assert len(recorded) == 2


def test_only_some_modules_and_what_is_kept() -> None:
    model, run = models.make("encoder-decoder")
    with regard.torch.record(model, only=["model.decoder.*.encoder_attn"], keep="values too") as recorded:
        run(model)
    assert [call.name for call in recorded] == [f"model.decoder.layers.{i}.encoder_attn" for i in (0, 1)]
    assert recorded[0].attention.context.shape == (2, 4, 5, 8)
    with regard.torch.record(model) as recorded:
        run(model)
    assert len(recorded) == 6
    with pytest.raises(AttributeError, match="context was not kept"):
        _ = recorded[0].attention.context
    with pytest.raises(ValueError, match="keep must be one of 'queries and keys', 'values too', 'weights'"):
        regard.torch.record(keep="all").__enter__()


def test_modules_that_record_nothing_are_named() -> None:
    transformers = models.transformers
    config = transformers.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=50)
    model = transformers.BloomModel(config).eval()
    rule = "2 modules called attention recorded nothing: h.0.self_attention .no call that can be seen.; h.1"
    with pytest.warns(UserWarning, match=rule), regard.torch.record(model) as recorded:
        model(models.ids())
    assert repr(recorded).startswith("0 calls of attention\n2 modules called attention recorded nothing")


def test_a_compiled_model_is_named() -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return (x @ x.mT).softmax(-1) @ x

    model, x = torch.nn.Sequential(Attention()), torch.randn(1, 3, 4)
    model.compile(backend="eager")
    expected = model(x)
    with pytest.warns(UserWarning, match="1 module called"), regard.torch.record(model) as recorded:
        assert torch.equal(model(x), expected)
    assert recorded.unseen == {"0": "no call that can be seen"}
    compiled = torch.compile(model, backend="eager")
    hooks = pytest.warns(UserWarning, match="global hooks")  # PyTorch's own
    with hooks, pytest.warns(UserWarning, match="1 module called"), regard.torch.record(model):
        assert torch.equal(compiled(x), expected)


def test_dropout_is_said_and_its_random_numbers_are_the_same() -> None:
    layer, x = torch.nn.MultiheadAttention(8, 2, dropout=0.5), torch.randn(4, 3, 8)
    model, run = models.make("decoder", "eager")
    outputs = []
    for _ in range(2):
        torch.manual_seed(0)
        with regard.torch.record() as recorded:
            outputs.append((layer(x, x, x)[0], models.numbers(run(model.train()))))
    torch.manual_seed(0)
    assert torch.equal(layer(x, x, x)[0], outputs[0][0])
    assert torch.equal(models.numbers(run(model)), outputs[0][1])
    assert repr(recorded[0]).endswith("dropout 0.5, not compared")
    assert all(np.isnan(call.error) for call in recorded)


def test_training_is_recorded_and_keeps_its_gradients() -> None:
    layer, x = torch.nn.MultiheadAttention(8, 2), torch.randn(4, 3, 8)
    gradients = []
    for recorded in (False, True):
        layer.zero_grad()
        with torch.enable_grad(), regard.torch.record() if recorded else torch.enable_grad():
            layer(x, x, x)[0].sum().backward()
        gradients.append(layer.in_proj_weight.grad.clone())
    assert torch.equal(*gradients)


@pytest.mark.parametrize("name", ["decoder", "window", "encoder-decoder"])
def test_the_steps_of_a_generation_are_one_matrix(name: str) -> None:
    """Equal to the weights of one pass over all tokens."""
    model, _ = models.make(name)
    prompt = models.ids(6)[:1]
    with regard.torch.record(model) as steps:
        tokens = model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False, num_beams=1)
    read = {"decoder_input_ids": tokens[:, :-1]} if name == "encoder-decoder" else {}
    with regard.torch.record(model) as at_once:
        model(prompt if read else tokens[:, :-1], **read)
    for (label, found), call in zip(joined(steps), at_once, strict=True):
        weights = found if isinstance(found, np.ndarray) else found.weights
        np.testing.assert_allclose(weights, call.weights, atol=1e-5, err_msg=label)
        assert call.name in label
    assert page(steps).sections[0].view == "heads"


def test_a_page_has_the_names_of_tokens_and_each_error() -> None:
    model, run = models.make("encoder-decoder")
    with regard.torch.record(model) as recorded:
        run(model)
    groups = page(recorded, tokens=[list("abcdefghijk"), list("vwxyz")]).sections[0].data["groups"]
    assert [("".join(g["rows"]), "".join(g["columns"])) for g in groups] == [
        ("abcdefghijk", "abcdefghijk"),
        ("vwxyz", "vwxyz"),
        ("vwxyz", "abcdefghijk"),
    ]
    assert groups[0]["layers"][0].startswith("model.encoder.layers.0.self_attn, error ")


def test_more_queries_than_are_compared() -> None:
    x = torch.randn(1, 2, 700, 8)
    with regard.torch.record() as recorded:
        torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    expected = torch.nn.functional.scaled_dot_product_attention(
        x, x, torch.eye(700)[None, None], is_causal=True
    )
    np.testing.assert_allclose(recorded[0].weights, expected.numpy(), atol=1e-5)
    assert recorded[0].error < 1e-5


def test_regards_own_attention_is_recorded() -> None:
    x = torch.randn(1, 2, 7, 8)
    options = {
        "mask": regard.mask.causal(),
        "bias": torch.randn(2, 7, 7),
        "softcap": 2.0,
        "sink": torch.randn(2),
    }
    with regard.torch.record(keep="values too") as recorded:
        context = regard.torch.attention(x, x, x, **options)
    np.testing.assert_allclose(recorded[0].attention.context, context.numpy(), atol=1e-6)


def test_the_file_of_the_notebook_has_what_is_recorded_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(Path(__file__).parents[2] / "docs" / "notebooks")
    stored = np.load("6-your-own-model.npz")
    calls = runpy.run_path("6-your-own-model.py")["calls"]
    assert [call.name for call in calls] == list(stored["name"])
    for name in ("queries", "keys"):
        np.testing.assert_allclose([getattr(call, name) for call in calls], stored[name], atol=1e-5)
