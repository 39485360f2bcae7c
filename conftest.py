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


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a stage of CI changes besides numbers shows at each value of a parameter, with any of the others."""
    parser.addoption(
        "--each-value",
        action="store_true",
        help="of each test every value of a parameter, not every combination",
    )


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


def with_new_values(items: list[pytest.Item]) -> set[pytest.Item]:
    """Tests that have each value of each parameter of all: first those whose values are all new, then any new one's."""
    seen: dict[tuple[object, ...], set[tuple[int, str]]] = {}
    chosen = set()
    for is_enough in (set.isdisjoint, lambda seen, values: not values <= seen):
        for item in items:
            values = set(enumerate(item.callspec._idlist)) if hasattr(item, "callspec") else {(0, "")}
            known = seen.setdefault((item.parent, getattr(item, "originalname", item.name)), set())
            if is_enough(known, values):
                known |= values
                chosen.add(item)
    return chosen


@pytest.hookimpl(trylast=True)  # after the choice by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests that start threads, themselves or by a library, where none can be started."""
    if config.getoption("each_value"):
        chosen = with_new_values(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    if "NO_THREADS" in os.environ:
        for item in items:
            if item.get_closest_marker("threads"):
                item.add_marker(pytest.mark.skip(reason="no thread can be started"))


def of_training(name: str) -> str:
    """The instruction set whose functions of training a set has: those with bfloat16 have AVX-512's."""
    return "avx512" if name in ("amx", "avx512bf16") else name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Quick tests use the chosen instruction set, by default the best, and slow ones the others that differ from it."""
    if "isa" in metafunc.fixturenames:
        others = [name for name in SETS if name != CHOSEN]
        if metafunc.definition.get_closest_marker("training"):
            others = [name for name in others if of_training(name) == name != of_training(CHOSEN)]
        each = [CHOSEN, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]
        metafunc.parametrize("isa", each, indirect=True)


@pytest.fixture
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set in turn."""
    loaded = library.load()
    if loaded is None:
        pytest.skip(library.missing())
    assert loaded.regard_choose(request.param.encode())
    yield request.param
    loaded.regard_choose(CHOSEN.encode())
