"""Java programs on the jars of Kafka Streams and Kafka Connect, each in a JVM of its own."""

from __future__ import annotations

import atexit
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.conformance.kafka import JVM_FAST
from tests.conformance.kafka_home import find_java, kafka_home

ARTIFACTS: Final = ("kafka-streams", "connect-file")

_LOG4J = """<Configuration status="OFF">
  <Appenders><Console name="out" target="SYSTEM_OUT"><PatternLayout pattern="%d{ISO8601} %-5p [%t] %c{1}: %m%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


def java_command(main_class: str, *arguments: str, directory: Path, classes: Path | None = None) -> list[str]:
    """The command of a program. Its log goes to its standard output. `directory` is for its temporary files."""
    (directory / "log4j2.xml").write_text(_LOG4J)
    flags = [f"-Dlog4j2.configurationFile={directory / 'log4j2.xml'}", f"-Djava.io.tmpdir={directory}"]
    jars = f"{kafka_home(also=ARTIFACTS)}/libs/*"
    path = f"{classes}:{jars}" if classes else jars
    return [str(find_java()), *JVM_FAST, *flags, "-cp", path, main_class, *arguments]


@cache
def compiled(source: Path) -> Path:
    """The directory with the classes of a Java program in one source file. Compiled once: each start of the program from its source would
    take a second longer."""
    directory = tempfile.TemporaryDirectory(prefix="fencepost-classes-")
    atexit.register(directory.cleanup)
    jars = ":".join(map(str, (kafka_home(also=ARTIFACTS) / "libs").glob("*.jar")))
    compiler = [str(find_java()), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-cp", jars, "-d", directory.name, str(source)], check=True, timeout=120)
    return Path(directory.name)
