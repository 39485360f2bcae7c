"""Numbers on the command line: plain digits are read exactly, other text gives one line with the rule."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from regard.commands.argument_types import BEAMS, integer, number, positive, value


def refused(read: Callable[[str], Any], text: str) -> str:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        read(text)
    return str(caught.value)


@given(st.integers(0, 10**18 - 1), st.integers(0, 3))
def test_integers_are_read(n: int, zeros: int) -> None:
    text = ("0" * zeros + str(n))[-18:]
    assert integer(0)(text) == int(text)
    assert value(text) == int(text)
    assert type(value(text)) is int
    assert value(f"-{text}") == -int(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read(x: float) -> None:
    assert number("any", lambda _: True)(repr(x)) == x
    assert value(repr(x)) == x


@in_one_test(
    "text", ["", " 1", "1\n", "+1", "1_0", "\uff11", "\u0663", "1.0", "1e3", "0x1", "x", "-1", "\u00b2", "0"]
)
def test_invalid_integers_are_rejected(text: str) -> None:
    assert refused(integer(), text) == f"must be an integer of at least 1. Got {text!r} instead."
    assert refused(integer(most=BEAMS), text) == f"must be an integer from 1 to 100. Got {text!r} instead."


@in_one_test("text", ["", " 1", "1_0", "\uff11", "nan", "inf", "1e999", ".", "e1", "0x1", "1e", "-1"])
def test_invalid_numbers_are_rejected(text: str) -> None:
    assert refused(positive, text) == f"must be a number greater than 0. Got {text!r} instead."


def test_bounds_are_inclusive() -> None:
    read = integer(3, 5)
    assert [read(text) for text in "345"] == [3, 4, 5]
    assert refused(read, "2") == "must be an integer from 3 to 5. Got '2' instead."
    assert refused(read, "6") == "must be an integer from 3 to 5. Got '6' instead."


def test_long_arguments_are_shortened_in_errors() -> None:
    message = refused(integer(), "9" * 5000)
    assert message.startswith("must be an integer of at least 1 and at most 18 digits. Got '999")
    assert len(message) < 160
    assert len(refused(positive, "9" * 5000)) < 130
    assert math.isinf(float("9" * 5000))  # so that one is refused, as every number must be finite


def test_the_type_of_a_value_follows_from_its_text() -> None:
    values = [
        value(text) for text in ("true", "false", "True", "gru", "1_0", "\uff11", "nan", "1.", ".5", "-2e-3")
    ]
    assert values == [True, False, "True", "gru", "1_0", "\uff11", "nan", 1.0, 0.5, -0.002]
