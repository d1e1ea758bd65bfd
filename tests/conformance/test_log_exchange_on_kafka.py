"""A partition's directory that one of Apache Kafka and the stub wrote and the other one serves, after its own recovery.

Records, transactions and producers are the same, with every byte of every batch. The files of the new owner are what Kafka's tool and ours
find nothing wrong with.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.log_dir import CLEAN_SHUTDOWN
from fencepost.broker_stub.log.checkpoint_text import PARTITION_METADATA, read_partition_metadata, write_partition_metadata
from fencepost.producer import Producer
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from fencepost.producer.wire.records import iter_batches
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.protocol.cluster_client import ClusterClient
from fencepost.txn.recovery.raw_log import fetch
from tests.conformance.fixtures import require_kafka
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.drawn import drawn
from tests.fencepost.cli.shell import invoke
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(300), once_is_enough("asks Kafka itself")]

TOPIC: Final = "exchanged"
CONFIG: Final = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}


@pytest.fixture
def kafka() -> Iterator[KafkaCluster]:
    require_kafka()
    with KafkaCluster() as cluster:
        Admin(cluster.bootstrap).create(TOPIC, config=CONFIG)
        yield cluster


def write(bootstrap: str) -> None:
    """Every codec, committed and aborted transactions over several segments."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=bootstrap, compression_type=codec) as plain:
            for number in range(200):
                plain.send(TOPIC, b"%d" % number * (1500 if codec == "none" else 1), key=b"k%d" % (number % 7), headers=[("h", b"1")])
                if number % 20 == 19:
                    plain.flush()
    for name in ("x", "y"):
        with TransactionalProducer(bootstrap_servers=bootstrap, transactional_id=f"{TOPIC}-{name}") as transactional:
            for number in range(5):
                tx = transactional.begin()
                for _ in range(15):
                    tx.send(TOPIC, bytes(20_000), key=b"t")
                tx.abort() if number % 2 else tx.commit()


class Seen:
    """What a client sees of the topic."""

    def __init__(self, bootstrap: str) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.aborted: set[tuple[int, int]] = set()
        self.producers: dict[int, tuple[int, ...]] = {}
        asyncio.run(self._ask(bootstrap))

    async def _ask(self, bootstrap: str) -> None:
        async with ClusterClient(read_settings({"bootstrap_servers": bootstrap})) as client:
            leader = (await client.metadata([TOPIC])).topics[0].partitions[0].leader_id
            at = 0
            while True:
                data = await fetch(client, leader, (TOPIC, 0), at, bytes_max=1 << 20)
                more = [(header, bytes(batch)) for header, batch in iter_batches(data.records or b"") if header.last_offset >= at]
                if not more:
                    break
                self.batches += [(header.base_offset, batch) for header, batch in more]
                self.aborted |= {(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()}
                at = more[-1][0].last_offset + 1
            asked = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])])
            answer = await client.ask(leader, asked)
            for each in answer.topics[0].partitions[0].active_producers:
                fields = (each.producer_epoch, each.last_sequence, each.current_txn_start_offset, each.coordinator_epoch)
                self.producers[each.producer_id] = fields

    def compared(self) -> tuple[Any, ...]:
        return self.batches, self.aborted, self.producers


def take_over(theirs: Path, ours: Path) -> None:
    """Puts the partition's files of `theirs` into `ours`, which keeps its topic id."""
    topic_id = read_partition_metadata((ours / PARTITION_METADATA).read_bytes())
    assert isinstance(topic_id, UUID)
    shutil.rmtree(ours)
    shutil.copytree(theirs, ours)
    (ours / PARTITION_METADATA).write_text(write_partition_metadata(topic_id))


@drawn(2)
@pytest.mark.parametrize("clean", [True, False], ids=["as they are", "recovered"])
def test_kafka_serves_the_stubs_files(kafka: KafkaCluster, tmp_path: Path, clean: bool) -> None:
    """Kafka recovers a partition directory that the stub wrote, and readers see the same records and transactions."""
    with BrokerStub(data_dir=tmp_path) as stub:
        stub.create_topic(TOPIC, config=CONFIG)
        write(stub.bootstrap)
        wanted = Seen(stub.bootstrap).compared()
    kafka.stop_broker(1)
    data = kafka.brokers[1].directory / "data"
    take_over(tmp_path / "broker-1" / f"{TOPIC}-0", data / f"{TOPIC}-0")
    if not clean:
        (data / CLEAN_SHUTDOWN).unlink()
        for index in [*(data / f"{TOPIC}-0").glob("*index")]:
            index.unlink()
    for checkpoint in data.glob("*-checkpoint"):  # they are about Kafka's own files
        checkpoint.unlink()
    kafka.start_broker(1)
    until(lambda: Seen(kafka.bootstrap).compared() == wanted, "the same batches, aborted transactions and producers", timeout_s=30)
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        assert producer.send(TOPIC, b"more").result(30).offset > wanted[0][-1][0]


@drawn(2)
@pytest.mark.parametrize("clean", [True, False], ids=["as they are", "recovered"])
def test_the_stub_serves_kafkas_files(kafka: KafkaCluster, tmp_path: Path, clean: bool) -> None:
    """The other way round, and the partition takes records afterwards."""
    write(kafka.bootstrap)
    wanted = Seen(kafka.bootstrap).compared()
    kafka.stop_broker(1)
    with BrokerStub(data_dir=tmp_path) as stub:
        stub.create_topic(TOPIC, config=CONFIG)
    ours = tmp_path / "broker-1"
    take_over(kafka.brokers[1].directory / "data" / f"{TOPIC}-0", ours / f"{TOPIC}-0")
    if not clean:
        (ours / CLEAN_SHUTDOWN).unlink()
    with BrokerStub(data_dir=tmp_path) as stub:
        assert Seen(stub.bootstrap).compared() == wanted
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            assert producer.send(TOPIC, b"more").result(30).offset > wanted[0][-1][0]
    ran = invoke("log", "verify", ours)
    assert (ran.code, ran.err) == (0, ""), ran.out


def test_kafkas_tool_reads_what_the_stub_wrote(java_tools: JavaTools | OneByOne, tmp_path: Path) -> None:
    """Every file, and it says the same as `fencepost log dump`."""
    with BrokerStub(data_dir=tmp_path) as stub:
        stub.create_topic(TOPIC, config=CONFIG)
        write(stub.bootstrap)
    directory = tmp_path / "broker-1" / f"{TOPIC}-0"
    for kind in ("log", "index", "timeindex", "txnindex", "snapshot"):
        files = sorted(directory.glob(f"*.{kind}"))
        assert files
        theirs = java_tools.run("org.apache.kafka.tools.DumpLogSegments", "--index-sanity-check", "--files", ",".join(map(str, files)))
        assert "passed sanity check" in theirs or not kind.endswith("index") or kind == "txnindex"
        assert not re.search("(?i)mismatch|exception|corrupt|is not monotonic|not found", theirs), theirs[-2000:]
    ran = invoke("log", "verify", tmp_path / "broker-1")
    assert (ran.code, ran.err) == (0, ""), ran.out
