"""A transaction that is shared with other processes, on Kafka in both transaction versions.

The records of all processes are committed together or not at all, and late participants are refused. One Kafka serves the file: it begins
with transaction version 1, and is upgraded to 2 after the tests with 1.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.producer import Fenced, FencepostError
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import MustAbort
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.shared.participant import ENDED, Participant, ParticipationEnded
from fencepost.txn.shared.participation import TP, Participation, Written
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.other_process import OtherProcess
from tests.conformance.survival.reader import Admin
from tests.drawn import drawn
from tests.reading import read_values
from tests.waiting import despite, until

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60.0
PARTITIONS = 12
IMPATIENT = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}

PARTICIPANT = """
    import json, sys
    from fencepost.txn import Participant, Participation
    participant = Participant(bootstrap_servers=sys.argv[1], linger_ms=0, batch_size=256)
    for line in sys.stdin:
        participation, records, frozen = json.loads(line)
        participation = Participation.loads(participation)
        participant.begin(participation, 60)
        for topic, partition in participation.partitions:
            participant.send(topic, b"first", partition=partition).result(60)
        if frozen:
            print("frozen from here on", flush=True)
            sys.stdin.readline()
        try:
            for topic, partition in participation.partitions:
                participant.send_many(topic, [b"%d" % n for n in range(records)], partition=partition)
            print(json.dumps([each.dumps() for each in participant.finish(60)]), flush=True)
        except Exception as error:
            print(type(error).__name__, getattr(error, "code", ""), error, flush=True)
            participant.abandon(60)
"""


class Site:
    """A cluster, and a topic and a transactional id for one test."""

    def __init__(self, bootstrap: str, version: int) -> None:
        self.bootstrap = bootstrap
        self.version = version
        self.topic = f"shared-{secrets.token_hex(4)}"
        self.name = f"id-{secrets.token_hex(4)}"
        self.partitions: list[TP] = [(self.topic, partition) for partition in range(PARTITIONS)]
        Admin(bootstrap).create(self.topic, partitions=PARTITIONS)

    def producer(self, **settings: Any) -> TransactionalProducer:
        return TransactionalProducer(bootstrap_servers=self.bootstrap, transactional_id=self.name, linger_ms=0, **settings)

    def participant(self, **settings: Any) -> Participant:
        return Participant(bootstrap_servers=self.bootstrap, linger_ms=0, **settings)

    def read(self, isolation: str = "read_committed") -> list[bytes]:
        """What a consumer reads up to the current ends."""
        return sorted(read_values(self.bootstrap, self.topic, range(PARTITIONS), isolation=isolation))


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    require_kafka()
    with KafkaCluster(features={"transaction.version": 1}, config=IMPATIENT) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=[pytest.param(version, marks=drawn(2)) for version in (1, 2)])
def version(request: pytest.FixtureRequest, cluster: KafkaCluster) -> int:
    """The transaction version, in this order, so that the cluster is upgraded once."""
    if request.param == 2:
        upgrade = ("--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "transaction.version=2")
        cluster.tool("org.apache.kafka.tools.FeatureCommand", *upgrade)
    return int(request.param)


@pytest.fixture
def site(cluster: KafkaCluster, version: int) -> Site:
    return Site(cluster.bootstrap, version)


def tell(process: OtherProcess, participation: Participation, *, records: int, frozen: bool = False) -> None:
    """Tell a process of participants to write so many records to each partition of the participation, after a first one."""
    process.say(json.dumps([participation.dumps(), records, frozen]))


def heard(process: OtherProcess) -> list[Written]:
    """What the process reports that it wrote."""
    return [Written.loads(each) for each in json.loads(process.line())]


def test_processes_that_write_one_transaction(site: Site) -> None:
    """Four processes at once, in transactions that are alternately committed and aborted, each twice, with continuing sequences.

    Committed records are there once, with the owner's own record. Each account says how much and where.
    """
    records = 100
    with site.producer() as producer, ExitStack() as stack:
        processes = [stack.enter_context(OtherProcess(PARTICIPANT, site.bootstrap)) for _ in range(4)]
        shared, own = site.partitions[1:], site.partitions[0]
        for turn in range(4):
            tx = producer.begin(WAIT_S)
            for again in range(2):
                participation = tx.share(shared, WAIT_S)
                assert participation.transaction_version == site.version
                assert {each[2] for each in participation.sequences} == {again * (records + 1)}
                for place, process in enumerate(processes):
                    tell(process, participation.part(shared[place::4]), records=records)
                written = [each for process in processes for each in heard(process)]
                assert sorted((each.topic, each.partition) for each in written) == shared
                assert all(each.last_offset - each.first_offset + 1 == each.records == records + 1 for each in written)
                tx.returned(written)
            tx.send(site.topic, b"own", partition=own[1]).result(WAIT_S)
            if turn % 2:
                tx.abort(WAIT_S)
            else:
                tx.commit(WAIT_S)
        expected = [b"own"] * 2 + ([b"first"] + [b"%d" % n for n in range(records)]) * len(shared) * 4
    until(lambda: site.read(), "what was committed", good=lambda found: found == sorted(expected), timeout_s=WAIT_S)
    assert len(site.read("read_uncommitted")) == 2 * len(expected)


def one_record(tp: TP) -> Written:
    """The owner's report about a participant that wrote a record and did not finish."""
    return Written(*tp, 1, -1, -1, 1)


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_a_participant_that_thaws_too_late(site: Site, end: str) -> None:
    """The participant freezes after one record. The owner ends the transaction without it, and begins the next one.

    The broker refuses the participant. Its later records are not in the next transaction, and do not block consumers.
    """
    (tp,) = site.partitions[:1]
    with site.producer() as producer, OtherProcess(PARTICIPANT, site.bootstrap) as zombie, site.participant() as successor:
        tx = producer.begin(WAIT_S)
        tell(zombie, tx.share([tp], WAIT_S), records=5, frozen=True)
        assert zombie.line() == "frozen from here on"
        zombie.freeze()
        if end == "commit":
            tx.returned([one_record(tp)])
        getattr(tx, end)(WAIT_S)
        tx = producer.begin(WAIT_S)
        participation = tx.share([tp], WAIT_S)
        successor.begin(participation, WAIT_S)
        successor.send(*tp[:1], b"successor", partition=tp[1]).result(WAIT_S)
        zombie.thaw()
        zombie.say()
        said = zombie.line()
        tx.returned(successor.finish(WAIT_S))
        tx.commit(WAIT_S)
    print(said)
    assert said.split()[:2] in (
        ["ParticipationEnded", str(int(code))] for code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    )
    seen = [b"successor"] if end == "abort" else [b"first", b"successor"]
    until(lambda: site.read(), "what was committed", good=lambda found: found == seen, timeout_s=WAIT_S)
    assert site.read("read_uncommitted") == [b"first", b"successor"]


def test_a_participant_between_two_transactions(site: Site) -> None:
    """The transaction is over, and the next one does not use the participant's partition. The broker refuses the participant all the same.

    Until the markers are written the broker would still accept it, as part of the ended transaction. The response to EndTxn does not wait
    for them.
    """
    (tp,) = site.partitions[:1]
    with site.producer() as producer, site.participant() as participant:
        for end in ("abort", "commit"):
            tx = producer.begin(WAIT_S)
            participant.begin(tx.share([tp], WAIT_S), WAIT_S)
            participant.send(site.topic, b"early", partition=tp[1]).result(WAIT_S)
            if end == "commit":
                tx.returned([one_record(tp)])
            getattr(tx, end)(WAIT_S)
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"elsewhere", partition=1).result(WAIT_S)
            participant.send(site.topic, b"late", partition=tp[1])
            with pytest.raises(ParticipationEnded) as over:
                participant.finish(WAIT_S)
            assert over.value.code in ENDED
            participant.abandon(WAIT_S)
    until(lambda: site.read(), "what was committed", good=lambda found: found == [b"early", *[b"elsewhere"] * 2], timeout_s=WAIT_S)
    assert site.read("read_uncommitted") == [*[b"early"] * 2, *[b"elsewhere"] * 2]


def test_no_participant_wrote_to_the_shared_partitions(site: Site) -> None:
    """The commit of an empty transaction succeeds, although Kafka has nothing to commit, and with version 2 does not know the transaction.

    The next transaction works, under another epoch.
    """
    with site.producer() as producer:
        epochs = []
        for _ in range(2):
            with producer.transaction(WAIT_S) as tx:
                participation = tx.share(site.partitions, WAIT_S)
                tx.returned(participation.unused([]))
                epochs.append(participation.producer_epoch)
        with producer.transaction(WAIT_S) as tx:
            participation = tx.share(site.partitions, WAIT_S)
            tx.abort(WAIT_S)
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"next", partition=0)
            epochs += [participation.producer_epoch, (participation := tx.share(site.partitions[1:], WAIT_S)).producer_epoch]
            tx.returned(participation.unused([]))
    assert len(set(epochs)) == 4
    until(lambda: site.read(), "what was committed", good=lambda found: found == [b"next"], timeout_s=WAIT_S)


def test_the_coordinator_gave_it_up(site: Site) -> None:
    """The transaction times out while it is shared. With version 2 the commit raises MustAbort, and the next transaction works.

    With version 1 Kafka answers as for a fenced producer, and so the commit raises Fenced.
    """
    (tp,) = site.partitions[:1]
    with site.producer(transaction_timeout_ms=1_000) as producer, site.participant() as participant:
        tx = producer.begin(WAIT_S)
        participant.begin(tx.share([tp], WAIT_S), WAIT_S)
        # On a busy machine the transaction may time out before this point. Then the participant is refused here.
        with contextlib.suppress(Exception):
            participant.send(site.topic, b"slow", partition=tp[1]).result(WAIT_S)
            until(lambda: _is_refused(participant, tp), "the coordinator's patience ends", timeout_s=WAIT_S)
        with pytest.raises(ParticipationEnded):
            participant.finish(WAIT_S)
        participant.abandon(WAIT_S)
        tx.returned([one_record(tp)])
        if site.version == 1:
            with pytest.raises(Fenced):
                tx.commit(WAIT_S)
        else:
            with pytest.raises(MustAbort):
                tx.commit(WAIT_S)
            tx.abort(WAIT_S)
            # On a busy machine a second may pass here, too.
            despite(FencepostError, lambda: _write_in_time(producer, participant, tp), timeout_s=WAIT_S)
    seen = [] if site.version == 1 else [b"in time"]
    until(lambda: site.read(), "what was committed", good=lambda found: found == seen, timeout_s=WAIT_S)


def _write_in_time(producer: TransactionalProducer, participant: Participant, tp: TP) -> None:
    with producer.transaction(WAIT_S) as tx:
        participant.begin(tx.share([tp], WAIT_S), WAIT_S)
        try:
            participant.send(tp[0], b"in time", partition=tp[1])
            tx.returned(participant.finish(WAIT_S))
        finally:
            participant.abandon(WAIT_S)


def _is_refused(participant: Participant, tp: TP) -> bool:
    return participant.send(tp[0], b"slow", partition=tp[1]).exception(WAIT_S) is not None


def test_a_second_owner(site: Site) -> None:
    """Another process takes the transactional id over. The broker refuses the participants of the first one, and their records are never
    visible.
    """
    (tp,) = site.partitions[:1]
    with site.producer() as first, site.participant() as participant, site.producer() as second:
        tx = first.begin(WAIT_S)
        participant.begin(tx.share([tp], WAIT_S), WAIT_S)
        participant.send(site.topic, b"first owner's", partition=tp[1]).result(WAIT_S)
        second.init(WAIT_S)
        participant.send(site.topic, b"first owner's", partition=tp[1])
        with pytest.raises(ParticipationEnded):
            participant.finish(WAIT_S)
        participant.abandon(WAIT_S)
        with second.transaction(WAIT_S) as other:
            participant.begin(other.share([tp], WAIT_S), WAIT_S)
            participant.send(site.topic, b"second owner's", partition=tp[1])
            other.returned(participant.finish(WAIT_S))
        tx.returned([one_record(tp)])
        with pytest.raises(Fenced):
            first.commit(WAIT_S)
    until(lambda: site.read(), "what was committed", good=lambda found: found == [b"second owner's"], timeout_s=WAIT_S)


def test_many_participants_at_once(site: Site) -> None:
    """Every partition has its own participant, and all begin at once. Their first batches collide at the leader (KIP-890).

    They are sent again with the same sequences, and every record is there once. tests/bench/participants.py measures how long that takes.
    """
    with site.producer() as producer, ExitStack() as stack:
        participants = [stack.enter_context(site.participant(batch_size=256)) for _ in site.partitions]
        for turn in range(3):
            with producer.transaction(WAIT_S) as tx:
                participation = tx.share(site.partitions, WAIT_S)
                for participant, tp in zip(participants, site.partitions, strict=True):
                    participant.begin(participation.part([tp]), WAIT_S)
                    participant.send_many(site.topic, [b"%d-%d" % (turn, n) for n in range(50)], partition=tp[1])
                tx.returned(each for participant in participants for each in participant.finish(WAIT_S))
    expected = sorted([b"%d-%d" % (turn, n) for turn in range(3) for n in range(50)] * PARTITIONS)
    until(lambda: site.read(), "what was committed", good=lambda found: found == expected, timeout_s=WAIT_S)
