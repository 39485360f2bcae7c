"""Display of objects in notebooks, as pages of `regard.show`, which is imported when the first is displayed."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

__all__: list[str] = []


class InNotebook:
    """Base class of objects that a notebook displays as a page, or as text where there can be none, as in a print."""

    def _page(self) -> Any:
        """Return the page, or None where there is nothing to show."""
        return page_of(self)

    def _repr_html_(self) -> str | None:
        page = self._page()
        return None if page is None else str(page._repr_html_())

    def _repr_markdown_(self) -> str | None:
        page = self._page()
        return None if page is None else str(page._repr_markdown_())


class Displayed(InNotebook):
    """Base class of objects with attention weights that have their own view on a page."""

    view: ClassVar[Literal["mechanism", "alignment", "heads", "steps"]]


def page_of(shown: Any) -> Any:
    """Return the page of an object, or of a list of them."""
    import pkgutil  # rarely needed, and `import regard` stays light

    return pkgutil.resolve_name("regard.show.page:page")(shown)
