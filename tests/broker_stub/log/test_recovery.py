"""Recovery: a log made again from its bytes is the log that was, but for what a restart really forgets."""

from __future__ import annotations

import random

import pytest

from fencepost.broker_stub.log import AppendRefused, Checkpoint, LogConfig, MemoryStorage, Origin, PartitionLog
from fencepost.broker_stub.log.producer_snapshot import read_snapshot
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import encode_batch, iter_batches, read_records
from tests.broker_stub.log.log_tools import NOW, Again, SetClock, coordinate, data, marker, open_log, plain, produce

ALL = 1 << 30


def bytes_of(log: PartitionLog) -> bytes:
    """Everything in the log's storage, committed or not."""
    return bytes(log._storage.read(0, ALL))


def recovered(
    log: PartitionLog, *, snapshot: bytes | None = None, data: bytes | None = None, clock: SetClock | None = None
) -> PartitionLog:
    return PartitionLog.recover(
        MemoryStorage(bytes_of(log) if data is None else data),
        clock_ms=clock or SetClock(),
        config=log.config,
        snapshot=snapshot,
        log_start_offset=log.log_start_offset,
    )


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


def busy_log(seed: int) -> PartitionLog:
    """A log in which producers, transactions, markers, epochs and plain batches happened, some of them refused."""
    log = open_log()
    happen(log, random.Random(seed), range(120))
    return log


def happen(log: PartitionLog, rng: random.Random, steps: range) -> None:
    """So many things happen to the log."""
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
def test_a_scan_finds_everything_again(seed: int) -> None:
    """A leader move or an unclean restart: five batches a producer, open and aborted transactions, epochs, times: all as they were."""
    log = busy_log(seed)
    assert facts(recovered(log)) == facts(log)


@pytest.mark.parametrize("seed", range(25))
def test_a_snapshot_brings_back_the_newest_batch_only(seed: int) -> None:
    """A clean restart: the same log to every reader, and each producer with one remembered batch."""
    log = busy_log(seed)
    restarted = recovered(log, snapshot=log.snapshot())
    before, after = facts(log), facts(restarted)
    entries = before.pop("entries")
    assert isinstance(entries, dict)
    kept = after.pop("entries")
    assert before == after
    assert isinstance(kept, dict)
    assert kept.keys() == entries.keys()
    for pid, entry in entries.items():
        newest = kept[pid].batches
        assert [(batch.first_offset, batch.last_sequence) for batch in newest] == [
            (batch.first_offset, batch.last_sequence) for batch in entry.batches[-1:]
        ]


def as_told(log: PartitionLog, *, snapshot: bytes | None, at: int) -> PartitionLog:
    """The log that a replica has which wrote that snapshot when its log ended there, and read the rest since; made from the bytes alone."""
    told = PartitionLog(MemoryStorage(), clock_ms=SetClock(), config=log.config)
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


def test_how_many_duplicates_are_known_after_a_restart() -> None:
    """Five after a scan, one after a clean restart: the retry of an older one is OUT_OF_ORDER_SEQUENCE_NUMBER there, and the next batch
    is taken.
    """
    log = open_log()
    for sequence in range(7):
        produce(log, data(7, 0, sequence))
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    scanned, restarted = recovered(log), recovered(log, snapshot=log.snapshot())
    assert [produce(scanned, data(7, 0, sequence)) for sequence in range(8)] == [out_of_order] * 2 + [Again(n) for n in range(2, 7)] + [7]
    assert [produce(restarted, data(7, 0, sequence)) for sequence in range(8)] == [out_of_order] * 6 + [Again(6), 7]


def test_a_snapshot_of_earlier_counts_up_to_its_offset() -> None:
    """A broker that was down and caught up knows the newest batch from before, and all that came after. A snapshot that is newer than the
    log is not used."""
    log = open_log()
    for sequence in range(4):
        produce(log, data(7, 0, sequence))
    earlier = log.snapshot()
    for sequence in range(4, 6):
        produce(log, data(7, 0, sequence))

    def known(snapshot: bytes, at: int) -> list[int]:
        again = PartitionLog.recover(MemoryStorage(bytes_of(log)), clock_ms=SetClock(), snapshot=snapshot, snapshot_offset=at)
        return [sequence for sequence in range(6) if produce(again, data(7, 0, sequence)) == Again(sequence)]

    assert known(earlier, 4) == [3, 4, 5]
    assert known(log.snapshot(), 6) == [5]
    assert known(earlier, 7) == [1, 2, 3, 4, 5]
    assert facts(recovered(log)) == facts(log)


def test_what_was_not_replicated_is_not_assumed_to_be() -> None:
    """With a high watermark the recovered log shows no more than that, and moves it only when told."""
    log = open_log()
    produce(log, plain())
    produce(log, data(7, 0, 0, transactional=True))
    coordinate(log, marker(7, 0))
    again = PartitionLog.recover(MemoryStorage(bytes_of(log)), clock_ms=SetClock(), high_watermark=2)
    assert (again.high_watermark, again.last_stable_offset, again.log_end_offset) == (2, 1, 3)
    produce(again, plain())
    assert again.high_watermark == 2
    again.advance_high_watermark(4)
    assert (again.high_watermark, again.last_stable_offset) == (4, 4)


def test_an_open_transaction_survives_either_restart() -> None:
    """The LSO still waits for it, its producer can go on with it, and its marker still ends it."""
    log = open_log()
    produce(log, plain())
    produce(log, data(7, 2, 0, transactional=True))
    for again in (recovered(log), recovered(log, snapshot=log.snapshot())):
        assert again.last_stable_offset == 1
        assert produce(again, data(7, 2, 1)) == ErrorCode.INVALID_TXN_STATE
        assert produce(again, data(7, 2, 1, transactional=True)) == 2
        assert coordinate(again, marker(7, 2, commit=False)) == 3
        assert [(txn.first_offset, txn.last_offset) for txn in again.read(0, max_bytes=ALL, read_committed=True).aborted or ()] == [(1, 3)]


def test_expired_producers_are_not_loaded_from_a_snapshot() -> None:
    """A producer whose time expired while the broker was down is unknown. A producer with an open transaction never expires."""
    log = open_log(LogConfig(producer_id_expiration_ms=1000))
    produce(log, data(7, 0, 0))
    produce(log, data(8, 0, 0, transactional=True))
    restarted = recovered(log, snapshot=log.snapshot(), clock=SetClock(NOW + 1000))
    assert [active.producer_id for active in restarted.active_producers()] == [8]
    assert len(recovered(log, clock=SetClock(NOW + 1000)).active_producers()) == 2


@pytest.mark.parametrize("good", [0, 1, 5])
@pytest.mark.parametrize("damage", ["cut", "flip", "garbage", "zeros", "no-marker", "no-leader"])
def test_damage_ends_the_log(damage: str, good: int) -> None:
    """The log is cut at the first batch that is none, or that no leader has written, its snapshot is not used, and appends go on from
    there."""
    log = open_log()
    for sequence in range(good):
        produce(log, data(7, 0, sequence))
    held = bytearray(bytes_of(log))
    size = len(held)
    if damage == "no-leader":  # a plain batch in an open transaction
        produce(log, data(8, 0, 0, transactional=True))
        held, size, good = bytearray(bytes_of(log)), len(bytes_of(log)), good + 1
        held += placed(data(8, 0, 1), good)
    elif damage == "no-marker":
        held += placed(encode_batch([(NOW, b"k", b"v")], producer_id=8, producer_epoch=0, transactional=True, control=True), good)
    elif damage == "flip":
        held += placed(data(7, 0, good), good)
        held[size + 66] ^= 1
    elif damage == "cut":
        held += placed(data(7, 0, good), good)[:-1]
    else:
        held += b"\x00" * 40 if damage == "zeros" else b"garbage" * 30
    if damage != "cut":
        held += placed(plain(), good + 1)  # a good one behind it
    again = recovered(log, snapshot=log.snapshot(), data=bytes(held))
    assert (again.log_end_offset, again.high_watermark, len(bytes_of(again))) == (good, good, size)
    known = good - (damage == "no-leader")
    assert [produce(again, data(7, 0, sequence)) for sequence in range(known)] == [Again(sequence) for sequence in range(known)]
    assert produce(again, data(7, 0, known, 2)) == good
    assert [record.offset for record in read_records(again.read(good, max_bytes=ALL).records)] == [good, good + 1]


def placed(batch: bytes, offset: int) -> bytes:
    """The batch as it is stored at that offset."""
    return offset.to_bytes(8, "big") + batch[8:]


def test_offsets_that_fall_back_end_the_log() -> None:
    """Batches must follow one another; a second copy of the log behind the first is damage."""
    log = open_log()
    produce(log, plain())
    produce(log, plain())
    assert recovered(log, data=bytes_of(log) * 2).log_end_offset == 2


@pytest.mark.parametrize("snapshot", [b"", b"\x00\x02" + bytes(8), b"\x00\x01" + bytes(8)])
def test_a_damaged_snapshot_is_done_without(snapshot: bytes) -> None:
    """The log's bytes are enough: a snapshot that is none leaves what the scan found."""
    log = open_log()
    for sequence in range(3):
        produce(log, data(7, 0, sequence))
    assert facts(recovered(log, snapshot=snapshot)) == facts(log)


def test_a_moved_start_is_kept() -> None:
    """Records before the log's start stay unreadable after a recovery, and epochs start no earlier than the log."""
    log = open_log()
    for epoch in (0, 1, 2):
        produce(log, plain(NOW, NOW), leader_epoch=epoch)
    log.advance_log_start(3)
    assert log.epochs == [(1, 3), (2, 4)]
    assert facts(recovered(log)) == facts(log)


def test_an_empty_log_recovers_empty() -> None:
    """Without bytes there is no log, with a snapshot without producers or without a snapshot."""
    log = open_log()
    assert facts(recovered(log)) == facts(log)
    assert facts(recovered(log, snapshot=log.snapshot())) == facts(log)


def test_checksums_may_be_left_to_whoever_checked_them() -> None:
    """A replica that takes over does not read all bytes again: without checks damage inside a batch is not seen, a broken header still
    is.
    """
    log = open_log()
    produce(log, data(7, 0, 0))
    held = bytearray(bytes_of(log))
    held[66] ^= 1
    assert PartitionLog.recover(MemoryStorage(bytes(held)), clock_ms=SetClock()).log_end_offset == 0
    assert PartitionLog.recover(MemoryStorage(bytes(held)), clock_ms=SetClock(), check_crcs=False).log_end_offset == 1
    assert PartitionLog.recover(MemoryStorage(bytes(held[:-1])), clock_ms=SetClock(), check_crcs=False).log_end_offset == 0
