"""The documentation site: the same markdown as in the repository, in an order, with search. `make docs` builds it.

The pages stay plain markdown: the order is a table here, and diagrams are drawn when the site is built, so a page loads nothing from
foreign hosts. A warning, such as a link that leads nowhere, fails the build.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import mmdr
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

ORDER: Final = {
    "Start here": ["docs/choosing", "docs/quickstart", "examples/README", "docs/guarantees", "docs/README"],
    "How to": [
        "docs/transactions",
        "docs/services",
        "docs/compat",
        "docs/pipelines",
        "docs/jobs",
        "docs/spark",
        "docs/spark-source",
        "docs/serializers",
        "docs/testing",
        "docs/inspector",
        "docs/security",
        "docs/observing",
        "docs/operating",
        "docs/migration",
    ],
    "Reference": [
        "docs/api",
        "docs/configuration",
        "docs/errors",
        "docs/cli",
        "docs/spark-reference",
        "docs/protocol",
        "docs/stub-configs",
        "docs/performance",
        "CHANGELOG",
    ],
    "Internals": [
        "docs/architecture",
        "docs/journey",
        "docs/log",
        "docs/replication",
        "docs/groups",
        "docs/ledger",
        "docs/building",
        "docs/releasing",
        "CONTRIBUTING",
        "SECURITY",
        "CODE_OF_CONDUCT",
    ],
}
"""Every page but the first, in the order of the site's sidebar."""

CELL: Final = re.compile(r"<td.*?</td>", re.DOTALL)
TEXT: Final = re.compile(r"(?<=>)[^<]+(?=<)")
LONG: Final = re.compile(r"[^\s&;]{12,}")
BREAK: Final = re.compile(r"[._/:=,(]+(?=\w)|(?<=[a-z])(?=[A-Z])")
"""A cell, a text in it, a word without entities that may be too long, and where it may break: behind these marks, and before a capital."""

project = PROJECT["name"]
version = release = PROJECT["version"]
author = "The fencepost developers"
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "examples/README.md"]
exclude_patterns = [".*", "build", "dist"]
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"fencepost {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_permalinks_icon = "#"
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_prompt_text = "$ "
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
myst_enable_extensions = ["strikethrough"]
# What a fence calls its language need not be one that the highlighter knows.
suppress_warnings = ["misc.highlighting_failure"]


class Diagram(SphinxDirective):
    """A fence of Mermaid, as a picture."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        drawn = mmdr.render("\n".join(self.content)).svg()
        # Its ids are of this picture alone; a page may have several.
        unique = f"diagram-{self.env.new_serialno('diagram')}-{re.sub(r'[^a-z0-9]', '-', self.env.docname.lower())}"
        drawn = drawn.replace("my-svg", unique)
        return [nodes.raw("", f'<div class="diagram" role="img">{drawn}</div>', format="html")]


def with_the_order(app: Sphinx, docname: str, source: list[str]) -> None:
    """The first page gets the sidebar's sections; a link to the directory of examples leads to its page."""
    source[0] = re.sub(r"\]\((\.\./)?examples/?\)", r"](\1examples/README.md)", source[0])
    if docname == root_doc:
        for caption, pages in ORDER.items():
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def with_places_to_break(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Long names in the cells of tables may go on in the next line, so that tables fit beside the sidebar. A copied name stays as it is."""
    if "body" in context:
        context["body"] = CELL.sub(lambda cell: TEXT.sub(lambda text: LONG.sub(_broken, text[0]), cell[0]), context["body"])


def _broken(name: re.Match[str]) -> str:
    return BREAK.sub(r"\g<0><wbr>", name[0])


def with_an_index(app: Sphinx, error: Exception | None) -> None:
    """The first page, under the name that servers look for."""
    if error is None and app.builder.name == "html":
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    """Sphinx calls it."""
    app.add_directive("mermaid", Diagram)
    app.connect("source-read", with_the_order)
    app.connect("html-page-context", with_places_to_break)
    app.connect("build-finished", with_an_index)
