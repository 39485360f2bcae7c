"""What a task adds to the folder of ``regard export``."""

from __future__ import annotations

from collections.abc import Sequence

from regard.seq2seq.export.folder import Draft

__all__ = ["App"]


class App:
    """What a task adds to an exported folder: nothing, unless a subclass says what.

    `files`: the names of further files; `page`: of those that a page for browsers needs.
    """

    files: Sequence[str] = ()
    page: Sequence[str] = ()

    def examples(self, right: Sequence[str]) -> list[str]:
        """Return the first examples: some of the held-out sources that the files answer right."""
        return [*right]

    def complete(self, draft: Draft, *, page: bool) -> None:
        """Add the files to the draft, whose answers have been compared and measured."""
