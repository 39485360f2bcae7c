"""Arrays of other libraries, as stand-ins that need none of them, and the laws of functions that read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_test import in_one_test

__all__ = ["Arrayed", "Exported", "Tensor", "DoorLaws", "each", "in_lists"]

Reader = Callable[[Any], Any]


class Exported:
    """What has `__dlpack__` alone."""

    def __init__(self, array: Any) -> None:
        self.array = np.array(array)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Arrayed:
    """What has `__array__` alone, as a table of pandas has for NumPy."""

    def __init__(self, array: Any) -> None:
        self.array = np.array(array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class Tensor:
    """A tensor that refuses to be an array, in PyTorch's words, until its methods have made one that is."""

    def __init__(self, array: Any, requires_grad: bool = True, dtype: str = "float32", device: str = "cpu"):
        self.array, self.requires_grad, self.device = np.asarray(array), requires_grad, device
        self.dtype = f"torch.{dtype}"

    def _changed(self, **changes: Any) -> Tensor:
        own = {name: getattr(self, name) for name in ("requires_grad", "device")}
        return Tensor(self.array, **{**own, "dtype": self.dtype.removeprefix("torch."), **changes})

    def detach(self) -> Tensor:
        return self._changed(requires_grad=False)

    def cpu(self) -> Tensor:
        return self._changed(device="cpu")

    def float(self) -> Tensor:
        return self._changed(dtype="float32")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self.device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() ...")
        if self.dtype != "torch.float32":
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self.array


def in_lists(array: Any) -> Any:
    return [Arrayed(row) for row in array] if np.ndim(array) else Arrayed(array)


UNREADABLE: dict[str, dict[str, Any]] = {
    ".detach()": {},
    ".float()": {"requires_grad": False, "dtype": "bfloat16"},
    ".detach().float()": {"dtype": "float8_e4m3fn"},
    ".detach().cpu().float()": {"dtype": "bfloat16", "device": "cuda:0"},
}


def detached(array: Any) -> Tensor:
    return Tensor(array).detach()


KINDS = (Exported, Arrayed, in_lists, detached)


def each(doors: dict[str, tuple[Reader, Any]]) -> Any:
    """A fixture, each row of a table in turn: by the argument, before a colon, what reads it, an example."""
    rows = [
        pytest.param((name.partition(":")[0], *row), id=name, marks=[pytest.mark.slow] * ("figure" in name))
        for name, row in doors.items()
    ]

    @pytest.fixture(params=rows)
    def door(request: pytest.FixtureRequest) -> Any:
        return request.param

    return door


class DoorLaws:
    """What holds for every door of a module, which inherits it and has the fixture `door`."""

    @in_one_test("kind", KINDS)
    def test_an_array_of_another_library_is_read_as_one_of_numpy(self, door: Any, kind: Reader) -> None:
        _, read, array = door
        np.testing.assert_equal(read(kind(array)), read(array))

    @in_one_test("calls", UNREADABLE)
    def test_a_tensor_that_numpy_cannot_read_is_an_error_with_the_way_out(
        self, door: Any, calls: str
    ) -> None:
        name, read, array = door
        tensor = Tensor(array, **UNREADABLE[calls])
        rule = rf"^{name} must be (an array|a number).*\. Got Tensor instead: "
        for wrong in (tensor, [tensor] * 2):
            with pytest.raises(TypeError, match=rule) as error:
                read(wrong)
            assert str(error.value).endswith(f"hint: use {calls}")
        np.testing.assert_equal(read(eval(f"tensor{calls}")), read(array))
