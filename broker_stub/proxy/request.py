"""One request on its way through the proxy: the subject of fault rules, and the place of its response.

It decodes a frame only when its content is needed. It sends nothing: the connection does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import Protocol
from uuid import UUID

from msgspec.structs import replace

from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of, transactional_ids_of
from fencepost.broker_stub.faults.rules import Action, Everything
from fencepost.broker_stub.faults.topics_and_partitions import TopicPartition, asks_for_all, names_partitions, partitions_of, with_error
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.broker_stub.proxy.messages import is_in_version_0, must_read, names_in, read_answer, read_request, readdressed
from fencepost.broker_stub.proxy.writes import together
from fencepost.producer.wire import Api, Buffer, Malformed, Message, decode_request_header, encode_response

_SIZE = Struct(">i")
_log = logging.getLogger(__name__)


class Names(Protocol):
    """What a proxy knows of the cluster behind it."""

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of a topic id that a response has told."""
        ...

    def learn(self, names: Mapping[UUID, str]) -> None:
        """Keeps the names of these topic ids."""
        ...

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Where clients find the node that is at that address. Raises OSError or ValueError when it cannot be found."""
        ...

    def in_session(self, node: int, request: Message) -> list[TopicPartition]:
        """The partitions of the request's fetch session."""
        ...


class ProxiedRequest:
    """One request, and its response once that is ready. Fault rules match it."""

    __slots__ = (
        "answer",
        "api",
        "client_id",
        "correlation_id",
        "cut",
        "errors",
        "exchange",
        "expects_answer",
        "faults",
        "frame",
        "names",
        "node",
        "parts",
        "refused",
        "start",
        "throttle_ms",
        "twice",
        "version",
    )

    def __init__(self, names: Names, node: int, frame: bytes) -> None:
        header, self.start = decode_request_header(frame)
        self.names = names
        self.node = node
        self.frame = frame
        self.api = header.api_key
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.expects_answer = self.api != Api.PRODUCE or not _acks_are_zero(frame, self.start, self.version)
        self.answer = b""  # the broker's, without its length
        self.errors: list[Action] = []
        self.refused: Message | None = None  # the proxy's own response, instead of the broker's
        self.throttle_ms = 0
        self.twice = False
        self.exchange: Exchange | None = None  # in the journal
        self.faults: tuple[str, ...] = ()  # the rules that acted on it, for the journal
        self.parts: list[Buffer] | None = None  # ready to leave
        self.cut = False  # the connection ends here

    def partitions(self) -> Collection[TopicPartition] | Everything:
        """Only the broker knows all topics, so a request for all is about any topic that a rule names."""
        request = self.request()
        if request is None:
            return ()
        if asks_for_all(request, self.version):
            return Everything(by_partition=names_partitions(self.api))
        return partitions_of(request, self.names.name_of) + self.names.in_session(self.node, request)

    def groups(self) -> Collection[str]:
        request = self.request()
        return () if request is None else groups_of(request)

    def transactional_ids(self) -> Collection[str]:
        request = self.request()
        return () if request is None else transactional_ids_of(request)

    def request(self) -> Message | None:
        """The decoded request. None for an unknown or damaged one, which the broker handles."""
        try:
            return read_request(self.frame, self.api, self.version, start=self.start)
        except Malformed:
            return None

    def acted_on(self, actions: Iterable[Action]) -> None:
        """Notes the rules of these actions."""
        self.faults += tuple(str(action.fault) for action in actions)
        if self.exchange is not None:
            self.exchange.faults = self.faults

    @property
    def changed(self) -> bool:
        """Whether a fault changes the response."""
        return bool(self.errors or self.refused or self.throttle_ms)

    def answer_parts(self) -> list[Buffer]:
        """The frame for the client: the broker's bytes, unless something in them must change."""
        untouched: list[Buffer] = [_SIZE.pack(len(self.answer)), self.answer]
        if not (self.changed or must_read(self.api, self.version)):
            return untouched
        answer = self._read()
        if answer is None:
            return untouched
        for action in self.errors:
            answer = with_error(answer, action.code, action.covers, self.names.name_of)
        if self.throttle_ms and "throttle_time_ms" in answer.__struct_fields__:
            answer = replace(answer, throttle_time_ms=self.throttle_ms)
        return encode_response(answer, self.version, correlation_id=self.correlation_id)

    def _read(self) -> Message | None:
        """The response with the proxy's addresses. None: it cannot be read and must pass as it is."""
        answer = self.refused
        if self.answer:
            try:
                given = read_answer(self.answer, self.api, self.version)
            except Malformed as error:
                _log.warning("node %d: %s; the response passes as it is", self.node, error)
                return None
            if given is None or is_in_version_0(self.answer, self.api):
                return None
            answer = given if answer is None else together(given, answer)
        assert answer is not None
        self.names.learn(names_in(answer))
        return readdressed(answer, self.names.address_of)


def _acks_are_zero(frame: bytes, position: int, version: int) -> bool:
    """Whether a Produce body that starts there has acks=0. From version 3 on the acks come after the transactional id."""
    if 3 <= version < 9:
        position += 2 + max(0, int.from_bytes(frame[position : position + 2], "big", signed=True))
    elif version >= 9:
        size, shift = 0, 0
        while position < len(frame):
            byte = frame[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        position += max(0, size - 1)
    return frame[position : position + 2] == b"\0\0"
