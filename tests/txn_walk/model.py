"""What Kafka promises of transactions, kept by hand: who wrote what in which transaction, and how that ended by the coordinator's own word.

It is written from the promises and knows nothing of a coordinator: no states, no epochs that are compared, no partitions that are added.
What an answer said counts, whether the client got it or not. A transaction whose commit was asked for, and not answered in so many words,
may have been committed; then its records say so, all of them or none. Any other that nobody has committed counts as aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto

View = Sequence[tuple[int, bytes]]
"""(offset, value) of every record that a reader of committed records sees of a partition."""


class Broken(AssertionError):
    """A promise that was not kept."""


class Outcome(Enum):
    """How a transaction ended, as far as a client was told."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class Write:
    """The records of one batch; `offset` is where they begin, once they are acknowledged."""

    __slots__ = ("offset", "partition", "values")

    def __init__(self, partition: int, values: list[bytes]) -> None:
        self.partition = partition
        self.values = values
        self.offset: int | None = None

    def acknowledged(self, offset: int) -> None:
        """Its answer, which says the same however often the batch had to be sent."""
        if self.offset not in (None, offset):
            raise Broken(f"{self.values} were at offset {self.offset}, and are at {offset} when sent again")
        self.offset = offset


class Txn:
    """One transaction: its records, the offset it commits for its group, and its end."""

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
        """Records that no other transaction writes."""
        write = Write(partition, [b"%d.%d.%d" % (self.number, len(self.writes), index) for index in range(count)])
        self.writes.append(write)
        return write

    def ended(self, *, commit: bool) -> None:
        """The coordinator has said so."""
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
        """A transaction. Those of one transactional id come in the order of producer ids and epochs."""
        number = len(self.txns)
        txn = Txn(transactional_id, number, (*identity, number))
        self.txns.append(txn)
        return txn

    def given(self, transactional_id: str, identity: tuple[int, int], to: object) -> None:
        """A producer was given this identity, which no other one may have."""
        self.identities[transactional_id] = identity
        self._given.setdefault(transactional_id, set()).add(identity)
        owner = self._owners.setdefault(identity, to)
        if owner is not to:
            raise Broken(f"{identity} belongs to two producers")

    def had_a_higher_epoch(self, transactional_id: str, identity: tuple[int, int]) -> bool:
        """Whether the id once had a higher epoch, with a producer id without free epochs."""
        pid, epoch = identity
        return any(other != pid and higher > epoch for other, higher in self._given[transactional_id])

    def has_open(self, transactional_id: str) -> bool:
        """Whether a client has begun a transaction of that id, and no client was told that it has ended."""
        return any(txn.transactional_id == transactional_id and txn.outcome is Outcome.OPEN for txn in self.txns)

    def with_offsets(self) -> list[str]:
        """The transactional ids in whose transactions a client tried to commit an offset."""
        return sorted({txn.transactional_id for txn in self.txns if txn.group_offset is not None})

    def read(self, records: View) -> None:
        """A reader of committed records has seen these, while transactions go on."""
        for offset, value in records:
            txn = self._txn_of(value)
            if not txn.may_be_read:
                raise Broken(f"{value!r} at offset {offset} was read, but its transaction is {txn.outcome.name}")

    def check(self, views: Mapping[int, View], group_offsets: Mapping[str, int | None]) -> None:
        """When everything has come to an end, what is read is what was committed."""
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
        """Whether it was; raises Broken if there is half of it."""
        found = [value in seen for write in txn.writes for value in write.values]
        if txn.outcome is Outcome.COMMITTED and not all(found):
            raise Broken(f"transaction {txn.number} was committed, and {found.count(False)} of its records are not there")
        if not txn.may_be_read and any(found):
            raise Broken(f"transaction {txn.number} was not committed, and {found.count(True)} of its records are there")
        if any(found) and not all(found):
            raise Broken(f"{found.count(True)} of {len(found)} records of transaction {txn.number} are there")
        return txn.outcome is Outcome.COMMITTED or any(found)

    def _group_offsets(self, transactional_id: str, committed: list[Txn]) -> set[int | None]:
        """What the group's offset may be. A transaction that may have been committed and has no records shows only here."""
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
