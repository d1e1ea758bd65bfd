"""`python -P tests/bench/logs.py` (`make bench-logs`): what the stub's log costs, beside Apache Kafka where that has the same.

Compaction: a history whose keys repeat is written and compacted once. The figure is records read per second: of Kafka from the first to
the last line of its cleaner, of the stub for `clean_logs`. Recovery: a broker that has written one segment is killed, and started again.
The figure is the time until the stub serves, less that with an empty log, and of Kafka the time in which it loaded its logs; of each the
quicker one of two. Memory: the growth of the stub's process per byte of stored batches, the median of three. Steady: a topic with
retention.bytes is under load for minutes; the memory of the stub's process is compared early and late.

CPU seconds of the broker's process are there besides: on a busy machine trust these. Compaction and the steady load are measured once.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from rich.console import Console

import fencepost
from fencepost.broker_stub import BrokerStub
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire import ProduceRequest, encode_request
from fencepost.producer.wire.messages.produce import PartitionProduceData, TopicProduceData
from fencepost.producer.wire.records import encode_batch
from tests.bench.ceiling import BATCH_HEADER_BYTES, IN_FLIGHT, PRODUCE_VERSION, check, fill_batches
from tests.bench.hosts import ADMIN_TIMEOUT_S, ProcessHost, StubHost, admin_client, create_topic, start_stub
from tests.bench.load import Contender, Load, Scenario
from tests.bench.run import OUTPUT_WIDTH, figures_of
from tests.conformance.kafka import JVM_BENCH, KafkaBroker, KafkaCluster, KafkaUnavailable
from tests.conformance.raw import RawConnection
from tests.waiting import until

admin: Any = import_module("confluent_kafka.admin")  # it has types, but does not say that it exports what it imports

TOPIC = "logs"
MIB = 1 << 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STARTS = 2
FILLINGS = 3
NEVER_MS = 86_400_000
CLEANING_TIMEOUT_S = 600.0
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "segment.bytes": str(32 * MIB)}
STEADY = {"retention.bytes": str(16 * MIB), "segment.bytes": str(4 * MIB)}
PARTITIONS = 6
STAMP = "%Y-%m-%dT%H:%M:%S,%f"


def main() -> int:
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH, soft_wrap=True)
    console.print(str(fencepost.build_info()))
    parts = {"compaction": compaction, "recovery": recovery, "memory": memory, "steady": steady}
    for name in options.parts.split(","):
        for line in parts[name](options):
            console.print(f"{name}: {line}", highlight=False)
    return 0


# Compaction


def compaction(options: argparse.Namespace) -> Iterator[str]:
    """Values of 100 bytes, in batches of 16 KiB, each of 100,000 keys many times."""
    stub = compaction_of_stub(options.records)
    yield f"stub: {spoken(options.records, stub)}"
    try:
        cluster = KafkaCluster(jvm=JVM_BENCH, config={"log.cleaner.backoff.ms": 100, "log.cleaner.dedupe.buffer.size": 128 * MIB})
    except KafkaUnavailable as missing:
        yield str(missing)
        return
    with cluster:
        kafka = compaction_of_kafka(cluster, options.records)
    yield f"Apache Kafka: {spoken(options.records, kafka)}"
    yield f"the stub does ×{kafka[0] / stub[0]:.3f} of Kafka's records/s, and ×{kafka[1] / stub[1]:.3f} for each second of CPU"


def compaction_of_stub(records: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU, of one pass over files."""
    with TemporaryDirectory() as directory, BrokerStub(data_dir=directory, config={"log.cleaner.backoff.ms": NEVER_MS}) as stub:
        create_topic(stub.bootstrap, TOPIC, 1, config=COMPACTED)
        figures_of(load_of(stub.bootstrap, records), "the stub")
        compact_from_now_on(stub.bootstrap)
        began, cpu = time.perf_counter(), time.process_time()
        assert stub.clean_logs() > 0
        return time.perf_counter() - began, time.process_time() - cpu


def compaction_of_kafka(cluster: KafkaCluster, records: int) -> tuple[float, float]:
    (broker,) = cluster.brokers.values()
    assert broker.process is not None
    create_topic(cluster.bootstrap, TOPIC, 1, config=COMPACTED)
    figures_of(load_of(cluster.bootstrap, records), "Apache Kafka")
    cpu = cpu_seconds(broker.process.pid)
    compact_from_now_on(cluster.bootstrap)
    ended = until(lambda: moment(broker, f"cleaned log {TOPIC}-0"), "Kafka's cleaner ends", timeout_s=CLEANING_TIMEOUT_S, pause_max_s=0.1)
    began = moment(broker, f"Beginning cleaning of log {TOPIC}-0")
    assert began is not None
    assert ended is not None
    return ended - began, cpu_seconds(broker.process.pid) - cpu


def compact_from_now_on(bootstrap: str) -> None:
    entry = admin.ConfigEntry("min.cleanable.dirty.ratio", "0.001", incremental_operation=admin.AlterConfigOpType.SET)
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    client = admin_client(bootstrap)
    client.incremental_alter_configs([resource])[resource].result(ADMIN_TIMEOUT_S)


def moment(broker: KafkaBroker, text: str) -> float | None:
    """The time of the first entry of Kafka's log with that text. An entry may have several lines, the first of which has the time."""
    lines = broker.log_text().splitlines()
    number = next((number for number, line in enumerate(lines) if text in line), None)
    if number is None:
        return None
    first = next(line for line in reversed(lines[: number + 1]) if line[:4].isdecimal())
    return datetime.strptime(first[:23], STAMP).timestamp()


# Recovery


class DurableStub(ProcessHost):
    """`fencepost broker` on a directory, which is killed and started again."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._command = [sys.executable, "-P", "-m", "fencepost", "broker", "--port", "0", "--data-dir", directory]

    def start(self) -> float:
        """The seconds until it serves."""
        began = time.perf_counter()
        self._process, self.bootstrap = start_stub(self._command)
        return time.perf_counter() - began

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()  # type: ignore[union-attr]
            self._process = None


def recovery(options: argparse.Namespace) -> Iterator[str]:
    """One partition with one segment, in batches of 16 KiB; the files are in the system's cache."""
    mib = options.recovery_mib
    stub = recovery_of_stub(mib)
    yield f"stub: {stub[0]:.2f} s for {mib} MiB, {stub[1]:.2f} s of CPU"
    try:
        cluster = KafkaCluster(jvm=JVM_BENCH)
    except KafkaUnavailable as missing:
        yield str(missing)
        return
    with cluster:
        kafka_s = recovery_of_kafka(cluster, mib)
    yield f"Apache Kafka: {kafka_s:.2f} s for {mib} MiB"
    yield f"the stub takes ×{stub[0] / kafka_s:.2f} of Kafka's time"


def recovery_of_stub(mib: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU, beyond those of an empty start."""
    with TemporaryDirectory() as directory, DurableStub(directory) as stub:
        stub.start()
        create_topic(stub.bootstrap, TOPIC, 1)

        def quickest() -> tuple[float, float]:
            found = []
            for _ in range(STARTS):
                stub._stop()
                found.append((stub.start(), cpu_seconds(stub.pid)))
            return min(found)

        empty_s, empty_cpu = quickest()
        write_mib(stub.bootstrap, mib)
        full_s, full_cpu = quickest()
        return full_s - empty_s, full_cpu - empty_cpu


def recovery_of_kafka(cluster: KafkaCluster, mib: int) -> float:
    """Seconds by Kafka's own log. A JVM's start takes longer than that, and varies by more."""
    (broker,) = cluster.brokers.values()
    create_topic(cluster.bootstrap, TOPIC, 1)
    write_mib(cluster.bootstrap, mib)
    for _ in range(STARTS):
        cluster.kill_broker(1)
        cluster.start_broker(1)
    loaded_ms = [int(found) for found in re.findall(r"Loaded \d+ logs in (\d+)\s?ms", broker.log_text())]
    return min(loaded_ms[-STARTS:]) / 1000


def write_mib(bootstrap: str, mib: int) -> None:
    """So much in values of 1000 bytes, a part at a time, because the worker encodes its part before it sends it."""
    for part in range(0, mib, 128):
        figures_of(load_of(bootstrap, min(128, mib - part) * MIB // 1024, value_bytes=1000), "recovery")


# Memory


def memory(options: argparse.Namespace) -> Iterator[str]:
    """Each is measured with several processes: now and then one keeps memory that it no longer needs."""
    for batch_bytes in (256 * 1024, 16 * 1024):
        for brokers in (1, 3):
            found = [memory_of(brokers, batch_bytes, options.records) for _ in range(FILLINGS)]
            yield (
                f"{counted(brokers, 'replica')}, batches of {batch_bytes // 1024} KiB: {median(found):.2f} bytes per stored byte, "
                f"the median of {', '.join(f'{each:.2f}' for each in found)}"
            )


def memory_of(brokers: int, batch_bytes: int, records: int) -> float:
    """By how much the process of a stub grows for each byte of batches that it stores."""
    with StubHost(brokers=brokers) as host:
        host.renew(TOPIC, PARTITIONS)
        load = load_of(host.bootstrap, records, partitions=PARTITIONS, batch_bytes=batch_bytes)
        before = resident_bytes(host.pid)
        figures_of(load, host.name)
        grown = resident_bytes(host.pid) - before
        return grown / sum(int(builder.size) + BATCH_HEADER_BYTES for _, builder in fill_batches(load))


# Steady


def steady(options: argparse.Namespace) -> Iterator[str]:
    """Batches of 1 to 256 KiB as fast as the broker takes them. Retention holds each of six partitions at 16 to 20 MiB."""
    with StubHost(config=("log.retention.check.interval.ms=1000",)) as host:
        host.start()
        create_topic(host.bootstrap, TOPIC, PARTITIONS, config=STEADY)
        sent = 0
        samples: list[tuple[float, float]] = []
        began = time.monotonic()
        with endless_load(host.bootstrap) as send:
            while (passed := time.monotonic() - began) < options.minutes * 60:
                sent += send()
                if not samples or passed - samples[-1][0] >= 1:
                    samples.append((passed, resident_bytes(host.pid) / MIB))
    # The first check of retention comes 30 seconds after the start.
    settled = [mib for passed, mib in samples if passed > 60] or [mib for _, mib in samples]
    early, late = settled[: len(settled) // 3 + 1], settled[-(len(settled) // 3 + 1) :]
    yield f"{sent / MIB:,.0f} MiB in {options.minutes} minutes, {sent / MIB / options.minutes / 60:.0f} MiB/s"
    yield f"memory before the first check of retention at most {max(mib for passed, mib in samples if passed <= 60):.0f} MiB"
    yield (
        f"after a minute: median {median(early):.0f} MiB in the first third, {median(late):.0f} MiB in the last one "
        f"(×{median(late) / median(early):.2f}), at most {max(settled):.0f} MiB"
    )


class _Sender:
    """Sends requests that are encoded again only around their batches, five in flight."""

    def __init__(self, connection: RawConnection) -> None:
        chance = random.Random(1)
        now_ms = int(time.time() * 1000)
        self._connection = connection
        self._sent = 0
        self._asked = ProduceRequest()
        self._batches = [
            encode_batch([(now_ms, b"k%d" % number, chance.randbytes(1000)) for number in range(chance.choice((1, 4, 16, 64, 256)))])
            for _ in range(60)
        ]

    def __call__(self) -> int:
        """Send one, and return its bytes."""
        batch = self._batches[self._sent % len(self._batches)]
        data = PartitionProduceData(index=self._sent // len(self._batches) % PARTITIONS, records=batch)
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])])
        if self._sent >= IN_FLIGHT:
            self._receive(self._sent - IN_FLIGHT)
        self._connection.send_bytes(b"".join(encode_request(request, PRODUCE_VERSION, correlation_id=self._sent, client_id="bench")))
        self._sent += 1
        return len(batch)

    def finish(self) -> None:
        for number in range(max(0, self._sent - IN_FLIGHT), self._sent):
            self._receive(number)

    def _receive(self, number: int) -> None:
        check(self._connection.receive(self._asked, PRODUCE_VERSION, correlation_id=number))


@contextmanager
def endless_load(bootstrap: str) -> Iterator[_Sender]:
    host, _, port = bootstrap.rpartition(":")
    with RawConnection((host, int(port)), timeout=60.0) as connection:
        sender = _Sender(connection)
        yield sender
        sender.finish()


# All of them


def load_of(bootstrap: str, records: int, *, partitions: int = 1, value_bytes: int = 100, batch_bytes: int = 16 * 1024) -> Load:
    """The replay of requests that were encoded before."""
    return Load(
        contender=Contender.CEILING,
        scenario=Scenario.ONE,
        bootstrap=bootstrap,
        topic=TOPIC,
        records=records,
        burst=0,
        bursts=0,
        partitions=partitions,
        key_bytes=12,
        value_bytes=value_bytes,
        linger_ms=5.0,
        batch_bytes=batch_bytes,
        buffer_bytes=64 * MIB,
    )


def spoken(records: int, found: tuple[float, float]) -> str:
    return f"{records / found[0] / 1e6:.3f} M records/s ({found[0]:.2f} s, {found[1]:.2f} s of CPU)"


def resident_bytes(pid: int) -> int:
    """The resident memory of the process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def cpu_seconds(pid: int) -> float:
    """What the process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/logs.py", description=__doc__)
    parser.add_argument("--parts", default="compaction,recovery,memory,steady")
    parser.add_argument("--records", type=int, default=1_000_000, help="of compaction (more than one segment of 32 MiB) and memory")
    parser.add_argument("--recovery-mib", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10.0, help="of steady load")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
