"""An archive of Kafka's loaded classes (class data sharing), with which later JVMs start in half the time.

It only saves time. A JVM without a matching archive starts without one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.conformance.kafka_home import locked

QUIET = "-Xlog:disable"
"""Suppresses warnings about an archive that does not fit, because they would mix with a tool's output."""

_log = logging.getLogger(__name__)


def recording(archive: Path) -> tuple[str, ...]:
    """The flags with which a JVM writes its loaded classes to the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}", QUIET)


@cache
def using(java: Path, home: Path, version: str, record: Callable[[str, Path], None]) -> tuple[str, ...]:
    """The flags of a JVM that runs Kafka's jars in `home`. If there is no archive yet, `record(version, archive)` makes one."""
    directory = Path.home() / ".cache" / "fencepost" / "classes"
    archive = directory / f"kafka-{version}-{_fingerprint(java, home)}.jsa"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with locked(archive.with_suffix(".lock")):
            if not archive.exists():
                _make(version, archive, record)
    except Exception as error:  # noqa: BLE001 - after any error Kafka starts without the archive
        _log.warning("no class archive for Kafka, which starts more slowly: %r", error)
        return ()
    return (f"-XX:SharedArchiveFile={archive}", QUIET)


def _make(version: str, archive: Path, record: Callable[[str, Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
        fresh = Path(directory, "fresh.jsa")
        record(version, fresh)
        fresh.rename(archive)


def _fingerprint(java: Path, home: Path) -> str:
    """A digest that changes with the Java and with the jars. An archive with another digest does not fit."""
    parts = [java.resolve(), *sorted((home / "libs").iterdir())]
    described = [f"{path} {os.stat(path).st_size} {os.stat(path).st_mtime_ns}" for path in parts]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]
