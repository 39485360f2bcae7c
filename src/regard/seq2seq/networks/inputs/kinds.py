"""The inputs of networks by name: for a source, from a file, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from regard import _check
from regard.seq2seq.networks.inputs.base import Input
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.inputs.vectors import VectorInput
from regard.seq2seq.sources.base import Spec

__all__ = ["as_input", "check_fit", "check_source", "describe_input", "input_of"]

_FILTERS = 32, 64  # channels of the first stage, which halves an image at full size, and of the others
_KINDS: dict[str, type[Any]] = {kind.kind: kind for kind in (VectorInput, ImageInput)}


def as_input(described: Any) -> Input | None:
    """Return the input that `describe_input` described, checked; inputs, and None for tokens, stay as they are."""
    if described is None or isinstance(described, Input):
        return described
    if not isinstance(described, Mapping):
        _check.fail(f"inputs must be an input. Got {described!r:.60} instead.", kind=TypeError)
    options = dict(described)
    kind = options.pop("kind", None)
    _check.choice("inputs", kind, _KINDS)
    result: Input = _KINDS[kind](**options)
    return result


def describe_input(inputs: Any) -> dict[str, Any] | None:
    """Return an input as JSON values, with the name of its kind; None for tokens."""
    return None if inputs is None else {"kind": inputs.kind} | asdict(inputs)


def input_of(source: Spec) -> Input | None:
    """Return the input of a network for a source: of the same sizes, and None for tokens."""
    if source.image is not None:
        height, width, channels, side = source.image
        first, others = _FILTERS
        return ImageInput(height, width, channels, (first, *(others,) * (side.bit_length() - 2)))
    return VectorInput(source.width, "sequence" if source.ordered else "set") if source.width else None


def check_fit(inputs: Input | None, source: Spec) -> None:
    """Check that a network's input, None for tokens, fits the source, both from an untrusted file."""
    needed = Spec(tokens=source.tokens) if inputs is None else inputs.spec
    if source != needed:
        _check.fail(f"the network must read what its source returns. It reads {needed}, and not {source}.")


def check_source(config: Any) -> None:
    """Check the source of a frozen configuration: tokens, or `inputs`, which becomes an `Input` or None."""
    inputs = as_input(config.inputs)
    object.__setattr__(config, "inputs", inputs)
    if inputs is not None and config.source_tokens:
        rule = f"source_tokens must be 0 for a network that reads {inputs.kind}."
        _check.fail(f"{rule} Got {config.source_tokens} instead.")
    if inputs is None and not config.source_tokens:
        _check.fail("source_tokens must be at least 1. Got 0 instead.")
