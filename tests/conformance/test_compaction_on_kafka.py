"""Compaction beside Apache Kafka: the same history and configs leave the same batches."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from operator import eq
from typing import Any, Final

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire.records import BatchHeader, iter_batches, read_records
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.protocol.cluster_client import ClusterClient
from fencepost.txn.recovery.raw_log import LATEST, fetch, offset_of
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.drawn import drawn
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(300), once_is_enough("asks Kafka itself")]

WAIT_S: Final = 60.0
BROKER: Final = {"log.cleaner.backoff.ms": 100}
FILLER: Final = b"filler"
DELETE_HORIZON: Final = 0x40


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    require_kafka()
    with KafkaCluster(config=BROKER) as cluster:
        yield cluster


Records = list[tuple[bytes, bytes | None]]


class Side:
    """One of the two clusters, with its topic and producers."""

    def __init__(self, bootstrap: str, topic: str, config: dict[str, str]) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        Admin(bootstrap).create(topic, config=config)
        settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "linger_ms": 60_000}
        self._plain = {codec: Producer(**settings, compression_type=codec) for codec in ("none", "gzip", "lz4", "zstd", "snappy")}
        self._transactional = [TransactionalProducer(**settings, transactional_id=f"{topic}-{number}") for number in range(2)]

    def close(self) -> None:
        for plain in self._plain.values():
            plain.close(WAIT_S)
        for transactional in self._transactional:
            transactional.close(WAIT_S)

    def write(self, records: Records, codec: str, at_ms: int) -> None:
        """One batch."""
        for key, value in records:
            self._plain[codec].send(self.topic, value, key=key, partition=0, timestamp=at_ms)
        self._plain[codec].flush(WAIT_S)

    def transact(self, number: int, records: Records, at_ms: int, *, commits: bool) -> None:
        """One transaction with one batch, ended."""
        tx = self._transactional[number].begin(WAIT_S)
        for key, value in records:
            tx.send(self.topic, value, key=key, partition=0, timestamp=at_ms)
        self._transactional[number].flush(WAIT_S)
        (tx.commit if commits else tx.abort)(WAIT_S)

    def end_offset(self) -> int:
        async def ask() -> int:
            async with ClusterClient(read_settings({"bootstrap_servers": self.bootstrap})) as client:
                leader = (await client.metadata([self.topic])).topics[0].partitions[0].leader_id
                return (await offset_of(client, leader, (self.topic, 0), LATEST)).offset

        return asyncio.run(ask())

    def batches(self) -> list[tuple[object, ...]]:
        """Every batch of the log. Producer ids are numbered in their order. What a cluster's clock and its number of passes decide is left
        out: markers' times, delete horizons, and whether a batch without tombstones once had one."""
        numbers: dict[int, int] = {-1: -1}
        found: list[tuple[object, ...]] = []
        for header, batch in asyncio.run(self._read()):
            records = read_records(batch)
            has_tombstones = any(record.value is None for record in records)
            attributes = header.attributes if header.is_control or has_tombstones else header.attributes & ~DELETE_HORIZON
            content = [] if header.is_control else [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records]
            found.append(
                (
                    *(header.base_offset, header.last_offset, header.records_count, attributes),
                    *(numbers.setdefault(header.producer_id, len(numbers)), header.producer_epoch, header.base_sequence),
                    *(None if header.is_control else header.max_timestamp, tuple(content)),
                )
            )
        return found

    async def _read(self) -> list[tuple[BatchHeader, bytes]]:
        found: list[tuple[BatchHeader, bytes]] = []
        async with ClusterClient(read_settings({"bootstrap_servers": self.bootstrap})) as client:
            metadata = await client.metadata([self.topic])
            leader, at = metadata.topics[0].partitions[0].leader_id, 0
            while True:
                data = await fetch(client, leader, (self.topic, 0), at, bytes_max=1 << 20)
                more = [(header, bytes(batch)) for header, batch in iter_batches(data.records or b"") if header.last_offset >= at]
                if not more:
                    return found
                found += more
                at = more[-1][0].last_offset + 1


class Both:
    """Both sides, which get the same records with the same times. With segment.ms=1 each batch and each marker begins a segment."""

    def __init__(self, kafka: str, stub: str, config: dict[str, str]) -> None:
        topic, config = f"compacted-{secrets.token_hex(4)}", {"cleanup.policy": "compact", "segment.ms": "1", **config}
        self.kafka, self.stub = Side(kafka, topic, config), Side(stub, topic, config)

    def close(self) -> None:
        self.kafka.close()
        self.stub.close()

    def write(self, records: Records, codec: str = "none") -> None:
        at_ms = next_moment()
        for side in (self.kafka, self.stub):
            side.write(records, codec, at_ms)

    def transact(self, number: int, records: Records, *, commits: bool) -> None:
        """The markers come after the answer."""
        at_ms = next_moment()
        for side in (self.stub, self.kafka):
            side.transact(number, records, at_ms, commits=commits)
        end = self.stub.end_offset()
        until(self.kafka.end_offset, "the marker", good=lambda found: found == end, timeout_s=WAIT_S)

    def write_at_random(self, chance: random.Random) -> None:
        for step in range(40):
            records = [
                (b"k%d" % chance.randrange(8), chance.choice([None, b"%d.%d" % (step, number), bytes(chance.randrange(300))]))
                for number in range(chance.randint(1, 4))
            ]
            match chance.randrange(4):
                case 0:
                    self.transact(chance.randrange(2), records, commits=chance.random() < 0.5)
                case 1:
                    self.write(records, chance.choice(["gzip", "lz4", "zstd", "snappy"]))
                case _:
                    self.write(records)


def next_moment() -> int:
    """The time in milliseconds, well after everything that was written before."""
    time.sleep(0.01)
    return int(time.time() * 1000)


def filler_in(batches: list[tuple[object, ...]]) -> list[object]:
    """The values of the filler that are left."""
    return [value for *_, records in batches for _, _, key, value, _ in records if key == FILLER]  # type: ignore[attr-defined]


@drawn(3, kind=lambda row: row["delete_retention_ms"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("delete_retention_ms", ["86400000", "0"])
def test_the_same_batches_are_left(kafka: KafkaCluster, seed: int, delete_retention_ms: str) -> None:
    """Values, tombstones, compressed batches, committed and aborted transactions; then filler until every pass is through that a
    tombstone or a marker needs. Kafka cleans meanwhile whenever it likes."""
    config = {"delete.retention.ms": delete_retention_ms, "min.cleanable.dirty.ratio": "0.001"}
    with BrokerStub(config=BROKER) as stub, closing(Both(kafka.bootstrap, stub.bootstrap, config)) as both:
        both.write_at_random(random.Random(seed))
        for number in range(5):
            newest = [b"%d" % number, b"%d!" % number]
            for value in newest:
                both.write([(FILLER, value)])
            stub.clean_logs()
            until(
                lambda: filler_in(both.kafka.batches()),
                "Kafka has cleaned up to the newest filler",
                good=partial(eq, newest),
                timeout_s=WAIT_S,
                pause_max_s=0.2,
            )
        expected = both.stub.batches()
        assert len(expected) > 5
        assert both.kafka.batches() == expected


def test_the_last_batch_of_a_pass_stays_as_a_header(kafka: KafkaCluster) -> None:
    """Also if its transaction was aborted and its producer has a new epoch since: the marker is in the segment that is appended to."""
    config = {"min.cleanable.dirty.ratio": "0.001"}
    with BrokerStub(config=BROKER) as stub, closing(Both(kafka.bootstrap, stub.bootstrap, config)) as both:
        for value in (b"1", b"2"):
            both.write([(FILLER, value)])
        both.transact(0, [(b"k", b"v")], commits=False)
        stub.clean_logs()
        expected = both.stub.batches()
        assert [row[:3] for row in expected] == [(1, 1, 1), (2, 2, 0), (3, 3, 1)]
        until(both.kafka.batches, "Kafka has cleaned the same", good=partial(eq, expected), timeout_s=WAIT_S, pause_max_s=0.2)
