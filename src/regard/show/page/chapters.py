"""The page without arrays of the user: one story, a row for each chapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from regard.show.page.examples import (
    block,
    directions,
    learning,
    lengths,
    meanings,
    reordering,
    translator,
    word_order,
)
from regard.show.page.models import letters, trained
from regard.show.page.section import Section
from regard.show.steps import texts

__all__ = ["ALONE", "CHAPTERS", "story"]

Draw = Callable[[dict[str, Any]], Section]  # from the texts of a language


class Chapter(NamedTuple):
    """A chapter: its address, under which its texts stand, its picture, and what its closed drawers show."""

    name: str
    picture: Draw
    drawers: tuple[Draw, ...] = ()


CHAPTERS = (
    Chapter("why", lengths),
    Chapter("shares", meanings),
    Chapter("queries", learning, (directions,)),
    Chapter("heads", word_order),
    Chapter("block", block, (reordering,)),
    Chapter("real", trained, (translator,)),
)
# Pages of their own: with the weights of the model, the story would be larger than 350 KB.
ALONE = (Chapter("language-model", letters),)


def story(
    names: Sequence[str] | None = None, language: str = "en", beginning: str | None = None
) -> list[Section]:
    """Return the chapters with these names, in their order, or the story: all but those that are pages of their own.

    The story ends with what a class needs: an exercise sheet and a quiz, which are shown when they are asked for.
    `beginning` is the text that the language model goes on with.
    """
    known = texts(language)
    if beginning is not None:
        known = known | {"letters": known["letters"] | {"beginning": beginning}}
    if names is None:
        classroom = [Section(view, known[view]["title"], {"name": view}) for view in ("sheet", "quiz")]
        return [*(_section(chapter, known) for chapter in CHAPTERS), *classroom]
    return [_section(chapter, known) for chapter in (*CHAPTERS, *ALONE) if chapter.name in names]


def _section(chapter: Chapter, known: dict[str, Any]) -> Section:
    parts = [draw(known) for draw in (chapter.picture, *chapter.drawers)]
    title = known["chapters"][chapter.name]["title"]
    text = "\n\n".join(part.text for part in parts if part.text)
    return Section("chapter", title, {"name": chapter.name}, text=text, parts=parts)
