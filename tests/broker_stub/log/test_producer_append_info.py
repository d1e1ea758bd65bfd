"""The rows of the admission tables, one by one, and the worked stories of a producer's life on one partition."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.log import LogConfig
from fencepost.broker_stub.log.producer_append_info import (
    UNSEEN,
    Accepted,
    BatchRefused,
    Candidate,
    Duplicate,
    Marker,
    Origin,
    ProducerEntry,
    RememberedBatch,
    Verified,
    admit,
)
from fencepost.producer.wire.codes import ErrorCode
from tests.broker_stub.log.log_tools import NOW, Again, Answer, SetClock, coordinate, data, marker, open_log, produce

CLIENT, COORDINATOR, REPLICATION = Origin
STALE = ErrorCode.INVALID_PRODUCER_EPOCH
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
BAD_TXN = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED

TOP = 2**31 - 1
# Epoch 3, sequences 10 to 14 at offsets 20 to 24.
KNOWN = ProducerEntry(epoch=3, coordinator_epoch=6, last_timestamp=NOW, batches=(RememberedBatch(14, 24, 4, NOW),))
IN_TXN = ProducerEntry(epoch=3, coordinator_epoch=6, last_timestamp=NOW, txn_first_offset=20, batches=KNOWN.batches)
AFTER_BUMP = ProducerEntry(epoch=3, coordinator_epoch=6, last_timestamp=NOW)
AT_TOP = ProducerEntry(epoch=3, batches=(RememberedBatch(TOP, 24, 4, NOW),))
EPOCH_TOP = ProducerEntry(epoch=32767, coordinator_epoch=6, txn_first_offset=20)


def batch(epoch: int, sequence: int, count: int = 1, *, txn: bool = False, verified: bool | None = None) -> Candidate:
    """`verified`: the transaction coordinator's answer, None without a question to it."""
    return Candidate(
        producer_id=7,
        epoch=epoch,
        base_sequence=sequence,
        base_offset=100,
        offset_delta=count - 1,
        timestamp=NOW + 1,
        transactional=txn,
        verified=None if verified is None else Verified(verified),
    )


def end(epoch: int, *, coordinator_epoch: int = 6, tv: int = 0, commit: bool = True) -> Candidate:
    return Candidate(
        producer_id=7,
        epoch=epoch,
        base_sequence=-1,
        base_offset=100,
        offset_delta=0,
        timestamp=NOW + 1,
        transactional=True,
        marker=Marker(commit, coordinator_epoch, tv),
    )


@pytest.mark.parametrize(
    ("row", "entry", "candidate", "origin", "code"),
    [
        ("D1", KNOWN, batch(3, 10, 5), CLIENT, None),
        ("D1", IN_TXN, batch(3, 10, 5, txn=True), CLIENT, None),
        ("D1", IN_TXN, batch(3, 10, 5), CLIENT, None),  # before D11: what is in the log is in the log
        ("D2", KNOWN, batch(2, 0, txn=True), CLIENT, STALE),
        ("D2", KNOWN, batch(2, -1, txn=True), COORDINATOR, STALE),
        ("D2", IN_TXN, batch(2, 15, txn=True, verified=False), CLIENT, STALE),
        ("D3", KNOWN, batch(3, 15, txn=True, verified=False), CLIENT, BAD_TXN),
        ("D3", UNSEEN, batch(0, 0, txn=True, verified=False), CLIENT, BAD_TXN),
        ("D3", IN_TXN, batch(4, 0, txn=True, verified=False), CLIENT, BAD_TXN),
        ("D3", IN_TXN, batch(4, -1, txn=True, verified=False), COORDINATOR, BAD_TXN),
        ("D9", IN_TXN, batch(3, 15, txn=True, verified=False), CLIENT, None),  # within an open transaction no verification is needed
        ("D9", KNOWN, batch(3, 15, txn=True, verified=True), CLIENT, None),
        ("D8", UNSEEN, batch(0, 5, txn=True, verified=True), CLIENT, None),  # D5 is only for producers whose epochs rise
        ("D4", KNOWN, batch(2, 15), CLIENT, STALE),
        ("D4", KNOWN, batch(2, -1), COORDINATOR, STALE),
        ("D4", KNOWN, batch(2, 10, 5), CLIENT, STALE),  # no duplicate: another epoch
        ("D12", KNOWN, batch(2, 0), REPLICATION, None),  # D4 only warns a replica
        ("D7", KNOWN, batch(4, 15), CLIENT, OUT_OF_ORDER),
        ("D7", KNOWN, batch(4, 1), CLIENT, OUT_OF_ORDER),
        ("D7", AFTER_BUMP, batch(4, 1), CLIENT, OUT_OF_ORDER),
        ("D8", KNOWN, batch(4, 0), CLIENT, None),
        ("D8", UNSEEN, batch(0, 4711), CLIENT, None),
        ("D8", UNSEEN, batch(9, 0), CLIENT, None),
        ("D8", UNSEEN, batch(-1, 5), CLIENT, None),  # a producer id without an epoch is unknown
        ("D9", KNOWN, batch(3, 15), CLIENT, None),
        ("D9", AFTER_BUMP, batch(3, 0), CLIENT, None),
        ("D9", AT_TOP, batch(3, 0), CLIENT, None),
        ("D10", KNOWN, batch(3, 16), CLIENT, OUT_OF_ORDER),
        ("D10", KNOWN, batch(3, 9), CLIENT, OUT_OF_ORDER),
        ("D10", KNOWN, batch(3, 14), CLIENT, OUT_OF_ORDER),
        ("D10", KNOWN, batch(3, 10, 4), CLIENT, OUT_OF_ORDER),  # the same start, another end
        ("D10", KNOWN, batch(3, 11, 4), CLIENT, OUT_OF_ORDER),  # the same end, another start
        ("D10", KNOWN, batch(3, 10, 6), CLIENT, OUT_OF_ORDER),
        ("D10", KNOWN, batch(3, 0), CLIENT, OUT_OF_ORDER),
        ("D10", AFTER_BUMP, batch(3, 1), CLIENT, OUT_OF_ORDER),
        ("D10", AT_TOP, batch(3, TOP), CLIENT, OUT_OF_ORDER),
        ("D11", IN_TXN, batch(3, 15), CLIENT, BAD_TXN),
        ("D11", IN_TXN, batch(4, 0), CLIENT, BAD_TXN),
        ("D11", IN_TXN, batch(3, -1), COORDINATOR, BAD_TXN),
        ("D11", IN_TXN, batch(3, 15), REPLICATION, BAD_TXN),
        ("D12", KNOWN, batch(3, 99), COORDINATOR, None),  # a coordinator's sequences are not looked at
        ("D12", KNOWN, batch(3, 99), REPLICATION, None),
        ("M1", KNOWN, end(2, tv=2), COORDINATOR, STALE),
        ("M2 M8", KNOWN, end(3, tv=2), COORDINATOR, None),  # the retry of a marker
        ("M3", IN_TXN, end(3, tv=2), COORDINATOR, STALE),
        ("M3 M7", EPOCH_TOP, end(32767, tv=2), COORDINATOR, None),  # the last epoch there is
        ("M4 M7", IN_TXN, end(4, tv=2), COORDINATOR, None),
        ("M4 M8", UNSEEN, end(0, tv=2), COORDINATOR, None),
        ("M5", KNOWN, end(2), COORDINATOR, STALE),
        ("M5", IN_TXN, end(2, tv=1), COORDINATOR, STALE),
        ("M5", KNOWN, end(2, coordinator_epoch=0), COORDINATOR, STALE),  # the epoch is looked at before the coordinator's
        ("M5 M7", IN_TXN, end(3), COORDINATOR, None),
        ("M5 M7", IN_TXN, end(4, tv=1), COORDINATOR, None),
        ("M6", IN_TXN, end(3, coordinator_epoch=5), COORDINATOR, FENCED),
        ("M6", IN_TXN, end(4, coordinator_epoch=5, tv=2), COORDINATOR, FENCED),
        ("M5 M7", IN_TXN, end(2, coordinator_epoch=5), REPLICATION, None),  # a replica only logs M5 and M6
        ("M5 M8", KNOWN, end(3, coordinator_epoch=7), COORDINATOR, None),
    ],
)
def test_a_row_says_what_kafka_says(row: str, entry: ProducerEntry, candidate: Candidate, origin: Origin, code: ErrorCode | None) -> None:
    """Every row of the tables decides the cases that are its own, with its code; of a marker two rows speak, by its epoch and by what it
    ends."""
    verdict = admit(entry, candidate, origin=origin)
    rows = f"{getattr(verdict, 'through', '')} {verdict.row}".strip()
    assert (rows, getattr(verdict, "code", None)) == (row, code)
    assert isinstance(verdict, BatchRefused) == (code is not None)
    assert isinstance(verdict, Duplicate) == (row == "D1")


def test_an_accepted_batch_is_remembered_with_the_four_before_it() -> None:
    """D12: the newest five batches are kept, the oldest goes first, and the entry that was given is not touched."""
    entry = UNSEEN
    for number in range(7):
        before = entry
        verdict = admit(entry, batch(0, number * 2, 2), origin=CLIENT)
        assert isinstance(verdict, Accepted)
        entry = verdict.entry
        assert entry is not before
    assert [known.first_sequence for known in entry.batches] == [4, 6, 8, 10, 12]
    assert entry.last_timestamp == NOW + 1


def test_a_new_epoch_forgets_the_batches_of_the_old() -> None:
    """D12 and the markers: an epoch that changes clears the batches, an equal one keeps them."""
    bumped = admit(KNOWN, batch(4, 0), origin=CLIENT)
    assert isinstance(bumped, Accepted)
    assert [known.first_sequence for known in bumped.entry.batches] == [0]
    for epoch, kept in ((3, KNOWN.batches), (4, ())):
        ended = admit(IN_TXN, end(epoch, coordinator_epoch=8), origin=COORDINATOR)
        assert isinstance(ended, Accepted)
        assert ended.entry == ProducerEntry(epoch=epoch, coordinator_epoch=8, last_timestamp=NOW + 1, batches=kept)


def test_a_transaction_opens_once_and_completes_with_its_marker() -> None:
    """D12 opens a transaction at the first transactional batch; M7 closes it and says from where to where, and how."""
    opened = admit(KNOWN, batch(3, 15, txn=True), origin=CLIENT)
    again = admit(IN_TXN, batch(3, 15, txn=True), origin=CLIENT)
    assert isinstance(opened, Accepted)
    assert isinstance(again, Accepted)
    assert (opened.entry.txn_first_offset, again.entry.txn_first_offset) == (100, 20)
    for commit in (True, False):
        closed = admit(IN_TXN, end(3, commit=commit), origin=COORDINATOR)
        assert isinstance(closed, Accepted)
        assert closed.completed is not None
        assert (closed.completed.first_offset, closed.completed.last_offset, closed.completed.aborted) == (20, 100, not commit)


Step = tuple[bytes, Answer]

EXAMPLE_A: list[Step] = [
    (data(7, 0, 2147483640, 5), 0),
    (data(7, 0, 2147483645, 5), 5),
    (data(7, 0, 2, 3), 10),
    (data(7, 0, 2147483645, 5), Again(5)),
    (data(7, 0, 2147483645, 3), OUT_OF_ORDER),
    (data(7, 0, 4), OUT_OF_ORDER),
    (data(7, 0, 6), OUT_OF_ORDER),
    (data(7, 0, 5), 13),
    (data(7, 0, 6), 14),
    (data(7, 0, 7), 15),
    (data(7, 0, 8), 16),
    (data(7, 0, 2147483645, 5), OUT_OF_ORDER),
    (data(7, 0, 2, 3), Again(10)),
]
EXAMPLE_B: list[Step] = [
    (data(7, 0, 2147483646, 2), 0),
    (data(7, 0, 0), 2),
    (data(7, 0, 2147483646, 2), Again(0)),
]
EXAMPLE_C: list[Step] = [
    (data(7, 3, 0, 2), 0),
    (data(7, 3, 2, 2), 2),
    (data(7, 4, 4), OUT_OF_ORDER),
    (data(7, 4, 0), 4),
    (data(7, 3, 4), STALE),
    (data(7, 3, 2, 2), STALE),
]


@pytest.mark.parametrize("steps", [EXAMPLE_A, EXAMPLE_B, EXAMPLE_C], ids=["A wrap", "B top of the ring", "C epochs"])
def test_a_producer_without_transactions(steps: list[Step]) -> None:
    """Worked examples A to C: wrap-around, the top of the ring, epochs."""
    log = open_log()
    for number, (sent, expected) in enumerate(steps, 1):
        assert produce(log, sent) == expected, f"step {number}"


def test_example_d_a_transaction_of_version_1() -> None:
    """Under TV1 sequences go on across transactions, a zombie is fenced by a marker with a higher epoch, an old coordinator by its own."""
    log = open_log()
    assert produce(log, data(7, 3, 0, 2, transactional=True)) == 0
    assert log.last_stable_offset == 0
    assert produce(log, data(7, 3, 2)) == BAD_TXN
    assert coordinate(log, marker(7, 3, coordinator_epoch=1)) == 2
    assert log.last_stable_offset == 3
    assert produce(log, data(7, 3, 2, transactional=True)) == 3
    assert coordinate(log, marker(7, 4, commit=False, coordinator_epoch=1)) == 4
    assert produce(log, data(7, 3, 3, transactional=True)) == STALE
    assert produce(log, data(7, 5, 0, transactional=True)) == 5
    assert coordinate(log, marker(7, 5, coordinator_epoch=0)) == FENCED


def test_example_e_a_transaction_of_version_2() -> None:
    """Under TV2 each marker carries the next epoch; its retry is written again until the next transaction is open, and then fenced."""
    log = open_log()
    assert produce(log, data(7, 3, 0, 2, transactional=True)) == 0
    assert coordinate(log, marker(7, 3), transaction_version=2) == STALE
    assert coordinate(log, marker(7, 4), transaction_version=2) == 2
    assert coordinate(log, marker(7, 4), transaction_version=2) == 3
    assert log.last_stable_offset == 4
    assert produce(log, data(7, 3, 2, transactional=True)) == STALE
    assert produce(log, data(7, 4, 2, transactional=True)) == OUT_OF_ORDER
    assert produce(log, data(7, 4, 0, transactional=True)) == 4
    assert log.last_stable_offset == 4
    assert coordinate(log, marker(7, 4), transaction_version=2) == STALE
    assert coordinate(log, marker(7, 5, commit=False), transaction_version=2) == 5
    assert log.last_stable_offset == 6
    assert [(txn.first_offset, txn.last_offset) for txn in log.read(4, max_bytes=1 << 20, read_committed=True).aborted or ()] == [(4, 5)]


def test_example_f_a_zombie_is_fenced_where_it_wrote_and_only_there() -> None:
    """A marker with a bumped epoch stops the old instance; a partition that got none still takes its plain batches."""
    written, unwritten = open_log(), open_log()
    assert produce(written, data(9, 3, 0, transactional=True)) == 0
    assert coordinate(written, marker(9, 4, commit=False)) == 1
    assert produce(written, data(9, 3, 1, transactional=True)) == STALE
    assert produce(written, data(9, 5, 0, transactional=True)) == 2
    assert produce(written, data(9, 3, 1)) == STALE
    assert produce(unwritten, data(9, 3, 0)) == 0
    assert produce(unwritten, data(9, 3, 1)) == 1


def test_example_g_without_verification_a_gap_before_the_first_batch_is_not_seen() -> None:
    """D5 and D6 would refuse sequence 5 as the first of a transaction; until they are here an unknown producer may start anywhere."""
    assert produce(open_log(), data(7, 0, 5, transactional=True)) == 0


def test_example_h_an_expired_producer_may_start_anywhere() -> None:
    """Expiry goes by the time of the newest batch and spares open transactions. An expired producer is unknown."""
    clock = SetClock()
    log = open_log(LogConfig(producer_id_expiration_ms=1000), clock=clock)
    assert produce(log, data(7, 0, 0)) == 0
    assert produce(log, data(8, 0, 0, transactional=True)) == 1
    clock.ms = NOW + 999
    assert log.expire_producers() == []
    assert produce(log, data(7, 0, 4711)) == OUT_OF_ORDER
    clock.ms = NOW + 1000
    assert log.expire_producers() == [7]
    assert produce(log, data(7, 0, 4711, timestamp=clock.ms)) == 2
    assert produce(log, data(7, 0, 0)) == OUT_OF_ORDER
    assert [producer.producer_id for producer in log.active_producers()] == [8, 7]


def test_a_duplicate_is_answered_like_the_first_time_but_with_a_time() -> None:
    """The answer has the first offsets, the log's start of today, and the batch's newest timestamp where the first answer had -1."""
    log = open_log()
    sent = data(7, 0, 0, 3, timestamp=NOW - 5)
    first = log.append(sent, origin=CLIENT, leader_epoch=0)
    produce(log, data(7, 0, 3))
    log.advance_log_start(2)
    second = log.append(sent, origin=CLIENT, leader_epoch=0)
    assert (first.base_offset, first.last_offset, first.log_append_time_ms, first.duplicate) == (0, 2, -1, False)
    assert (second.base_offset, second.last_offset, second.log_append_time_ms, second.duplicate) == (0, 2, NOW - 5, True)
    assert second.log_start_offset == 2


def test_producers_do_not_know_each_other() -> None:
    """Sequences and epochs belong to one producer id, and batches without one are not looked at."""
    log = open_log()
    assert [produce(log, data(pid, pid, 0)) for pid in (1, 2, 3)] == [0, 1, 2]
    assert produce(log, data(-1, -1, -1)) == 3
    assert produce(log, data(-1, -1, -1)) == 4
    assert [produce(log, data(pid, pid, 1)) for pid in (1, 2, 3)] == [5, 6, 7]


def test_describe_producers_tells_what_a_client_needs_to_resolve_a_lost_answer() -> None:
    """Last sequence, epoch and open transaction are there; what there is not is -1, also the sequence after a bumped marker."""
    log = open_log()
    produce(log, data(7, 3, 0, 2, transactional=True))
    (active,) = log.active_producers()
    assert (active.producer_epoch, active.last_sequence, active.last_timestamp) == (3, 1, NOW)
    assert (active.coordinator_epoch, active.current_txn_start_offset) == (-1, 0)
    coordinate(log, marker(7, 4, coordinator_epoch=2), transaction_version=2)
    (active,) = log.active_producers()
    assert (active.producer_epoch, active.last_sequence, active.coordinator_epoch, active.current_txn_start_offset) == (4, -1, 2, -1)
