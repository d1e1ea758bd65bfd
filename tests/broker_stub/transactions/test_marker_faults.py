"""Faults between brokers: the markers of a coordinator are delayed, lost and refused, and readers of committed records wait."""

from __future__ import annotations

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.broker_call import TIMEOUT_MS
from fencepost.broker_stub.cluster.internal_append import RETRY_MS
from fencepost.broker_stub.faults.rules import Fault, Rule
from fencepost.broker_stub.transactions.states import State
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.records import ControlType, read_marker
from tests.broker_stub.stub_calls import DEADLINE_S, fetch_request, only
from tests.broker_stub.transactions.stock_client import Sender
from tests.broker_stub.transactions.stock_clients_python import Confluent
from tests.broker_stub.transactions.txn_calls import ID, Transactions

OK, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


def world_with_data(**options: int) -> Transactions:
    """A cluster whose producer has a record in each of two partitions."""
    world = Transactions(brokers=3, partitions=2, **options)
    world.given()
    assert [world.write(0, partition=index).answer for index in range(2)] == [OK, OK]
    return world


def on_markers(world: Transactions) -> Rule:
    return world.cluster.faults.on(Api.WRITE_TXN_MARKERS).where(topic="t", partition=1, txn=ID)


def markers_in(world: Transactions, partition: int) -> list[ControlType]:
    return [ControlType(read_marker(data)[0]) for header, data in world.partition(partition).log.batches() if header.is_control]


def test_a_delayed_marker_keeps_readers_waiting() -> None:
    """The commit is answered, its other partitions have their markers, and a reader of committed records waits in the one that has none;
    the id is busy until then. When it comes, all goes on."""
    world = world_with_data()
    late = on_markers(world).delay(5_000)
    assert world.end().answer[0] == OK
    assert (world.state, world.is_pending(State.COMPLETE_COMMIT), late.hits) == (State.PREPARE_COMMIT, True, 1)
    assert (world.committed(0), world.committed(1)) == (2, 0)
    reader = world.begin(fetch_request("t", 0, partition=1, wait_ms=20_000, isolation_level=1), 12, only, node=world.leader("t", 1))
    assert world.init().answer[0] == CONCURRENT
    world.pass_time(4_999)
    assert reader.waits
    world.pass_time(1)
    assert (world.state, world.committed(1), reader.answer.last_stable_offset) == (State.COMPLETE_COMMIT, 2, 2)
    assert world.init().answer[0] == OK


@pytest.mark.parametrize("point", ["before", "after_append", "reply"])
def test_a_marker_that_is_held_back(point: str) -> None:
    """Before it is written readers wait; once it is, only the id does, until the coordinator hears of it."""
    world = world_with_data()
    rule = on_markers(world)
    held = getattr(rule, point)().hold()
    assert world.end().answer[0] == OK
    assert (world.state, world.committed(1)) == (State.PREPARE_COMMIT, 0 if point == "before" else 2)
    held.release()
    world.cluster.tick()
    assert (world.state, world.committed(1)) == (State.COMPLETE_COMMIT, 2)


def lost(rule: Rule, how: str) -> tuple[Fault, int]:
    """The fault, and when the coordinator tries again."""
    if how == "drop":
        return rule.drop(), TIMEOUT_MS + RETRY_MS
    if how == "disconnect":
        return rule.disconnect(), RETRY_MS
    return rule.error(ErrorCode[how]), RETRY_MS


@pytest.mark.parametrize("how", ["drop", "disconnect", "NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "UNKNOWN_TOPIC_OR_PARTITION"])
def test_a_marker_that_does_not_arrive_is_sent_again(how: str) -> None:
    """A request that is lost, or refused for now: soon where that is said, after the brokers' timeout where nothing is."""
    world = world_with_data()
    fault, again_ms = lost(on_markers(world), how)
    assert world.end().answer[0] == OK
    world.pass_time(again_ms - 1)
    assert (world.state, world.committed(1), fault.hits) == (State.PREPARE_COMMIT, 0, 1)
    world.pass_time(RETRY_MS)
    assert (world.state, world.committed(1), markers_in(world, 1)) == (State.COMPLETE_COMMIT, 2, [ControlType.COMMIT])


@pytest.mark.parametrize("how", ["after_append", "duplicate"])
def test_a_marker_that_arrives_twice(how: str) -> None:
    """Its reply was lost, or the network repeats itself: there are two, and the transaction is what it was."""
    world = world_with_data()
    if how == "duplicate":
        on_markers(world).duplicate()
    else:
        on_markers(world).after_append().disconnect()
    assert world.end(commit=False).answer[0] == OK
    world.pass_time(RETRY_MS)
    assert (world.state, markers_in(world, 1)) == (State.COMPLETE_ABORT, [ControlType.ABORT] * 2)
    assert world.committed(1) == 3


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.CORRUPT_MESSAGE])
def test_a_marker_that_is_refused_for_good(code: ErrorCode) -> None:
    """The transaction stays prepared until another coordinator reads of it, which ends it."""
    world = world_with_data()
    on_markers(world).error(code)
    assert world.end().answer[0] == OK
    world.pass_time(10 * RETRY_MS)
    assert (world.state, world.committed(1)) == (State.PREPARE_COMMIT, 0)
    world.cluster.move_leader(world.state_partition)
    world.cluster.tick()
    assert (world.state, world.committed(1)) == (State.COMPLETE_COMMIT, 2)


def test_a_coordinator_that_is_none_any_more_writes_nothing() -> None:
    """Its marker was held back when the next one took over, and wrote it."""
    world = world_with_data()
    held = on_markers(world).hold()
    assert world.end().answer[0] == OK
    world.cluster.move_leader(world.state_partition)
    world.cluster.tick()
    assert (world.state, markers_in(world, 1)) == (State.COMPLETE_COMMIT, [ControlType.COMMIT])
    held.release()
    assert markers_in(world, 1) == [ControlType.COMMIT]


@pytest.mark.parametrize("lost_first", [False, True])
def test_a_topic_that_was_deleted_holds_no_transaction_up(lost_first: bool) -> None:
    """Its partitions need no marker, whether the topic went before the end or after a first marker was refused; the id goes on."""
    world = world_with_data()
    rule = on_markers(world) if lost_first else world.cluster.faults.on(Api.WRITE_TXN_MARKERS).where(topic="other")
    fault = rule.error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if lost_first:
        assert world.end().answer[0] == OK
        assert world.state is State.PREPARE_COMMIT
    world.cluster.delete_topic(world.topic_named())
    if lost_first:
        world.pass_time(RETRY_MS)
    else:
        assert world.end().answer[0] == OK
    assert (world.state, fault.hits) == (State.COMPLETE_COMMIT, int(lost_first))
    assert world.init().answer[0] == OK


def test_rules_about_others_do_not_meet_markers() -> None:
    """A rule for every API does not meet markers, because it is about clients. A rule for another partition, id or broker does not
    either."""
    world = world_with_data()
    faults = world.cluster.faults
    others = [
        faults.on(Api.WRITE_TXN_MARKERS).where(topic="other").drop(),
        faults.on(Api.WRITE_TXN_MARKERS).where(txn="other").drop(),
        faults.on(Api.WRITE_TXN_MARKERS).where(node=9).drop(),
        faults.on(Api.WRITE_TXN_MARKERS).where(client_id="other").drop(),
    ]
    everything = faults.on().after_append().delay(0)
    assert world.end().replies == []
    world.pass_time(0)
    assert world.state is State.COMPLETE_COMMIT
    assert [each.hits for each in others] == [0] * len(others)
    assert everything.hits == 1


def test_offsets_count_when_their_marker_is_there() -> None:
    """The marker in `__consumer_offsets` is one like the others."""
    world = Transactions()
    world.given()
    assert world.commit_offset(7).answer == OK
    world.cluster.faults.on(Api.WRITE_TXN_MARKERS).where(topic="__consumer_offsets").delay(1_000)
    assert world.end().answer[0] == OK
    offsets = world.services.groups.shard_for("g", world.offsets_partition().leader).offsets
    assert (offsets.find("g", "t", 0), offsets.is_pending("g", "t", 0)) == (None, True)
    world.pass_time(1_000)
    found = offsets.find("g", "t", 0)
    assert found is not None
    assert (found.offset, offsets.is_pending("g", "t", 0)) == (7, False)


def test_a_client_meets_it() -> None:
    """confluent-kafka commits, which is answered; its reader gets the records when the marker has been let go."""
    maker = Confluent()
    with BrokerStub(brokers=3) as stub:
        stub.create_topic("t", partitions=1, replication_factor=3)
        held = stub.faults.on(Api.WRITE_TXN_MARKERS).where(topic="t").hold()
        sender: Sender = maker.open(stub.bootstrap, "x")
        sender.begin()
        sender.send("t", 0, "one")
        sender.commit()
        assert held.wait(timeout=DEADLINE_S)
        reader = maker._consumer(stub.bootstrap, "g")
        try:
            reader.subscribe(["t"])
            assert reader.consume(1, timeout=0.5) == []
            held.release()
            (message,) = reader.consume(1, timeout=DEADLINE_S)
            assert message.value() == b"one"
        finally:
            reader.close()
            sender.close()
