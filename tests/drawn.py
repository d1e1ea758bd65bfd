"""Which rows of long matrices, and which slow stories, a run takes: some of each kind, drawn with the seed FENCEPOST_STORIES.

The first lines of a run print the seed; with the same one the same rows are drawn. FENCEPOST_STORIES=all (`make test-all`) takes every row,
and so does a run of what failed before (--last-failed). A row that is asked for by its name is the only one of its kind there, and runs.

It draws nothing inside a test: seeds and examples are that test's own.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pytest

SEED: Final = "FENCEPOST_STORIES"
ALL: Final = "all"

Kind = Callable[[Mapping[str, Any]], object]
"""From a row's parameters to what it is an example of."""


def drawn(one_in: int, *, kind: Kind | None = None, of: str | None = None, site: Kind | None = None) -> pytest.MarkDecorator:
    """A run takes one in `one_in` of this test's rows, and at least one of each `kind`. With `of`, the rows of all tests with the same word
    are drawn from together. `site`: what a row needs that takes long to start, such as a cluster of its own, or None; a run takes the rows
    of one site, beside those without."""
    assert one_in > 1
    return pytest.mark.drawn(one_in=one_in, kind=kind, of=of, site=site)


def drawn_files(one_in: int, *, of: str) -> pytest.MarkDecorator:
    """For `pytestmark`: a run takes one in `one_in` of the files with the same word, each as a whole. For files that start a broker or a
    Spark of their own, which costs more than their tests."""
    assert one_in > 1
    return pytest.mark.drawn_files(one_in=one_in, of=of)


def draw(names: Iterable[str], one_in: int, seed: str) -> set[str]:
    """One in `one_in` of the names, rounded up."""
    rows = sorted(names)
    return set(random.Random(f"{seed} {rows}").sample(rows, -(-len(rows) // one_in)))


@pytest.hookimpl(trylast=True)  # after -k, so that a run of some rows draws from those
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the rows that are not drawn as skipped."""
    seed = os.environ[SEED]
    if seed == ALL or config.getoption("lf", False):
        return
    groups: defaultdict[tuple[str, str, int], defaultdict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    sites: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for item in items:
        file, test = item.nodeid.partition("::")[0], item.nodeid.partition("[")[0]
        if (mark := item.get_closest_marker("drawn_files")) is not None:
            groups[mark.kwargs["of"], "", mark.kwargs["one_in"]][file].append(item)
        if (mark := item.get_closest_marker("drawn")) is not None:
            row = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
            kind = str(mark.kwargs["kind"](row)) if mark.kwargs["kind"] else ""
            groups[mark.kwargs["of"] or test, kind, mark.kwargs["one_in"]][item.nodeid].append(item)
            if mark.kwargs["site"] and (site := mark.kwargs["site"](row)) is not None:
                sites[test][str(site)].add(item.nodeid)
    elsewhere = {name for each in sites.values() for site in each.keys() - draw(each, len(each), seed) for name in each[site]}
    for (_, _, one_in), rows in groups.items():
        for name in rows.keys() - draw(rows.keys() - elsewhere, one_in, seed):
            for item in rows[name]:
                item.add_marker(pytest.mark.skip(reason=f"not drawn with {SEED}={seed}: `make test-all` runs every row"))
