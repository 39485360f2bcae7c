"""Errors for unknown options: they name the equivalent of another library's option, or the most similar one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

from regard._check.errors import fail, nearest

__all__ = ["hinted"]

P = ParamSpec("P")
R = TypeVar("R")

_CAUSAL = 'mask=regard.mask.causal(), or causal(align="start" or "end") where n != m'
_WINDOW = "mask=regard.mask.window(w - 1, 0) is a causal window of w keys, including its own"
_PADDING = (
    "mask=regard.mask.lengths(counts), or a bool array of real tokens (B, m) as mask=real[:, None, None, :]"
)
_WEIGHTS = (
    "regard.attend(...).weights has the weights of each head; regard.record() keeps those of a complete model"
)
_NO_DROPOUT = "attention weights are not dropped here: leave it out"
_GROUPS = "no option is needed: pass keys and values with fewer heads, a divisor of the number of query heads"
_ADDED = "numbers that are added to the scores are bias=, a bool array (True = visible) is mask="
_POSITIONAL = "the arrays have no names: pass queries, keys and values in this order"
_INSTEAD = {  # names in other libraries, and the equivalent here
    **dict.fromkeys(("is_causal", "causal", "use_causal_mask"), _CAUSAL),
    **dict.fromkeys(("sliding_window", "window_size", "local_window_size", "attention_window"), _WINDOW),
    **dict.fromkeys(("key_padding_mask", "padding_mask", "src_key_padding_mask"), _PADDING),
    **dict.fromkeys(
        ("attention_mask", "key_value_seq_lengths", "kv_lengths", "seq_lens", "lengths"), _PADDING
    ),
    **dict.fromkeys(("need_weights", "return_weights", "output_attentions", "return_attn_probs"), _WEIGHTS),
    **dict.fromkeys(("return_attention_scores", "average_attn_weights"), _WEIGHTS),
    **dict.fromkeys(("dropout_p", "dropout", "dropout_rate", "attention_dropout", "training"), _NO_DROPOUT),
    **dict.fromkeys(("enable_gqa", "num_heads", "num_key_value_groups", "num_kv_heads"), _GROUPS),
    **dict.fromkeys(("attn_mask", "attn_bias", "relative_position_bias", "position_bias"), _ADDED),
    **dict.fromkeys(("query", "key", "value", "queries", "keys", "values", "q", "k", "v"), _POSITIONAL),
    **dict.fromkeys(("softmax_scale", "scaling", "sm_scale", "use_scale", "temperature"), "scale="),
    **dict.fromkeys(("logits_soft_cap", "attn_logits_soft_cap", "logit_cap", "soft_cap"), "softcap="),
    **dict.fromkeys(
        ("cu_seqlens", "cu_seqlens_q", "segment_ids", "document_ids"), "mask=regard.mask.documents(ids)"
    ),
    **dict.fromkeys(("block_mask", "mask_mod"), "mask= takes a regard.mask object"),
    **dict.fromkeys(
        ("past_key_value", "past_key_values", "kv_cache"), "regard.KVCache stores keys and values"
    ),
    **dict.fromkeys(("implementation", "backend"), "kernel="),
    **dict.fromkeys(("initial_state", "past_state", "h0"), "state="),
    **dict.fromkeys(("g", "gk", "gate", "log_decay"), "decay= takes logarithms, at most 0"),
    "update_rule": "rule=",
    "normalize": "the softmax alone can be computed in parts that are merged; regard.attention has normalize=",
    "alibi_slopes": "bias=regard.position.alibi(slopes)",
    "score_mod": "bias= for what is added to the scores, score= for another score function",
}


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Explain an unknown option of a function, also by its name in other libraries."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is None:  # the call itself failed
                _explain_call(function, len(args), options)
            raise

    return call


def _explain_call(function: Callable[..., Any], count: int, options: dict[str, Any]) -> None:
    """Raise a better error for a call that does not match a function's signature."""
    import inspect

    parameters = inspect.signature(function).parameters.values()
    arrays = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    name = function.__name__
    for option in options:
        if option not in known:
            _no_option(name, option, known)
    if count != len(arrays):
        rule = f"{name} takes {len(arrays)} arrays by position, {', '.join(arrays)}. Got {count} instead."
        fail(
            rule,
            hint="options such as mask= are given by name" if count > len(arrays) else "",
            kind=TypeError,
        )


def _no_option(function: str, option: str, known: list[str]) -> NoReturn:
    near, hint = nearest(option, known), _INSTEAD.get(option, "")
    equivalent, is_option, _ = hint.partition("=")
    if not hint or (is_option and equivalent.isidentifier() and equivalent not in known):
        hint = f"did you mean {near}=?" if near else f"its options are {', '.join(known)}"
    fail(f"{function} takes no option {option!r:.60}.", hint=hint, kind=TypeError)
