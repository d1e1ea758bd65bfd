"""Share sessions: which partitions a member of a share group fetches, so that its next ShareFetch need not name them again.

Each broker has its own, and they end with it, or with the connection that opened them. A session has an epoch, which every request must
know. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.share_partitions.states import ShareRefused
from fencepost.producer.wire import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1


class TopicIdPartition(NamedTuple):
    """A partition, by its topic's id."""

    topic_id: UUID
    partition: int


class ShareSession:
    """The session of one member at one broker. Its partitions are in the order in which they were named."""

    def __init__(self, group_id: str, member_id: str, connection_id: int) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection_id = connection_id
        self.epoch = 1
        self._must_tell: dict[TopicIdPartition, bool] = {}  # whether the next response must name it
        self.names: dict[UUID, str] = {}  # the topics that were known when they were named first

    @property
    def partitions(self) -> list[TopicIdPartition]:
        return [*self._must_tell]

    def begin(self, partitions: Iterable[TopicIdPartition]) -> None:
        """The first request names these, and its response has all of them."""
        self._must_tell.update(dict.fromkeys(partitions, False))

    def update(self, partitions: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        for each in partitions:
            self._must_tell.setdefault(each, True)
        for each in forgotten:
            self._must_tell.pop(each, None)

    def advance(self) -> None:
        self.epoch = next_epoch(self.epoch)

    def is_news(self, partition: TopicIdPartition, *, has_records: bool, failed: bool) -> bool:
        """Whether the response must name this partition. It then moves to the end, if it has records."""
        if partition not in self._must_tell:
            return True
        news = self._must_tell[partition] or has_records or failed
        self._must_tell[partition] = failed
        if has_records:
            self._must_tell[partition] = self._must_tell.pop(partition)
        return news


class ShareSessions:
    """The sessions of one broker."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._opened_by: dict[int, ShareSession] = {}  # the last one of each connection

    def get(self, group_id: str, member_id: str) -> ShareSession:
        """Raises ShareRefused without one."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def create(self, group_id: str, member_id: str, connection_id: int) -> ShareSession:
        """A new session, in the place of an older one of the same member. Raises ShareRefused if there are too many."""
        self.remove(group_id, member_id)
        if len(self._sessions) >= self._limit:
            raise ShareRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, connection_id)
        self._sessions[group_id, member_id] = self._opened_by[connection_id] = session
        return session

    def proceed(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session, one epoch further. Raises ShareRefused for another epoch."""
        session = self.get(group_id, member_id)
        if session.epoch != epoch:
            raise ShareRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.advance()
        return session

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.pop((group_id, member_id), None)

    def disconnected(self, connection_id: int) -> tuple[ShareSession | None, bool]:
        """The session that this connection opened last, and whether it is still open."""
        session = self._opened_by.pop(connection_id, None)
        return session, session is not None and self._sessions.get((session.group_id, session.member_id)) is session

    def has_members(self, group_id: str) -> bool:
        return any(group == group_id for group, _ in self._sessions)


def next_epoch(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1
