"""Which modules mypyc compiles, and the check that the compiled files match the sources beside them.

`verify` raises `ImportError` for a compiled module whose `.py` changed after the build, and for one that our build did not make. It only
uses the standard library, because the build reads this file without importing the package.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import source_hash, spec_from_file_location
from typing import Final

HOT: Final = (
    "fencepost.producer.wire.schema.varint",
    "fencepost.producer.wire.records.sizes",
    "fencepost.producer.wire.records.batch_builder",
    "fencepost.producer.wire.records.record_prefix",
    "fencepost.producer.wire.records.record_reader",
    "fencepost.producer.wire.records.record_columns",
    "fencepost.producer.foundations.timeouts",
    "fencepost.producer.accumulator.partitioner",
    "fencepost.producer.accumulator.batch",
    "fencepost.producer.accumulator.accumulator",
    "fencepost.producer.accumulator.pending_record",
    "fencepost.producer.bulk.rows",
    "fencepost.producer.bulk.bulk",
    "fencepost.producer.bulk.append",
    "fencepost.producer.bulk.columns",
    "fencepost.producer.bulk.arrow_plan",
    "fencepost.producer.bulk.arrow_partitions",
    "fencepost.producer.core.idempotence.sequence",
    "fencepost.producer.core.ready_partitions",
    "fencepost.producer.core.idempotence.in_flight_batch",
    "fencepost.producer.core.idempotence.in_flight_window",
    "fencepost.producer.core.idempotence.offset_search",
    "fencepost.producer.core.partition_sender",
    "fencepost.producer.core.produce_responses",
    "fencepost.producer.core.produce_requests",
    "fencepost.producer.core.metrics",
    "fencepost.producer.core.cluster.cluster_connection_states",
    "fencepost.producer.core.cluster.metadata_updater",
    "fencepost.producer.core.cluster.rebootstrap",
    "fencepost.producer.core.idempotence.producer_id_manager",
    "fencepost.producer.core.core",
    "fencepost.producer.network.socket_writer",
    "fencepost.producer.network.connection",
    "fencepost.producer.network.engine",
    "fencepost.producer.wire.frame",
    "fencepost.producer.base_producer",
    "fencepost.producer.producer",
    "fencepost.txn.coordinator.send_gate",
    "fencepost.txn.coordinator.inner_producer",
    "fencepost.txn.transaction",
    "fencepost.broker_stub.log.record_scan",
    "fencepost.compat.confluent.reports",
    "fencepost.compat.confluent.message",
    "fencepost.compat.confluent.sending",
)
"""The modules that every record and every request pass through. The build, the check at import and `build_info` use this list."""

BUILD_RECORD: Final = "_build_record.txt"
"""The build writes it beside this file: a line `module digest` for each compiled module, or one line `pure: reason`."""

PURE_VARIABLE: Final = "FENCEPOST_PURE"

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def pure_wanted() -> bool:
    """Whether the environment asks for plain Python: then a build compiles nothing, and a run ignores compiled files."""
    return os.environ.get(PURE_VARIABLE, "") not in ("", "0")


def source_path(module: str) -> str:
    return os.path.join(_ROOT, *module.split(".")) + ".py"


def digest(source: bytes) -> str:
    """The hash of a source that Python uses for checked .pyc files."""
    return source_hash(source).hex()


def read_build_record() -> list[str]:
    """The lines that the build wrote; none in a checkout, an editable install or an archive."""
    try:
        with open(os.path.join(os.path.dirname(__file__), BUILD_RECORD), encoding="utf-8") as record:
            return record.read().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def in_archive() -> bool:
    """Whether this was imported from a zip, as with Spark's --py-files. Python imports sources from a zip, but no extension modules."""
    return not os.path.isdir(os.path.dirname(__file__))


def verify() -> None:
    """Check that each compiled module was made from the source beside it. Called before the first of them is imported."""
    compiled = [module for module in HOT if _extension_of(module)]
    if not compiled:
        return
    if pure_wanted():
        sys.meta_path.insert(0, _SourceFinder())
        return
    built = dict(line.split() for line in read_build_record() if not line.startswith("pure:"))
    stale = [module for module in compiled if _is_stale(module, built.get(module))]
    if stale:
        files = " ".join(filter(None, map(_extension_of, stale)))
        raise ImportError(
            f"fencepost: the compiled files of {', '.join(stale)} were not made from the sources beside them: a .py file was edited after "
            f"the build, or was compiled in place. Either install again from your checkout (`make install`, or `pip install "
            f"--force-reinstall --no-deps .`), or delete the compiled files ({files}), or set {PURE_VARIABLE}=1 to run the sources."
        )


def _extension_of(module: str) -> str | None:
    stem = source_path(module).removesuffix(".py")
    for suffix in EXTENSION_SUFFIXES:
        if os.path.exists(stem + suffix):
            return stem + suffix
    return None


def _is_stale(module: str, built: str | None) -> bool:
    try:
        with open(source_path(module), "rb") as source:
            return digest(source.read()) != built
    except FileNotFoundError:
        # The compiled files were shipped without sources, so no source can contradict them.
        return False


class _SourceFinder:
    """Finds the sources of the compiled modules before the import system finds the compiled files."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, source_path(name)) if name in HOT else None
