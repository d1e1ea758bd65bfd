"""Reads: where they start and stop, what committed readers see, and which offset a time stands for."""

from __future__ import annotations

from itertools import islice

import pytest

from fencepost.broker_stub.log import (
    AbortedTxn,
    AppendRefused,
    LogConfig,
    OffsetAt,
    OffsetOutOfRange,
    Origin,
    PartitionLog,
    TimestampType,
)
from fencepost.broker_stub.log.last_stable_offset import UnstableTransactions
from fencepost.broker_stub.log.producer_append_info import CompletedTxn
from fencepost.broker_stub.log.txn_index import TransactionIndex
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.messages.list_offsets import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP
from fencepost.producer.wire.records import Codec, encode_batch, iter_batches
from fencepost.producer.wire.records.batch_header import pack_batch
from tests.broker_stub.log.log_tools import NOW, SetClock, coordinate, data, marker, open_log, plain, produce

ALL = 1 << 30


def offsets(log: PartitionLog, offset: int, *, max_bytes: int = ALL, read_committed: bool = False, min_one_batch: bool = True) -> list[int]:
    """The base offsets of the whole batches that a read returns."""
    result = log.read(offset, max_bytes=max_bytes, read_committed=read_committed, min_one_batch=min_one_batch)
    return [header.base_offset for header, _ in iter_batches(result.records)]


def three_batches() -> tuple[PartitionLog, int]:
    """Offsets 0–2, 3–5 and 6–8, all of the same size."""
    log = open_log()
    for sequence in (0, 3, 6):
        produce(log, data(7, 0, sequence, 3))
    return log, len(data(7, 0, 0, 3))


def test_a_read_starts_with_the_batch_that_holds_the_offset() -> None:
    """Batches are not split: an offset inside one brings it whole."""
    log, _ = three_batches()
    assert [offsets(log, offset) for offset in (0, 2, 3, 5, 8)] == [[0, 3, 6], [0, 3, 6], [3, 6], [3, 6], [6]]


def test_a_read_at_the_end_is_empty_and_outside_is_refused() -> None:
    """The log end is a place to wait at; below the start and above the end is OFFSET_OUT_OF_RANGE."""
    log, _ = three_batches()
    result = log.read(9, max_bytes=ALL)
    assert (bytes(result.records), result.high_watermark, result.last_stable_offset, result.log_start_offset) == (b"", 9, 9, 0)
    assert bytes(open_log().read(0, max_bytes=ALL).records) == b""
    log.advance_log_start(4)
    for offset in (-1, 3, 10):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, max_bytes=ALL)
    assert offsets(log, 4) == [3, 6]


def test_max_bytes_cuts_the_last_batch_but_never_the_first() -> None:
    """As many bytes as asked for, even if the last batch is cut; a first batch that is larger comes whole, or not at all if that is
    asked.
    """
    log, size = three_batches()
    for limit, expected in ((1, size), (size, size), (size + 1, size + 1), (3 * size - 1, 3 * size - 1), (9 * size, 3 * size)):
        assert len(log.read(1, max_bytes=limit).records) == expected
    assert offsets(log, 0, max_bytes=2 * size + 5) == [0, 3]
    assert len(log.read(0, max_bytes=size - 1, min_one_batch=False).records) == 0
    assert len(log.read(0, max_bytes=size, min_one_batch=False).records) == size
    assert len(log.read(0, max_bytes=0).records) == size
    assert len(log.read(0, max_bytes=0, min_one_batch=False).records) == 0


def test_consumers_read_only_below_the_high_watermark() -> None:
    """Appended is not committed: consumers see batches below the high watermark only, which never falls and never passes the end."""
    log = open_log()
    log.replicated_at_once = False
    for sequence in (0, 3, 6):
        produce(log, data(7, 0, sequence, 3))
    assert (log.high_watermark, log.log_end_offset, offsets(log, 0)) == (0, 9, [])
    log.advance_high_watermark(6)
    assert (offsets(log, 0), offsets(log, 7)) == ([0, 3], [])
    log.advance_high_watermark(3)
    assert log.high_watermark == 6
    log.advance_high_watermark(99)
    assert (log.high_watermark, offsets(log, 5)) == (9, [3, 6])
    with pytest.raises(OffsetOutOfRange):
        open_log().advance_log_start(1)


def test_committed_readers_stop_at_the_first_open_transaction() -> None:
    """The LSO is the lowest open transaction's first offset; an open one of another producer holds it back after a commit."""
    log = open_log()
    produce(log, plain())
    produce(log, data(7, 0, 0, transactional=True))
    produce(log, data(8, 0, 0, transactional=True))
    produce(log, plain())
    assert (log.last_stable_offset, offsets(log, 0, read_committed=True), offsets(log, 0)) == (1, [0], [0, 1, 2, 3])
    coordinate(log, marker(7, 0))
    assert (log.last_stable_offset, offsets(log, 0, read_committed=True)) == (2, [0, 1])
    coordinate(log, marker(8, 0, commit=False))
    assert (log.last_stable_offset, offsets(log, 0, read_committed=True)) == (6, [0, 1, 2, 3, 4, 5])


def test_the_lso_of_a_transaction_whose_head_was_deleted() -> None:
    """It is where the first batch begins that is left of it, as in Kafka."""
    log = open_log()
    log.restart_at(500)
    for sequence in (0, 3):
        produce(log, data(7, 0, sequence, 3, transactional=True))
    produce(log, plain())
    found = []
    for start in (500, 501, 502, 503, 504, 506):
        log.advance_log_start(start)
        found.append(log.last_stable_offset)
    assert found == [500, 500, 500, 503, 503, 506]


def test_a_log_does_not_begin_again_where_it_was_deleted() -> None:
    """DeleteRecords with an earlier offset than before restores nothing. It may delete up to the high watermark."""
    log, _ = three_batches()
    log.advance_log_start(4)
    for offset in (3, 0, 4):
        log.advance_log_start(offset)
        assert (log.log_start_offset, log.epochs) == (4, [(0, 4)])
    log.advance_log_start(9)
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(10)
    assert log.log_start_offset == 9


@pytest.mark.parametrize("read_committed", [False, True])
def test_offsets_beyond_the_readable_batches(read_committed: bool) -> None:
    """`beyond` is set only for an offset in a batch behind the one at which the read has to stop."""
    log = open_log()
    log.replicated_at_once = False
    produce(log, plain(NOW, NOW, NOW))
    produce(log, data(7, 0, 0, 3, transactional=True))
    produce(log, plain(NOW, NOW, NOW))
    log.advance_high_watermark(9 if read_committed else 3)
    found = [log.read(offset, max_bytes=ALL, read_committed=read_committed).beyond for offset in range(10)]
    assert found == [False] * 6 + [True] * 4


def test_a_marker_must_be_committed_to_move_the_lso() -> None:
    """The high watermark has to pass the marker: written is not enough."""
    log = open_log()
    log.replicated_at_once = False
    produce(log, data(7, 0, 0, transactional=True))
    coordinate(log, marker(7, 0))
    produce(log, plain())
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


def test_committed_readers_are_told_which_transactions_to_skip() -> None:
    """Aborted transactions that overlap what is read, by producer and first offset; None unless asked for, empty where there are none."""
    log = open_log()
    produce(log, data(7, 0, 0, 2, transactional=True))  # 0, 1
    produce(log, data(8, 0, 0, transactional=True))  # 2
    coordinate(log, marker(7, 0, commit=False))  # 3
    produce(log, data(7, 0, 2, transactional=True))  # 4
    coordinate(log, marker(8, 0))  # 5
    coordinate(log, marker(7, 0, commit=False))  # 6
    produce(log, plain())  # 7

    def aborted(offset: int, max_bytes: int = ALL) -> list[tuple[int, int]]:
        found = log.read(offset, max_bytes=max_bytes, read_committed=True).aborted
        return [(txn.producer_id, txn.first_offset) for txn in found or ()]

    assert [aborted(offset) for offset in (0, 3, 4, 6, 7, 8)] == [[(7, 0), (7, 4)], [(7, 0), (7, 4)], [(7, 4)], [(7, 4)], [], []]
    assert aborted(0, max_bytes=1) == [(7, 0), (7, 4)]  # the sparse index tells no nearer end than the log's
    assert log.read(0, max_bytes=ALL).aborted is None
    assert log.read(8, max_bytes=ALL, read_committed=True).aborted == []


@pytest.mark.parametrize(("batches", "skipped"), [(1, []), (2, [1]), (3, [1, 2]), (4, [1, 2]), (5, [1, 2]), (6, [1, 2, 5])])
def test_the_transactions_to_skip_begin_before_the_end_of_the_read(batches: int, skipped: list[int]) -> None:
    """As in Kafka, a read names the aborted transactions that begin in or before its last batch, and no later ones."""
    log = open_log(LogConfig(index_interval_bytes=0))  # an index entry for every batch; with fewer more transactions are named
    produce(log, plain())
    for pid in (7, 8):
        produce(log, data(pid, 0, 0, transactional=True))
    for pid in (7, 8):
        coordinate(log, marker(pid, 0, commit=False))
    produce(log, data(9, 0, 0, transactional=True))
    coordinate(log, marker(9, 0, commit=False))
    size = sum(header.size for header, _ in islice(log.batches(), batches))
    found = log.read(0, max_bytes=size, read_committed=True).aborted
    assert [txn.first_offset for txn in found or ()] == skipped


def test_the_transaction_index_is_kafkas() -> None:
    """An entry's LSO is the oldest open transaction of another producer, else the offset after the marker; commits leave none."""
    index = TransactionIndex()
    transactions = UnstableTransactions(index)
    transactions.begin(7)
    transactions.complete(CompletedTxn(4000, 7, 9, aborted=True))
    assert list(index.aborted) == [AbortedTxn(4000, 7, 9, 10)]
    transactions.begin(10)
    transactions.begin(11)
    transactions.begin(12)
    transactions.complete(CompletedTxn(2, 11, 13, aborted=True))
    transactions.complete(CompletedTxn(1, 10, 14, aborted=False))
    transactions.complete(CompletedTxn(3, 12, 15, aborted=True))
    assert list(index.aborted[1:]) == [AbortedTxn(2, 11, 13, 10), AbortedTxn(3, 12, 15, 16)]
    assert (transactions.first_undecided_offset, transactions.first_unstable_offset) == (None, 7)
    transactions.committed(14)
    assert transactions.first_unstable_offset == 10
    transactions.committed(16)
    assert transactions.first_unstable_offset is None


def test_the_search_for_aborted_transactions_stops_at_a_stable_end() -> None:
    """An entry whose LSO is at or past the end of the read ends the search; one that lies beyond the read is left out."""
    index = TransactionIndex()
    transactions = UnstableTransactions(index)
    for producer_id, first, last in ((1, 0, 2), (1, 3, 5), (1, 6, 8)):
        transactions.begin(first)
        transactions.complete(CompletedTxn(producer_id, first, last, aborted=True))
    firsts = [[txn.first_offset for txn in index.aborted_between(offset, end)] for offset, end in ((0, 3), (0, 4), (2, 9), (3, 7), (9, 12))]
    assert firsts == [[0], [0, 3], [0, 3, 6], [3, 6], []]


def test_what_the_special_timestamps_stand_for() -> None:
    """-1 is the high watermark or the LSO, -2 and -4 the start, -3 the first record with the largest timestamp."""
    log = open_log()
    assert [log.offset_for_timestamp(special) for special in (LATEST, EARLIEST, MAX_TIMESTAMP)] == [OffsetAt(0), OffsetAt(0), OffsetAt()]
    produce(log, plain(NOW, NOW + 9, NOW + 9), leader_epoch=2)
    produce(log, data(7, 0, 0, transactional=True, timestamp=NOW + 3), leader_epoch=4)
    assert log.offset_for_timestamp(LATEST) == OffsetAt(4, -1, 4)
    assert log.offset_for_timestamp(LATEST, read_committed=True) == OffsetAt(3, -1, 4)
    assert log.offset_for_timestamp(MAX_TIMESTAMP) == OffsetAt(1, NOW + 9, 2)
    log.advance_log_start(3)
    assert [log.offset_for_timestamp(special) for special in (EARLIEST, EARLIEST_LOCAL)] == [OffsetAt(3, -1, 4)] * 2
    assert log.offset_for_timestamp(-5) == OffsetAt()


def test_a_timestamp_finds_the_first_record_at_or_past_it() -> None:
    """Times need not rise: it is the first in the log that counts, inside a batch too, and only what a consumer may read."""
    log = open_log()
    produce(log, plain(NOW + 10, NOW + 30), leader_epoch=1)
    produce(log, encode_batch([(NOW + 5, b"k", b"v"), (NOW + 20, b"k", b"v"), (NOW + 40, b"k", b"v")], codec=Codec.LZ4), leader_epoch=2)
    produce(log, data(7, 0, 0, transactional=True, timestamp=NOW + 50), leader_epoch=2)
    found = {delta: log.offset_for_timestamp(NOW + delta) for delta in (-99, 10, 11, 30, 31, 40, 41, 50, 51)}
    assert {delta: at.offset for delta, at in found.items()} == {-99: 0, 10: 0, 11: 1, 30: 1, 31: 4, 40: 4, 41: 5, 50: 5, 51: -1}
    assert found[31] == OffsetAt(4, NOW + 40, 2)
    assert log.offset_for_timestamp(NOW + 41, read_committed=True) == OffsetAt()
    log.advance_log_start(2)
    assert [log.offset_for_timestamp(NOW + delta).offset for delta in (1, 6)] == [2, 3]
    log.advance_log_start(5)
    assert log.offset_for_timestamp(NOW + 10).offset == 5


def test_a_timestamp_is_searched_in_one_segment() -> None:
    """As in Kafka: in the first one with a late enough record, though that is below the log start and a later segment has another one."""
    log = open_log(LogConfig(segment_bytes=2 * len(plain())))
    for delta in (10, 5, 20):
        produce(log, plain(NOW + delta))
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.advance_log_start(1)
    assert [log.offset_for_timestamp(NOW + delta).offset for delta in (5, 6, 11)] == [1, -1, 2]


def test_the_largest_timestamp_may_be_below_the_log_start() -> None:
    """As in Kafka, until retention deletes the segment."""
    log = open_log(LogConfig(segment_bytes=2 * len(plain())))
    for delta in (10, 5, 7):
        produce(log, plain(NOW + delta))
    log.advance_log_start(2)
    assert log.offset_for_timestamp(MAX_TIMESTAMP) == OffsetAt(0, NOW + 10, 0)
    log.delete_old_segments()
    assert log.offset_for_timestamp(MAX_TIMESTAMP) == OffsetAt(2, NOW + 7, 0)


def test_a_segment_without_timestamps_counts_from_its_last_append() -> None:
    """As in Kafka: a lookup for an earlier time ends there, and finds nothing."""
    clock = SetClock()
    log = open_log(LogConfig(segment_bytes=len(plain())), clock=clock)
    for timestamp in (-1, NOW + 20):
        produce(log, plain(timestamp))
    assert [log.offset_for_timestamp(NOW + delta).offset for delta in (-5, 0, 1)] == [-1, -1, 1]
    assert log.offset_for_timestamp(MAX_TIMESTAMP).offset == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_timestamp_finds_nothing_that_was_deleted(codec: Codec) -> None:
    """DeleteRecords has deleted the head of a batch. For every earlier timestamp, the first record of its rest is the earliest one."""
    log = open_log()
    stamps = [NOW, NOW + 10, NOW + 20]
    produce(log, encode_batch([(stamp, None, b"v") for stamp in stamps], codec=codec))
    produce(log, plain(NOW + 5))
    for start, expected in ((1, (1, NOW + 10)), (2, (2, NOW + 20)), (3, (3, NOW + 5))):
        log.advance_log_start(start)
        for wanted in (0, NOW, NOW + 1):
            found = log.offset_for_timestamp(wanted)
            assert (found.offset, found.timestamp) == expected, (start, wanted)


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_replica_takes_no_damaged_batch(damaged: int) -> None:
    """Bytes that changed on their way fail their checksum, and nothing of what came with them is written; the same bytes in order are
    taken."""
    batches = [bytearray(data(7, 0, 0)), bytearray(data(7, 0, 1))]
    batches[1][:8] = (1).to_bytes(8, "big")
    good = b"".join(batches)
    batches[damaged][-1] ^= 1
    replica = open_log()
    with pytest.raises(AppendRefused) as refused:
        replica.append(b"".join(batches), origin=Origin.REPLICATION, leader_epoch=0)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert (replica.log_end_offset, replica.active_producers()) == (0, [])
    assert replica.append(good, origin=Origin.REPLICATION, leader_epoch=0).last_offset == 1


def test_a_replica_learns_of_a_producer_behind_anything() -> None:
    """Batches without a producer, control batches that end no transaction, and those that compaction emptied tell nothing, and hide
    nothing that comes with them."""
    leader_change = encode_batch([(NOW, b"\x00\x00\x00\x02", b"")], producer_id=9, producer_epoch=0, control=True)
    emptied = pack_batch(
        b"",
        attributes=0x30,
        last_offset_delta=0,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=8,
        producer_epoch=0,
        base_sequence=-1,
        records_count=0,
    )
    batches = (plain(), leader_change, emptied, data(7, 0, 0, transactional=True))
    replica = open_log()
    fetched = b"".join(offset.to_bytes(8, "big") + each[8:] for offset, each in enumerate(batches))
    replica.append(fetched, origin=Origin.REPLICATION, leader_epoch=0)
    assert [(known.producer_id, known.current_txn_start_offset) for known in replica.active_producers()] == [(7, 3)]
    assert (replica.log_end_offset, replica.last_stable_offset) == (4, 3)


@pytest.mark.parametrize("back", [1, 2, 3])
def test_a_replica_takes_no_batch_that_falls_back(back: int) -> None:
    """An offset that it has already, or that came with the same bytes, would be there twice: nothing is written."""
    replica = open_log()
    first, second = data(7, 0, 0, 3), (3 - back).to_bytes(8, "big") + data(7, 0, 3)[8:]
    with pytest.raises(ValueError, match=f"replicated offset {3 - back}"):
        replica.append(first + second, origin=Origin.REPLICATION, leader_epoch=0)
    assert (replica.log_end_offset, replica.active_producers()) == (0, [])
    replica.append(first, origin=Origin.REPLICATION, leader_epoch=0)
    with pytest.raises(ValueError, match=f"replicated offset {3 - back}"):
        replica.append(second, origin=Origin.REPLICATION, leader_epoch=0)
    assert replica.log_end_offset == 3


def test_append_times_can_be_searched_too() -> None:
    """In a LogAppendTime log all records of a batch have the time of its append."""
    clock = SetClock()
    log = open_log(LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME), clock=clock)
    for _ in range(3):
        produce(log, plain(1, 2))
        clock.ms += 10
    assert [log.offset_for_timestamp(NOW + delta).offset for delta in (0, 1, 10, 11, 21)] == [0, 2, 2, 4, -1]


def test_a_log_may_start_anywhere() -> None:
    """Its first record has the offset at which the log restarts."""
    log = open_log()
    log.restart_at(500)
    assert produce(log, plain()) == 500
    assert offsets(log, 500) == [500]


def test_many_batches_are_found_and_read_piece_by_piece() -> None:
    """From any offset, with any limit, following the batches through reaches every record once."""
    log = open_log()
    for number in range(400):
        produce(log, data(7, 0, number * 2, 2, value=b"v" * (number % 50) * 40))
    for limit in (1, 1000, 70_000):
        at, seen = 0, []
        while at < log.log_end_offset:
            for header, _ in iter_batches(log.read(at, max_bytes=limit).records):
                seen.append(header.base_offset)
                at = header.last_offset + 1
        assert seen == list(range(0, 800, 2))


def test_epochs_are_noted_as_batches_and_leaders_come() -> None:
    """An epoch starts where its leader took over or first wrote, and ends where the next begins."""
    log = open_log()
    assert log.leader_epoch == -1
    produce(log, plain(NOW, NOW), leader_epoch=0)
    log.lead(2)
    assert log.leader_epoch == 2
    produce(log, plain(), leader_epoch=2)
    produce(log, plain(), leader_epoch=5)
    assert log.epochs == [(0, 0), (2, 2), (5, 3)]
    assert [log.end_offset_for(epoch) for epoch in (0, 1, 2, 5, 6)] == [(0, 2), (0, 2), (2, 3), (5, 4), (-1, -1)]


def test_a_replica_takes_batches_as_they_are() -> None:
    """Replication: offsets and epochs stay, sequences are not judged, batches of a newer leader than asked are left for later."""
    leader, replica = open_log(), open_log()
    produce(leader, data(7, 0, 0, 2, transactional=True), leader_epoch=1)
    coordinate(leader, marker(7, 0, commit=False))
    produce(leader, data(9, 0, 5), leader_epoch=3)
    fetched = bytes(leader.read(0, max_bytes=ALL).records)
    result = replica.append(fetched, origin=Origin.REPLICATION, leader_epoch=2)
    assert (result.base_offset, result.last_offset, replica.log_end_offset) == (0, 2, 3)
    rest = leader.read(3, max_bytes=ALL).records
    assert replica.append(rest, origin=Origin.REPLICATION, leader_epoch=3).base_offset == 3
    assert bytes(replica.read(0, max_bytes=ALL).records) == fetched
    assert replica.active_producers() == leader.active_producers()
    assert replica.read(0, max_bytes=ALL, read_committed=True).aborted == leader.read(0, max_bytes=ALL, read_committed=True).aborted
    with pytest.raises(ValueError):
        replica.append(rest, origin=Origin.REPLICATION, leader_epoch=3)
    assert replica.append(b"", origin=Origin.REPLICATION, leader_epoch=3).last_offset == 3
