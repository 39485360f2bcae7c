"""A dictionary of a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """A function that writes a file and returns its path."""

    def made(content: str | bytes) -> Path:
        path = tmp_path / "words"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return made
