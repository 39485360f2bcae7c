"""Build the documentation site: `make docs`, or `sphinx-build -W -b html docs build/docs/html`."""

from __future__ import annotations

import html
import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from docutils import nodes
from jupyter_cache import get_cache
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.ext import autosummary

import regard.seq2seq
from regard import cli

# ------------------------------------------------------------------------------------------------------- what is built

project = "regard"
author = copyright = "the regard authors"
version = release = regard.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",  # Markdown, and notebooks, which it runs
]
templates_path = ["_templates"]
exclude_patterns = [
    *(
        "check.py",
        "conf.py",
        "diagram.py",
        "lines.py",
        "options.py",
        "ring.py",
        "sounds.py",
        "variant_pictures.py",
    ),
    "notebooks/*.ipynb",  # the scripts of the notebooks are built
]
nitpicky = True  # a reference that leads nowhere is a warning, and a warning ends the build
default_role = "autolink"  # `name` is a link where there is such a name,
nitpick_ignore_regex = [("py:obj", ".*")]  # and a parameter or an attribute otherwise

# The tutorials are Python scripts with cells, which read and compare well; every build runs those that have changed.
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "cache"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # links to headings are written as on GitHub

autosummary_ignore_module_all = False
autosummary_imported_members = True  # a name is described where users import it from,
autosummary_context = {"described": regard.seq2seq.__all__}  # and not again in the module that defines it
autodoc_typehints = "none"  # the docstrings state types and shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "regard"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "gallery", "changes", "search", "genindex")}
html_context = {"default_mode": "auto"}  # light or dark as the system is
html_theme_options = {
    "logo": {"text": "regard"},
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc", "notebook"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}

# ------------------------------------------------------------------------------------------------------ small additions

# Pages link to files outside this folder, as readers on GitHub need it; here the links lead to the page with the same.
ELSEWHERE = {
    "../README.md": "index.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../data/digits/README.md": "data.md",
}


def lead_to_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace links to files that are not part of the site."""
    for path, page in ELSEWHERE.items():
        source[0] = source[0].replace(f"]({path})", f"]({page})")


def trim_code(app: Sphinx, name: str, source: list[str]) -> None:
    """Remove the empty line that ends an example, which doctest needs."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def keep_formula(app: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Move the `::` after a summary to a line of its own: numpydoc would shift the formula below it to the margin."""
    end = lines.index("") if "" in lines else len(lines)
    if end and lines[end - 1].endswith(" ::"):
        lines[end - 1 : end] = [lines[end - 1].removesuffix(" ::"), "", "::"]


def complete_sentence(doc: Sequence[str], settings: Any) -> str:
    """Return the first paragraph of a docstring, which is one sentence: Sphinx ends it at a period inside a formula."""
    paragraph = "\n".join(doc).strip().split("\n\n")[0]
    return " ".join(paragraph.split())


autosummary.extract_summary = complete_sentence


def inline_math(self: Any, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers draw without a script from the network."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed_math(self: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    self.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def lead_back(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Mend the links from sources to the reference: viewcode puts all names of a module into one other module."""
    if page.startswith("_modules/"):
        # .../regard.show.Page.html#regard.Page.save becomes .../regard.show.Page.html#regard.show.Page.save
        described = r"(/(?:[\w.]+\.)?(\w+)\.html)#[\w.]*?\b\2(?=[.\"])"
        context["body"] = re.sub(described, lambda link: f"{link[1]}#{link[1][1:-5]}", context["body"])


# The pages beside those of the site: by the options of `regard show` that write them, by the notebook whose last page
# they are,
PAGES = {
    "attention.html": [],
    "attention-fr.html": ["--language", "fr"],
    "attention-de.html": ["--language", "de"],
    "language-model.html": ["--section", "language-model"],
}
LAST = {"3-why-attention": "translator.html", "4-small-language-model": "heads.html"}
SOUNDS = "sounds.html"  # and by docs/sounds.py


def deliver_notebooks(app: Sphinx, error: Exception | None) -> None:
    """Put the executed notebooks next to the pages, which link to them: MyST-NB forgets the results of its cache."""
    if error is None and app.builder.name == "html":
        cache = get_cache(Path(app.outdir).parent / ".jupyter_cache")
        for script in Path(app.srcdir, "notebooks").glob("*.py"):
            _, executed = cache.merge_match_into_notebook(jupytext.read(script))
            nbformat.write(executed, Path(app.outdir, "notebooks", f"{script.stem}.ipynb"))
            if script.stem in LAST:
                Path(app.outdir, LAST[script.stem]).write_text(last_page(executed), encoding="utf-8")


def last_page(notebook: nbformat.NotebookNode) -> str:
    """Return the last page that a notebook shows, each of which is in a frame."""
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    frames = re.findall(r'srcdoc="([^"]*)"', "".join(data.get("text/html", "") for data in outputs))
    return html.unescape(frames[-1])


def deliver_pages(app: Sphinx, error: Exception | None) -> None:
    """Write the pages that need no notebook next to those of the site, which link to them."""
    if error is None and app.builder.name == "html":
        for name, options in PAGES.items():
            cli.main(["show", *options, "--out", str(Path(app.outdir, name)), "--force"])
        sounds = runpy.run_path(str(Path(app.srcdir, "sounds.py")))
        sounds["page"]().save(Path(app.outdir, SOUNDS), force=True)


VARIANTS = runpy.run_path(str(Path(__file__).with_name("variant_pictures.py")))


def picture_variants(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the column of pictures to the table of variants."""
    if name == "variants":
        source[0] = VARIANTS["with_pictures"](source[0])


def deliver_variants(app: Sphinx, error: Exception | None) -> None:
    """Draw the weights of the variants."""
    if error is None and app.builder.name == "html":
        VARIANTS["draw"](Path(app.outdir, VARIANTS["FOLDER"]))


def setup(app: Sphinx) -> None:
    """Connect the additions."""
    app.connect("autodoc-process-docstring", keep_formula, priority=100)  # before numpydoc
    app.connect("html-page-context", lead_back)
    app.connect("source-read", lead_to_pages)
    app.connect("source-read", trim_code)
    app.connect("build-finished", deliver_notebooks)
    app.connect("build-finished", deliver_pages)
    app.connect("source-read", picture_variants)
    app.connect("build-finished", deliver_variants)
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))


html_math_renderer = "mathml"
