"""The documentation site: every page is in it, every link leads somewhere, and it loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import fencepost

pytestmark = pytest.mark.timeout(400)

ROOT: Final = Path(__file__).parents[2]
CONF: Final = ROOT / "docs" / "site" / "conf.py"
FIRST: Final = "README"


def ordered() -> list[str]:
    """The pages in the table of conf.py, which needs packages that this process need not have."""
    table = CONF.read_text().split("ORDER: Final = {")[1].split("\n}\n")[0]
    return re.findall(r'"((?:docs/|examples/)[\w-]+|[A-Z_]+)"', table)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from this checkout. A warning fails it."""
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "-c", str(CONF.parent), "-d", str(made / "trees")]
    done = subprocess.run([*command, str(ROOT), str(made / "html")], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return made / "html"


def test_each_page_has_one_place() -> None:
    """Every markdown file of the documentation is in the table once, and the table names no other."""
    written = [path.relative_to(ROOT).with_suffix("").as_posix() for pattern in ("*.md", "docs/*.md") for path in ROOT.glob(pattern)]
    assert sorted(ordered()) == sorted({*written, "examples/README"} - {FIRST})


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    """A page loads scripts, styles and pictures from the site alone, and no diagram is left as text."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//[^"]+"', text), page
        assert not re.findall(r'<link[^>]+rel="(?:stylesheet|preload)"[^>]+href="(?:https?:)?//[^"]+"', text), page
    for name in ("architecture", "journey", "replication", "transactions"):
        assert '<div class="diagram" role="img"><svg' in (site / "docs" / f"{name}.html").read_text()
    assert not [path for path in (site / "_static").rglob("*.css") if re.search(r"url\(['\"]?https?:|@import", path.read_text())]


def test_long_names_break_in_tables_only(site: Path) -> None:
    """A table beside the sidebar is as wide as its longest word. Code that is copied from a block has no such places."""
    text = (site / "docs" / "configuration.html").read_text()
    assert ">delivery_<wbr>timeout_<wbr>ms<" in text
    for page in (site / "docs").glob("*.html"):
        assert "<wbr>" not in re.sub(r"<td.*?</td>", "", page.read_text(), flags=re.DOTALL), page
        assert not re.search(r"&\w*<wbr>", page.read_text()), page


def test_the_search_knows_the_terms(site: Path) -> None:
    """The index that the search page loads names the pages of a term."""
    text = (site / "searchindex.js").read_text()
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    for term, page in (("fenc", "docs/errors"), ("retent", "docs/log"), ("prepar", "docs/transactions"), ("alert", "docs/operating")):
        found = [index[kind].get(term, []) for kind in ("terms", "titleterms")]
        numbers = [number for each in found for number in ([each] if isinstance(each, int) else each)]
        assert page in {index["docnames"][number] for number in numbers}, term
    assert (site / "index.html").read_text() == (site / f"{FIRST}.html").read_text()


def test_every_public_name_has_its_heading(site: Path) -> None:
    """The page of signatures has a section for each name that `import fencepost` gives, or an exception's row in the page of errors."""
    api, errors = (site / "docs" / "api.html").read_text(), (site / "docs" / "errors.html").read_text()
    missing = [
        name
        for name in set(fencepost.__all__) - {"__version__"}
        if f'id="{name.lower()}"' not in api and f">{name}<" not in errors and f">{name}<" not in api
    ]
    assert missing == []
