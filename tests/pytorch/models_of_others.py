"""Small models of other people's code with random weights, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from torch import nn  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

Run = Callable[[Any], Any]

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 50,
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED: dict[str, Any] = {**SIZES, **IDS, "num_key_value_heads": 2, "head_dim": 8}
TOKENS = 11


def ids(n: int = TOKENS, seed: int = 0) -> Any:
    return torch.randint(3, 50, (2, n), generator=torch.Generator().manual_seed(seed))


def padded(n: int = TOKENS) -> dict[str, Any]:
    """Two sentences, the second padded on the right."""
    mask = torch.ones(2, n, dtype=torch.long)
    mask[1, -3:] = 0
    return {"input_ids": ids(n), "attention_mask": mask}


class ByName(nn.Module):
    """A layer that calls a function which it has imported by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(32, 96)

    def forward(self, x: Any) -> Any:
        q, k, v = self.project(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(q, k, v, is_causal=True)


def bert(**options: Any) -> tuple[Any, Run]:
    model = transformers.BertModel(transformers.BertConfig(**SIZES, **options))
    return model, lambda m: m(**padded())


def gpt2(**options: Any) -> tuple[Any, Run]:
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=4,
        vocab_size=50,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        **options,
    )
    return transformers.GPT2LMHeadModel(config), lambda m: m(ids())


def llama(**options: Any) -> tuple[Any, Run]:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED, **options)), lambda m: m(
        **padded()
    )


def mistral(**options: Any) -> tuple[Any, Run]:
    config = transformers.MistralConfig(**GROUPED, sliding_window=4, **options)
    return transformers.MistralForCausalLM(config), lambda m: m(ids())


def gemma2(**options: Any) -> tuple[Any, Run]:
    config = transformers.Gemma2Config(**GROUPED, sliding_window=4, attn_logit_softcapping=2.0, **options)
    return transformers.Gemma2ForCausalLM(config), lambda m: m(ids())


def gpt_oss(**options: Any) -> tuple[Any, Run]:
    config = transformers.GptOssConfig(
        **GROUPED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1, **options
    )
    return transformers.GptOssForCausalLM(config), lambda m: m(ids())


def t5(**options: Any) -> tuple[Any, Run]:
    config = transformers.T5Config(
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        vocab_size=50,
        decoder_start_token_id=0,
        **options,
    )
    return transformers.T5ForConditionalGeneration(config), lambda m: m(**padded(), decoder_input_ids=ids(5))


def bart(**options: Any) -> tuple[Any, Run]:
    config = transformers.BartConfig(
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        vocab_size=50,
        max_position_embeddings=64,
        **options,
    )
    return transformers.BartForConditionalGeneration(config), lambda m: m(
        **padded(), decoder_input_ids=ids(5)
    )


def vit(**options: Any) -> tuple[Any, Run]:
    sizes = {k: v for k, v in SIZES.items() if k != "vocab_size"}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8, **options)
    return transformers.ViTModel(config), lambda m: m(torch.linspace(0, 1, 3 * 32 * 32).view(1, 3, 32, 32))


def timm_vit(**options: Any) -> tuple[Any, Run]:
    timm = pytest.importorskip("timm", reason="timm is not installed")
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, **options)
    return model, lambda m: m(torch.linspace(0, 1, 3 * 32 * 32).view(1, 3, 32, 32))


def torch_transformer(**options: Any) -> tuple[Any, Run]:
    model = nn.Transformer(32, 4, 2, 2, 48, batch_first=True, **options)
    x, y = torch.randn(2, 7, 32), torch.randn(2, 5, 32)
    return model, lambda m: m(
        x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5), tgt_is_causal=True
    )


def by_name(**options: Any) -> tuple[Any, Run]:
    x = torch.randn(2, 7, 32)
    return nn.Sequential(ByName()), lambda m: m(x)


def multi_head(**options: Any) -> tuple[Any, Run]:
    model = nn.ModuleDict(
        {"attend": nn.MultiheadAttention(32, 4, add_bias_kv=True, add_zero_attn=True, **options)}
    )
    x, y, mask = (
        torch.randn(7, 2, 32),
        torch.randn(5, 2, 32),
        torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool(),
    )
    return model, lambda m: m["attend"](x, y, y, need_weights=True, key_padding_mask=mask)


# By what each stands for: the model, and how often it attends.
MODELS: dict[str, tuple[Callable[..., tuple[Any, Run]], int]] = {
    "encoder": (bert, 2),
    "decoder": (gpt2, 2),
    "encoder-decoder": (bart, 6),
    "vit": (vit, 2),
    "vit of timm": (timm_vit, 2),
    "grouped keys": (llama, 2),
    "window": (mistral, 2),
    "softcap": (gemma2, 2),
    "sinks": (gpt_oss, 2),
    "relative bias": (t5, 6),
    "nn.Transformer": (torch_transformer, 6),
    "by name": (by_name, 1),
    "weights of MultiheadAttention": (multi_head, 1),
}
OF_TRANSFORMERS = [
    name
    for name, (model, _) in MODELS.items()
    if model not in (timm_vit, torch_transformer, by_name, multi_head)
]
WITHOUT_SDPA = ("softcap", "sinks")
IMPLEMENTATIONS = [
    (name, implementation)
    for name in MODELS
    for implementation in (("eager", "sdpa") if name in OF_TRANSFORMERS else ("",))
    if not (name in WITHOUT_SDPA and implementation == "sdpa")
]


def make(name: str, implementation: str = "") -> tuple[Any, Run]:
    """Return a model with random weights, which don't depend on tests before, and a function that runs it."""
    options = {"attn_implementation": implementation} if implementation else {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, run = MODELS[name][0](**options)
        for path, parameter in model.named_parameters():  # weights of 0.02 would make all attention uniform
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
            elif path.endswith("sinks"):
                nn.init.normal_(parameter)
        return model.eval(), run


def numbers(output: Any) -> Any:
    """Return what a model computes: a tensor."""
    if isinstance(output, tuple):
        return output[0]
    return output if isinstance(output, torch.Tensor) else output.logits if "logits" in output else output[0]
