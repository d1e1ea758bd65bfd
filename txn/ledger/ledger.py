"""The ledger: the newest batch of each sink, in a compacted topic, written in the same transaction as the batch's rows.

An entry is committed with its rows or not at all. So a driver that reads it after taking over the transactional id knows whether the batch
was written. Only committed entries count. No log says which transactional id committed an entry, so the ledger trusts each producer that
may write transactions into the topic. This module writes only the tombstones of `reset`; `batch_decision` decides. Each call opens
and closes its own connections, has a deadline, and works in any thread.
"""

from __future__ import annotations

from typing import Final, SupportsFloat

from msgspec import Struct

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.producer.config.settings import Settings
from fencepost.txn.keyed_topic.errors import LedgerBusy, LedgerDamaged
from fencepost.txn.keyed_topic.keyed_topic import Found, KeyedTopic, newest
from fencepost.txn.keyed_topic.purpose import LEDGER
from fencepost.txn.keyed_topic.scan import Stored
from fencepost.txn.ledger.entry import BadLedgerEntry, LedgerEntry
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline

__all__ = ["ID_PREFIX", "TOPIC", "Found", "Ledger", "Opened", "Standing"]

TOPIC: Final = "__fencepost_ledger"
ID_PREFIX: Final = "fencepost."
"""The beginning of a sink's transactional id, unless its writer has another (`transactional_id_prefix`)."""


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
        self._entries: Final = KeyedTopic(settings, topic, LEDGER)
        self.topic: Final = topic

    def ensure(self, timeout: SupportsFloat | None = None) -> int:
        """Create the topic if it is missing, and check that it can be a ledger. Returns the number of its partitions. Once the topic was
        there it is not created again: LedgerUnusable says that it was deleted or replaced."""
        return len(self._entries.run(timeout, self._entries.ensure))

    def partition_of(self, sink: str) -> int:
        """The partition of the sink's entries: Kafka's own partitioner (murmur2), over the number of partitions that was read last."""
        return self._entries.partition_of(sink)

    def read(self, sink: str, timeout: SupportsFloat | None = None) -> LedgerEntry | None:
        """The sink's newest committed entry, or None. The topic is created if it is missing.

        The markers in the log, up to its present end, say what is committed. Take over the sink's transactional id first: then none of its
        transactions is open, and the answer stays true. Raises LedgerBusy if one is open nevertheless, because its outcome is not known,
        and LedgerDamaged for an entry that cannot be read.
        """
        found, doubtful = self._entries.run(timeout, lambda client, deadline: self._entries.read(client, deadline, sink))
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
        found, doubtful = self._entries.run(timeout, lambda client, deadline: self._entries.read(client, deadline, sink))
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
        return self._entries.run(timeout, self._entries.look)

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
        return self._entries.run(timeout, lambda client, deadline: self._reset(client, deadline, sink, transactional_id))

    # -- small print -------------------------------------------------------------------------------------------------

    async def _reset(self, client: ClusterClient, deadline: Deadline, sink: str, transactional_id: str | None) -> Stored | None:
        key = sink.encode()
        leaders, scans = await self._entries.scans(client, deadline, frozenset({key}))
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
        had = newest(scans, key, partition_for_key(key, len(leaders)))
        if transactional_id is None:
            transactional_id = self._id_in(sink, had) or ID_PREFIX + sink
        await self._entries.write(client, deadline, sink, None, places, transactional_id)
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
