"""The gate: what the sender asks before a fresh batch leaves, and all that it knows of transactions."""

from __future__ import annotations

from producer.core.events import GateOpened
from producer.wire import ErrorCode
from tests.producer.desk import Desk


class Door:
    """A gate that is opened partition by partition, and remembers what went through."""

    def __init__(self, transactional_id: str | None = None) -> None:
        self.transactional_id = transactional_id
        self.closed: set[int] = set()
        self.written: list[int] = []

    def may_leave(self, topic: str, partition: int) -> bool:
        return partition not in self.closed

    def wrote(self, topic: str, partition: int) -> None:
        self.written.append(partition)


def test_nothing_fresh_leaves_through_a_closed_gate() -> None:
    """A partition whose gate is closed sends nothing and is stamped with nothing; others go on; opened, it sends what waited, in order."""
    door = Door()
    desk = Desk(partitions=2, gate=door).introduce()
    door.closed = {0}
    desk.send(b"0", b"1", partition=0)
    desk.send(b"x", partition=1)
    assert [flight.values for flight in desk.produces()] == [[b"x"]]
    door.closed = set()
    desk.happen(GateOpened())
    assert [flight.values for flight in desk.produces()] == [[b"x"], [b"0"], [b"1"]]


def test_a_retry_asks_nobody() -> None:
    """The gate is asked once, before the stamp: a batch that is being resent has been through it."""
    door = Door()
    desk = Desk(gate=door).introduce()
    desk.send(b"0")
    door.closed = {0}
    desk.lose(1)
    desk.advance(100)
    assert [flight.values for flight in desk.produces()] == [[b"0"]]


def test_the_gate_hears_of_the_first_write_of_each_batch() -> None:
    """One call for each batch that is about to be written for the first time, none for retries."""
    door = Door()
    desk = Desk(gate=door).introduce()
    door.written.clear()
    desk.send(b"0", b"1")
    desk.lose(1)
    desk.advance(100)
    assert door.written == [0, 0]


def test_a_transactional_gate_marks_batch_and_request() -> None:
    """With a transactional id the request names it and the batches carry the transactional bit; without, neither."""
    for transactional_id in (None, "tx"):
        desk = Desk(gate=Door(transactional_id)).introduce()
        desk.send(b"0")
        (flight,) = desk.produces()
        assert flight.message.transactional_id == transactional_id
        assert flight.header.is_transactional is (transactional_id is not None)


def test_a_split_stays_in_its_transaction() -> None:
    """The pieces of a transactional batch are transactional too."""
    desk = Desk(gate=Door("tx"), batch_size=4_096, linger_ms=5.0).introduce()
    desk.send(b"0", b"1")
    desk.advance(5)
    desk.refuse(desk.produces()[0], ErrorCode.MESSAGE_TOO_LARGE)
    desk.advance(50)
    (piece,) = desk.produces()
    assert piece.values == [b"0"]
    assert piece.header.is_transactional


def test_a_rewrite_stays_in_its_transaction() -> None:
    """A batch that gets another epoch's stamp keeps the transactional bit."""
    desk = Desk(gate=Door("tx")).introduce()
    desk.send(b"bad", b"good")
    first, second = desk.produces()
    desk.refuse(first, ErrorCode.INVALID_RECORD)
    desk.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    desk.advance(50)
    (again,) = desk.produces()
    assert again.header.is_transactional
