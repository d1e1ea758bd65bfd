"""Questions with Fetch: which records are stored, how long the broker waits, and fetch sessions."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from tests.conformance.asks_log import PRODUCE_VERSION, produce_request
from tests.conformance.batches import HEADER, HEADER_BYTES, Batch
from tests.conformance.stage import Stage, Topic

FETCH_VERSION = 12
CODECS = {0: "plain", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

Place = tuple[Topic, int, int]


class FetchAsks(Stage):
    """A part of the world of a case."""

    def fetch(
        self,
        topic: Topic,
        offset: int,
        *,
        label: str = "stored",
        partition: int = 0,
        version: int = FETCH_VERSION,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        isolation: int = 0,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        timed: bool = False,
        node: int | None = None,
    ) -> None:
        """Read one partition, and note the answer."""
        request = fetch_request(
            [(topic, partition, offset)],
            version,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            isolation=isolation,
            leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        node = topic.leaders.get(partition) if node is None else node
        began = time.monotonic()

        def show(answer: wire.FetchResponse) -> str:
            return self._show_fetched(answer) + (_show_wait(time.monotonic() - began, max_wait_ms) if timed else "")

        self.note_answer(label, request, version, wire.FetchResponse, show, node=node)

    def fetch_many(
        self,
        places: Sequence[Place],
        *,
        label: str,
        version: int = FETCH_VERSION,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        isolation: int = 0,
        timed: bool = False,
    ) -> None:
        """Read several partitions with one request."""
        request = fetch_request(
            places,
            version,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            max_wait_ms=max_wait_ms,
            isolation=isolation,
        )
        began = time.monotonic()

        def show(answer: wire.FetchResponse) -> str:
            return self._show_fetched(answer) + (_show_wait(time.monotonic() - began, max_wait_ms) if timed else "")

        self.note_answer(label, request, version, wire.FetchResponse, show)

    def fetch_bytes(self, topic: Topic, offset: int) -> bytes:
        """The stored bytes of one partition from that offset on."""
        answer = self.ask(fetch_request([(topic, 0, offset)], FETCH_VERSION), FETCH_VERSION, wire.FetchResponse)
        return bytes(answer.responses[0].partitions[0].records or b"")

    def fetch_while_producing(self, topic: Topic, batch: Batch, *, label: str) -> None:
        """A Fetch that waits at the end of the log is answered when a record arrives."""
        request = fetch_request([(topic, 0, 0)], FETCH_VERSION, max_wait_ms=10_000)
        with self.open(topic.leaders[0]) as connection:
            connection.send(request, FETCH_VERSION)
            self.note(f"{label}: before", "waits" if connection.quiet(0.2) else "answered")
            self.ask(produce_request([(topic, 0, batch.encode())], PRODUCE_VERSION), PRODUCE_VERSION, wire.ProduceResponse)
            began = time.monotonic()
            answer = connection.receive(request, FETCH_VERSION)
            assert isinstance(answer, wire.FetchResponse)
            self.note(label, self._show_fetched(answer) + _show_wait(time.monotonic() - began, 10_000))

    def session(self, version: int = FETCH_VERSION) -> Session:
        return Session(self, version)

    def _show_fetched(self, answer: wire.FetchResponse) -> str:
        shown = "" if answer.error_code == 0 else f"{error_name(answer.error_code)} for all; "
        several = sum(len(topic.partitions) for topic in answer.responses) > 1
        parts = []
        for topic in answer.responses:
            for part in topic.partitions:
                name = f"{self.show_topic(topic.topic, topic.topic_id)}-{part.partition_index} " if several else ""
                parts.append(name + self._show_part(part) + self.show_leader(part.current_leader, answer.node_endpoints))
        # Brokers may name the partitions with errors first or last.
        return shown + ("; ".join(sorted(parts)) or "nothing")

    def _show_part(self, part: wire.PartitionData) -> str:
        shown = error_name(part.error_code)
        shown += f" hw={part.high_watermark} lso={part.last_stable_offset} start={part.log_start_offset}"
        if part.diverging_epoch != wire.EpochEndOffset():
            shown += f" diverging={part.diverging_epoch.epoch}@{part.diverging_epoch.end_offset}"
        aborted = part.aborted_transactions
        shown += f" aborted={'null' if aborted is None else len(aborted)}"
        if part.preferred_read_replica != -1:
            shown += f" preferred={self.show_node(part.preferred_read_replica)}"
        return f"{shown} [{self._show_records(part.records)}]"

    def _show_records(self, records: wire.Records | None) -> str:
        if records is None:
            return "null"
        data, shown = bytes(records), []
        while len(data) >= HEADER_BYTES:
            base, length, leader, _, _, attributes, delta, first, last, pid, epoch, sequence, count = HEADER.unpack_from(data)
            if len(data) < length + 12:
                break
            kind = CODECS.get(attributes & 7, "?") + (f" attributes={attributes & ~7:#x}" if attributes & ~7 else "")
            who = f" {self.show_pid(pid)}/{epoch}/{sequence}" if (pid, epoch, sequence) != (-1, -1, -1) else ""
            times = f"{self.show_time(first)}..{self.show_time(last)}"
            shown.append(f"{base}-{base + delta} n={count} {kind} epoch={leader}{who} {times}")
            data = data[length + 12 :]
        return ", ".join(shown) + (f" and {len(data)} bytes" if data else "")


class Session:
    """A fetch session as the client sees it: an id, and the epochs that the case chooses."""

    def __init__(self, stage: FetchAsks, version: int) -> None:
        self._stage = stage
        self._version = version
        self.session_id = 0

    def use(self, session_id: int, *, version: int | None = None) -> None:
        """Continue with that session, in that version."""
        self.session_id = session_id
        self._version = self._version if version is None else version

    def fetch(
        self,
        places: Sequence[Place],
        *,
        epoch: int,
        label: str,
        forgotten: Sequence[tuple[Topic, int]] = (),
        last_fetched_epoch: int = -1,
        max_bytes: int = 1 << 20,
    ) -> None:
        """Send one request of the session; note the session's id and the partitions in the response."""
        request = fetch_request(
            places,
            self._version,
            max_wait_ms=50,
            session_id=self.session_id,
            session_epoch=epoch,
            forgotten=forgotten,
            last_fetched_epoch=last_fetched_epoch,
            max_bytes=max_bytes,
        )

        def show(answer: wire.FetchResponse) -> str:
            before, self.session_id = self.session_id, answer.session_id or self.session_id
            word = "none" if answer.session_id == 0 else "the same" if answer.session_id == before else "new"
            return f"session {word}: {self._stage._show_fetched(answer)}"

        self._stage.note_answer(label, request, self._version, wire.FetchResponse, show)


def fetch_request(
    places: Sequence[Place],
    version: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation: int = 0,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
    forgotten: Sequence[tuple[Topic, int]] = (),
) -> wire.FetchRequest:
    """One topic entry per partition, which keeps the order. From version 13 on topics have ids."""
    topics, leave = [], []
    for topic, partition, offset in places:
        part = wire.FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_fetched_epoch,
            partition_max_bytes=partition_max_bytes,
        )
        name, topic_id = ("", topic.id) if version >= 13 else (topic.name, wire.ZERO_UUID)
        topics.append(wire.FetchTopic(topic=name, topic_id=topic_id, partitions=[part]))
    for topic, partition in forgotten:
        name, topic_id = ("", topic.id) if version >= 13 else (topic.name, wire.ZERO_UUID)
        leave.append(wire.ForgottenTopic(topic=name, topic_id=topic_id, partitions=[partition]))
    return wire.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=leave,
    )


def _show_wait(seconds: float, max_wait_ms: int) -> str:
    return " after the wait" if max_wait_ms and seconds * 1000 > 0.8 * max_wait_ms else " at once"
