"""Argument checks and error messages.

A message has, in this order: the rule with the numbers that violate it, the shapes of all arrays in symbolic letters,
and a hint. Checks run before any computation, so an invalid call costs nothing and changes nothing.
"""

from __future__ import annotations

import math
import operator
import os
import stat
from _thread import get_ident  # `threading` would load more
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from itertools import combinations
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from pathlib import Path

__all__: list[str] = []

Array = NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")

MOST = int(np.iinfo(np.int64).max)
DIMENSIONS = 32  # NumPy can't broadcast all arrays with more
LETTERS = {"queries": "(..., n, d)", "keys": "(..., m, d)", "values": "(..., m, e)"}


def fail(
    rule: str, shapes: dict[str, Array] | None = None, hint: str = "", kind: type[Exception] = ValueError
) -> NoReturn:
    """Raise an error in the format of this package."""
    lines = [rule, *_shape_lines(shapes or {})]
    if hint:
        lines.append(f"  hint: {hint}")
    raise kind("\n".join(lines)) from None


def _shape_lines(shapes: dict[str, Array]) -> list[str]:
    return [f"  {name:<7} {array.shape!s:<16} is {LETTERS[name]}" for name, array in shapes.items()]


@contextmanager
def naming_shapes(shapes: dict[str, Array]) -> Iterator[None]:
    """Add the shapes of queries, keys and values to an error about an option of incompatible shape."""
    try:
        yield
    except (ValueError, TypeError) as error:
        rule, *rest = str(error).split("\n")
        raise type(error)("\n".join([rule, *_shape_lines(shapes), *rest])) from None


_SHOWN = 16  # elements of an array that are printed
_PRINTING: set[tuple[int, int]] = set()  # objects and the threads that print them


def constructor_text(thing: object, **other: object) -> str:
    """Return an object's repr as a constructor call without defaults; `other` replaces attributes.

    A class of a user's may not store what its constructor takes, or may store the object in itself: ``Name(...)``.
    """
    name, key = type(thing).__name__, (id(thing), get_ident())
    if key in _PRINTING:
        return f"{name}(...)"
    _PRINTING.add(key)
    try:
        return f"{name}({', '.join(_argument_texts(thing, other))})"
    except Exception:
        return f"{name}(...)"
    finally:
        _PRINTING.discard(key)


def _argument_texts(thing: object, other: dict[str, object]) -> Iterator[str]:
    """Yield the arguments that are not defaults; raise if one is not stored."""
    from inspect import signature

    for name, parameter in signature(type(thing)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise AttributeError(name)
        value = other[name] if name in other else _stored(thing, name)
        if parameter.default is parameter.empty:
            yield value_text(value)
        elif not (value is parameter.default or np.all(value == parameter.default)):
            yield f"{name}={value_text(value)}"


def _stored(thing: object, name: str) -> object:
    """Return an attribute of an object's own, not a method or a constant of its class."""
    from inspect import getattr_static, isdatadescriptor

    if name not in getattr(thing, "__dict__", ()) and not isdatadescriptor(getattr_static(type(thing), name)):
        raise AttributeError(name)
    return getattr(thing, name)


def value_text(value: object) -> str:
    """Return the repr of a number, a string or a small array, and dtype and shape of a large array."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return repr(value.tolist()) if value.size <= _SHOWN else f"<{value.dtype} {value.shape}>"


def one_of(name: str, value: object, choices: Iterable[str], hint: str = "") -> NoReturn:
    """Raise for an unknown name, with the most similar known one as the hint."""
    import difflib

    known = list(choices)
    near = difflib.get_close_matches(str(value)[:60], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else hint
    fail(f"{name} must be one of {', '.join(map(repr, known))}. Got {value!r:.60} instead.", hint=hint)


_CAUSAL = 'mask=regard.mask.causal(), or causal(align="start" or "end") where n != m'
_WINDOW = "mask=regard.mask.window(w - 1, 0) is a causal window of w keys, the own one included"
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
    import difflib

    near = difflib.get_close_matches(option, known, n=1)
    hint = _INSTEAD.get(option) or (
        f"did you mean {near[0]}=?" if near else f"its options are {', '.join(known)}"
    )
    fail(f"{function} takes no option {option!r:.60}.", hint=hint, kind=TypeError)


@cache
def is_half(dtype: np.dtype[Any]) -> bool:
    """Return whether this is float16 or the bfloat16 of ml_dtypes; both are computed in float32."""
    return dtype.name in ("float16", "bfloat16")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether this is a floating dtype, including bfloat16."""
    return dtype.kind == "f" or is_half(dtype)


def as_array(name: str, value: ArrayLike, of: str = "numbers", otherwise: str = "") -> Array:
    """Return the argument as an array; a masked array would silently lose its mask."""
    plain(name, value)
    try:
        return np.asarray(value)
    except ValueError:
        _ragged(name, value, of, otherwise)
    except TypeError as error:  # of the object's own conversion: a dataset of h5py without a shape
        fail(f"{name} must be an array of {of}. Got {type(value).__name__} instead: {error}", kind=TypeError)


def plain(name: str, value: Any) -> None:
    """Raise for a masked array, and for a list that holds one."""
    if _has_masked(value):
        hint = "fill it, and pass the visible pairs as mask="
        fail(f"{name} must be a plain array. Got a masked array instead.", hint=hint, kind=TypeError)


def _has_masked(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(part, np.ndarray | list | tuple) and _has_masked(part) for part in value)
    return isinstance(value, np.ma.MaskedArray)


def _ragged(name: str, value: Any, of: str = "numbers", otherwise: str = "") -> NoReturn:
    """Raise for nested lists of different lengths, at any depth."""
    sentences = any(np.iterable(part) for row in value if np.iterable(row) for part in row)
    padded = "; mask=regard.mask.lengths(counts) hides what is added" if sentences else ""
    rule = f"{name} must be an array of {of}; its rows have different lengths."
    fail(rule, hint=otherwise or f"pad them to one length{padded}")


def listed(name: str, values: Any) -> Any:
    """Return labels as a list, since a generator has no count; a string and None as they are."""
    try:
        return values if values is None or isinstance(values, str) else list(values)
    except TypeError:
        fail(f"{name} must be a sequence of strings. Got {type(values).__name__} instead.", kind=TypeError)


def numeric(name: str, value: ArrayLike) -> Array:
    """Return the argument as an array of real numbers of a supported dtype."""
    array = as_array(name, value)
    if array.dtype == object:
        if array.ndim and any(isinstance(part, list | tuple | np.ndarray) for part in array.flat):
            _ragged(name, value)
        got = type(value).__name__ if not array.ndim else "dtype object"
        fail(f"{name} must hold real numbers. Got {got} instead.", kind=TypeError)
    if array.dtype.kind not in "biuf" and not is_half(array.dtype):
        hint = "attention is defined here for real numbers" if array.dtype.kind == "c" else ""
        fail(f"{name} must hold real numbers. Got dtype {array.dtype} instead.", hint=hint, kind=TypeError)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        fail(
            f"{name} must be float64 or smaller. Got dtype {array.dtype} instead.",
            hint="use .astype(float)",
            kind=TypeError,
        )
    return array


def rows(**values: ArrayLike) -> dict[str, Array]:
    """Return queries, keys or values by name, as arrays of rows."""
    arrays = {name: numeric(name, value) for name, value in values.items()}
    for name, array in arrays.items():
        if array.ndim < 2:
            fail(f"{name} must have at least 2 dimensions: {array.ndim}", arrays, _as_rows(name, arrays))
        if array.ndim > DIMENSIONS:
            fail(f"{name} must have at most {DIMENSIONS} dimensions. Got {array.ndim} instead.")
    return arrays


def _as_rows(name: str, arrays: dict[str, Array]) -> str:
    """Return a hint for making a scalar or a 1-d array 2-dimensional."""
    if not arrays[name].ndim:
        return f"one number is [[{name}]]"
    vector, numbers = f"one vector is {name}[None, :]", f"one number for each row is {name}[:, None]"
    other = arrays.get({"queries": "keys", "keys": "queries", "values": "keys"}[name])
    if other is None:
        return f"{vector}; {numbers}"
    if name == "values":
        return vector if other.ndim > 1 and other.shape[-2] == 1 != len(arrays[name]) else numbers
    if other.ndim > 1 and other.shape[-1] == len(arrays[name]) != 1:
        return vector
    return numbers if other.shape[-1:] == (1,) else f"{vector}; {numbers}"


def three(queries: ArrayLike, keys: ArrayLike, values: ArrayLike) -> tuple[Array, Array, Array]:
    """Return queries, keys and values as arrays; keys and values must have the same length."""
    arrays = rows(queries=queries, keys=keys, values=values)
    m_keys, m_values = arrays["keys"].shape[-2], arrays["values"].shape[-2]
    if m_keys != m_values:
        fail(
            f"keys and values must share their length m: {m_keys} and {m_values}",
            arrays,
            "every key has one value",
        )
    return arrays["queries"], arrays["keys"], arrays["values"]


def same_size(arrays: dict[str, Array], left: int, right: int, hint: str) -> None:
    """Check that queries and keys have the same size d."""
    if left != right:
        fail(f"queries and keys must share their last dimension d: {left} and {right}", arrays, hint)


def dtypes(*arrays: Array) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return (dtype of the computation, dtype of the result): law 7."""
    operands = [np.dtype(np.float32) if is_half(a.dtype) else a.dtype for a in arrays]
    if len({a.dtype.name for a in arrays if is_half(a.dtype)}) < 2:
        operands = [a.dtype for a in arrays]
    try:
        result = np.result_type(*operands)
    except TypeError:  # bfloat16 and integers without a common dtype
        result = np.dtype(np.float32)
    if is_half(result):
        return np.dtype(np.float32), result
    if result.kind != "f" or result.itemsize > 8:
        result = np.dtype(np.float64)
    result = result.newbyteorder("=")
    return result, result


def rounded(array: Array, dtype: np.dtype[Any], *, copy: bool = False) -> Array:
    """Cast a result to another dtype; overflow gives inf and underflow 0, without a warning."""
    if array.dtype == dtype:
        return array.astype(dtype, copy=copy)
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(dtype, copy=copy)


def number(
    name: str,
    value: Any,
    *,
    positive: bool = False,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return a finite Python float within these bounds."""
    try:
        result = math.nan if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError):
        result = math.nan
    except OverflowError:  # an integer of more than 308 digits
        result = math.inf
    if math.isnan(result) and not isinstance(value, float | np.floating):
        fail(f"{name} must be a number. Got {value!r:.60} instead.", kind=TypeError)
    if not math.isfinite(result):
        fail(f"{name} must be finite. Got {result!r} instead.")
    if positive and result <= 0:
        fail(f"{name} must be greater than 0. Got {result!r} instead.")
    if least is not None and result < least:
        fail(f"{name} must be at least {least:g}. Got {result!r} instead.")
    if below is not None and result >= below:
        fail(f"{name} must be less than {below:g}. Got {result!r} instead.")
    if most is not None and result > most:
        fail(f"{name} must be at most {most:g}. Got {result!r} instead.")
    return result


def flag(name: str, value: Any) -> bool:
    """Return a bool; numbers are rejected."""
    if not isinstance(value, bool | np.bool_):
        fail(f"{name} must be True or False. Got {value!r:.60} instead.", kind=TypeError)
    return bool(value)


def representable(name: str, value: float, dtype: np.dtype[Any], *, positive: bool = False) -> float:
    """Return a number if the dtype of the computation can represent it."""
    limits = np.finfo(dtype)
    if abs(value) > float(limits.max):
        fail(f"{name} must be a number that {dtype} can hold. Got {value!r} instead.")
    if positive and value < (least := float(limits.tiny)):
        fail(
            f"{name} must be at least {least:.3g}, the smallest normal number of {dtype}. Got {value!r} instead."
        )
    return value


def integer(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """Return a Python int that is at least `least` and at most `most`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        fail(f"{name} must be an integer. Got {value!r:.60} instead.", kind=TypeError)
    if result < least:
        fail(f"{name} must be at least {least}. Got {result} instead.")
    if most is not None and result > most:
        fail(f"{name} must be at most {most}. Got {result} instead.")
    return result


def integer_array(name: str, value: ArrayLike, least: int | None = None) -> NDArray[np.int64]:
    """Return an int64 array from integers."""
    array = as_array(name, value)
    if array.dtype.kind not in "iu" and array.size:
        fail(f"{name} must hold integers. Got dtype {array.dtype} instead.", kind=TypeError)
    if least is not None and array.size and int(array.min()) < least:
        fail(f"{name} must be at least {least}. Got {int(array.min())} instead.")
    if array.dtype.kind == "u" and array.size and int(array.max()) > MOST:
        fail(f"{name} must be at most {MOST}. Got {int(array.max())} instead.")
    return array.astype(np.int64)


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a random generator: the given one, one from this seed, or one with fresh entropy for None."""
    if value is None or isinstance(
        value, np.random.Generator | np.random.SeedSequence | np.random.BitGenerator
    ):
        return np.random.default_rng(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        rule = f"{name} must be an integer, a numpy.random.Generator or None."
        fail(f"{rule} Got {type(value).__name__} instead.", kind=TypeError)
    return np.random.default_rng(integer(name, value))


def choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Check a name against the known ones."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        one_of(name, value, known)


def broadcast(
    name: str, shape: tuple[int, ...], target: tuple[int, ...], letters: str, hint: str = ""
) -> None:
    """Check that an option's shape broadcasts to the target shape without enlarging it."""
    sizes = zip(reversed(shape), reversed(target), strict=False)
    if len(shape) > len(target) or not all(own in (1, size) for own, size in sizes):
        hint = hint or _reshape_hint(name.split(" ")[0], shape, target)
        fail(f"{name} must broadcast to {letters} = {target}. Got shape {shape} instead.", hint=hint)


def _reshape_hint(name: str, shape: tuple[int, ...], target: tuple[int, ...]) -> str:
    """Return a hint for making an array broadcast: new dimensions of size 1, or its last two swapped."""
    if not name.isidentifier():
        return ""
    fitting = [
        axes for axes in combinations(range(len(target)), len(shape)) if _picked(target, axes) == shape
    ]
    if fitting and shape:  # prefer to align the last dimensions, then the first ones
        axes = max(fitting, key=lambda axes: (axes[-1], [-axis for axis in axes]))
        index = [":" if axis in axes else "None" for axis in range(axes[0], len(target))]
        return f"did you mean {name}[{', '.join(index)}]?"
    swapped = (*shape[:-2], *shape[:-3:-1])
    if len(shape) > 1 and swapped == target[len(target) - len(shape) :]:
        return f"did you mean {name}.{'T' if len(shape) == 2 else 'swapaxes(-1, -2)'}?"
    return ""


def _picked(sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sizes[axis] for axis in axes)


def broadcast_shapes(
    what: str, *shapes: tuple[int, ...], arrays: dict[str, Array] | None = None
) -> tuple[int, ...]:
    """Return the broadcast shape, or raise with the shapes that are incompatible."""
    most = max(map(len, shapes))
    if most > DIMENSIONS:
        fail(f"{what} must have at most {DIMENSIONS} dimensions. Got {most} instead.", arrays)
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        *first, last = map(str, shapes)
        fail(f"{what} must broadcast: {', '.join(first)} and {last}", arrays)


def floating(name: str, value: ArrayLike) -> Array:
    """Return the argument as a floating array; integers become float64."""
    array = numeric(name, value)
    return array if is_float(array.dtype) else array.astype(np.float64)


def axes(letters: str) -> tuple[str, ...]:
    """Return the axes of a shape in letters, such as ``(d, h)``."""
    return tuple(axis.strip() for axis in letters.strip("()").split(",") if axis.strip())


def parameter(name: str, value: ArrayLike, letters: str) -> Array:
    """Return a learned parameter as a floating array with the axes of `letters`; ``...`` is any number of them."""
    array, own = floating(name, value), axes(letters)
    if array.ndim != len(own) and "..." not in own:
        fail(f"{name} must have shape {letters}. Got shape {array.shape} instead.")
    return array


def hidden(name: str, array: Array, size: int) -> None:
    """Check that a parameter of a perceptron ends in its hidden size."""
    if array.shape[-1] != size:
        rule = f"{name} must end in the hidden size h = {size} of vector. Got shape {array.shape} instead."
        fail(rule, hint=transpose_hint(name, array.shape, (*array.shape[1:], size)))


def transpose_hint(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return a hint if a matrix has the transposed shape, as the weight of PyTorch's Linear has."""
    transposed = (
        name.endswith("weight") and len(shape) == 2 and shape == wanted[::-1] and shape[0] != wanted[0]
    )
    return f"{name}.T, if it is PyTorch's, which is (out, in)" if transposed else ""


def output(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check the array `out` that a result is written to."""
    if not isinstance(out, np.ndarray):
        fail(f"out must be an array. Got {type(out).__name__} instead.", kind=TypeError)
    if out.shape != shape or out.dtype != dtype:
        fail(
            f"out must have shape {shape} and dtype {dtype}. Got shape {out.shape} and dtype {out.dtype} instead."
        )
    if not out.flags.writeable:
        fail("out must be writeable. Got a read-only array instead.")
    if _overlaps(out):
        fail(
            f"out must have memory of its own for each number. Got strides {out.strides} at shape {out.shape} instead.",
            hint="an array from np.broadcast_to or as_strided can't hold a result",
        )


def _overlaps(array: Array) -> bool:
    """Return whether elements of an array may share memory: a stride lies within the extent of smaller ones."""
    sizes = [(abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
    reach = array.itemsize
    for stride, size in sorted(sizes) if array.size else []:
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def floats(**named: Any) -> None:
    """Check that dtypes are float32 or float64: integers would round results, half precision overflows in sums.

    None is skipped.
    """
    for name, array in named.items():
        is_plain = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
        if array is None or (is_plain and array.dtype.kind == "f" and array.itemsize in (4, 8)):
            continue
        got = f"dtype {array.dtype}" if is_plain else type(array).__name__
        fail(f"{name} must be an array of float32 or float64. Got {got} instead.", kind=TypeError)


def same_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    """Check that an array is floating and has this shape."""
    floats(**{name: array})
    if array.shape != shape:
        rule = f"{name} must have shape {shape}. Got {array.shape} instead."
        fail(rule, hint=transpose_hint(name, array.shape, (*shape[:1], *array.shape[:1])))


def shapes(letters: dict[str, int], **named: tuple[Array, str]) -> None:
    """Check shapes against letters, such as ``(array, "n B 3H")``."""
    for name, (array, axes) in named.items():
        factors = [(part[:-1], part[-1]) for part in axes.split()]
        wanted = tuple(int(factor or 1) * letters[letter] for factor, letter in factors)
        if array.shape != wanted:
            listed = ", ".join(axes.split()) + ("," if len(factors) == 1 else "")
            rule = f"{name} must have shape ({listed}) = {wanted}. Got {array.shape} instead."
            fail(rule, hint=transpose_hint(name, array.shape, wanted))


def step(state: str, before: Array, gates: int, **halves: Array) -> None:
    """Check that the pre-activations of a step are (..., gates * H), for a previous state (..., H)."""
    floats(**halves, **{state: before})
    if not before.ndim:
        fail(f"{state} must be (..., H). Got shape () instead.")
    for name, half in halves.items():
        same_shape(name, half, (*before.shape[:-1], gates * before.shape[-1]))


def recurrent(
    gates: int,
    x: Array,
    input_weight: Array,
    bias: Array,
    state_weight: Array,
    state_bias: Array | None = None,
) -> None:
    """Check the shapes of inputs and parameters of a recurrent layer with `gates` gates of size H."""
    floats(x=x, input_weight=input_weight, bias=bias, state_weight=state_weight, state_bias=state_bias)
    if x.ndim != 3 or state_weight.ndim != 3 or len(state_weight) not in (1, 2):
        fail(
            f"x must be (T, B, E) and state_weight (K, H, {gates}H) with K = 1 or 2. "
            f"Got shapes {x.shape} and {state_weight.shape} instead."
        )
    named = {"input_weight": (input_weight, f"E K {gates}H"), "bias": (bias, f"K {gates}H")}
    named["state_weight"] = state_weight, f"K H {gates}H"
    if state_bias is not None:
        named["state_bias"] = state_bias, f"K {gates}H"
    shapes({"K": len(state_weight), "H": state_weight.shape[1], "E": x.shape[2]}, **named)


def has_intermediates(keep: bool) -> None:
    """Raise for a backward pass without intermediate results."""
    if not keep:
        fail("keep must be True for a backward pass. Got False instead.")


def lengths(value: ArrayLike, size: int, most: int) -> NDArray[np.int64]:
    """Return the argument `lengths`: one count for each of `size` sequences."""
    counts = integer_array("lengths", value, 0)
    if counts.shape != (size,):
        fail(f"lengths must have shape (B,) = ({size},). Got {counts.shape} instead.")
    if counts.size and counts.max() > most:
        fail(f"lengths must be at most {most}. Got {counts.max()} instead.")
    return counts


def replaceable(path: str | os.PathLike[str]) -> Path:
    """Return a path with symbolic links resolved, if it is a regular file or does not exist."""
    from pathlib import Path

    not_empty(path)
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        fail(f"{os.fspath(path)} must be a file, or not there yet. It is {kind_of_file(mode)} instead.")
    return target


def not_empty(path: str | os.PathLike[str]) -> None:
    """Raise for an empty path, which would be that of the current folder."""
    if not os.fspath(path):
        fail("the path of a file must not be empty")


def kind_of_file(mode: int) -> str:
    """Describe the type of a path that is not a regular file."""
    return "a folder" if stat.S_ISDIR(mode) else "not a regular file"
