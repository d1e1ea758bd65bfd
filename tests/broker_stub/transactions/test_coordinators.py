"""The transaction coordinator under a virtual clock: what survives restarts and moves, which requests wait for which, and what happens with
time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.groups.state.pending_offsets import Committed
from fencepost.broker_stub.transactions.init_and_add_table import Decision
from fencepost.broker_stub.transactions.records import read_txn, txn_key, txn_value
from fencepost.broker_stub.transactions.states import State, Txn
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import txn_offsets
from fencepost.producer.wire.messages.end_txn import EndTxnRequest
from fencepost.producer.wire.records import ControlType, read_marker, read_records
from tests.broker_stub.transactions.txn_calls import ID, Transactions

OK, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
FENCED, STALE = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS
CLEANUP_MS = 10_000
CLEANUP = "transaction.remove.expired.transaction.cleanup.interval.ms"


def markers(world: Transactions, partition: int = 0) -> list[tuple[bool, int]]:
    """(commit, epoch) of every marker in the partition."""
    return [
        (read_marker(data)[0] == ControlType.COMMIT, header.producer_epoch)
        for header, data in world.partition(partition).log.batches()
        if header.is_control
    ]


def test_a_restarted_coordinator_knows_what_the_last_one_wrote() -> None:
    """An open transaction is still open after the broker was down, killed or stopped, and its producer commits it."""
    for clean in (True, False):
        world = Transactions()
        world.given()
        assert world.write(0).answer == OK
        before = world.txn
        world.cluster.stop_broker(1, clean=clean)
        world.cluster.start_broker(1)
        world.cluster.tick()
        assert world.txn == before
        assert world.end().answer == (OK, before.producer_id, 1)
        assert (world.state, markers(world)) == (State.COMPLETE_COMMIT, [(True, 1)])


def test_the_next_leader_coordinates() -> None:
    """The old one answers NOT_COORDINATOR; the new one knows everything but which epoch came before."""
    world = Transactions(brokers=3)
    world.given()
    world.given(expected=world.identity)
    assert (world.txn.epoch, world.txn.last_epoch) == (1, 0)
    old = world.state_partition.leader
    world.cluster.move_leader(world.state_partition)
    assert world.init().answer == (OK, world.identity.producer_id, 2)
    assert world.txn.last_epoch == -1
    pid, epoch = world.identity
    request = EndTxnRequest(transactional_id=ID, producer_id=pid, producer_epoch=epoch)
    assert world.begin(request, 5, lambda answer: answer.error_code, node=old).answer == ErrorCode.NOT_COORDINATOR


REPLICAS = "transaction.state.log.replication.factor"


def alone(world: Transactions) -> tuple[int, int]:
    """A partition of one replica on a broker that has nothing of the id's state, and that broker."""
    keepers = world.state_partition.replicas
    index = next(each for each in range(len(world.topic_named().partitions)) if world.leader("t", each) not in keepers)
    return index, world.leader("t", index)


def cut_off(world: Transactions, leader: int) -> None:
    """No coordinator reaches that broker any more."""
    for node in world.state_partition.replicas:
        world.cluster.broker_links.sever(node, leader)


def mended(world: Transactions, leader: int) -> None:
    for node in world.state_partition.replicas:
        world.cluster.broker_links.mend(node, leader)


def test_what_was_about_to_end_is_ended_by_the_next_coordinator() -> None:
    """An answered commit reaches every partition, under any later coordinator, and no reader sees a part of it."""
    world = Transactions(brokers=3, partitions=3, replicas=1, config={REPLICAS: "2"})
    world.given()
    assert [world.write(0, partition=index).answer for index in range(3)] == [OK] * 3
    late, leader = alone(world)
    cut_off(world, leader)
    assert world.end().answer[0] == OK
    assert (world.state, world.known.pending) == (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    world.cluster.move_leader(world.state_partition)
    world.cluster.tick()
    assert world.is_in(State.PREPARE_COMMIT)
    mended(world, leader)
    world.pass_time(1_000)
    assert world.is_in(State.COMPLETE_COMMIT)
    assert [(True, 1) in markers(world, index) for index in range(3)] == [True] * 3
    assert [world.committed(index) for index in range(3)] == [world.partition(index).log.log_end_offset for index in range(3)]
    assert markers(world, late) == [(True, 1)]  # the old coordinator writes none any more


def test_markers_wait_for_a_leader_that_is_not_reached() -> None:
    """While one partition has no marker the id is busy, and what it wrote there is not read; then everything goes on."""
    world = Transactions(brokers=2, partitions=2, replicas=1, config={REPLICAS: "1"})
    world.given()
    late, leader = alone(world)
    assert world.write(0, partition=late).answer == OK
    cut_off(world, leader)
    code, pid, epoch = world.end().answer
    assert code == OK
    assert world.is_pending(State.COMPLETE_COMMIT)
    assert world.end().answer[0] == CONCURRENT
    assert world.end(commit=False).answer[0] == CONCURRENT
    assert world.add(1 - late, identity=Identity(pid, epoch)).answer == CONCURRENT
    assert world.init().answer[0] == CONCURRENT
    mended(world, leader)
    assert world.committed(late) == 0
    world.pass_time(100)
    assert world.is_in(State.COMPLETE_COMMIT)
    assert world.is_pending(None)
    assert world.committed(late) == 2


def test_a_partition_without_a_leader_gets_no_marker() -> None:
    """Kafka takes the partition for deleted: the transaction is over, and its records there stay undecided for ever."""
    world = Transactions(brokers=2, partitions=2, replicas=1, config={REPLICAS: "1"})
    world.given()
    late, leader = alone(world)
    assert [world.write(0, partition=index).answer for index in range(2)] == [OK] * 2
    world.cluster.stop_broker(leader)
    assert world.end().answer[0] == OK
    assert world.is_in(State.COMPLETE_COMMIT)
    world.cluster.start_broker(leader)
    world.pass_time(60_000)
    assert [world.committed(index) for index in (late, 1 - late)] == [0, 2]
    assert markers(world, late) == []


def test_nothing_is_answered_before_it_is_replicated() -> None:
    """With a follower behind, every question waits for its record; what comes meanwhile is CONCURRENT_TRANSACTIONS."""
    world = Transactions(brokers=2)
    follower = world.sever_state()
    init = world.init()
    assert init.waits
    assert world.init().answer[0] == CONCURRENT  # I1
    world.mend_state(follower)
    code, pid, epoch = init.answer
    assert (code, epoch) == (OK, 0)
    world.identity = Identity(pid, epoch)
    world.sever_state()
    add = world.add()
    assert add.waits
    assert world.add().answer == CONCURRENT  # A1
    assert world.end(version=4).answer[0] == CONCURRENT  # E3
    assert world.end().answer[0] == CONCURRENT  # F1
    world.mend_state(follower)
    assert add.answer == OK
    world.sever_state()
    end = world.end(version=4)
    assert end.waits
    world.mend_state(follower)
    assert end.answer == (OK, -1, -1)
    assert world.is_in(State.COMPLETE_COMMIT)


def test_a_write_that_is_not_replicated_in_time_leaves_all_as_it_was() -> None:
    """COORDINATOR_NOT_AVAILABLE after the transaction's timeout, and the next try succeeds."""
    world = Transactions(brokers=2, config={"replica.lag.time.max.ms": 3_600_000})
    identity = world.given(timeout_ms=1_000)
    follower = world.sever_state()
    add = world.add()
    world.pass_time(999)
    assert add.waits
    world.pass_time(1)
    assert add.answer == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (world.state, world.known.pending, world.txn.identity) == (State.EMPTY, None, identity)
    world.mend_state(follower)
    assert world.add().answer == OK


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    """The abort's epoch fences its producer. Under transaction version 2 the producer may name its old identity, and goes on."""
    world = Transactions()
    identity = world.given(timeout_ms=20_000)
    assert world.write(0).answer == OK
    world.pass_time(20_000)
    assert world.is_in(State.ONGOING)
    assert world.write(1).answer == OK  # which prolongs nothing
    world.pass_time(CLEANUP_MS)
    assert (world.state, markers(world)) == (State.COMPLETE_ABORT, [(False, 1)])
    assert world.write(2).answer == STALE
    assert world.end().answer[0] == ErrorCode.INVALID_TXN_STATE
    assert world.init(expected=identity).answer == (OK, identity.producer_id, 1)
    assert world.cluster.next_deadline() is None


def test_a_transaction_of_3_9_that_takes_too_long_is_aborted() -> None:
    """Before transaction version 2 the coordinator does not remember the producer's identity: the producer is fenced permanently."""
    world = Transactions(emulate="3.9")
    identity = world.given(timeout_ms=20_000)
    assert world.add().answer == OK
    assert world.write(0, version=11).answer == OK
    world.pass_time(20_000 + CLEANUP_MS)
    assert (world.state, markers(world)) == (State.COMPLETE_ABORT, [(False, 1)])
    assert world.end(version=4).answer[0] == FENCED
    assert world.init(expected=identity).answer[0] == FENCED
    assert world.init().answer == (OK, identity.producer_id, 2)


def test_a_fence_of_3_9_that_is_not_replicated_in_time_holds_all_the_same() -> None:
    """A request for the identity of an open transaction fences its producer at once, also if the abort cannot be written. That producer
    cannot commit any more. The next try aborts under the same epoch."""
    world = Transactions(emulate="3.9", brokers=2, config={"replica.lag.time.max.ms": 3_600_000})
    identity = world.given(timeout_ms=1_000)
    assert world.add().answer == OK
    assert world.write(0, version=11).answer == OK
    follower = world.sever_state()
    init = world.init()
    world.pass_time(1_000)
    assert init.answer[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.end(version=4, identity=identity).answer[0] == FENCED
    world.mend_state(follower)
    assert world.end(version=4, identity=identity).answer[0] == FENCED
    assert world.add(identity=identity).answer == FENCED
    assert world.init().answer[0] == CONCURRENT
    assert (world.state, markers(world)) == (State.COMPLETE_ABORT, [(False, 1)])
    assert world.init().answer == (OK, identity.producer_id, 2)


def test_what_a_coordinator_was_about_to_try_again_is_over_when_it_moved() -> None:
    """The record that completes the last transaction was not replicated in time. Before the coordinator retries it, another broker becomes
    coordinator, and the next transaction begins. This transaction stays open, and is committed."""
    world = Transactions(brokers=3, partitions=3, replicas=1, config={REPLICAS: "2", "replica.lag.time.max.ms": 3_600_000})
    world.given(timeout_ms=1_000)
    late, leader = alone(world)
    assert world.write(0, partition=late).answer == OK
    cut_off(world, leader)
    _, pid, epoch = world.end().answer
    first, second = world.state_partition.leader, world.sever_state()
    mended(world, leader)
    world.pass_time(100)
    assert markers(world, late) == [(True, 1)]
    assert world.is_pending(State.COMPLETE_COMMIT)
    world.pass_time(1_000)
    world.cluster.broker_links.mend(first, second)
    world.cluster.move_leader(world.state_partition, to=second)
    world.cluster.tick()
    assert world.is_in(State.COMPLETE_COMMIT)
    world.identity = Identity(pid, epoch)
    assert world.write(0, partition=late).answer == OK
    world.pass_time(100)
    world.cluster.move_leader(world.state_partition)
    world.cluster.tick()
    assert world.is_in(State.ONGOING)
    assert world.end().answer[0] == OK
    assert world.committed(late) == world.partition(late).log.log_end_offset


def test_an_unused_transactional_id_is_forgotten() -> None:
    """The coordinator forgets an id after transactional.id.expiration.ms, permanently, with a tombstone. It keeps an id with an open
    transaction."""
    world = Transactions(config={"transactional.id.expiration.ms": 1_000})
    identity = world.given(timeout_ms=900_000)
    assert world.add().answer == OK
    world.pass_time(3_600_000 - 1)
    assert world.end(version=4, identity=identity).answer[0] in (OK, FENCED)
    world.pass_time(3_600_000)
    code, pid, epoch = world.init().answer
    assert (code, epoch) == (OK, 0)
    assert pid != identity.producer_id
    values = [record.value for _, data in world.state_partition.log.batches() for record in read_records(data)]
    assert None in values


def test_an_expired_id_is_busy_until_its_tombstone_is_replicated() -> None:
    """Every request for it is CONCURRENT_TRANSACTIONS meanwhile. Then the id is unknown."""
    world = Transactions(brokers=2, config={"transactional.id.expiration.ms": 1_000, "replica.lag.time.max.ms": 10**9})
    identity = world.given()
    follower = world.sever_state()
    world.pass_time(3_600_000)
    assert world.init().answer[0] == CONCURRENT  # I1
    assert world.add().answer == CONCURRENT  # A1
    assert world.end(version=4).answer[0] == CONCURRENT  # E3
    assert world.end().answer[0] == CONCURRENT  # F1
    world.mend_state(follower)
    assert world.given().producer_id != identity.producer_id


@pytest.mark.parametrize("looks", [0, 1])
@pytest.mark.parametrize(("early_ms", "forgotten"), [(1, False), (0, True)])
def test_an_id_is_not_forgotten_before_it_is_looked_for(looks: int, early_ms: int, forgotten: bool) -> None:
    """However long it has been unused: its producer goes on with its producer id until the coordinator looks, which it does every
    transaction.remove.expired.transaction.cleanup.interval.ms, and counts from its last look."""
    world = Transactions(config={"transactional.id.expiration.ms": 1_000, CLEANUP: str(3_600_000)})
    for _ in range(looks):
        world.given()
        world.pass_time(3_600_000)
    identity = world.given()
    world.pass_time(3_600_000 - early_ms)
    assert (world.given().producer_id != identity.producer_id) == forgotten


def test_the_last_epoch_gives_a_new_producer_id() -> None:
    """At epoch 32766 the end's markers carry 32767, and the producer goes on with another id; its retry is known."""
    world = Transactions()
    pid, _ = world.given()
    world.known.txn = replace(world.txn, epoch=32766)
    world.identity = last = Identity(pid, 32766)
    assert world.write(0).answer == OK
    code, fresh, epoch = world.end().answer
    assert (code, epoch) == (OK, 0)
    assert fresh != pid
    assert markers(world) == [(True, 32767)]
    assert world.end(identity=last).answer == (OK, fresh, 0)
    world.identity = Identity(fresh, 0)
    assert world.write(0).answer == OK
    assert world.end().answer == (OK, fresh, 1)


def test_one_question_at_a_time_about_a_transaction() -> None:
    """While the coordinator has not answered, the same producer's next question takes the place of the first, which is
    NOT_ENOUGH_REPLICAS; one of an older epoch is turned away."""
    world = Transactions(brokers=2, partitions=4, config={"add.partitions.to.txn.retry.backoff.max.ms": 0})
    world.given()
    world.given()
    pid, epoch = world.identity
    one, other = [each for each in range(4) if world.leader("t", each) == world.state_partition.leader][:2]
    follower = world.sever_state()
    first = world.write(0, partition=one)
    assert first.waits
    assert world.write(0, partition=other, identity=Identity(pid, epoch - 1)).answer == STALE
    assert first.waits
    assert world.write(0, partition=other).answer == CONCURRENT
    assert first.answer == TOO_FEW
    world.mend_state(follower)
    world.cluster.tick()


def test_a_record_waits_a_little_for_the_last_transactions_end() -> None:
    """Transaction version 2: within add.partitions.to.txn.retry.backoff.max.ms it is written once the markers are, after it
    CONCURRENT_TRANSACTIONS; producers before that are told NOT_ENOUGH_REPLICAS at once."""
    world = Transactions(brokers=2, partitions=2, replicas=1, config={REPLICAS: "1"})
    world.given()
    late, leader = alone(world)
    assert world.write(0, partition=late).answer == OK
    cut_off(world, leader)
    _, pid, epoch = world.end().answer
    world.identity = Identity(pid, epoch)
    impatient = world.write(0, partition=1 - late)
    for _ in range(5):
        assert impatient.waits
        world.pass_time(20)
    assert impatient.answer == CONCURRENT
    assert world.write(0, partition=1 - late, version=11).answer == TOO_FEW
    mended(world, leader)
    patient = world.write(0, partition=1 - late)
    assert patient.waits
    for _ in range(5):
        world.pass_time(20)
    assert patient.answer == OK
    assert world.is_in(State.ONGOING)


def test_a_partition_that_does_not_reach_the_coordinator_takes_no_record() -> None:
    """NOT_ENOUGH_REPLICAS, which every client tries again after."""
    world = Transactions(brokers=2, partitions=4)
    world.given()
    coordinator = world.state_partition.leader
    away = next(each for each in range(4) if world.leader("t", each) != coordinator)
    world.cluster.broker_links.sever(coordinator, world.leader("t", away))
    assert world.write(0, partition=away, acks=1).answer == TOO_FEW
    world.cluster.broker_links.mend(coordinator, world.leader("t", away))
    assert world.write(0, partition=away).answer == OK


@pytest.mark.parametrize(("verifies", "produce", "commit"), [(True, 9, 2), (True, 10, 3), (True, 11, 4), (True, 12, 5), (False, 11, 4)])
def test_what_is_said_of_a_record_outside_its_transaction(verifies: bool, produce: int, commit: int) -> None:
    """A partition that its producer did not add takes no record and no offset: old clients get INVALID_TXN_STATE, clients that know it
    TRANSACTION_ABORTABLE. For clients of transaction version 2 the partition is added. If transaction.partition.verification.enable is off,
    there is no check, and the record is written."""
    world = Transactions(config={"transaction.partition.verification.enable": str(verifies).lower()})
    world.given()
    told = ErrorCode.INVALID_TXN_STATE if produce < 11 else ErrorCode.TRANSACTION_ABORTABLE if verifies and produce == 11 else OK
    assert world.write(0, version=produce).answer == told
    assert world.partition().log.log_end_offset == (told == OK)
    assert world.is_in(State.ONGOING if produce == 12 else State.EMPTY)
    if verifies:
        assert world.commit_offset(7, version=commit).answer == told


@pytest.mark.parametrize("generation", [0, 1])
def test_a_member_of_a_group_that_is_not_there_commits_no_offset(generation: int) -> None:
    """ILLEGAL_GENERATION, and the transaction's end brings no offset."""
    world = Transactions()
    pid, epoch = world.given()
    place = txn_offsets.TxnOffsetCommitRequestTopic(name="t", partitions=[txn_offsets.TxnOffsetCommitRequestPartition(committed_offset=7)])
    request = txn_offsets.TxnOffsetCommitRequest(
        transactional_id=ID, group_id="g", producer_id=pid, producer_epoch=epoch, generation_id=generation, member_id="m", topics=[place]
    )
    code = world.begin(request, 5, lambda answer: answer.topics[0].partitions[0].error_code, node=world.offsets_partition().leader)
    assert code.answer == ErrorCode.ILLEGAL_GENERATION
    assert world.end().answer[0] == OK
    shard = world.services.groups.shard_for("g", world.offsets_partition().leader)
    assert (shard.offsets.find("g", "t", 0), shard.groups.groups) == (None, {})


def test_offsets_of_a_transaction_outlive_their_coordinator() -> None:
    """Pending offsets stay pending when the group's coordinator moves, and count once the marker is there."""
    world = Transactions(brokers=3)
    world.given()
    assert world.commit_offset(7).answer == OK
    world.cluster.move_leader(world.offsets_partition())
    offsets = world.services.groups.shard_for("g", world.offsets_partition().leader).offsets
    assert offsets.is_pending("g", "t", 0)
    assert offsets.find("g", "t", 0) is None
    assert world.end().answer[0] == OK
    assert not offsets.is_pending("g", "t", 0)
    found = offsets.find("g", "t", 0)
    assert isinstance(found, Committed)
    assert found.offset == 7


def test_offsets_that_wait_while_their_group_moves_are_sent_to_its_coordinator() -> None:
    """NOT_COORDINATOR, not an error of the transaction, when the group has left the broker by the time the transaction is verified for."""
    world = Transactions(brokers=3)
    world.given()
    follower = world.sever_state()
    commit = world.commit_offset(7)
    assert commit.waits
    world.cluster.move_leader(world.offsets_partition())
    world.mend_state(follower)
    assert commit.answer == ErrorCode.NOT_COORDINATOR
    assert world.commit_offset(7).answer == OK


def test_what_only_the_log_knows_to_be_open_is_aborted_in_time() -> None:
    """The beginning of a transaction was not replicated in time, so its coordinator does not have it. The next coordinator reads it from
    the log, and aborts it after its timeout, without another request for it."""
    world = Transactions(brokers=3, config={"replica.lag.time.max.ms": 3_600_000})
    world.given(timeout_ms=5_000)
    follower = world.sever_state()
    add = world.add()
    world.pass_time(5_000)
    assert (add.answer, world.state) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, State.EMPTY)
    world.pass_time(CLEANUP_MS)
    in_sync = next(node for node in world.state_partition.replicas if node not in (world.state_partition.leader, follower))
    world.cluster.move_leader(world.state_partition, to=in_sync)
    world.cluster.tick()
    assert world.is_in(State.ONGOING)
    world.pass_time(5_000 + CLEANUP_MS)
    assert (world.state, world.txn.epoch) == (State.PREPARE_ABORT, 1)  # its marker waits for a follower


def test_rows_can_be_counted() -> None:
    """A counter gets every decision, with its row."""
    world = Transactions()
    heard: list[Decision] = []
    world.services.transactions.decided = heard.append
    world.given()
    world.write(0)
    world.end()
    world.init(expected=Identity(99, 1))
    assert [decision.row for decision in heard] == ["I5", "A6", "F4", "I2"]


@pytest.mark.parametrize(
    ("options", "version"), [({"emulate": "3.9"}, 0), *(({"transaction_version": each}, min(each, 1)) for each in range(3))]
)
def test_which_version_the_records_of_the_log_have(options: dict[str, Any], version: int) -> None:
    """Before transaction.version 1 that which older brokers can read."""
    world = Transactions(**options)
    world.given()
    values = [record.value for _, data in world.state_partition.log.batches() for record in read_records(data)]
    assert [value[:2] for value in values if value] == [version.to_bytes(2, "big")]


def test_the_log_says_whether_an_epoch_goes_up_with_the_end() -> None:
    """The client's transaction version is in the record: 2 where partitions join by being written, 0 where a client added them."""
    told = []
    for adds in (True, False):
        world = Transactions()
        world.given()
        assert (world.add() if adds else world.write(0)).answer == OK
        records = [record for _, data in world.state_partition.log.batches() for record in read_records(data)]
        _, txn = read_txn(records[-1].key or b"", records[-1].value)
        assert txn is not None
        told.append((txn.state, txn.client_version))
    assert told == [(State.ONGOING, 0), (State.ONGOING, 2)]


@pytest.mark.parametrize("flexible", [False, True])
def test_records_of_the_log_are_kafkas(flexible: bool) -> None:
    """Bytes as TransactionLogKey and TransactionLogValue have them, version 0 before transaction version 1 and flexible from then on; what
    is read back is what was written, but for what no record has."""
    txn = Txn(
        producer_id=1000,
        previous_producer_id=999,
        next_producer_id=1001,
        epoch=32767,
        last_epoch=32766,
        timeout_ms=60_000,
        state=State.PREPARE_COMMIT,
        partitions=frozenset((("a", 0), ("a", 2))),
        start_ms=5,
        updated_ms=6,
        client_version=2,
    )
    assert txn_key("x") == bytes.fromhex("0000 0001 78")
    head = "00000000000003e8 7fff 0000ea60 02"
    rest = "0000000000000006 0000000000000005"
    if flexible:
        tags = "03 00 08 00000000000003e7 01 08 00000000000003e9 02 02 0002"
        expected = f"0001 {head} 02 02 61 03 00000000 00000002 00 {rest} {tags}"
    else:
        expected = f"0000 {head} 00000001 0001 61 00000002 00000000 00000002 {rest}"
    value = txn_value(txn, flexible=flexible)
    assert value == bytes.fromhex(expected)
    name, found = read_txn(txn_key("x"), value)
    lost = {} if flexible else {"previous_producer_id": -1, "next_producer_id": -1, "client_version": 0}
    assert (name, found) == ("x", replace(txn, last_epoch=-1, **lost))
    empty = replace(txn, state=State.EMPTY, partitions=frozenset())
    assert bytes.fromhex("00ffffffff") in txn_value(empty, flexible=False)
    assert read_txn(txn_key("x"), None) == ("x", None)
