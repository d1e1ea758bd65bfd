"""A log whose leader is another replica, or the same one after a restart: it is the log that was, without what a restart forgets."""

from __future__ import annotations

import random

import pytest

from fencepost.broker_stub.log import AppendRefused, Checkpoint, LogConfig, Origin, PartitionLog
from fencepost.broker_stub.log.producer_snapshot import read_snapshot
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import iter_batches
from tests.broker_stub.log.log_tools import NOW, Again, SetClock, coordinate, data, marker, open_log, plain, produce

ALL = 1 << 30


def bytes_of(log: PartitionLog) -> bytes:
    """Everything in the log's storage, committed or not."""
    return b"".join(batch for _, batch in log.batches())


def restart(log: PartitionLog) -> None:
    """Its broker stops and starts again, and nothing happens meanwhile."""
    log.hand_over(log.snapshot(), log.log_end_offset)


def facts(log: PartitionLog) -> dict[str, object]:
    """Everything that clients can learn of a log, and what it remembers of its producers."""
    committed = log.read(log.log_start_offset, max_bytes=ALL, read_committed=True)
    return {
        "offsets": (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset),
        "epochs": (log.leader_epoch, log.epochs),
        "producers": log.active_producers(),
        "entries": dict(log._producers.entries),
        "committed": bytes(committed.records),
        "aborted": committed.aborted,
        "bytes": bytes(log.read(log.log_start_offset, max_bytes=ALL).records),
        "times": [log.offset_for_timestamp(at) for at in range(NOW, NOW + 60, 7)],
        "snapshot": log.snapshot(),
    }


def happen(log: PartitionLog, rng: random.Random, steps: range) -> None:
    """Producers, transactions, markers, epochs and plain batches, some of them refused, come to the log."""
    for step in steps:
        pid, epoch = rng.randrange(1, 4), rng.randrange(3)
        known = {active.producer_id: active for active in log.active_producers()}.get(pid)
        follows = known is not None and known.producer_epoch >= epoch
        if known is not None and follows:
            epoch = known.producer_epoch
        sequence = (known.last_sequence + 1) % 2**31 if known is not None and follows else rng.choice([0, 2**31 - 4])
        in_txn = known is not None and known.current_txn_start_offset >= 0
        try:
            if rng.random() < 0.2:
                sent = marker(
                    pid, epoch + (rng.random() < 0.2), commit=rng.random() < 0.5, coordinator_epoch=step // 60, timestamp=NOW + step
                )
                log.append(sent, origin=Origin.COORDINATOR, leader_epoch=step // 30)
            elif rng.random() < 0.2:
                log.append(plain(NOW + rng.randrange(60)), origin=Origin.CLIENT, leader_epoch=step // 30)
            else:
                size = rng.choice([1, 10, 20_000])
                sent = data(
                    pid,
                    epoch,
                    sequence,
                    rng.randrange(1, 5),
                    transactional=in_txn or rng.random() < 0.3,
                    timestamp=NOW + step,
                    value=b"v" * size,
                )
                log.append(sent, origin=Origin.CLIENT, leader_epoch=step // 30)
        except AppendRefused:
            continue


@pytest.mark.parametrize("seed", range(25))
def test_a_snapshot_brings_back_the_newest_batch_only(seed: int) -> None:
    """After a restart the log is the same to every reader, and each producer has one remembered batch."""
    log = open_log()
    happen(log, random.Random(seed), range(120))
    before = facts(log)
    restart(log)
    after = facts(log)
    entries, kept = before.pop("entries"), after.pop("entries")
    assert before == after
    assert isinstance(entries, dict)
    assert isinstance(kept, dict)
    assert kept.keys() == entries.keys()
    for pid, entry in entries.items():
        newest = kept[pid].batches
        assert [(batch.first_offset, batch.last_sequence) for batch in newest] == [
            (batch.first_offset, batch.last_sequence) for batch in entry.batches[-1:]
        ]


def as_told(log: PartitionLog, *, snapshot: bytes | None, at: int) -> PartitionLog:
    """The log that a replica has which wrote that snapshot when its log ended there, and read the rest since; made from the bytes alone."""
    told = PartitionLog(clock_ms=SetClock(), config=log.config)
    told.replicated_at_once = False
    restored = False
    for header, batch in iter_batches(bytes_of(log)):
        if snapshot is not None and header.base_offset >= at and not restored:
            told._producers._entries, restored = read_snapshot(snapshot), True
        told.append(batch, origin=Origin.REPLICATION, leader_epoch=header.leader_epoch)
    if snapshot is not None and not restored:
        told._producers._entries = read_snapshot(snapshot)
    told.advance_high_watermark(log.high_watermark)
    return told


@pytest.mark.parametrize("seed", range(60))
def test_a_log_that_changes_hands_is_what_its_bytes_tell(seed: int) -> None:
    """Without reading a byte the next leader knows what its own bytes and its own snapshot would have told it: after stops, kills and
    returns, and where a replica that lacked the end of the log has come to lead."""
    rng = random.Random(f"hands {seed}")
    log, now = open_log(), 0
    left: list[tuple[Checkpoint, bytes | None]] = []
    for _ in range(12):
        steps = rng.randrange(1, 40)
        happen(log, rng, range(now, now + steps))
        now += steps
        if rng.random() < 0.5:
            left.append((log.checkpoint(), rng.choice([None, log.snapshot()])))
        if left and rng.random() < 0.4:
            to, _ = rng.choice(left)
            log.truncate(to)
            left = [each if each[0].end_offset <= to.end_offset else (to, None) for each in left]
            assert facts(log)["bytes"] == bytes_of(log)
        to, snapshot = rng.choice([*left, (log.checkpoint(), None)])
        log.hand_over(snapshot, to.end_offset)
        assert facts(log) == facts(as_told(log, snapshot=snapshot, at=to.end_offset))


def test_producers_that_are_forgotten_do_not_come_back() -> None:
    """An expired producer stays unknown when another replica leads, also one that was up all the time."""
    clock = SetClock()
    log = open_log(LogConfig(producer_id_expiration_ms=1000), clock=clock)
    for sequence in range(3):
        produce(log, data(7, 0, sequence))
    left, snapshot = log.checkpoint(), log.snapshot()
    log.hand_over(snapshot, left.end_offset)
    clock.ms += 1000
    assert log.expire_producers() == [7]
    for _ in range(2):
        log.hand_over(None, 0)
        assert log.active_producers() == []
    log.hand_over(snapshot, left.end_offset)
    assert log.active_producers() == []


@pytest.mark.parametrize(("restarted", "known"), [(False, 5), (True, 1)], ids=["never down", "restarted"])
def test_how_many_duplicates_a_new_leader_knows(restarted: bool, known: int) -> None:
    """A broker that was never down knows five batches, and one that restarted knows one. The retry of an older batch is
    OUT_OF_ORDER_SEQUENCE_NUMBER, and the next batch is accepted."""
    log = open_log()
    for sequence in range(7):
        produce(log, data(7, 0, sequence))
    if restarted:
        restart(log)
    else:
        log.hand_over(None, 0)
    older = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * (7 - known)
    assert [produce(log, data(7, 0, sequence)) for sequence in range(8)] == [*older, *map(Again, range(7 - known, 7)), 7]


def test_a_snapshot_of_earlier_counts_up_to_its_offset() -> None:
    """A broker that was down and caught up knows the newest batch from before, and all that came after."""
    log = open_log()
    for sequence in range(4):
        produce(log, data(7, 0, sequence))
    earlier = log.snapshot()
    for sequence in range(4, 6):
        produce(log, data(7, 0, sequence))

    def known(snapshot: bytes | None, at: int) -> list[int]:
        log.hand_over(snapshot, at)
        return [sequence for sequence in range(6) if produce(log, data(7, 0, sequence)) == Again(sequence)]

    assert known(earlier, 4) == [3, 4, 5]
    assert known(log.snapshot(), 6) == [5]
    assert known(None, 0) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("restarted", [False, True], ids=["never down", "restarted"])
def test_an_open_transaction_stays_open(restarted: bool) -> None:
    """The last stable offset stays before it, its producer can continue it, and its marker ends it."""
    log = open_log()
    produce(log, plain())
    produce(log, data(7, 2, 0, transactional=True))
    if restarted:
        restart(log)
    else:
        log.hand_over(None, 0)
    assert log.last_stable_offset == 1
    assert produce(log, data(7, 2, 1)) == ErrorCode.INVALID_TXN_STATE
    assert produce(log, data(7, 2, 1, transactional=True)) == 2
    assert coordinate(log, marker(7, 2, commit=False)) == 3
    assert [(txn.first_offset, txn.last_offset) for txn in log.read(0, max_bytes=ALL, read_committed=True).aborted or ()] == [(1, 3)]


def test_expired_producers_are_not_loaded_from_a_snapshot() -> None:
    """A broker does not know a producer that expired while the broker was down. A producer with an open transaction never expires, and a
    broker that was never down removes producers only when it checks for them."""
    clock = SetClock()
    log = open_log(LogConfig(producer_id_expiration_ms=1000), clock=clock)
    produce(log, data(7, 0, 0))
    produce(log, data(8, 0, 0, transactional=True))
    clock.ms += 1000
    log.hand_over(None, 0)
    assert [active.producer_id for active in log.active_producers()] == [7, 8]
    restart(log)
    assert [active.producer_id for active in log.active_producers()] == [8]
