"""The written standard: all node tests of ONNX 1.23.2 for its operators of attention, none left out."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx_adapter
import pytest

node_tests = pytest.importorskip("onnx.backend.test.case.node", reason="onnx is in the development extra")


@functools.cache
def collected(operator: str) -> dict[str, Any]:
    """The cases of an operator by name, from the modules that define them (all modules take seconds).

    Their twins expand a function body and are about the ONNX graph.
    """
    state = np.random.get_state()  # the modules seed the global generator
    for module in ("attention", "rotaryembedding", "linear_attention", "flexattention"):
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    np.random.set_state(state)
    cases = {case.name: case for case in node_tests._NodeTestCases if "expanded" not in case.name}
    return {name: case for name, case in cases.items() if name.startswith(f"test_{operator}")}


OPERATORS = {"attention_": 93, "rotary_embedding": 8, "linear_attention": 14, "flexattention": 11}


def test_nothing_is_left_out() -> None:
    assert {operator: len(collected(operator)) for operator in OPERATORS} == OPERATORS


def test_the_readme_says_which_operators_are_tested() -> None:
    page = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"\*\*Checked\.\*\*(.*?)\n- ", page, flags=re.DOTALL)
    stated = {name.lower(): int(count) for name, count in re.findall(r"`(\w+)` \((\d+)", sentence)}
    assert stated == {name.replace("_", ""): count for name, count in OPERATORS.items()}
    assert importlib.metadata.version("onnx") in sentence


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # raised by the definitions of other operators' cases
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy 2.5's, about those
def test_onnx_collects_the_same_cases() -> None:
    state = np.random.get_state()
    names = {case.name for case in node_tests.collect_testcases(None) if "expanded" not in case.name}
    np.random.set_state(state)
    for operator in OPERATORS:
        matches = {name for name in names if name.startswith(f"test_{operator}")}
        assert matches == set(collected(operator))


def unpacked(case: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Inputs and expected outputs by name, and attributes."""
    from onnx.helper import get_attribute_value

    (node,) = case.model.graph.node
    ((inputs, outputs),) = case.data_sets
    inputs_by_name = dict(zip([x for x in node.input if x], inputs, strict=True))
    expected = dict(zip([x for x in node.output if x], outputs, strict=True))
    return inputs_by_name, expected, {a.name: get_attribute_value(a) for a in node.attribute}


def assert_similar(actual: Any, expected: Any, case: Any) -> None:
    """ONNX's own comparison: shape, dtype, its tolerances, two units in the last place for bfloat16."""
    assert actual.shape == expected.shape, case.name
    assert actual.dtype == expected.dtype, case.name
    rtol = case.rtol
    if expected.dtype.name == "bfloat16":
        rtol, actual, expected = max(rtol, 2**-6), actual.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=case.atol, err_msg=case.name)


def test_attention() -> None:
    for case in collected("attention_").values():
        inputs, expected, attributes = unpacked(case)
        outputs = onnx_adapter.attention(inputs, attributes)
        for output, array in expected.items():
            assert_similar(outputs[output], array, case)
        assert_similar(outputs["Y by attend"], expected["Y"], case)


def test_rotary_embedding() -> None:
    for case in collected("rotary_embedding").values():
        inputs, expected, attributes = unpacked(case)
        rotated = onnx_adapter.rotary_embedding(inputs, attributes)
        assert_similar(rotated, expected["output"], case)


def test_linear_attention() -> None:
    for case in collected("linear_attention").values():
        inputs, expected, attributes = unpacked(case)
        outputs = onnx_adapter.linear_attention(inputs, attributes)
        for output, array in expected.items():
            assert_similar(outputs[output], array, case)


def test_flex_attention() -> None:
    for case in collected("flexattention").values():
        inputs, expected, attributes = unpacked(case)
        assert_similar(onnx_adapter.flex_attention(inputs, attributes), expected["Y"], case)
