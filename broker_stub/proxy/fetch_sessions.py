"""The fetch sessions of the clients behind a proxy (KIP-227): an incremental Fetch is about what its session was told before.

It reads a Fetch only where there is a session, so nothing of librdkafka's, and changes nothing. When there are too many sessions the one
that has been silent for longest is forgotten.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from fencepost.broker_stub.faults.rules import TopicPartition
from fencepost.broker_stub.faults.subjects import NameOf
from fencepost.broker_stub.proxy.request import Slot
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
"""A partition, its topic called as the request called it: by name or by id."""


class FetchSessions:
    """Of every broker behind one proxy."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], dict[Key, None]] = {}

    def partitions_of(self, node: int, request: Message, name_of: NameOf) -> list[TopicPartition]:
        """What the session of this request was told before; nothing for one without a session, or that is no Fetch."""
        known = self._told.get((node, getattr(request, "session_id", NO_SESSION)), {})
        named = [(topic or name_of(topic_id), partition) for topic, topic_id, partition in known]
        return [(topic, partition) for topic, partition in named if topic is not None]

    def note(self, slot: Slot, answer: bytes) -> None:
        """A broker has answered; if it was a Fetch, that is what its session has been told now."""
        if slot.api != Api.FETCH or slot.version < SESSIONS_SINCE:
            return
        flexible = slot.version >= FLEXIBLE_SINCE
        if len(answer) < _CORRELATION + flexible + _ANSWER.size or (flexible and answer[_CORRELATION]):
            return
        _, error, session_id = _ANSWER.unpack_from(answer, _CORRELATION + flexible)
        at = slot.start + _BEFORE_ID + (_REPLICA if slot.version < WITHOUT_REPLICA_SINCE else 0)
        asked_id = _ID.unpack_from(slot.frame, at)[0] if len(slot.frame) >= at + _ID.size else NO_SESSION
        if error or (session_id == asked_id == NO_SESSION):
            return
        known = self._told.pop((slot.node, asked_id), {})
        request = slot.request() if session_id != NO_SESSION else None
        if isinstance(request, FetchRequest):
            self._told[slot.node, session_id] = _told(request, known)
            if len(self._told) > SESSIONS_MAX:
                del self._told[next(iter(self._told))]


def _told(request: FetchRequest, known: dict[Key, None]) -> dict[Key, None]:
    """What the session is about now: with its first epoch it begins anew."""
    if request.session_epoch == INITIAL_EPOCH:
        known = {}
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            known.pop((forgotten.topic, forgotten.topic_id, index), None)
    return known | {(topic.topic, topic.topic_id, each.partition): None for topic in request.topics for each in topic.partitions}
