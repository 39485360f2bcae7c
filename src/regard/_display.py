"""What a notebook shows of an object: a page of `regard.show`. The only module that names a module above it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

__all__: list[str] = []


class Displayed:
    """Something with attention weights that has a view of its own on a page, and that a notebook shows."""

    view: ClassVar[Literal["mechanism", "alignment", "heads", "steps"]]

    def _repr_html_(self) -> str | None:
        return page_html(self)


def page_html(shown: Any) -> str:
    """Return the page of an object, or of a list of them, as HTML for a notebook."""
    import pkgutil  # rarely needed, and `import regard` stays light

    return str(pkgutil.resolve_name("regard.show.page:page")(shown)._repr_html_())
