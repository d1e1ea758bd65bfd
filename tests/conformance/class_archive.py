"""Archives of loaded classes (class data sharing) of Kafka and Spark, with which later JVMs start in half the time.

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


def reading(archive: Path) -> tuple[str, ...]:
    """The flags of a JVM that uses the archive."""
    return (f"-XX:SharedArchiveFile={archive}", QUIET)


@cache
def using(java: Path, jars: Path, name: str, record: Callable[[Path], None]) -> tuple[str, ...]:
    """The flags of a JVM that runs these jars. If there is no archive yet, `record(archive)` makes one."""
    archive = path(java, jars, name)
    return reading(archive) if make(archive, record) else ()


def make(archive: Path, record: Callable[[Path], None]) -> bool:
    """Make the archive if there is none. Return whether there is one now."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with locked(archive.with_suffix(".lock")):
            if not archive.exists():
                with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
                    fresh = Path(directory, "fresh.jsa")
                    record(fresh)
                    fresh.rename(archive)
    except Exception as error:  # noqa: BLE001 - after any error the JVMs start without the archive
        _log.warning("no class archive %s; JVMs start more slowly: %r", archive.name, error)
        return False
    return True


def path(java: Path, jars: Path, name: str) -> Path:
    """Where the archive is. The name has a digest that changes with the Java and with the jars, because another archive does not fit."""
    parts = [java.resolve(), *sorted(jars.iterdir())]
    described = [f"{path} {os.stat(path).st_size} {os.stat(path).st_mtime_ns}" for path in parts]
    digest = hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]
    return Path.home() / ".cache" / "fencepost" / "classes" / f"{name}-{digest}.jsa"
