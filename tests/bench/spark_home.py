"""Fetches Spark's own Kafka sink for the bench: pyspark in the version for which the sink is built, and the sink's jars.

pip and Maven fetch them once, into the per-user cache that also has Kafka. No Python environment changes. The sink uses internals of its
Spark version; 4.0.0 is the newest one whose jars can all be downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conformance.kafka_home import FETCH_TIMEOUT_S, KafkaUnavailable, find_java, locked

SPARK_VERSION = "4.0.0"
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""The jars of the sink and its dependencies that pyspark does not contain."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>fencepost.tests</groupId>
  <artifactId>spark-sink</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{spark}</version></dependency>
  </dependencies>
</project>
"""


def spark_home(version: str = SPARK_VERSION) -> Path:
    """The directory with `python`, for PYTHONPATH, and the sink's `libs`. Raises KafkaUnavailable, which names what is missing."""
    home = Path(os.environ.get("FENCEPOST_SPARK_SINK_HOME") or Path.home() / ".cache" / "fencepost" / f"spark-sink-{version}")
    home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.with_name(home.name + ".lock")):
        if not home.exists():
            with tempfile.TemporaryDirectory(prefix=home.name + ".part-", dir=home.parent) as work:
                _fetch(Path(work), version)
                (Path(work) / "whole").rename(home)
    return home


def sink_jars(home: Path) -> list[Path]:
    """The jars that pyspark does not contain."""
    return [jar for jar in sorted((home / "libs").glob("*.jar")) if jar.name.startswith(NEEDED)]


def _fetch(work: Path, version: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("there is no Maven (mvn) on the PATH to fetch Spark's Kafka sink")
    (work / "pom.xml").write_text(_POM.format(spark=version))
    environment = {"JAVA_HOME": str(find_java().resolve().parent.parent), **os.environ}
    whole = work / "whole"
    _run([maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={whole}/libs"], work, environment, "Maven")
    command = [sys.executable, "-m", "pip", "--quiet", "install", "--no-compile", "--target", str(whole / "python")]
    _run([*command, f"pyspark=={version}"], work, {**os.environ}, "pip")


def _run(command: list[str], work: Path, environment: dict[str, str], who: str) -> None:
    try:
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise KafkaUnavailable(f"{who} did not fetch Spark's Kafka sink within {FETCH_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise KafkaUnavailable(f"{who} could not fetch Spark's Kafka sink: {(done.stdout + done.stderr).strip()[-1000:]}")
