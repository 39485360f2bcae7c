"""What a notebook shows of an object: a page of `regard.show`. The only module that names a module above it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

__all__: list[str] = []


class InNotebook:
    """Something that a notebook shows as a page; as text where no page can be, such as in what nbconvert prints."""

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
    """Something with attention weights that has a view of its own on a page."""

    view: ClassVar[Literal["mechanism", "alignment", "heads", "steps"]]


def page_of(shown: Any) -> Any:
    """Return the page of an object, or of a list of them."""
    import pkgutil  # rarely needed, and `import regard` stays light

    return pkgutil.resolve_name("regard.show.page:page")(shown)
