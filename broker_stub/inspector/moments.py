"""A moment: the snapshot, the rows of the journal, the findings and the fault rules; and what has changed since the last one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from fencepost.broker_stub.inspector.findings import findings
from fencepost.broker_stub.inspector.rows import Row, Rows
from fencepost.broker_stub.inspector.source import Source
from fencepost.producer.foundations.rlock import RLock

Moment = dict[str, Any]


class Moments:
    """The moments of one source. Any thread may take them, one at a time. `at_end`: see `findings`."""

    def __init__(self, source: Source, *, at_end: bool = False) -> None:
        self._source = source
        self._at_end = at_end
        self._lock = RLock()
        self._rows = Rows(source.name_of)
        self._told: tuple[object, ...] = ()
        self._topics: dict[str, Any] = {}  # as they were told last, by name
        self._new: dict[int, Row] = {}  # rows that `news` has not told yet

    def whole(self) -> Moment:
        """Everything that is known now."""
        with self._lock:
            self._update()
            self._told, self._topics = (), {}  # a page that was just opened may also get older news, so all is told once more
            return self._moment(self._snapshot()) | {"full": True, "exchanges": self._rows.every}

    def news(self) -> Moment | None:
        """What has changed since the last call; None for nothing. It has the rows and the topics that are new or changed, the names of all
        topics, and the rest of the snapshot."""
        with self._lock:
            self._update()
            moment = self._moment(self._snapshot())
            told = ({**moment["snapshot"], "now_ms": 0}, moment["findings"], moment["faults"])
            if not self._new and told == self._told:
                return None
            self._told, new, self._new = told, self._new, {}
            return moment | {"exchanges": [*new.values()], "snapshot": self._without_known(moment["snapshot"])}

    def _snapshot(self) -> dict[str, Any]:
        return self._source.snapshot({topic for row in self._rows.every for topic in row["topics"]})

    def _without_known(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """The snapshot without the topics that have not changed."""
        before, self._topics = self._topics, {topic["name"]: topic for topic in snapshot["topics"]}
        changed = [topic for name, topic in self._topics.items() if before.get(name) != topic]
        return {**snapshot, "topics": changed, "topic_names": [*self._topics]}

    def _update(self) -> None:
        self._new.update((row["n"], row) for row in self._rows.update(self._source.journal.requests()))

    def _moment(self, snapshot: dict[str, Any]) -> Moment:
        rows = self._rows.every
        return {
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
            "snapshot": snapshot,
            "oldest": self._rows.oldest,
            "findings": findings(snapshot, rows, at_end=self._at_end),
            "faults": [fault.as_data() for fault in self._source.faults.installed],
        }


def encoded(moment: Moment) -> bytes:
    """As JSON."""
    return msgspec.json.encode(moment)


def as_event(data: bytes) -> bytes:
    """As a server-sent event. JSON has no line ends."""
    return b"data: " + data + b"\n\n"
