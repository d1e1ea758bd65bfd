"""What a job reads: a source yields records in order, each with the position after it, and can continue at any of these positions.

    class Source:
        def open(self, position):  # the committed position, None for the first run
            yield record, position

A position is any value that JSON can hold: a number, a text, a list, a dictionary. The same position must always lead to the same records.
A source may yield None instead of a pair when there is nothing for now: then the job commits what it has.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from fencepost.producer.foundations.printable import said

PIECE_ITEMS_MAX: Final = 500
PIECE_S: Final = 0.005
QUICK_S: Final = 0.001
UNCHANGING: Final = frozenset({int, str, float, bool, type(None)})
"""Types of positions that no source can change."""


class Source(Protocol):
    """See the module."""

    def open(self, position: Any, /) -> Iterator[tuple[Any, Any] | None]:
        """The records from this position on (None: from the start), each with the position after it."""
        ...


class BadItem(Struct, frozen=True):
    """A part of the source that is no record. `after`: how many records of its piece are before it. `before`: tells the position before it.
    `raw`: its bytes."""

    after: int
    place: str
    reason: str
    raw: bytes
    before: Callable[[], Any]


class Piece(Protocol):
    """Records that were read together. `items`: what a transform takes, or rows to send as they are."""

    @property
    def items(self) -> Sequence[Any]: ...
    @property
    def bad(self) -> Sequence[BadItem]: ...

    def before(self, index: int) -> Any:
        """The position before the record; after the last one for the number of records."""
        ...

    def place(self, index: int) -> str:
        """Where the record is, in words."""
        ...

    def raw(self, index: int) -> bytes:
        """The record's own bytes, for a dead letter."""
        ...

    def send(self, transaction: Any, topic: str, begin: int, end: int) -> Any:
        """Send records as they are, with one call of the transaction."""
        ...


class PieceSource(ABC):
    """A source of this package that reads many records at once. A program's own source may have another attribute of that name."""

    @abstractmethod
    def pieces(self, position: Any, *, plain: bool) -> Iterator[Piece | None]:
        """`plain`: the items are rows to send as they are, instead of what a transform takes."""


class ItemSource(ABC):
    """A source of this package whose items are no records yet."""

    @abstractmethod
    def to_record(self, item: Any) -> Any:
        """The record of an item, for a job without a transform."""


class Pairs:
    """A piece of single records with their positions. `first`: the position before them."""

    bad: Sequence[BadItem] = ()

    def __init__(self, first: Any) -> None:
        self.items: list[Any] = []
        self._positions = [first]

    def add(self, item: Any, position: Any) -> None:
        self.items.append(item)
        self._positions.append(position if type(position) in UNCHANGING else _as_now(position))

    @property
    def end(self) -> Any:
        return self._positions[-1]

    def before(self, index: int) -> Any:
        return self._positions[index]

    def place(self, index: int) -> str:
        return said(f"the record after position {self._positions[index]!r}", 300)

    def raw(self, index: int) -> bytes:
        return raw_of(self.items[index])

    def send(self, transaction: Any, topic: str, begin: int, end: int) -> Any:
        return transaction.send_many(topic, self.items[begin:end])


def pieces_of(source: Source, position: Any) -> Iterator[Piece | None]:
    """The pairs of a source in pieces. A record that took long to come is passed on at once."""
    piece = Pairs(position)
    try:
        began = before = time.monotonic()
        for pair in source.open(_as_now(position)):
            now = time.monotonic()
            if pair is not None:
                if not _is_pair(pair):
                    raise TypeError(f"the source yields {pair!r:.300}: a pair of a record and the position after it, or None")
                piece.add(*pair)
                if now - before <= QUICK_S and now - began <= PIECE_S and len(piece.items) < PIECE_ITEMS_MAX:
                    before = now
                    continue
            if piece.items:
                yield piece
                piece = Pairs(piece.end)
            if pair is None:
                yield None
            began = before = time.monotonic()
    except Exception:
        if piece.items:
            yield piece  # What came before is whole.
        raise
    if piece.items:
        yield piece


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _as_now(position: Any) -> Any:
    """The position, copied if the source can change it: it may go on with the same list or dictionary before the commit."""
    if isinstance(position, Struct) and position.__struct_config__.frozen:
        return position
    try:
        return msgspec.to_builtins(position)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return position  # JSON cannot hold it either, which the commit says.


def raw_of(item: Any) -> bytes:
    """A record as bytes, for a dead letter: as it is, as JSON, or as Python shows it."""
    if isinstance(item, bytes):
        return item
    try:
        return msgspec.json.encode(item)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return repr(item).encode("utf-8", "backslashreplace")


def kind_of(source: object) -> str:
    """The kind of source, which must stay the same for a job."""
    return str(getattr(source, "kind", type(source).__name__))
