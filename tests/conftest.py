"""The whole suite passes without the native kernel too, and what says so is no error."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let the one warning of an installation without a compiler pass."""
    config.addinivalue_line(
        "filterwarnings", "ignore:regard was installed without its native kernel:RuntimeWarning"
    )
