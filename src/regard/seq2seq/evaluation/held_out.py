"""Held-out sources with digests of their right answers: enough to count errors, too little to read the answers.

A model file has them, so that the error rate of an exported model can be measured without the dictionary itself. A
digest is BLAKE2b of 8 bytes of the source, a TAB and the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from regard import _check

__all__ = ["HeldOut", "as_held_out", "from_json", "right_sources", "share_wrong"]

HeldOut = Mapping[str, Sequence[str]]  # the digests of the right answers of each source
_DIGITS = 16  # hexadecimal


def _digest(source: str, answer: str) -> str:
    return blake2b(
        f"{source}\t{answer}".encode("utf-8", "surrogatepass"), digest_size=_DIGITS // 2
    ).hexdigest()


def as_held_out(answers: Mapping[str, Iterable[str]]) -> HeldOut:
    """Return sources with the digests of all their right answers."""
    return {source: [_digest(source, answer) for answer in right] for source, right in answers.items()}


def share_wrong(held_out: HeldOut, answers: Sequence[str]) -> float:
    """Return the share of sources whose answer, in their order, is none of the right ones."""
    return (len(held_out) - len(right_sources(held_out, answers))) / len(held_out)


def right_sources(held_out: HeldOut, answers: Sequence[str]) -> list[str]:
    """Return the sources whose answer, in their order, is one of the right ones."""
    pairs = zip(held_out.items(), answers, strict=True)
    return [source for (source, right), answer in pairs if _digest(source, answer) in right]


def from_json(data: bytes) -> HeldOut:
    """Return held-out sources from untrusted JSON; ValueError if it is invalid."""
    held_out = json.loads(data)
    if not (isinstance(held_out, dict) and held_out and all(map(_is_digests, held_out.values()))):
        _check.fail(f"it must have digests of {_DIGITS} digits for each source")
    return held_out


def _is_digests(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(digest, str) and len(digest) == _DIGITS for digest in value
    )
