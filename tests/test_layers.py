"""Imports go one way: producer.wire <- producer.core <- producer <- txn, producer.wire <- broker_stub, and fencepost on top of all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "producer.wire": ("producer.wire",),
    "producer.core": ("producer.wire", "producer.core"),
    "producer": ("producer",),
    "txn": ("producer", "txn"),
    "broker_stub": ("producer.wire", "broker_stub"),
    "fencepost": ("producer", "txn", "broker_stub", "fencepost"),
    "pyspark_fencepost": ("txn",),
}
"""The longest name that fits a module decides."""


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def imported(source: Path) -> set[str]:
    """Every module of ours that a file names in an import, also inside functions and for type checkers only."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative import"
            names.add(node.module or "")
    return {name for name in names if name.split(".")[0] in MAY_IMPORT}


@pytest.mark.parametrize("package", ["producer", "txn", "broker_stub", "fencepost", "pyspark_fencepost"])
def test_imports_go_one_way(package: str) -> None:
    """No module imports from a layer above its own or beside it."""
    wrong = []
    for source in sorted((ROOT / package).rglob("*.py")):
        module = ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        layer = max((layer for layer in MAY_IMPORT if is_within(module, layer)), key=len)
        wrong += [
            f"{module} imports {name}"
            for name in sorted(imported(source))
            if not any(is_within(name, allowed) for allowed in MAY_IMPORT[layer])
        ]
    assert wrong == []


SPARK_DRIVER = ROOT / "fencepost" / "spark_demo" / "driver.py"


def test_only_txn_spark_needs_spark() -> None:
    """pyspark is an extra: nothing but `txn.spark` imports it, and `txn.spark` is imported by nothing beside it without being asked. The
    driver of the Spark demo is a program of its own, which is only ever started."""
    wrong = []
    for package in ("producer", "txn", "broker_stub", "fencepost"):
        for source in sorted((ROOT / package).rglob("*.py")):
            if source.is_relative_to(ROOT / "txn" / "spark") or source == SPARK_DRIVER:
                continue
            tree = ast.parse(source.read_text())
            at_import = {name for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) for name in _names(node)}
            anywhere = {name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for name in _names(node)}
            wrong += [f"{source.relative_to(ROOT)}: {name}" for name in anywhere if is_within(name, "pyspark")]
            wrong += [f"{source.relative_to(ROOT)}: {name}" for name in at_import if is_within(name, "txn.spark")]
    assert wrong == []


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
