"""Fetch sessions (KIP-227): which partitions a client fetches, so that its next Fetch need not name them again.

Each broker has one cache, which ends with the broker. A session decides which partitions are fetched and which results are news; it reads
no log. The cache never evicts a session: beyond the limit a new session gets id 0, which clients take as "no session".
"""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.replica import Replica
from fencepost.producer.wire import PartitionData

FINAL_EPOCH, INITIAL_EPOCH, SESSION_EPOCH_MAX = -1, 0, 2**31 - 1
SESSIONS_MAX = 1000  # max.incremental.fetch.session.cache.slots

Key = tuple[str, UUID, int]


class Asked(NamedTuple):
    """One partition of a Fetch, with its topic as the request names it: by name or by id."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    bytes_max: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int = -1  # of a follower

    @property
    def key(self) -> Key:
        return (self.topic, self.topic_id, self.partition)


class CachedPartition:
    """What the session last sent about one partition. `seen`: the replica's `changes` when the follower was last up to
    date."""

    __slots__ = ("asked", "high_watermark", "log_start_offset", "partition", "replica", "seen")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.partition: Partition | None = None
        self.replica: Replica | None = None
        self.high_watermark = -1
        self.log_start_offset = -1
        self.seen = -1

    def knows(self, answer: PartitionData) -> bool:
        """Whether a response with this data would have nothing new."""
        return (
            not answer.records
            and not answer.error_code
            and answer.diverging_epoch.end_offset < 0
            and answer.high_watermark == self.high_watermark
            and answer.log_start_offset == self.log_start_offset
        )


class Session:
    """The partitions of one client, in the order of serving. A partition that got records goes to the end."""

    def __init__(self, session_id: int, *, uses_ids: bool) -> None:
        self.id = session_id
        self.uses_ids = uses_ids
        self.epoch = 1
        self.names: dict[UUID, str] = {}  # the topics of the ids when the session first read them; the session keeps to that
        self._cached: dict[Key, CachedPartition] = {}

    def update(self, asked: Iterable[Asked], forgotten: Iterable[Key] = ()) -> None:
        for each in asked:
            known = self._cached.get(each.key)
            if known is None:
                self._cached[each.key] = CachedPartition(each)
            else:
                known.asked, known.seen = each, -1
        for key in forgotten:
            self._cached.pop(key, None)

    def partitions(self) -> list[Asked]:
        return [cached.asked for cached in self._cached.values()]

    def cached(self) -> list[CachedPartition]:
        return list(self._cached.values())

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == SESSION_EPOCH_MAX else self.epoch + 1

    def is_news(self, key: Key, answer: PartitionData, *, incremental: bool = True) -> bool:
        """Whether the response must name this partition. Remembers what the response then says. The response that begins a session,
        which is not `incremental`, has everything and leaves the order alone."""
        cached = self._cached.get(key)
        if cached is None:
            return True
        news = not incremental or not cached.knows(answer)
        # After an error the client knows nothing, so the next good result is news.
        cached.high_watermark = -1 if answer.error_code else answer.high_watermark
        cached.log_start_offset = answer.log_start_offset
        if answer.records and incremental:
            self._cached[key] = self._cached.pop(key)
        return news


class SessionCache:
    """The sessions of one broker."""

    def __init__(self, *, limit: int = SESSIONS_MAX) -> None:
        self._limit = limit
        self._next_id = 1
        self._sessions: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def create(self, *, uses_ids: bool, privileged: bool = False) -> Session | None:
        """A new session. None: there are too many. A privileged one, a follower's, is always created."""
        if len(self._sessions) >= self._limit and not privileged:
            return None
        session = Session(self._next_id, uses_ids=uses_ids)
        self._next_id = 1 if self._next_id == SESSION_EPOCH_MAX else self._next_id + 1
        self._sessions[session.id] = session
        return session

    def remove(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def clear(self) -> None:
        self._sessions.clear()
