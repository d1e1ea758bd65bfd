"""The warning that a program gives timestamps in seconds. Kafka takes them as milliseconds, so the records are of January to April 1970.

Brokers delete records by their timestamps (`retention.ms`), and forget producers by them (`producer.id.expiration.ms`). So such records are
acknowledged, and gone at the next retention check.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final

log = logging.getLogger("fencepost.producer")

FIRST: Final = 1_000_000_000
"""The time 2001-09-09 in seconds; in milliseconds 1970-01-12."""
LAST: Final = 9_999_999_999
"""The time 2286-11-20 in seconds; in milliseconds 1970-04-26."""
WARNING: Final = (
    "topic %s: timestamp=%d is %s, because timestamps are milliseconds since 1970; as seconds it would be %s. Brokers delete records that"
    " are older than the topic's retention.ms: multiply by 1000"
)


class TimestampsInSeconds:
    """The topics about which the log has told, each once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def look(self, topic: str, timestamp: int) -> None:
        """Warn if the timestamp, of a batch's newest record, looks like seconds."""
        if FIRST <= timestamp <= LAST and topic not in self._told:
            self._told.add(topic)
            log.warning(WARNING, topic, timestamp, _day(timestamp / 1000.0), _day(timestamp))


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
