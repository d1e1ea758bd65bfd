"""What a partition does with a batch about which the transaction coordinator was asked: rows D3, D5 and D6."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.log.errors import AppendRefused
from fencepost.broker_stub.log.producer_append_info import Origin
from fencepost.producer.wire.records.control_batch import ControlType, encode_marker
from tests.broker_stub.stub_calls import TIMESTAMP_MS, batch

PID = 7


def new_log(config: LogConfig | None = None) -> PartitionLog:
    return PartitionLog(clock_ms=lambda: TIMESTAMP_MS, config=config)


def write(log: PartitionLog, sequence: int, *, guard: int | None, epoch: int = 0, pid: int = PID) -> str:
    """The row that refused the batch; empty if it was written."""
    data = batch(b"v", pid=pid, epoch=epoch, sequence=sequence, transactional=True)
    try:
        log.append(data, origin=Origin.CLIENT, leader_epoch=0, guard=guard)
    except AppendRefused as refused:
        return refused.rule
    return ""


def mark(log: PartitionLog, epoch: int, *, transaction_version: int = 2) -> None:
    data = encode_marker(ControlType.COMMIT, producer_id=PID, producer_epoch=epoch, coordinator_epoch=0, timestamp=TIMESTAMP_MS)
    log.append(data, origin=Origin.COORDINATOR, leader_epoch=0, transaction_version=transaction_version)


def test_a_guard_lets_the_first_batch_in() -> None:
    """A producer with an open transaction in this partition needs no guard."""
    log = new_log()
    guard = log.begin_verification(PID, 0, 0, bumps=False)
    assert guard is not None
    assert write(log, 0, guard=guard) == ""
    assert log.begin_verification(PID, 0, 1, bumps=False) is None
    assert write(log, 1, guard=None) == ""


def test_a_marker_makes_a_guard_worthless() -> None:
    """D3: the transaction that the coordinator verified is over. Its batch would open another one, which would never end."""
    log = new_log()
    guard = log.begin_verification(PID, 0, 0, bumps=False)
    mark(log, 0, transaction_version=0)
    assert write(log, 0, guard=guard) == "D3"
    assert write(log, 0, guard=log.begin_verification(PID, 0, 0, bumps=False)) == ""


def test_a_marker_of_the_last_transaction_leaves_the_guard_of_the_next() -> None:
    """Where epochs go up the marker has the epoch of the next transaction, which may have been asked about already; a later one not."""
    log = new_log()
    assert write(log, 0, guard=log.begin_verification(PID, 0, 0, bumps=True)) == ""
    guard = log.begin_verification(PID, 1, 0, bumps=True)
    mark(log, 1)
    assert write(log, 0, guard=guard, epoch=1) == ""
    guard = log.begin_verification(PID, 2, 0, bumps=True)
    mark(log, 3)
    assert write(log, 0, guard=guard, epoch=3) == "D3"


def test_the_first_batch_of_a_bumped_epoch_has_sequence_0() -> None:
    """D5: where epochs go up a producer that nothing is known of begins with 0; before that any sequence is taken."""
    log = new_log()
    assert write(log, 5, guard=log.begin_verification(PID, 0, 5, bumps=True)) == "D5"
    log = new_log()
    assert write(log, 5, guard=log.begin_verification(PID, 0, 5, bumps=False)) == ""


def test_no_batch_overtakes_one_that_was_asked_about_before() -> None:
    """D6: the first of two was not let in; the second must not be either, or the first would never fit again."""
    log = new_log()
    first = log.begin_verification(PID, 0, 0, bumps=False)
    second = log.begin_verification(PID, 0, 5, bumps=False)
    assert first == second
    assert write(log, 5, guard=second) == "D6"
    assert write(log, 0, guard=first) == ""


def test_a_plain_batch_leaves_the_guard() -> None:
    """It is part of no transaction, and says nothing about the one that the coordinator was asked about."""
    log = new_log()
    guard = log.begin_verification(PID, 0, 1, bumps=False)
    log.append(batch(b"v", pid=PID, epoch=0, sequence=0), origin=Origin.CLIENT, leader_epoch=0)
    assert write(log, 1, guard=guard) == ""


def test_a_verification_concerns_no_other_producer() -> None:
    """With transaction.partition.verification.enable=false only producers whose epochs rise are verified. The others write meanwhile."""
    log = new_log(LogConfig(verifies_transactions=False))
    guard = log.begin_verification(PID, 0, 0, bumps=True)
    assert log.begin_verification(PID + 1, 0, 5, bumps=False) is None
    assert write(log, 5, guard=None, pid=PID + 1) == ""
    assert write(log, 0, guard=guard) == ""


def test_the_next_leader_asks_anew() -> None:
    """What was asked about before another replica came to lead is forgotten: the guard of that time lets nothing in, and no sequence of
    that time is waited for."""
    log = new_log()
    guard = log.begin_verification(PID, 0, 0, bumps=False)
    log.lead(1)
    assert write(log, 0, guard=guard) == "D3"
    assert write(log, 5, guard=log.begin_verification(PID, 0, 5, bumps=False)) == ""


@pytest.mark.parametrize(("days", "row"), [(0, "D6"), (10, "")])
def test_a_verification_that_no_batch_ends_expires(days: int, row: str) -> None:
    """It goes with the idle producers, as in Kafka. Without that the producer's next batches would be refused for ever."""
    now = [TIMESTAMP_MS]
    log = PartitionLog(clock_ms=lambda: now[0])
    log.begin_verification(PID, 0, 0, bumps=False)
    now[0] += days * 86_400_000
    log.expire_producers()
    assert write(log, 3, guard=log.begin_verification(PID, 0, 3, bumps=False)) == row


def test_an_epoch_that_is_over_is_not_asked_about() -> None:
    """D2, before the coordinator hears of it."""
    log = new_log()
    mark(log, 3)
    with pytest.raises(AppendRefused, match="INVALID_PRODUCER_EPOCH"):
        log.begin_verification(PID, 2, 0, bumps=True)


def test_a_verification_that_began_without_bumps_stays_so() -> None:
    """D5 is about producers whose epochs go up. One that an older request began to ask about is none of them, though its epoch is newer
    now: its first batch may have any sequence."""
    log = new_log()
    log.begin_verification(PID, 0, 0, bumps=False)
    guard = log.begin_verification(PID, 1, 5, bumps=True)
    assert write(log, 5, guard=guard, epoch=1) == ""
