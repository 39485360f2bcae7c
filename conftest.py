"""Settings of the test suite, with or without a native kernel."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from regard.kernels import library

SETS = library.instruction_sets()
CHOSEN = os.environ.get("REGARD_INSTRUCTION_SET") or (SETS or ["none"])[0]

# The profile: no test may depend on how fast or how busy the machine is.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("any machine"), max_examples=25)  # of `make quick`
settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    """Ignore the warning of an installation without a compiler, and restore the default handling of Ctrl-C."""
    config.addinivalue_line(
        "filterwarnings", "ignore:regard was installed without its native kernel:RuntimeWarning"
    )
    if os.environ.get("TEST_WITHOUT_THREADS") and config.getoption("dist", "no") == "no":
        os.environ["NO_THREADS"] = "1"  # read by tests/kernels/native/no_threads.c, in child processes too
    # A shell that starts the tests in the background has them ignore SIGINT, and processes that they start do, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):  # which nohup has them ignore
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that start threads, themselves or by a library, where none can be started."""
    if "NO_THREADS" in os.environ:
        for item in items:
            if item.get_closest_marker("threads"):
                item.add_marker(pytest.mark.skip(reason="no thread can be started"))


# The quick tests use the chosen instruction set only, by default the best.
@pytest.fixture(
    params=[CHOSEN, *(pytest.param(name, marks=pytest.mark.slow) for name in SETS if name != CHOSEN)]
)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set in turn."""
    loaded = library.load()
    if loaded is None:
        pytest.skip(library.missing())
    assert loaded.regard_choose(request.param.encode())
    yield request.param
    loaded.regard_choose(CHOSEN.encode())
