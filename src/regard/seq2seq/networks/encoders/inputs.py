"""The inputs of a network that reads arrays instead of tokens, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from regard import _check
from regard.seq2seq.data.array_sources import ArraySource, Images, Vectors
from regard.seq2seq.networks.encoders.images import ImageInput
from regard.seq2seq.networks.encoders.vectors import VectorInput

__all__ = ["Input", "as_input", "check_fit", "check_source", "describe_input", "input_of"]

Input: TypeAlias = VectorInput | ImageInput

_FILTERS = 32, 64  # channels of the first stage, which halves a picture at full size, and of the others
_KINDS: dict[str, type[Any]] = {kind.kind: kind for kind in (VectorInput, ImageInput)}


def as_input(described: Any) -> Input | None:
    """Return the input that `describe_input` described, checked; inputs and None stay as they are.

    Parameters
    ----------
    described : mapping, Input or None
        Perhaps from an untrusted file.

    Returns
    -------
    Input or None
        None for tokens.
    """
    if described is None or isinstance(described, VectorInput | ImageInput):
        return described
    if not isinstance(described, Mapping):
        _check.fail(f"inputs must be an input. Got {described!r:.60} instead.", kind=TypeError)
    options = dict(described)
    kind = options.pop("kind", None)
    _check.choice("inputs", kind, _KINDS)
    result: Input = _KINDS[kind](**options)
    return result


def describe_input(inputs: Input | None) -> dict[str, Any] | None:
    """Return an input as JSON values.

    Parameters
    ----------
    inputs : Input or None
        None for tokens.

    Returns
    -------
    dict or None
        With the name of its kind.
    """
    return None if inputs is None else {"kind": inputs.kind} | asdict(inputs)


def input_of(source: ArraySource) -> Input:
    """Return the input of a network for a source.

    Parameters
    ----------
    source : ArraySource
        `Vectors` or `Images`.

    Returns
    -------
    Input
        Of the same sizes.
    """
    if isinstance(source, Vectors):
        return VectorInput(source.size + source.positions, source.order)
    assert isinstance(source, Images)
    first, others = _FILTERS
    filters = first, *(others,) * (source.cell.bit_length() - 2)
    return ImageInput(source.height, source.width, source.channels, filters)


def check_fit(inputs: Input, source: ArraySource) -> None:
    """Check that a network fits the arrays of a source, where both are of an untrusted file.

    Parameters
    ----------
    inputs : Input
        The input of the network.
    source : ArraySource
        What reads its sources.
    """
    needed = input_of(source)
    if isinstance(inputs, ImageInput) and isinstance(needed, ImageInput) and inputs.cell == needed.cell:
        needed = replace(needed, filters=inputs.filters)
    if inputs != needed:
        _check.fail(
            f"the network must read what its source returns. It has {inputs} for {source!s:.80} instead."
        )


def check_source(config: Any) -> None:
    """Check the source of a frozen configuration: tokens of a vocabulary, or an input.

    Parameters
    ----------
    config : object
        With `source_tokens` and `inputs`, which becomes an `Input` or None.
    """
    inputs = as_input(config.inputs)
    object.__setattr__(config, "inputs", inputs)
    if inputs is not None and config.source_tokens:
        rule = f"source_tokens must be 0 for a network that reads {inputs.kind}."
        _check.fail(f"{rule} Got {config.source_tokens} instead.")
    if inputs is None and not config.source_tokens:
        _check.fail("source_tokens must be at least 1. Got 0 instead.")
