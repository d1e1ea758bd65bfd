"""Imports go one way: which package may import which, with no circle of packages or files.

Imports for annotations and inside functions count.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]

ROOMS: Final[dict[str, dict[str, str]]] = {
    "producer.wire": {
        "codes": "",
        "errors": "codes",
        "codecs": "errors",
        "schema": "errors",
        "message": "codes errors schema",
        "records": "codecs schema",
        "tls": "schema",
        "registry": "message",
        "messages": "codes schema message registry",
        "frame": "codes errors schema message messages",
        "__init__": "codes errors schema message messages frame",
    },
    "producer.core": {
        "__init__": "",
        "error_classes": "",
        "error_table": "error_classes",
        "events": "",
        "cluster": "error_table events",
        "idempotence": "error_table events cluster",
        "metrics": "idempotence",
        "partition_sender": "events cluster idempotence",
        "ready_partitions": "events partition_sender",
        "stalled_partitions": "events cluster partition_sender",
        "standstill": "events cluster",
        "timestamps_in_seconds": "",
        "produce_requests": "events cluster idempotence metrics partition_sender ready_partitions stalled_partitions standstill"
        " timestamps_in_seconds",
        "produce_responses": "error_table events cluster idempotence metrics partition_sender ready_partitions stalled_partitions"
        " produce_requests",
        "core": "events cluster idempotence metrics stalled_partitions standstill produce_requests produce_responses",
    },
    "producer": {
        "_hot": "",
        "foundations": "",
        "wire": "foundations",
        "errors": "foundations wire",
        "config": "foundations wire errors",
        "accumulator": "foundations wire errors config",
        "bulk": "foundations wire errors accumulator",
        "core": "foundations wire errors config accumulator",
        "interceptors": "errors accumulator",
        "serializers": "errors accumulator",
        "telemetry": "errors config accumulator bulk interceptors",
        "observe": "foundations errors config accumulator core",
        "topics": "foundations wire errors accumulator core",
        "network": "foundations wire errors config accumulator core observe",
        "base_producer": "foundations wire errors config accumulator bulk core interceptors serializers telemetry observe topics network",
        "async_producer": "foundations errors config accumulator bulk core serializers telemetry network base_producer",
        "producer": "foundations errors config accumulator bulk core serializers telemetry network base_producer",
        "__init__": "_hot foundations errors config accumulator bulk interceptors observe async_producer producer",
    },
    "txn.spark": {
        "connection": "",
        "errors": "",
        "rows": "",
        "guards": "connection errors rows",
        "sink": "connection errors rows guards",
        "datasource": "connection errors rows guards sink",
        "__init__": "connection errors rows sink datasource",
    },
    "txn": {
        "errors": "",
        "foundations": "",
        "group_metadata": "",
        "offsets": "group_metadata",
        "protocol": "errors foundations",
        "shared": "errors foundations protocol",
        "reading": "foundations protocol",
        "recovery": "errors foundations protocol shared",
        "config": "recovery",
        "keyed_topic": "errors protocol shared recovery",
        "ledger": "foundations protocol keyed_topic",
        "coordinator": "errors foundations group_metadata offsets protocol shared recovery config",
        "async_producer": "errors group_metadata offsets shared recovery config coordinator",
        "transaction": "errors shared recovery coordinator",
        "producer": "errors recovery config coordinator transaction",
        "producer_access": "coordinator",
        "loop": "errors foundations async_producer producer producer_access",
        "pool": "errors protocol recovery config coordinator async_producer transaction producer producer_access loop",
        "pipeline": "errors offsets protocol config loop",
        "files": "",
        "jobs": "errors foundations protocol config keyed_topic loop files",
        "__init__": "errors group_metadata offsets shared recovery keyed_topic ledger coordinator async_producer transaction"
        " producer loop pool pipeline jobs",
        "spark": "errors protocol shared reading recovery keyed_topic ledger transaction producer producer_access",
    },
    "broker_stub.groups": {
        "assignors": "",
        "state": "assignors",
        "classic": "state",
        "consumer": "assignors state classic",
        "share": "assignors state classic consumer",
        "offsets": "state classic consumer",
        "coordinators": "state classic consumer share offsets",
        "__init__": "",
    },
    "broker_stub": {
        "storage": "",
        "log": "storage",
        "network": "",
        "arguments": "network",
        "faults": "arguments",
        "quotas": "",
        "configs": "network",
        "journal": "arguments faults",
        "security": "arguments quotas",
        "replication": "storage log",
        "cluster": "storage arguments faults log quotas configs security replication",
        "share_partitions": "configs replication cluster",
        "groups": "network configs replication cluster share_partitions",
        "telemetry": "configs cluster",
        "transactions": "replication cluster",
        "requests": "storage faults log journal security replication cluster share_partitions groups telemetry transactions",
        "handlers": "storage faults log network quotas configs security replication cluster share_partitions groups"
        " telemetry transactions requests",
        "socket_server": "storage network configs security cluster requests",
        "inspector": "arguments faults log network journal replication cluster groups transactions requests",
        "proxy": "arguments faults network configs journal cluster inspector",
        "stub": "storage arguments faults log network configs journal security replication cluster"
        " telemetry requests handlers socket_server inspector",
        "control": "arguments faults network journal inspector proxy stub",
        "__init__": "faults network journal security cluster inspector proxy stub control",
        "command": "network configs security cluster proxy stub control",
        "pytest_plugin": "inspector stub control",
        "__main__": "network cluster command",
    },
    "fencepost": {
        "_build": "",
        "demo": "",
        "spark_demo": "demo",
        "compat": "",
        "cli": "_build demo spark_demo",
        "__init__": "_build",
        "__main__": "cli",
    },
}
"""For each part its packages (here: rooms), bottom first, and those of the same part that each may import. A row names only rooms above it
in the table. A room is a directory, or a file at the top of its part. `__init__` is what the package exports."""

OTHER_PACKAGES: Final = {
    "producer": (),
    "txn": ("producer",),
    "broker_stub": (
        *(f"producer.foundations.{name}" for name in ("condition", "counted", "lazy_names", "loop_post", "rlock")),
        "producer.wire",
    ),
    "fencepost": ("producer", "txn", "broker_stub", "pyspark_fencepost"),
    "pyspark_fencepost": ("txn.spark",),
}
"""The modules of other packages that a package may import."""

SPARK_DRIVER: Final = "fencepost.spark_demo.driver"


@cache
def modules() -> dict[str, Path]:
    """Every module of this project, by the name under which it is imported."""
    found = {}
    for directory in ("producer", "txn", "broker_stub", "fencepost", "pyspark_fencepost"):
        for file in sorted((ROOT / directory).rglob("*.py")):
            below = file.relative_to(ROOT)
            if any((ROOT / parent).is_symlink() for parent in below.parents):
                continue  # fencepost/producer is ../producer
            name = ".".join(below.with_suffix("").parts).removesuffix(".__init__")
            found[name if directory.endswith("fencepost") else f"fencepost.{name}"] = file
    return found


@cache
def imported(file: Path) -> set[str]:
    """Every module that a file names in an import, or as a literal to `import_module`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            assert node.module is not None
            names.update(full if (full := f"{node.module}.{alias.name}") in modules() else node.module for alias in node.names)
        elif isinstance(node, ast.Call):
            match node.func, node.args:
                case ((ast.Name(id=called) | ast.Attribute(attr=called)), [ast.Constant(value=str(name)), *_]):
                    if called in ("import_module", "__import__"):
                        names.add(name)
    return names


@cache
def imports() -> dict[str, set[str]]:
    """For each module of this project, the modules of this project that it imports."""
    return {module: {name for name in imported(file) if name in modules()} for module, file in modules().items()}


def place(module: str) -> tuple[str, str]:
    """The package and the room of a module, for the innermost package that has a table."""
    name = module.removeprefix("fencepost.") if module != "fencepost" else module
    within = [package for package in ROOMS if name == package or name.startswith(f"{package}.")]
    package = max(within, key=len, default="fencepost")
    if name in (package, "fencepost"):
        return package, "__init__"
    return package, name.removeprefix(f"{package}.").split(".")[0]


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_every_file_is_in_a_room() -> None:
    """The table names every room, and only rooms that exist."""
    places = {place(module) for module in modules() if not is_within(module, "pyspark_fencepost")}
    listed = {(package, room) for package, rooms in ROOMS.items() for room in rooms}
    inner = {(outer, name.removeprefix(f"{outer}.")) for outer in ROOMS for name in ROOMS if name.startswith(f"{outer}.")}
    assert places - listed == set()
    assert listed - places - inner == set()


@pytest.mark.parametrize("package", ROOMS)
def test_the_table_has_no_circle(package: str) -> None:
    """A room may import only rooms that stand before it in the table."""
    before: set[str] = set()
    for room, allowed in ROOMS[package].items():
        assert set(allowed.split()) <= before, room
        before.add(room)


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_what_the_table_allows(package: str) -> None:
    """No module imports from a room beside or above its own, and each uses all that it may.

    The tables of the outer packages apply, too.
    """
    wrong: list[str] = []
    used: set[tuple[str, str]] = set()
    for module, names in imports().items():
        for name in names:
            here, there = _rooms_in(package, module), _rooms_in(package, name)
            if here and there and here != there:
                used.add((here, there))
                if there not in ROOMS[package][here].split():
                    wrong.append(f"{module} imports {name}")
    assert wrong == []
    assert {(room, other) for room, others in ROOMS[package].items() for other in others.split()} - used == set(), "allowed, and not used"


def _rooms_in(package: str, module: str) -> str:
    """The room of a module in this package's table, "" if it is not in this package."""
    own, room = place(module)
    if own == package:
        return room
    return own.removeprefix(f"{package}.").split(".")[0] if own.startswith(f"{package}.") else ""


def test_packages_import_one_way() -> None:
    """`producer` <- `txn`, `producer.wire` <- `broker_stub`, and `fencepost` on top."""
    wrong = []
    for module, names in imports().items():
        top = _top(module)
        wrong += [
            f"{module} imports {name}"
            for name in names
            if _top(name) != top and not any(is_within(name.removeprefix("fencepost."), other) for other in OTHER_PACKAGES[top])
        ]
    assert wrong == []


def _top(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "fencepost" and len(parts) > 1 and parts[1] in OTHER_PACKAGES else parts[0]


def test_no_circle_of_files() -> None:
    """No two files need each other, not even for annotations."""
    try:
        tuple(TopologicalSorter(imports()).static_order())
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


SHORT_NAME: Final = re.compile(r"^\s*(?:from|import)\s+(?:\w.*[,\s])?(?:producer|txn|broker_stub)\b", re.MULTILINE)


def test_nothing_is_imported_by_a_short_name() -> None:
    """`import producer` would import a user's producer.py."""
    short = {"producer", "txn", "broker_stub"}
    wrong = [f"{module}: {name}" for module, file in modules().items() for name in imported(file) if name.split(".")[0] in short]
    # Parsing every test takes seconds, and most have no line that could be such an import.
    suspects = [file for file in (ROOT / "tests").rglob("*.py") if SHORT_NAME.search(file.read_text())]
    tests = [f"{file}: {name}" for file in suspects for name in imported(file) if name.split(".")[0] in short]
    assert wrong + tests == []


PURE_ROOMS: Final = ("producer.core", "producer.wire", "txn.coordinator.state_machine")
NO_I_O: Final = re.compile("asyncio|concurrent|os|pathlib|queue|random|secrets|select|selectors|socket|ssl|subprocess|threading|time")
CLOCKS: Final = ("monotonic", "perf_counter", "time_ns", "now")


def test_the_core_does_no_io() -> None:
    """The core gets the time and the answers as arguments, so that a simulation can give it any. TLS is I/O of the wire, in memory."""
    wrong = []
    for module, file in modules().items():
        name = module.removeprefix("fencepost.")
        if name != "producer.wire.tls" and any(is_within(name, room) for room in PURE_ROOMS):
            wrong += [f"{module} imports {each}" for each in imported(file) if NO_I_O.fullmatch(each.split(".")[0])]
            wrong += [f"{module} names {each}" for each in CLOCKS if re.search(rf"\b{each}\(\)", file.read_text())]
    assert wrong == []


def test_only_txn_spark_needs_spark() -> None:
    """pyspark is an extra. Only `txn.spark` imports it, and no other module imports `txn.spark` when it is loaded.

    The driver of the Spark demo is a separate program, which is only started.
    """
    wrong = []
    for module, file in modules().items():
        if is_within(module, "fencepost.txn.spark") or module in (SPARK_DRIVER, "pyspark_fencepost"):
            continue
        at_import = {name for node in ast.parse(file.read_text()).body for name in _names(node)}
        wrong += [f"{module}: {name}" for name in imported(file) if is_within(name, "pyspark")]
        wrong += [f"{module}: {name}" for name in at_import if is_within(name, "fencepost.txn.spark")]
    assert wrong == []


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
