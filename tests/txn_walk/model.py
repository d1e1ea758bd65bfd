"""A model of Kafka's promises about transactions: which client wrote what in which transaction, and how the coordinator said that it ended.

It follows the promises and knows nothing about a coordinator: no states, no comparison of epochs, no added partitions. An answer counts
whether or not the client got it. If a commit was requested and not clearly answered, the transaction may be committed; then its records
show it, all or none. A transaction for which no client requested a commit counts as aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto

View = Sequence[tuple[int, bytes]]
"""(offset, value) of every record that a reader of committed records sees of a partition."""


class Broken(AssertionError):
    """A promise was broken."""


class Outcome(Enum):
    """The end of a transaction, as far as a client was told."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class Write:
    """The records of one batch. `offset`: of the first record, once they are acknowledged."""

    __slots__ = ("offset", "partition", "values")

    def __init__(self, partition: int, values: list[bytes]) -> None:
        self.partition = partition
        self.values = values
        self.offset: int | None = None

    def acknowledged(self, offset: int) -> None:
        """Note the answer. It must be the same for every repeat of the batch."""
        if self.offset not in (None, offset):
            raise Broken(f"{self.values} were at offset {self.offset}, and are at {offset} when sent again")
        self.offset = offset


class Txn:
    """One transaction: its records, the offset that it commits for its group, and its end."""

    __slots__ = ("commits", "group_offset", "number", "outcome", "transactional_id", "turn", "writes")

    def __init__(self, transactional_id: str, number: int, turn: tuple[int, int, int]) -> None:
        self.transactional_id = transactional_id
        self.number = number
        self.turn = turn
        self.writes: list[Write] = []
        self.group_offset: int | None = None
        self.outcome = Outcome.OPEN
        self.commits = 0
        """How often a commit was asked for without a word about what became of it."""

    def write(self, partition: int, count: int) -> Write:
        """Add records that no other transaction writes."""
        write = Write(partition, [b"%d.%d.%d" % (self.number, len(self.writes), index) for index in range(count)])
        self.writes.append(write)
        return write

    def ended(self, *, commit: bool) -> None:
        """The coordinator has answered so."""
        said = Outcome.COMMITTED if commit else Outcome.ABORTED
        if self.outcome not in (Outcome.OPEN, said):
            raise Broken(f"transaction {self.number} was {self.outcome.name}, and now it is {said.name}")
        self.outcome = said

    @property
    def may_be_read(self) -> bool:
        """Whether its records may be among the committed ones by now."""
        return self.outcome is Outcome.COMMITTED or (self.outcome is Outcome.OPEN and self.commits > 0)


class Model:
    """Everything that producers were told."""

    def __init__(self) -> None:
        self.txns: list[Txn] = []
        self.identities: dict[str, tuple[int, int]] = {}
        """That which each transactional id was given last."""
        self._owners: dict[tuple[int, int], object] = {}
        self._given: dict[str, set[tuple[int, int]]] = {}

    def begin(self, transactional_id: str, identity: tuple[int, int]) -> Txn:
        """Begin a transaction. The transactions of one transactional id are ordered by producer ids and epochs."""
        number = len(self.txns)
        txn = Txn(transactional_id, number, (*identity, number))
        self.txns.append(txn)
        return txn

    def given(self, transactional_id: str, identity: tuple[int, int], to: object) -> None:
        """A producer got this identity. No other producer may get it."""
        self.identities[transactional_id] = identity
        self._given.setdefault(transactional_id, set()).add(identity)
        owner = self._owners.setdefault(identity, to)
        if owner is not to:
            raise Broken(f"{identity} belongs to two producers")

    def had_a_higher_epoch(self, transactional_id: str, identity: tuple[int, int]) -> bool:
        """Whether the id once had a higher epoch, under a producer id without free epochs."""
        pid, epoch = identity
        return any(other != pid and higher > epoch for other, higher in self._given[transactional_id])

    def has_open(self, transactional_id: str) -> bool:
        """Whether a client has begun a transaction of that id, and no client was told that it has ended."""
        return any(txn.transactional_id == transactional_id and txn.outcome is Outcome.OPEN for txn in self.txns)

    def with_offsets(self) -> list[str]:
        """The transactional ids in whose transactions a client tried to commit an offset."""
        return sorted({txn.transactional_id for txn in self.txns if txn.group_offset is not None})

    def read(self, records: View) -> None:
        """A `read_committed` consumer has read these records, while transactions continue."""
        for offset, value in records:
            txn = self._txn_of(value)
            if not txn.may_be_read:
                raise Broken(f"{value!r} at offset {offset} was read, but its transaction is {txn.outcome.name}")

    def check(self, views: Mapping[int, View], group_offsets: Mapping[str, int | None]) -> None:
        """After everything has ended, the consumers' records are the committed ones."""
        seen = {value for view in views.values() for _, value in view}
        committed = [txn for txn in self.txns if self._was_committed(txn, seen)]
        for partition, view in views.items():
            expected = sorted(
                (write.offset + index, value)
                for txn in committed
                for write in txn.writes
                if write.partition == partition and write.offset is not None
                for index, value in enumerate(write.values)
            )
            if list(view) != expected:
                raise Broken(f"partition {partition} has {list(view)}, and {expected} was committed")
        for transactional_id, offset in group_offsets.items():
            possible = self._group_offsets(transactional_id, committed)
            if offset not in possible:
                raise Broken(f"the group of {transactional_id} is at {offset}, and should be at {possible}")

    def _was_committed(self, txn: Txn, seen: set[bytes]) -> bool:
        """Whether it was committed. Raises Broken if only a part of it is there."""
        found = [value in seen for write in txn.writes for value in write.values]
        if txn.outcome is Outcome.COMMITTED and not all(found):
            raise Broken(f"transaction {txn.number} was committed, and {found.count(False)} of its records are not there")
        if not txn.may_be_read and any(found):
            raise Broken(f"transaction {txn.number} was not committed, and {found.count(True)} of its records are there")
        if any(found) and not all(found):
            raise Broken(f"{found.count(True)} of {len(found)} records of transaction {txn.number} are there")
        return txn.outcome is Outcome.COMMITTED or any(found)

    def _group_offsets(self, transactional_id: str, committed: list[Txn]) -> set[int | None]:
        """The possible offsets of the group. A transaction without records that may be committed shows only here."""
        possible: set[int | None] = {None}
        for txn in sorted(self._with_offsets(transactional_id), key=lambda txn: txn.turn):
            if txn in committed:
                possible = {txn.group_offset}
            elif txn.may_be_read and not txn.writes:
                possible.add(txn.group_offset)
        return possible

    def _with_offsets(self, transactional_id: str) -> Iterator[Txn]:
        return (txn for txn in self.txns if txn.transactional_id == transactional_id and txn.group_offset is not None)

    def _txn_of(self, value: bytes) -> Txn:
        return self.txns[int(value.split(b".")[0])]
