"""A compacted topic that keeps the newest entry of each key, committed in the transactions of the records that it is about.

Only committed entries count. No log says which transactional id committed an entry, so the topic trusts each producer that may write
transactions into it. It knows bytes; its owners know what they mean. Each call opens and closes its own connections, has a deadline, and
works in any thread.
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
from fencepost.txn.keyed_topic.errors import LedgerUnavailable, LedgerUnusable
from fencepost.txn.keyed_topic.own_transaction import OwnTransaction
from fencepost.txn.keyed_topic.purpose import Purpose
from fencepost.txn.keyed_topic.reading import scan_partition
from fencepost.txn.keyed_topic.scan import Scan, Stored
from fencepost.txn.keyed_topic.topic import Leaders, ensure_topic, find_topic
from fencepost.txn.protocol.ask_now import ask_client
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered
from fencepost.txn.protocol.own_topics import check_own_topic

log = logging.getLogger("fencepost.ledger")

T = TypeVar("T")


class Found(Struct, frozen=True):
    """The logs' values of a key: the newest committed one or, without one, the newest outside of any transaction; and whether an open
    transaction has written another."""

    stored: Stored | None
    is_open: bool


class KeyedTopic:
    """See the module. Raises LedgerUnavailable if the time passes, LedgerUnusable if the topic cannot keep entries, and ConfigError for an
    invalid name."""

    def __init__(self, settings: Settings, topic: str, purpose: Purpose) -> None:
        check_own_topic("topic", topic)
        self.topic: Final = topic
        self._settings: Final = settings
        self._purpose: Final = purpose
        self._partitions: int | None = None
        self._topic_id: UUID | None = None

    def run(self, timeout: SupportsFloat | None, ask: Callable[[ClusterClient, Deadline], Awaitable[T]]) -> T:
        """The answer of `ask` within `timeout` seconds (None: `max_block_ms`)."""
        limit_s = seconds(timeout, self._settings.max_block_ms / 1000.0)
        try:
            return ask_client(self._settings, lambda client: ask(client, Deadline(limit_s)))
        except Unanswered as error:
            raise LedgerUnavailable(f"topic {self.topic!r}: no answer within {limit_s:g} s: {error}") from None
        except NotPermitted as error:
            raise LedgerUnusable(f"{error}: the {self._purpose.noun} needs DESCRIBE, READ and WRITE on topic {self.topic!r}") from None

    def partition_of(self, key: str) -> int:
        """The partition of the key's entries: Kafka's own partitioner (murmur2), over the number of partitions that was read last."""
        return partition_for_key(key.encode(), self._partitions or len(self.run(None, self.ensure)))

    async def ensure(self, client: ClusterClient, deadline: Deadline) -> Leaders:
        """Create the topic if it is missing, and check that it can keep entries. Once it was there it is not created again."""
        self._topic_id, leaders = await ensure_topic(client, self.topic, deadline, self._topic_id, self._purpose)
        self._partitions = len(leaders)
        return leaders

    async def read(self, client: ClusterClient, deadline: Deadline, name: str) -> tuple[Stored | None, tuple[Stored, ...]]:
        """The committed value and the undecided ones, the newest last, of the key's own partition. If that has none, of the other
        partitions, which may have values from before partitions were added."""
        key = name.encode()
        leaders = await self.ensure(client, deadline)
        home = partition_for_key(key, len(leaders))
        scans: dict[int, Scan] = {}
        for partition in (home, *(each for each in sorted(leaders) if each != home)):
            scans[partition] = await scan_partition(client, self.topic, partition, deadline, wanted={key})
            if partition == home and key in scans[home].committed:
                break
        found = newest(scans, key, home)
        unsure = [stored for partition in sorted(scans, key=lambda each: each == home) for stored in scans[partition].open.get(key, ())]
        doubtful = tuple(each for each in unsure if found is None or found.partition != each.partition or found.offset < each.offset)
        if found is not None and found.partition != home:
            log.warning(
                "the %s has %s %r in partition %d, but its partition is %d now, because the topic was given more partitions: the "
                "entry is read from there",
                self._purpose.noun,
                self._purpose.owner,
                name,
                found.partition,
                home,
            )
        if found is not None and not found.plain and (plain := scans[found.partition].plain.get(key)) and plain.offset > found.offset:
            log.warning(
                "the %s has a record of %s %r at offset %d of %s-%d that belongs to no transaction: it does not count. Find out "
                "which other client writes into the topic, because compaction removes entries for such records",
                self._purpose.noun,
                self._purpose.owner,
                name,
                plain.offset,
                self.topic,
                plain.partition,
            )
        return found, doubtful

    async def look(self, client: ClusterClient, deadline: Deadline) -> dict[str, Found]:
        """The logs' values of each key, in order; nothing if the topic is missing. It creates no topic."""
        leaders, scans = await self.scans(client, deadline)
        keys = {key for scan in scans.values() for key in (*scan.committed, *scan.open, *scan.plain)}
        return {
            key.decode(errors="replace"): Found(
                newest(scans, key, partition_for_key(key, len(leaders))), is_open=any(key in scan.open for scan in scans.values())
            )
            for key in sorted(keys)
        }

    async def scans(
        self, client: ClusterClient, deadline: Deadline, wanted: frozenset[bytes] | None = None
    ) -> tuple[Leaders, dict[int, Scan]]:
        """The topic's partitions, and what each has of the wanted keys (None: all). It creates no topic."""
        leaders = await client.again(lambda: find_topic(client, self.topic, self._purpose.noun), deadline)
        if leaders is None:
            return {}, {}
        self._partitions = len(leaders)
        return leaders, {each: await scan_partition(client, self.topic, each, deadline, wanted=wanted) for each in sorted(leaders)}

    async def write(
        self, client: ClusterClient, deadline: Deadline, key: str, value: bytes | None, places: list[int], transactional_id: str
    ) -> None:
        """Commit this value of the key (None: delete it) in these partitions, under this transactional id, which is taken over."""
        try:
            await OwnTransaction(client, self.topic, key.encode(), value, places, transactional_id).write(deadline)
        except NotPermitted as error:
            raise LedgerUnusable(f"{error}: this needs WRITE on its transactional id and on topic {self.topic!r}") from None


def newest(scans: dict[int, Scan], key: bytes, home: int) -> Stored | None:
    """Each value of the key's own partition is newer than those of the others, because the number of partitions only grows. A value that
    does not count is used only if there is no other."""
    committed = {partition: scan.committed[key] for partition, scan in scans.items() if key in scan.committed}
    several = committed or {partition: scan.plain[key] for partition, scan in scans.items() if key in scan.plain}
    return several.get(home) or max(several.values(), key=lambda stored: stored.timestamp, default=None)
