"""What `make mutants` changes, what it leaves alone, and how it recognises a change that no test noticed."""

from __future__ import annotations

from tests.mutants.areas import AREAS, ROOT, expand
from tests.mutants.changes import Change, changes
from tests.mutants.run import Result, draw, report

SOURCE = '''"""A module: 1 < 2."""

def f(self, a: int = 3) -> bool:
    """Says 4 == 4."""
    assert a != 5, "not 5"
    if a <= 6 and not self.b:  # ü
        self.c = min(a, 7)
        self.call()
    _log.info("%d", 8)
    return a is None

class Pair(Struct, frozen=True, array_like=True):
    pairs = zip([], [], strict=True)
'''
FOUND = {
    "3: constant: 3 -> 4",
    "6: branch never taken: a <= 6 and not self.b -> False",
    "6: branch always taken: a <= 6 and not self.b -> True",
    "6: connective: and -> or",
    "6: comparison: <= -> <",
    "6: constant: 6 -> 7",
    "6: negation: not self.b -> self.b",
    "7: statement left out: self.c = min(a, 7) -> pass",
    "7: function: min -> max",
    "7: constant: 7 -> 8",
    "8: statement left out: self.call() -> pass",
    "10: comparison: is -> is not",
    "12: constant: True -> False",
}


def test_what_is_changed() -> None:
    """It changes every comparison, branch, constant and statement, but no texts, assertions, log lines, `frozen` or `strict`."""
    assert {str(change) for change in changes(SOURCE)} == FOUND


def test_a_change_changes_one_place() -> None:
    """The rest of the text stays as it is, also after characters that take several bytes."""
    change = next(change for change in changes("x = 'ü' if a < b else 1") if change.kind == "comparison")
    assert change.apply("x = 'ü' if a < b else 1") == "x = 'ü' if a <= b else 1"


def test_every_change_compiles() -> None:
    """Every change is valid Python. Otherwise every test would notice it."""
    for one in draw(7, 200, AREAS):
        compile(one.change.apply((ROOT / one.source).read_text(encoding="utf-8")), one.source, "exec")


def test_the_seed_decides_what_is_drawn() -> None:
    """A seed always draws its own changes, equally many from all areas. Another seed draws others."""
    drawn = draw(7, 20, AREAS)
    assert [one.key for one in drawn] == [one.key for one in draw(7, 20, AREAS)]
    assert [one.key for one in drawn] != [one.key for one in draw(8, 20, AREAS)]
    assert {one.area for one in drawn} == set(AREAS)


def test_every_area_has_sources_and_tests() -> None:
    """Every pattern matches files. A pattern without a match would silently leave its sources untested."""
    for name, area in AREAS.items():
        assert area.files(), name
        assert area.nearest(area.files()[0]), name
        for pattern in (*area.sources, *area.tests, *area.without):
            assert expand((pattern,)), f"{name}: {pattern}"


def test_too_many_survivors_fail() -> None:
    """The exit code is 1 below the wanted share, and the report names the survivors."""
    noticed = Result("txn", "txn/a.py", "1: loop: break -> continue", "tests/x.py::test_y", 1.0)
    survivor = Result("txn", "txn/a.py", str(Change("loop", 2, 0, 1, "a", "b")), "", 1.0)
    assert report([noticed] * 19 + [survivor], 1, 0.95) == 0
    assert report([noticed] * 9 + [survivor], 1, 0.95) == 1
