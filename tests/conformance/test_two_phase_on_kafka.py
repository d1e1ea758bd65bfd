"""Two-phase commit over several processes, and zombies: on Kafka in both transaction versions, and on the stub, which must answer the same.

One Kafka serves the file: it begins with transaction version 1, and is upgraded to 2 after the tests with 1.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them, and its types do not say so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from fencepost.broker_stub import BrokerStub, FaultProxy
from fencepost.producer import Fenced
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort, TransactionAborted, TransactionCommitted, TransactionOpen
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.recovery.outcome import Outcome
from fencepost.txn.recovery.prepared_here import OUTSTANDING
from fencepost.txn.recovery.resume import Resumed, resume
from fencepost.txn.recovery.token import PreparedTransaction
from tests.conformance.fixtures import TOLD_ALIKE, require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.other_process import OtherProcess
from tests.conformance.survival.reader import Admin
from tests.conformance.txn_site import end_of
from tests.drawn import drawn
from tests.fencepost.cli.shell import run
from tests.reading import read_values
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60.0
PARTITIONS = 3
IMPATIENT = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
KIP_939 = {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
"""The part of KIP-939 that released brokers have."""

PREPARE_AND_WAIT = """
    import sys
    from fencepost.txn import TransactionalProducer
    bootstrap, topic, name = sys.argv[1:]
    producer = TransactionalProducer(bootstrap_servers=bootstrap, transactional_id=name, linger_ms=0)
    with producer.transaction(60) as tx:
        for partition in range(3):
            tx.send(topic, b"prepared", partition=partition)
        print(tx.prepare(60), flush=True)
        sys.stdin.readline()
"""
COMMIT = """
    import sys
    from fencepost.txn import resume
    status = resume(sys.stdin.readline(), sys.argv[1]).commit(60)
    print(status.outcome.name, status.already, flush=True)
"""
ZOMBIE = """
    import sys
    from fencepost.txn import TransactionalProducer
    bootstrap, topic, name = sys.argv[1:]
    producer = TransactionalProducer(bootstrap_servers=bootstrap, transactional_id=name, linger_ms=0)
    tx = producer.begin(60)
    for partition in range(3):
        tx.send(topic, b"zombie", partition=partition).result(60)
    print("frozen from here on", flush=True)
    sys.stdin.readline()
    def attempt(what, call):
        try:
            print(what, "was done:", call(), flush=True)
        except Exception as error:
            print(what, "was refused:", type(error).__name__, getattr(error, "code", ""), error, flush=True)
    attempt("send", lambda: tx.send(topic, b"zombie, thawed", partition=0).result(60))
    attempt("commit", lambda: tx.commit(60))
    attempt("abort", lambda: tx.abort(60))
    attempt("begin", lambda: producer.begin(60))
"""


class Site(NamedTuple):
    """A cluster, and a topic and a transactional id for one test."""

    bootstrap: str
    topic: str
    name: str
    version: int

    def producer(self, **settings: Any) -> TransactionalProducer:
        return TransactionalProducer(bootstrap_servers=self.bootstrap, transactional_id=self.name, linger_ms=0, **settings)

    def prepare(self, value: bytes, **settings: Any) -> PreparedTransaction:
        """Prepare a transaction with records in every partition, by a producer that is then closed."""
        with self.producer(**settings) as producer, producer.transaction(WAIT_S) as tx:
            for partition in range(PARTITIONS):
                tx.send(self.topic, value, partition=partition)
            return tx.prepare(WAIT_S)

    def commit(self, value: bytes) -> None:
        """Commit another transaction of the id, in every partition. That aborts an open one."""
        with self.producer(on_open_transaction="abort") as producer, producer.transaction(WAIT_S) as tx:
            for partition in range(PARTITIONS):
                tx.send(self.topic, value, partition=partition)

    def resume(self, token: PreparedTransaction | str) -> Resumed:
        return resume(str(token), self.bootstrap)

    def read(self, isolation: str = "read_committed") -> list[bytes]:
        """What a consumer reads up to the current ends, as a sorted list."""
        return sorted(read_values(self.bootstrap, self.topic, range(PARTITIONS), isolation=isolation))

    def offset(self, group: str, partition: int) -> int:
        """The group's committed offset, 0 if it has none. A pending offset does not count, and is not waited for."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "isolation.level": "read_uncommitted"})
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, partition)], timeout=WAIT_S)
        finally:
            consumer.close()
        return max(0, found.offset)

    def await_offset(self, group: str, partition: int, offset: int) -> None:
        until(lambda: self.offset(group, partition), "the group's offset", good=lambda found: found == offset, timeout_s=WAIT_S)

    def open_partitions(self) -> list[int]:
        """The partitions that block a `read_committed` consumer: their last stable offset is below the high watermark."""
        return [
            partition
            for partition in range(PARTITIONS)
            if self._end(partition, "read_committed") != self._end(partition, "read_uncommitted")
        ]

    def _end(self, partition: int, isolation: str) -> int:
        return end_of(self.bootstrap, self.topic, partition, isolation)


def new_site(bootstrap: str, version: int) -> Site:
    site = Site(bootstrap, f"two-phase-{secrets.token_hex(4)}", f"id-{secrets.token_hex(4)}", version)
    Admin(site.bootstrap).create(site.topic, partitions=PARTITIONS)
    return site


class Upgradable:
    """A Kafka with transaction version 1, until it is upgraded. `before`: what was prepared right before, and where."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.before: tuple[Site, PreparedTransaction] | None = None

    def upgrade(self) -> None:
        """Upgrade the cluster, at the first call only."""
        if self.before is not None:
            return
        site = new_site(self.cluster.bootstrap, 1)
        self.before = site, site.prepare(b"older")
        upgrade = ("--bootstrap-server", self.cluster.bootstrap, "upgrade", "--feature", "transaction.version=2")
        self.cluster.tool("org.apache.kafka.tools.FeatureCommand", *upgrade)


@pytest.fixture(scope="module")
def upgradable() -> Iterator[Upgradable]:
    require_kafka()
    with KafkaCluster(features={"transaction.version": 1}, config={**IMPATIENT, **KIP_939}) as cluster:
        yield Upgradable(cluster)


@pytest.fixture(
    scope="module", params=["stub-tv1", "stub-tv2", *(pytest.param(place, marks=drawn(2)) for place in ("kafka-tv1", "kafka-tv2"))]
)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """The cluster and the transaction version, in this order, so that Kafka is upgraded once."""
    kind, version = str(request.param).split("-tv")
    if kind == "stub":
        with BrokerStub(transaction_version=int(version), config={**IMPATIENT, **KIP_939}) as stub:
            yield stub.bootstrap, int(version)
        return
    upgradable: Upgradable = request.getfixturevalue("upgradable")
    if version == "2":
        upgradable.upgrade()
    yield upgradable.cluster.bootstrap, int(version)


@pytest.fixture
def site(place: tuple[str, int]) -> Site:
    return new_site(*place)


def test_killed_between_prepare_and_commit(site: Site) -> None:
    """kill -9 after `prepare` blocks consumers. They read all of it once another process has committed with only the token."""
    with OtherProcess(PREPARE_AND_WAIT, site.bootstrap, site.topic, site.name) as first:
        token = first.line()
        first.kill()
    assert PreparedTransaction.loads(token).transaction_version == site.version
    assert site.read() == []
    assert site.open_partitions() == [0, 1, 2]
    with OtherProcess(COMMIT, site.bootstrap) as second:
        second.say(token)
        assert second.rest() == ["COMMITTED False"]
    until(lambda: site.open_partitions() == [], "the markers are there", timeout_s=WAIT_S)
    assert site.read() == [b"prepared"] * 3


def test_the_same_token_twice(site: Site) -> None:
    """The second commit also reports success, as already done, with a marker in each partition. The same holds for two aborts."""
    token = site.prepare(b"once")
    assert site.resume(token).status(WAIT_S).outcome is Outcome.OPEN
    first, second = site.resume(token).commit(WAIT_S), site.resume(token).commit(WAIT_S)
    assert [(each.outcome, each.already) for each in (first, second)] == [(Outcome.COMMITTED, False), (Outcome.COMMITTED, True)]
    with pytest.raises(TransactionCommitted):
        site.resume(token).abort(WAIT_S)
    status = until(lambda: site.resume(token).status(WAIT_S), "every marker", good=lambda found: len(found.markers) == 3, timeout_s=WAIT_S)
    epoch = token.producer_epoch + (1 if site.version == 2 else 0)
    assert [(each.partition, each.offset, each.producer_epoch, each.committed) for each in status.markers] == [
        (partition, 1, epoch, True) for partition in range(PARTITIONS)
    ]
    aborted = site.prepare(b"never")
    assert [site.resume(aborted).abort(WAIT_S).already for _ in range(2)] == [False, True]
    with pytest.raises(TransactionAborted):
        site.resume(aborted).commit(WAIT_S)
    assert site.read() == [b"once"] * 3


def test_replies_that_are_lost(site: Site) -> None:
    """The reply to each request is lost once. The producer finds that the commit was made, and that the markers are there."""
    token = site.prepare(b"once")
    with FaultProxy(site.bootstrap) as proxy:
        asked = (Api.METADATA, Api.FIND_COORDINATOR, Api.DESCRIBE_TRANSACTIONS, Api.END_TXN, Api.LIST_OFFSETS, Api.FETCH)
        lost = [proxy.faults.on(api).after_append().times(1).disconnect() for api in asked]
        resumed = resume(token, proxy.bootstrap)
        assert resumed.commit(WAIT_S).outcome is Outcome.COMMITTED
        assert [fault.hits for fault in lost[:4]] == [1, 1, 1, 1]
        site.commit(b"later")  # so that only the logs show the outcome
        assert resumed.commit(WAIT_S).markers
        assert [fault.hits for fault in lost] == [1] * 6
    assert site.read() == [b"later"] * 3 + [b"once"] * 3


def test_a_commit_that_was_fenced_after_a_lost_reply(site: Site) -> None:
    """Without a token: the reply to the commit is lost, the next attempt is answered as fenced, and a newer producer has the id.

    The log shows the outcome.
    """
    with FaultProxy(site.bootstrap) as proxy:
        proxy.faults.on(Api.END_TXN).after_append().times(1).disconnect()
        proxy.faults.on(Api.END_TXN).before().on_call(2).error(ErrorCode.PRODUCER_FENCED)
        with TransactionalProducer(bootstrap_servers=proxy.bootstrap, transactional_id=site.name, linger_ms=0) as producer:
            tx = producer.begin(WAIT_S)
            tx.send(site.topic, b"doubtful", partition=0)
            with pytest.raises(CommitOutcomeUnknown) as unknown:
                tx.commit(WAIT_S)
            site.commit(b"newer")
            unknown.value.resolve(WAIT_S)
    assert site.read() == [b"doubtful", *[b"newer"] * 3]


@pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.ABORTED])
def test_after_a_later_transaction(site: Site, outcome: Outcome) -> None:
    """A later transaction has ended, or is open. The token still gives the outcome of its own transaction, and leaves the others alone."""
    token = site.prepare(b"first")
    if outcome is Outcome.COMMITTED:
        site.resume(token).commit(WAIT_S)
    site.commit(b"second")
    with site.producer() as producer, producer.transaction(WAIT_S) as tx:
        tx.send(site.topic, b"third", partition=0).result(WAIT_S)
        assert site.resume(token).status(WAIT_S).outcome is outcome
        if outcome is Outcome.COMMITTED:
            assert site.resume(token).commit(WAIT_S).already
            with pytest.raises(TransactionCommitted):
                site.resume(token).abort(WAIT_S)
        else:
            assert site.resume(token).abort(WAIT_S).already
            with pytest.raises(TransactionAborted):
                site.resume(token).commit(WAIT_S)
        assert b"third" not in site.read()
        tx.abort(WAIT_S)
    assert site.read() == sorted([*([b"first"] * 3 if outcome is Outcome.COMMITTED else []), *[b"second"] * 3])


def test_after_the_deadline(site: Site) -> None:
    """The coordinator aborts when the token's time is over, and not before. A commit in any process reports that."""
    for timeout_ms in (300, 8_000, 64_000):  # a machine that is busy needs the time to prepare
        with contextlib.suppress(MustAbort, Fenced):
            producer = site.producer(transaction_timeout_ms=timeout_ms)
            tx = producer.begin(WAIT_S)
            tx.send(site.topic, b"late", partition=0)
            token = tx.prepare(WAIT_S)
            break
        producer.close()
    with producer:
        assert token.started_ms is not None
        assert token.deadline_ms == token.started_ms + timeout_ms
        until(
            lambda: site.resume(token).status(WAIT_S).outcome,
            "it is aborted",
            good=lambda found: found is Outcome.ABORTED,
            timeout_s=WAIT_S,
        )
        with pytest.raises(TransactionAborted):
            site.resume(token).commit(WAIT_S)
        with pytest.raises(TransactionAborted):
            tx.commit(WAIT_S)
        if site.version == 2:
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"next", partition=0)
        else:
            with pytest.raises(Fenced):
                producer.begin(WAIT_S)
    assert site.read() == ([b"next"] if site.version == 2 else [])


def test_offsets_of_a_group(site: Site) -> None:
    """Offsets are part of a prepared transaction, with and without records. A group has them once the token is committed.

    The group's log alone shows the outcome.
    """
    group = f"group-{site.name}"
    with site.producer() as producer:
        for turn in (1, 2):
            tx = producer.begin(WAIT_S)
            if turn == 1:
                tx.send(site.topic, b"with", partition=0)
            tx.send_offsets({(site.topic, 1): turn}, GroupMetadata(group))
            token = tx.prepare(WAIT_S)
            assert token.groups == (group,)
            assert any(place.topic == "__consumer_offsets" and place.offset is None for place in token.partitions)
            assert site.offset(group, 1) == turn - 1
            assert site.resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED
            tx.commit(WAIT_S)
            site.await_offset(group, 1, turn)
    site.commit(b"later")
    status = site.resume(token).status(WAIT_S)
    assert status.outcome is Outcome.COMMITTED
    assert [marker.topic for marker in status.markers] == ["__consumer_offsets"]


@pytest.mark.parametrize("policy", ["abort_unprepared", "refuse"])
def test_without_a_deadline(site: Site, policy: str) -> None:
    """KIP-939, if requested: a broker that supports it never aborts a prepared transaction.

    No broker keeps it when a producer registers under the id again, so the portable refusal applies.
    """
    settings: dict[str, Any] = {"transaction_two_phase_commit_enable": True, "on_open_transaction": policy}
    token = site.prepare(b"patient", **settings)
    assert token.deadline_ms is None
    with site.producer(**settings) as producer, pytest.raises(TransactionOpen, match="end it with its token"):
        producer.begin(WAIT_S)
    site.resume(token).commit(WAIT_S)
    again = site.prepare(b"again", **settings)  # under the next identity, also without a timeout
    assert again.deadline_ms is None
    site.resume(again).commit(WAIT_S)
    assert site.read() == [b"again"] * 3 + [b"patient"] * 3


def test_nothing_was_written(site: Site) -> None:
    """FLINK-31363: every answer says that nothing was written. The next transaction works."""
    with site.producer() as producer:
        tx = producer.begin(WAIT_S)
        token = tx.prepare(WAIT_S)
        assert [call(site.resume(token), WAIT_S).outcome for call in (Resumed.commit, Resumed.abort, Resumed.status)] == [
            Outcome.NOTHING_WRITTEN
        ] * 3
        tx.commit(WAIT_S)
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"next", partition=0)
    assert site.read() == [b"next"]


def test_its_own_producer_goes_on(site: Site) -> None:
    """Transactions are prepared, and ended alternately by the producer and with the token. Committed records are visible, and old tokens
    change nothing.
    """
    tokens: list[tuple[PreparedTransaction, Outcome]] = []
    with site.producer() as producer:
        for turn in range(6):
            tx = producer.begin(WAIT_S)
            tx.send(site.topic, b"%d" % turn, partition=turn % PARTITIONS)
            token = tx.prepare(WAIT_S)
            if turn % 3 == 0:
                site.resume(token).commit(WAIT_S)
            if turn % 3 == 2:
                tx.abort(WAIT_S)
            else:
                tx.commit(WAIT_S)
            tokens.append((token, Outcome.ABORTED if turn % 3 == 2 else Outcome.COMMITTED))
        assert [site.resume(token).status(WAIT_S).outcome for token, _ in tokens] == [outcome for _, outcome in tokens]
    assert site.read() == [b"0", b"1", b"3", b"4"]


@pytest.mark.parametrize("kind", ["stub", pytest.param("kafka", marks=TOLD_ALIKE)])
def test_a_coordinator_that_restarts_after_another_process_ended_it(kind: str, request: pytest.FixtureRequest) -> None:
    """Another process commits the prepared transaction. The coordinator restarts, which makes it forget the previous epoch.

    The producer's own abort raises TransactionCommitted, and the producer continues. A newer producer still fences it.
    """
    with BrokerStub() as stub:
        cluster: BrokerStub | KafkaCluster = stub if kind == "stub" else request.getfixturevalue("kafka_cluster")(config=IMPATIENT)
        site = new_site(cluster.bootstrap, 2)
        for value, newer in ((b"0", False), (b"1", True)):
            with site.producer() as producer:
                tx = producer.begin(WAIT_S)
                tx.send(site.topic, value, partition=0)
                site.resume(tx.prepare(WAIT_S)).commit(WAIT_S)
                if newer:
                    site.commit(b"newer")
                cluster.restart_broker(1)
                with pytest.raises(TransactionCommitted):
                    tx.abort(WAIT_S)
                if newer:
                    with pytest.raises(Fenced):
                        producer.begin(WAIT_S)
                else:
                    with producer.transaction(WAIT_S) as following:
                        following.send(site.topic, b"next", partition=0)
        assert site.read() == [b"0", b"1", *[b"newer"] * PARTITIONS, b"next"]


def test_the_id_is_not_opened_again_by_the_way(site: Site) -> None:
    """A producer refuses to abort a prepared transaction if it knows the token or is set to refuse. Otherwise it aborts it."""
    token = site.prepare(b"prepared")
    OUTSTANDING.discard(token)  # as if another process had prepared it
    several: tuple[dict[str, Any], ...] = ({"prepared": [str(token)]}, {"on_open_transaction": "refuse"})
    for settings in several:
        with site.producer(**settings) as producer, pytest.raises(TransactionOpen):
            producer.begin(WAIT_S)
    site.resume(token).commit(WAIT_S)
    with site.producer(prepared=[token]) as producer, producer.transaction(WAIT_S) as tx:
        tx.send(site.topic, b"next", partition=0)
    assert site.read() == [b"next", *[b"prepared"] * 3]


def test_a_zombie(site: Site) -> None:
    """A process freezes in a transaction, and resumes after its successor has committed. The broker refuses it.

    Consumers never see its records, and never wait for them.
    """
    with OtherProcess(ZOMBIE, site.bootstrap, site.topic, site.name) as zombie:
        assert zombie.line() == "frozen from here on"
        zombie.freeze()
        site.commit(b"successor")
        assert site.read() == [b"successor"] * 3
        zombie.thaw()
        zombie.say()
        said = zombie.rest()
    print("\n".join(said))
    assert len(said) == 4
    assert all(" was refused: " in line for line in said)
    assert "INVALID_PRODUCER_EPOCH" in said[0]
    assert "MustAbort" in said[1]
    assert "Fenced" in said[2]
    assert "PRODUCER_FENCED" in said[2] or "INVALID_PRODUCER_EPOCH" in said[2]
    assert "Fenced" in said[3]
    until(lambda: site.open_partitions() == [], "the last stable offset is the high watermark", timeout_s=WAIT_S)
    assert site.read() == [b"successor"] * 3
    assert site.read("read_uncommitted") == sorted([b"successor", b"zombie"] * 3)


@pytest.mark.parametrize("place", ["kafka-tv1"], indirect=True)
def test_a_transaction_that_hangs(site: Site, upgradable: Upgradable) -> None:
    """The coordinator does not know the transaction, as brokers accepted them before KIP-890. The command line finds what Kafka's own tool
    finds.

    It aborts the transaction by its offset, and consumers continue.
    """
    verify = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": site.bootstrap})

    def verifying(value: str) -> None:
        verify.incremental_configs = [
            ConfigEntry("transaction.partition.verification.enable", value, incremental_operation=AlterConfigOpType.SET)
        ]
        admin.incremental_alter_configs([verify])[verify].result(WAIT_S)

    def hang() -> bool:
        """Write into a partition without adding it. The changed config takes a moment to reach the broker's logs; the function retries
        until then.
        """
        producer = site.producer(delivery_timeout_ms=5_000, request_timeout_ms=2_000)
        tx = producer.begin(WAIT_S)
        producer._manager._contents.partitions.added.add((site.topic, 0))  # a client that writes to a partition that it did not add
        failure = tx.send(site.topic, b"hanging", partition=0).exception(WAIT_S)
        producer._inner.close(WAIT_S) if failure is None else producer.close(WAIT_S)
        return failure is None

    verifying("false")
    try:
        until(hang, "a record without its coordinator", timeout_s=WAIT_S)
    finally:
        verifying("true")
    at = ("--bootstrap", site.bootstrap)
    searched = ("--topic", site.topic, "--max-transaction-timeout", 0)
    found = run("txn", "find-hanging", *searched, "--json", *at)
    (row,) = map(json.loads, found.stdout.splitlines())
    assert found.returncode == 1
    theirs = upgradable.cluster.tool(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", site.bootstrap, "find-hanging", *map(str, searched)
    )
    (shown,) = [line.split() for line in theirs.splitlines() if line.startswith(site.topic)]
    assert shown[:6] == [str(row[key]) for key in ("topic", "partition", "producer_id", "epoch", "coordinator_epoch", "start_offset")]
    assert site.open_partitions() == [0]
    done = run("txn", "abort-hanging", "--topic", site.topic, "--partition", 0, "--start-offset", row["start_offset"], *at)
    assert (done.returncode, done.stderr) == (0, "")
    assert site.open_partitions() == []
    assert site.read() == []
    assert run("txn", "find-hanging", *searched, *at).returncode == 0


@pytest.mark.parametrize("place", ["kafka-tv2"], indirect=True)
def test_a_token_from_before_the_upgrade(place: tuple[str, int], upgradable: Upgradable) -> None:
    """FLINK-40689: prepared with transaction version 1, and committed with 2: with requests of the version in which it was written."""
    assert upgradable.before is not None
    site, token = upgradable.before
    assert token.transaction_version == 1
    assert site.resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED
    assert site.resume(token).commit(WAIT_S).already
    until(lambda: site.open_partitions() == [], "the markers are there", timeout_s=WAIT_S)
    assert site.read() == [b"older"] * 3
