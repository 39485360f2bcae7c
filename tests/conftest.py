"""What the whole suite stands on, whether there is a native kernel or not, and however it was started."""

from __future__ import annotations

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let the one warning of an installation without a compiler pass, and Ctrl-C reach those who listen."""
    config.addinivalue_line(
        "filterwarnings", "ignore:regard was installed without its native kernel:RuntimeWarning"
    )
    # A shell that starts the tests in the background has them ignore SIGINT, and processes that they start do, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
