"""The producers of a log that was truncated, or whose broker was down: what its own batches and snapshots tell."""

from __future__ import annotations

import random

import pytest

from fencepost.broker_stub.log import AppendRefused, LogConfig, Origin, PartitionLog, kept_snapshots
from fencepost.producer.wire.codes import ErrorCode
from tests.broker_stub.log.log_tools import NOW, Again, SetClock, coordinate, data, marker, open_log, plain, produce

ALL = 1 << 30


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
def test_a_broker_that_was_down_knows_the_newest_batch_of_each_producer(seed: int) -> None:
    """To every reader the log is the same."""
    log = open_log()
    happen(log, random.Random(seed), range(120))
    before = facts(log)
    log.reload()
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


@pytest.mark.parametrize("seed", range(60))
def test_a_truncated_log_is_what_a_replica_would_be_that_never_had_more(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that copied the batches up to there has the same offsets, epochs, producers and transactions. The truncated log may know
    fewer batches of each producer, but always the newest."""
    rng = random.Random(f"truncated {seed}")
    monkeypatch.setattr(kept_snapshots, "INTERVAL_BYTES", rng.choice([500, 50_000]))
    monkeypatch.setattr(kept_snapshots, "SHARE", 1)
    log, now = open_log(LogConfig(segment_bytes=rng.choice([2000, 60_000, ALL]))), 0
    for _ in range(12):
        steps = rng.randrange(1, 40)
        happen(log, rng, range(now, now + steps))
        now += steps
        if rng.random() < 0.2:
            log.reload()
        if rng.random() < 0.6:
            starts = [header.base_offset for header, _ in log.batches()][-rng.choice([3, 30, 1000]) :]
            log.truncate(rng.choice([*starts, log.log_end_offset]))
            check(log)


def check(log: PartitionLog) -> None:
    """Against a replica that copies the log."""
    copy = PartitionLog(clock_ms=SetClock(), config=log.config)
    copy.replicated_at_once = False
    for header, batch in log.batches():
        copy.append(batch, origin=Origin.REPLICATION, leader_epoch=header.leader_epoch)
    copy.advance_high_watermark(log.high_watermark)
    mine, theirs = facts(log), facts(copy)
    entries, whole = mine.pop("entries"), theirs.pop("entries")
    # A snapshot has its entries in another order than a log that met them one by one, and a segment may be empty after a truncation.
    for each in (mine, theirs):
        each["producers"] = sorted(each["producers"], key=lambda active: active.producer_id)  # type: ignore[call-overload]
        del each["snapshot"], each["committed"], each["aborted"], each["bytes"]
    assert mine == theirs
    assert log.aborted_transactions == copy.aborted_transactions
    assert isinstance(entries, dict)
    assert isinstance(whole, dict)
    assert entries.keys() == whole.keys()
    for pid, entry in entries.items():
        known = [(batch.first_offset, batch.last_sequence) for batch in entry.batches]
        assert known == [(batch.first_offset, batch.last_sequence) for batch in whole[pid].batches][len(whole[pid].batches) - len(known) :]
        assert bool(known) == bool(whole[pid].batches)


def test_a_truncation_reads_little_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots between the segments' are kept near the end."""
    monkeypatch.setattr(kept_snapshots, "INTERVAL_BYTES", 1000)
    monkeypatch.setattr(kept_snapshots, "SHARE", 0)
    log = open_log()
    for sequence in range(1000):
        produce(log, data(7, 0, sequence))
    kept = [at for at, _ in log._snapshots.until(990)]
    assert 990 - 25 <= kept[0] <= 990
    assert len(kept) <= kept_snapshots.NEWEST + 1


@pytest.mark.parametrize(("restarted", "known"), [(False, 5), (True, 1)], ids=["never down", "restarted"])
def test_how_many_duplicates_a_new_leader_knows(restarted: bool, known: int) -> None:
    """A broker that was never down knows five batches, and one that restarted knows one. The retry of an older batch is
    OUT_OF_ORDER_SEQUENCE_NUMBER, and the next batch is accepted."""
    log = open_log()
    for sequence in range(7):
        produce(log, data(7, 0, sequence))
    if restarted:
        log.reload()
    log.lead(1)
    older = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * (7 - known)
    assert [produce(log, data(7, 0, sequence)) for sequence in range(8)] == [*older, *map(Again, range(7 - known, 7)), 7]


def test_a_broker_that_was_down_knows_all_that_came_after() -> None:
    """The newest batch from before, and the later ones."""
    log = open_log()
    for sequence in range(4):
        produce(log, data(7, 0, sequence))
    log.reload()
    for sequence in range(4, 6):
        produce(log, data(7, 0, sequence))
    assert [sequence for sequence in range(6) if produce(log, data(7, 0, sequence)) == Again(sequence)] == [3, 4, 5]


@pytest.mark.parametrize("restarted", [False, True], ids=["never down", "restarted"])
def test_an_open_transaction_stays_open(restarted: bool) -> None:
    """The last stable offset stays before it, its producer can continue it, and its marker ends it."""
    log = open_log()
    produce(log, plain())
    produce(log, data(7, 2, 0, transactional=True))
    if restarted:
        log.reload()
    log.lead(1)
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
    log.lead(1)
    assert [active.producer_id for active in log.active_producers()] == [7, 8]
    log.reload()
    assert [active.producer_id for active in log.active_producers()] == [8]


def test_a_log_begins_again_where_the_leaders_log_begins() -> None:
    """A follower that lacks everything that the leader has: nothing of before is left."""
    log = open_log()
    produce(log, data(7, 0, 0, transactional=True))
    log.restart_at(50)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.last_stable_offset) == (50, 50, 50, 50)
    assert (log.active_producers(), log.epochs, log.size) == ([], [], 0)
    assert produce(log, plain()) == 50
    assert [header.base_offset for header, _ in log.batches()] == [50]
