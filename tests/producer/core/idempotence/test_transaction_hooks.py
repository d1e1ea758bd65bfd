"""The hooks of transactions: what the sender asks them before a fresh batch leaves."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.producer.core.events import Command, SendingAllowed, Settle
from fencepost.producer.core.idempotence.transaction_hooks import NoTransactionHooks
from fencepost.producer.errors import Persisted, RecordRefused
from fencepost.producer.wire import ErrorCode
from tests.producer.core.harness import PID, CoreHarness


class Door(NoTransactionHooks):
    """Hooks that hold back single partitions. They record the batches that left, and what the core reported after each round."""

    def __init__(self, transactional_id: str | None = None) -> None:
        self.transactional_id = transactional_id
        self.closed: set[int] = set()
        self.written: list[int] = []
        self.failed: list[Settle] = []
        self.quiet: list[bool] = []

    def admit(self, topic: str, partition: int) -> bool:
        return partition not in self.closed

    def wrote(self, topic: str, partition: int) -> None:
        self.written.append(partition)

    def looked(self, commands: Sequence[Command], *, quiet: bool) -> None:
        self.failed += [command for command in commands if isinstance(command, Settle) and command.failure is not None]
        self.quiet.append(quiet)


def test_a_fresh_batch_waits_until_its_partition_may_send() -> None:
    """A partition that may not send stamps and sends no fresh batch, and others go on. Once it may, it sends its batches in order."""
    door = Door()
    harness = CoreHarness(partitions=2, hooks=door).introduce()
    door.closed = {0}
    harness.send(b"0", b"1", partition=0)
    harness.send(b"x", partition=1)
    assert [flight.values for flight in harness.produces()] == [[b"x"]]
    door.closed = set()
    harness.happen(SendingAllowed())
    assert [flight.values for flight in harness.produces()] == [[b"x"], [b"0"], [b"1"]]


def test_a_retry_asks_the_hooks_nothing() -> None:
    """The core asks the hooks once, before the stamp. It resends a batch without asking again."""
    door = Door()
    harness = CoreHarness(hooks=door).introduce()
    harness.send(b"0")
    door.closed = {0}
    harness.lose(1)
    harness.advance(100)
    assert [flight.values for flight in harness.produces()] == [[b"0"]]


def test_the_gate_hears_of_the_first_write_of_each_batch() -> None:
    """One call for each batch that is about to be written for the first time, none for retries."""
    door = Door()
    harness = CoreHarness(hooks=door).introduce()
    door.written.clear()
    harness.send(b"0", b"1")
    harness.lose(1)
    harness.advance(100)
    assert door.written == [0, 0]


def test_a_transactional_gate_marks_batch_and_request() -> None:
    """With a transactional id the request names it and the batches carry the transactional bit; without, neither."""
    for transactional_id in (None, "tx"):
        harness = CoreHarness(hooks=Door(transactional_id)).introduce()
        harness.send(b"0")
        (flight,) = harness.produces()
        assert flight.message.transactional_id == transactional_id
        assert flight.header.is_transactional is (transactional_id is not None)


def test_a_split_stays_in_its_transaction() -> None:
    """The pieces of a transactional batch are transactional too."""
    harness = CoreHarness(hooks=Door("tx"), batch_size=4_096, linger_ms=5.0).introduce()
    harness.send(b"0", b"1")
    harness.advance(5)
    harness.refuse(harness.produces()[0], ErrorCode.MESSAGE_TOO_LARGE)
    harness.advance(50)
    (piece,) = harness.produces()
    assert piece.values == [b"0"]
    assert piece.header.is_transactional


def test_a_transaction_has_no_epoch_of_one_partition() -> None:
    """A refused batch takes those behind it along: in a transaction no partition bumps the epoch, so nothing is rewritten, and nothing new
    leaves the partition."""
    door = Door("tx")
    harness = CoreHarness(hooks=door).introduce()
    bad, good = harness.send(b"bad", b"good")
    first, second = harness.produces()
    harness.refuse(first, ErrorCode.INVALID_RECORD)
    harness.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    harness.advance(50)
    harness.send(b"late")
    harness.advance(50)
    assert harness.produces() == []
    assert isinstance(bad.exception(0), RecordRefused)
    failure = good.exception(0)
    assert isinstance(failure, RecordRefused)
    assert failure.persisted is Persisted.NO
    assert len(door.failed) == 2
    assert not door.quiet.pop()


def test_the_next_transactions_epoch_is_every_partitions() -> None:
    """When the producer id changes, each partition takes the new one as soon as nothing of it is under way, and counts from 0."""
    harness = CoreHarness(partitions=2, hooks=Door("tx")).introduce()
    harness.core.producer_id_manager.identity = (PID, 1)  # type: ignore[attr-defined] # the registrar that stands in for a coordinator here
    harness.send(b"x", partition=0)
    harness.send(b"y", partition=1)
    assert sorted(flight.stamp for flight in harness.produces()) == [(PID, 1, 0), (PID, 1, 0)]


def test_an_epoch_never_changes_under_a_batch() -> None:
    """While a batch is on its way its partition keeps the identity, and so does what follows the batch."""
    harness = CoreHarness(hooks=Door("tx")).introduce()
    harness.send(b"0")
    harness.core.producer_id_manager.identity = (PID, 1)  # type: ignore[attr-defined] # as above
    harness.send(b"1")
    assert [flight.stamp for flight in harness.produces()] == [(PID, 0, 1), (PID, 0, 2)]


def test_a_doomed_transaction_waits_for_what_is_on_its_way_only() -> None:
    """Once the hooks set `drop_reason`, what is queued or waits for a retry fails at once, and what is in flight when it is
    answered; then it is quiet."""
    door = Door("tx")
    harness = CoreHarness(partitions=2, hooks=door).introduce()
    door.closed = {1}
    flying, queued = harness.send(b"0") + harness.send(b"1", partition=1)
    door.drop_reason = (RecordRefused, "given up")
    harness.happen(SendingAllowed())
    assert queued.done()
    assert not flying.done()
    assert not door.quiet.pop()
    harness.ack(harness.produces()[0])
    assert flying.exception(0) is None
    assert door.quiet.pop()
    assert [str(each.failure) for each in door.failed] == ["t-1: given up; attempts=0, persisted=NO"]


def test_a_doomed_retry_is_not_made() -> None:
    """A batch with a lost reply is not sent again, and its failure says that it may be in the log."""
    door = Door("tx")
    harness = CoreHarness(hooks=door).introduce()
    (future,) = harness.send(b"0")
    door.drop_reason = (RecordRefused, "given up")
    harness.lose(1)
    harness.advance(1_000)
    assert harness.produces() == []
    failure = future.exception(0)
    assert failure is not None
    assert failure.persisted is Persisted.MAYBE
    assert door.quiet.pop()


def test_the_gate_chooses_among_the_versions_of_produce() -> None:
    """Version 12 is a promise about transactions, so the hooks choose the versions that may be sent."""
    door = Door("tx")
    door.produce_versions = range(3, 12)
    harness = CoreHarness(hooks=door).introduce()
    harness.send(b"0")
    assert harness.produces()[0].command.version == 11
