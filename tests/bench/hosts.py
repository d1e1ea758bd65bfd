"""The brokers of the bench, each in its own process: the stub, and a real Apache Kafka.

The stub keeps every record in memory, so each measurement gets a new stub. Kafka keeps running, and deletes each topic after its
measurement. confluent-kafka reads what the log holds at the end.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Protocol, Self

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conformance.kafka import JVM_BENCH, KafkaCluster, KafkaUnavailable

ADMIN_TIMEOUT_S = 30.0
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
LOG_ERRORS = 3


class Host(Protocol):
    """A broker that gets one topic after the other."""

    name: str

    @property
    def bootstrap(self) -> str: ...
    def __enter__(self) -> Host: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def renew(self, topic: str, partitions: int) -> None:
        """Delete all earlier topics, and create this one."""


class ProcessHost:
    """A broker in its own process, which ends with the block."""

    def __init__(self) -> None:
        self.bootstrap = ""
        self._process: subprocess.Popen[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _stop(self) -> None:
        raise NotImplementedError


class StubHost(ProcessHost):
    """`fencepost broker`, started anew for every topic, from the build of `python`. `on_disk`: in a directory of its own. `config`: broker
    configs, NAME=VALUE."""

    def __init__(self, python: Path | None = None, *, brokers: int = 1, on_disk: bool = False, config: Sequence[str] = ()) -> None:
        super().__init__()
        self.name = "broker_stub" + (", on disk" if on_disk else "") + (f", {brokers} replicas" if brokers > 1 else "")
        self._python = str(python or sys.executable)
        self._brokers = brokers
        self._on_disk = on_disk
        self._config = config
        self._directory: TemporaryDirectory[str] | None = None

    def renew(self, topic: str, partitions: int) -> None:
        self.start()
        create_topic(self.bootstrap, topic, partitions, replicas=self._brokers)

    def start(self) -> None:
        """Start it anew."""
        self._stop()
        # -P: the installed package, as everywhere in the bench. The command is run, because an older build has its modules in other places.
        command = [self._python, "-P", "-m", "fencepost", "broker", "--port", "0", "--brokers", str(self._brokers)]
        for each in self._config:
            command += ["--config", each]
        if self._on_disk:
            self._directory = TemporaryDirectory()
            command += ["--data-dir", self._directory.name]
        self._process, self.bootstrap = start_stub(command)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
        if self._directory is not None:
            self._directory.cleanup()


def start_stub(command: Sequence[str]) -> tuple[subprocess.Popen[str], str]:
    """The process of that command, which is `fencepost broker`, when it listens, and its address."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    too_late = threading.Timer(START_TIMEOUT_S, process.kill)
    too_late.start()
    greeting = process.stdout.readline()
    too_late.cancel()
    bootstrap = greeting.rpartition(" ")[2].strip()
    if not bootstrap:
        raise RuntimeError("the stub's process ended before it listened")
    return process, bootstrap


class KafkaHost:
    """Apache Kafka with the JVM flags of its own start script. Raises KafkaUnavailable if there is no Kafka."""

    name = "Apache Kafka"

    def __init__(self) -> None:
        self._cluster = KafkaCluster(jvm=JVM_BENCH, config={"log.segment.delete.delay.ms": 0})
        self._topics: list[str] = []

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def __enter__(self) -> KafkaHost:
        self._cluster.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._cluster.close()

    def renew(self, topic: str, partitions: int) -> None:
        if self._topics:
            admin = admin_client(self.bootstrap)
            for done in admin.delete_topics(self._topics).values():
                done.result(ADMIN_TIMEOUT_S)
        create_topic(self.bootstrap, topic, partitions)
        self._topics = [topic]


def create_topic(bootstrap: str, topic: str, partitions: int, *, replicas: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Create the topic, by default with the broker's configs. The first broker leads every partition."""
    assignment = [[*range(1, replicas + 1)]] * partitions
    wanted = NewTopic(topic, num_partitions=partitions, replica_assignment=assignment, config=dict(config or {}))
    admin = admin_client(bootstrap)
    admin.create_topics([wanted])[topic].result(ADMIN_TIMEOUT_S)


def records_in_log(bootstrap: str, topic: str, partitions: int) -> int:
    """The sum of the partitions' end offsets: the bench writes neither transactions nor control records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": LOG_ERRORS})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, partition), ADMIN_TIMEOUT_S) for partition in range(partitions)]
    finally:
        consumer.close()
    return sum(end[1] for end in ends)


def admin_client(bootstrap: str) -> AdminClient:
    """An administrator's client. Keep it in a variable: a client that is garbage-collected drops its requests. It logs only errors."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_ERRORS})


BROKERS: Final[dict[str, Callable[[], Host]]] = {"stub": StubHost, "kafka": KafkaHost}
"""What a bench may run on, by the names of its options."""


def opened(names: Iterable[str], stack: ExitStack, say: Callable[[str], object]) -> Iterator[Host]:
    """These brokers, until the stack ends. Says so where there is no Apache Kafka."""
    for name in names:
        try:
            yield stack.enter_context(BROKERS[name]())
        except KafkaUnavailable as missing:
            say(f"no real Kafka: {missing}")
