"""A name with a leading underscore belongs to its package: other packages use what has a proper name there."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PARTS: Final = ("producer", "txn", "broker_stub", "fencepost", "pyspark_fencepost")
OF_NAMED_TUPLES: Final = {"_replace", "_asdict", "_fields", "_make"}
OF_PYSPARK: Final = {"_jvm", "_plan", "_session"}
SET_WITHOUT_A_CALL: Final = {("producer/producer.py", "_whole"), ("producer/async_producer.py", "_whole")}
"""Ctrl-C could strike at a call, and `flush` would wait for the future forever."""


@cache
def sources() -> dict[str, ast.Module]:
    """All modules by their paths, those behind the links in `fencepost` once."""
    found = {}
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not any(each.is_symlink() for each in path.parents):
                found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES | OF_PYSPARK


def defined(module: ast.Module) -> Iterator[str]:
    """Private functions, classes and attributes that the module itself makes."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def foreign(module: ast.Module) -> set[str]:
    """Names that the module imports from elsewhere than these packages."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("fencepost"):
            found |= {each.asname or each.name for each in node.names}
    return found


def used(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Private attributes of other objects than self, its class and what `super()` returns."""
    own, outside = {"self", "cls"}, foreign(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = node.value
            if isinstance(owner, ast.Name) and (owner.id in own or owner.id in outside):
                continue
            if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super":
                continue
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fencepost"):
            yield from ((node.lineno, each.name) for each in node.names if is_private(each.name) and each.name not in ("_hot", "_build"))


def test_private_names_stay_in_their_package() -> None:
    """A package is a directory. The name of an attribute that both packages have counts as the package's own."""
    homes = defaultdict(set)
    for path, module in sources().items():
        for name in filter(is_private, defined(module)):
            homes[name].add(Path(path).parent)
    assert len(homes) > 1000
    assert [
        f"{path}:{line}: {name} is private to {', '.join(sorted(map(str, homes[name])))}"
        for path, module in sources().items()
        for line, name in used(module)
        if homes[name] and Path(path).parent not in homes[name] and (path, name) not in SET_WITHOUT_A_CALL
    ] == []
