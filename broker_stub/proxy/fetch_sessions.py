"""The fetch sessions of the clients behind a proxy (KIP-227), which the partitions of an incremental Fetch come from.

It reads a Fetch only where there is a session, so none of librdkafka's, and changes nothing. Above the limit it forgets the session that
was idle the longest.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from fencepost.broker_stub.faults.topics_and_partitions import NameOf, TopicPartition
from fencepost.broker_stub.proxy.request import ProxiedRequest
from fencepost.producer.wire import Api, Message
from fencepost.producer.wire.messages.fetch import FetchRequest

SESSIONS_MAX: Final = 10_000
NO_SESSION, INITIAL_EPOCH = 0, 0
SESSIONS_SINCE, FLEXIBLE_SINCE, WITHOUT_REPLICA_SINCE = 7, 12, 15

_ID = Struct(">i")
_ANSWER = Struct(">ihi")  # throttle time, error code, session id
_BEFORE_ID: Final = 4 + 4 + 4 + 1  # max_wait_ms, min_bytes, max_bytes and isolation_level
_REPLICA: Final = 4
_CORRELATION: Final = 4

Key = tuple[str, UUID, int]
"""A partition, with its topic as the request names it: by name or by id."""


class FetchSessions:
    """The sessions of every broker behind one proxy."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], dict[Key, None]] = {}

    def partitions_of(self, node: int, request: Message, name_of: NameOf) -> list[TopicPartition]:
        """The partitions of this request's session. None without a session, and for other requests than Fetch."""
        known = self._told.get((node, getattr(request, "session_id", NO_SESSION)), {})
        named = [(topic or name_of(topic_id), partition) for topic, topic_id, partition in known]
        return [(topic, partition) for topic, partition in named if topic is not None]

    def note(self, proxied: ProxiedRequest, answer: bytes) -> None:
        """Learns a session's partitions from a Fetch that a broker has answered."""
        if proxied.api != Api.FETCH or proxied.version < SESSIONS_SINCE:
            return
        flexible = proxied.version >= FLEXIBLE_SINCE
        if len(answer) < _CORRELATION + flexible + _ANSWER.size or (flexible and answer[_CORRELATION]):
            return
        _, error, session_id = _ANSWER.unpack_from(answer, _CORRELATION + flexible)
        at = proxied.start + _BEFORE_ID + (_REPLICA if proxied.version < WITHOUT_REPLICA_SINCE else 0)
        asked_id = _ID.unpack_from(proxied.frame, at)[0] if len(proxied.frame) >= at + _ID.size else NO_SESSION
        if error or (session_id == asked_id == NO_SESSION):
            return
        known = self._told.pop((proxied.node, asked_id), {})
        request = proxied.request() if session_id != NO_SESSION else None
        if isinstance(request, FetchRequest):
            self._told[proxied.node, session_id] = _told(request, known)
            if len(self._told) > SESSIONS_MAX:
                del self._told[next(iter(self._told))]


def _told(request: FetchRequest, known: dict[Key, None]) -> dict[Key, None]:
    """The session's partitions after the request. Its first epoch begins anew."""
    if request.session_epoch == INITIAL_EPOCH:
        known = {}
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            known.pop((forgotten.topic, forgotten.topic_id, index), None)
    return known | {(topic.topic, topic.topic_id, each.partition): None for topic in request.topics for each in topic.partitions}
