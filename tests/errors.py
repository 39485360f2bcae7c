"""The text of an error, word for word."""

from __future__ import annotations

from typing import Any

import pytest


def error(kind: type[Exception], function: Any, *args: Any, **options: Any) -> str:
    """The text of the error that a call raises, which is of exactly this type."""
    with pytest.raises(kind) as caught:
        function(*args, **options)
    assert type(caught.value) is kind
    return str(caught.value)
