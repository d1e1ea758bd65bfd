"""The ledger: the newest batch of each sink, in a compacted topic, written in the same transaction as the batch's rows.

An entry is committed with its rows or not at all. So a driver that reads it after taking over the transactional id knows whether the batch
was written. Only committed entries count. No log says which transactional id committed an entry, so the ledger trusts each producer that
may write transactions into the topic. This module writes only the tombstones of `reset`; `batch_decision` decides. Each call opens
and closes its own connections, has a deadline, and works in any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, SupportsFloat, TypeVar
from uuid import UUID

from msgspec import Struct

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.producer.config.settings import Settings
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.errors import NotPermitted
from fencepost.txn.ledger.entry import BadLedgerEntry, LedgerEntry
from fencepost.txn.ledger.errors import LedgerBusy, LedgerDamaged, LedgerUnavailable, LedgerUnusable
from fencepost.txn.ledger.reading import scan_partition
from fencepost.txn.ledger.reset import Tombstones
from fencepost.txn.ledger.scan import Scan, Stored
from fencepost.txn.ledger.topic import Leaders, ensure_topic, find_topic
from fencepost.txn.protocol.ask_now import ask_client
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered
from fencepost.txn.protocol.own_topics import check_own_topic

__all__ = ["ID_PREFIX", "TOPIC", "Found", "Ledger", "Opened", "Standing"]

log = logging.getLogger("fencepost.ledger")

TOPIC: Final = "__fencepost_ledger"
ID_PREFIX: Final = "fencepost."
"""The beginning of a sink's transactional id, unless its writer has another (`transactional_id_prefix`)."""

T = TypeVar("T")


class Found(Struct, frozen=True):
    """The logs' values of a key: the newest committed one or, without one, the newest outside of any transaction; and whether an open
    transaction has written another."""

    stored: Stored | None
    is_open: bool


class Opened(Struct, frozen=True):
    """An entry of a transaction that is open, or that ended so recently that its marker is not written yet."""

    entry: LedgerEntry | None
    partition: int
    offset: int


class Standing(Struct, frozen=True):
    """The ledger's present entries of a sink: the newest committed one, and the undecided ones after it, the newest last."""

    committed: LedgerEntry | None
    opened: tuple[Opened, ...] = ()

    @property
    def open(self) -> LedgerEntry | None:
        """The newest undecided entry."""
        return self.opened[-1].entry if self.opened else None


class Ledger:
    """The ledger of one cluster. Its calls take a sink's key: the sink's id, or `sink#job` for a job of `write_once` (`ledger_key`).

    Times are seconds; without a `timeout` it is `max_block_ms`. Raises LedgerUnavailable if the time passes, LedgerUnusable if the topic
    cannot be a ledger, and ConfigError for an invalid name.
    """

    def __init__(self, settings: Settings, topic: str = TOPIC) -> None:
        check_own_topic("topic", topic)
        self.topic: Final = topic
        self._settings: Final = settings
        self._partitions: int | None = None
        self._topic_id: UUID | None = None

    def ensure(self, timeout: SupportsFloat | None = None) -> int:
        """Create the topic if it is missing, and check that it can be a ledger. Returns the number of its partitions. Once the topic was
        there it is not created again: LedgerUnusable says that it was deleted or replaced."""
        return len(self._run(timeout, self._ensure))

    def partition_of(self, sink: str) -> int:
        """The partition of the sink's entries: Kafka's own partitioner (murmur2), over the number of partitions that was read last."""
        return partition_for_key(sink.encode(), self._partitions or self.ensure())

    def read(self, sink: str, timeout: SupportsFloat | None = None) -> LedgerEntry | None:
        """The sink's newest committed entry, or None. The topic is created if it is missing.

        The markers in the log, up to its present end, say what is committed. Take over the sink's transactional id first: then none of its
        transactions is open, and the answer stays true. Raises LedgerBusy if one is open nevertheless, because its outcome is not known,
        and LedgerDamaged for an entry that cannot be read.
        """
        found, doubtful = self._run(timeout, lambda client, deadline: self._read(client, deadline, sink))
        if doubtful:
            newest = doubtful[-1]
            raise LedgerBusy(
                f"sink {sink!r}: its newest entry, at offset {newest.offset} of {self.topic}-{newest.partition}, belongs to an open "
                f"transaction{self._named(sink, newest)}. Take over its transactional id before the ledger is read. If that was done, the "
                f"transaction hangs in that partition: `fencepost txn find-hanging --topic {self.topic}` says how it ended elsewhere, and "
                "what to do"
            )
        return self.entry_of(sink, found)

    def standing(self, sink: str, timeout: SupportsFloat | None = None) -> Standing:
        """The entries that `read` would use, for a caller that has not taken over the sink. They may change a moment later. The topic is
        created if it is missing."""
        found, doubtful = self._run(timeout, lambda client, deadline: self._read(client, deadline, sink))
        opened = tuple(Opened(self.entry_of(sink, each), each.partition, each.offset) for each in doubtful)
        return Standing(self.entry_of(sink, found), opened)

    def record(self, entry: LedgerEntry) -> tuple[bytes, bytes]:
        """Key and value of the entry's record; send it to `partition_of(entry.key)` within the batch's transaction."""
        return entry.key.encode(), entry.dumps()

    def list(self, timeout: SupportsFloat | None = None) -> list[LedgerEntry]:
        """The newest committed entry of each sink and job, by key."""
        return [entry for key, found in self.look(timeout).items() if (entry := self.entry_of(key, found.stored)) is not None]

    def look(self, timeout: SupportsFloat | None = None) -> dict[str, Found]:
        """The logs' undecoded values of each key, in order; nothing if the topic is missing. It creates no topic."""
        return self._run(timeout, self._look)

    def entry_of(self, sink: str, stored: Stored | None) -> LedgerEntry | None:
        """The decoded entry of a sink's key; None for a tombstone or no value. Raises LedgerDamaged."""
        if stored is not None and stored.plain:
            raise LedgerDamaged(
                f"all that the ledger has of sink {sink!r}, at offset {stored.offset} of {self.topic}-{stored.partition}, was written "
                "outside of any transaction: it is not fencepost's and does not count, and compaction may have removed an entry for it. "
                f"Find out which other client writes into the topic; `fencepost ledger reset {sink} --yes` deletes the sink's entry"
            )
        if stored is None or stored.value is None:
            return None
        try:
            entry = LedgerEntry.loads(stored.value)
            if entry.key != sink:
                raise BadLedgerEntry(f"its value is of {entry.key!r}")
        except BadLedgerEntry as error:
            raise LedgerDamaged(
                f"the ledger's entry of sink {sink!r} at offset {stored.offset} of {self.topic}-{stored.partition} cannot be used: {error}"
            ) from None
        return entry

    def reset(self, sink: str, timeout: SupportsFloat | None = None, *, transactional_id: str | None = None) -> Stored | None:
        """Delete the sink's entry, and return it, or None. Stop the query first, because this call takes over its transactional id.
        `transactional_id`: needed if the entry does not name it and it is not the usual one.

        Raises LedgerBusy if an open transaction has an entry of the sink. An unreadable entry can be reset.
        """
        return self._run(timeout, lambda client, deadline: self._reset(client, deadline, sink, transactional_id))

    # -- small print -------------------------------------------------------------------------------------------------

    async def _ensure(self, client: ClusterClient, deadline: Deadline) -> Leaders:
        self._topic_id, leaders = await ensure_topic(client, self.topic, deadline, self._topic_id)
        self._partitions = len(leaders)
        return leaders

    async def _read(self, client: ClusterClient, deadline: Deadline, sink: str) -> tuple[Stored | None, tuple[Stored, ...]]:
        """The committed value and the undecided ones, the newest last, of the key's own partition. If that has none, of the other
        partitions, which may have values from before partitions were added."""
        key = sink.encode()
        leaders = await self._ensure(client, deadline)
        home = partition_for_key(key, len(leaders))
        scans: dict[int, Scan] = {}
        for partition in (home, *(each for each in sorted(leaders) if each != home)):
            scans[partition] = await scan_partition(client, self.topic, partition, deadline, wanted={key})
            if partition == home and key in scans[home].committed:
                break
        found = _newest(scans, key, home)
        unsure = [stored for partition in sorted(scans, key=lambda each: each == home) for stored in scans[partition].open.get(key, ())]
        doubtful = tuple(each for each in unsure if found is None or found.partition != each.partition or found.offset < each.offset)
        if found is not None and found.partition != home:
            log.warning(
                "the ledger has sink %r in partition %d, but its partition is %d now, because the topic was given more partitions: the "
                "entry is read from there",
                sink,
                found.partition,
                home,
            )
        if found is not None and not found.plain and (plain := scans[found.partition].plain.get(key)) and plain.offset > found.offset:
            log.warning(
                "the ledger has a record of sink %r at offset %d of %s-%d that belongs to no transaction: it does not count. Find out "
                "which other client writes into the topic, because compaction removes entries for such records",
                sink,
                plain.offset,
                self.topic,
                plain.partition,
            )
        return found, doubtful

    async def _reset(self, client: ClusterClient, deadline: Deadline, sink: str, transactional_id: str | None) -> Stored | None:
        key = sink.encode()
        leaders = await client.again(lambda: find_topic(client, self.topic), deadline) or {}
        scans = {partition: await scan_partition(client, self.topic, partition, deadline, wanted={key}) for partition in sorted(leaders)}
        if any(key in scan.open for scan in scans.values()):
            raise LedgerBusy(
                f"sink {sink!r}: a transaction with an entry of it is open. Stop its query; if the query has died, the transaction ends "
                "after its timeout, or when the query is started again"
            )
        places = [
            partition
            for partition, scan in scans.items()
            if ((stored := scan.committed.get(key)) is not None and stored.value is not None) or (stored is None and key in scan.plain)
        ]
        if not places:
            return None
        had = _newest(scans, key, partition_for_key(key, len(leaders)))
        if transactional_id is None:
            transactional_id = self._id_in(sink, had) or ID_PREFIX + sink
        try:
            await Tombstones(client, self.topic, key, places, transactional_id).write(deadline)
        except NotPermitted as error:
            raise LedgerUnusable(f"{error}: forgetting a sink needs WRITE on its transactional id and on topic {self.topic!r}") from None
        return had

    def _named(self, sink: str, stored: Stored) -> str:
        """The transactional id that a value names, for an error message."""
        named = self._id_in(sink, stored)
        return "" if named is None else f" (it names transactional id {named!r})"

    def _id_in(self, sink: str, stored: Stored | None) -> str | None:
        """The transactional id that a value names, or None."""
        try:
            entry = self.entry_of(sink, stored)
        except LedgerDamaged:
            return None
        return None if entry is None else entry.transactional_id

    async def _look(self, client: ClusterClient, deadline: Deadline) -> dict[str, Found]:
        leaders = await client.again(lambda: find_topic(client, self.topic), deadline)
        if leaders is None:
            return {}
        self._partitions = len(leaders)
        scans = {partition: await scan_partition(client, self.topic, partition, deadline) for partition in sorted(leaders)}
        keys = {key for scan in scans.values() for key in (*scan.committed, *scan.open, *scan.plain)}
        return {
            key.decode(errors="replace"): Found(
                _newest(scans, key, partition_for_key(key, len(leaders))), is_open=any(key in scan.open for scan in scans.values())
            )
            for key in sorted(keys)
        }

    def _run(self, timeout: SupportsFloat | None, ask: Callable[[ClusterClient, Deadline], Awaitable[T]]) -> T:
        limit_s = seconds(timeout, self._settings.max_block_ms / 1000.0)

        try:
            return ask_client(self._settings, lambda client: ask(client, Deadline(limit_s)))
        except Unanswered as error:
            raise LedgerUnavailable(f"topic {self.topic!r}: no answer within {limit_s:g} s: {error}") from None
        except NotPermitted as error:
            raise LedgerUnusable(f"{error}: the ledger needs DESCRIBE, READ and WRITE on topic {self.topic!r}") from None


def _newest(scans: dict[int, Scan], key: bytes, home: int) -> Stored | None:
    """Each value of the key's own partition is newer than those of the others, because the number of partitions only grows. A value that
    does not count is used only if there is no other."""
    committed = {partition: scan.committed[key] for partition, scan in scans.items() if key in scan.committed}
    several = committed or {partition: scan.plain[key] for partition, scan in scans.items() if key in scan.plain}
    return several.get(home) or max(several.values(), key=lambda stored: stored.timestamp, default=None)
