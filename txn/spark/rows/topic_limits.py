"""The limits that topics' configs set for a single record. Tasks check rows against them before they write.

A client without DESCRIBE_CONFIGS on the topics has no limits here. Then the brokers refuse such a record, and its batch fails permanently.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import FencepostError
from fencepost.producer.foundations.printable import said
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.codes import ErrorCode, error_name
from fencepost.producer.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from fencepost.producer.wire.records.record_batch import encode_batch
from fencepost.producer.wire.records.sizes import RECORD_BOUND
from fencepost.txn.protocol.ask_now import ask_patiently
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered
from fencepost.txn.protocol.own_topics import POLICY
from fencepost.txn.protocol.own_topics import TOPIC as TOPIC_TYPE
from fencepost.txn.spark.rows.columns import HEADERS, KEY, TIMESTAMP, VALUE

log = logging.getLogger("fencepost.spark")

BYTES: Final = "max.message.bytes"
KIND: Final = "message.timestamp.type"
BEFORE: Final = "message.timestamp.before.max.ms"
AFTER: Final = "message.timestamp.after.max.ms"
UNLIMITED: Final = 2**63 - 1
ASKED: Final = [BYTES, POLICY, KIND, BEFORE, AFTER]


class Limits(Struct, frozen=True):
    """The limits of one topic. `keyed`: it is compacted, so each record needs a key. The last two limit the difference between a record's
    timestamp and the time of its append."""

    bytes_max: int = UNLIMITED
    keyed: bool = False
    before_max_ms: int = UNLIMITED
    after_max_ms: int = UNLIMITED

    def broken(self, rows: pa.RecordBatch) -> Any:
        """A mask of the rows that certainly break a limit."""
        if self.keyed and KEY in rows.schema.names:
            return rows.column(KEY).is_null()
        return pa.repeat(pa.scalar(self.keyed), rows.num_rows)

    def suspects(self, rows: pa.RecordBatch, sizes: Any) -> Any:
        """A mask of the other rows that may break one; `sizes`: the bytes of their keys, values and headers."""
        wrong = pc.greater(sizes, pa.scalar(self.bytes_max - RECORD_BOUND, pa.int64()))
        if TIMESTAMP in rows.schema.names and min(self.before_max_ms, self.after_max_ms) < UNLIMITED:
            earliest, latest = (pa.scalar(each, pa.int64()) for each in self._span())
            times = rows.column(TIMESTAMP)
            wrong = pc.or_(wrong, pc.fill_null(pc.or_(pc.less(times, earliest), pc.greater(times, latest)), False))
        return wrong

    def why_not(self, topic: str, row: Mapping[str, Any], codec: Codec, level: int | None) -> str | None:
        """Why the topic refuses a record; None if it accepts it."""
        if self.keyed and row.get(KEY) is None:
            return f"topic {topic!r} is compacted ({POLICY}), and takes no record without a key"
        time_ms = row.get(TIMESTAMP)
        earliest, latest = self._span()
        if time_ms is not None and time_ms < earliest:
            return f"timestamp {time_ms} ms is longer ago than topic {topic!r} takes ({BEFORE}={self.before_max_ms})"
        if time_ms is not None and time_ms > latest:
            return f"timestamp {time_ms} ms is further ahead than topic {topic!r} takes ({AFTER}={self.after_max_ms})"
        headers = [(each["key"], each["value"]) for each in row.get(HEADERS) or ()]
        # The size of a batch with this record alone: brokers check compressed bytes.
        size = len(encode_batch([(max(time_ms or 0, 0), row.get(KEY), row.get(VALUE), headers)], codec=codec, level=level))
        if size > self.bytes_max:
            packed = f", packed with {codec.name.lower()}," if codec else ""
            return f"a record of {size} bytes{packed} exceeds {BYTES}={self.bytes_max} of topic {topic!r}"
        return None

    def _span(self) -> tuple[int, int]:
        now_ms = int(time.time() * 1000)
        return now_ms - self.before_max_ms if self.before_max_ms < UNLIMITED else 0, min(now_ms + self.after_max_ms, UNLIMITED)


class TopicLimits(Struct, frozen=True):
    """The limits of the topics whose configs could be read. `codec`, `level`: those of the producers."""

    topics: Mapping[str, Limits] = {}
    codec: Codec = Codec.NONE
    level: int | None = None

    def why_not(self, topic: str, row: Mapping[str, Any]) -> str | None:
        """Why the topic refuses the record; None if it accepts it, or its limits are not known."""
        limits = self.topics.get(topic)
        return limits.why_not(topic, row, self.codec, self.level) if limits is not None else None

    def keyed(self, topic: str) -> bool:
        """Whether the topic is known to be compacted."""
        return self.topics.get(topic, Limits()).keyed

    def bytes_max(self, topic: str) -> int:
        """The largest batch of the topic, in bytes."""
        return self.topics.get(topic, Limits()).bytes_max


def ask_limits(settings: Settings, topics: Sequence[str], timeout_s: float) -> TopicLimits:
    """Ask the cluster, with the settings of the writing producers."""

    async def ask(client: ClusterClient) -> dict[str, Limits]:
        resources = [DescribeConfigsResource(resource_type=TOPIC_TYPE, resource_name=topic, configuration_keys=ASKED) for topic in topics]
        answer: DescribeConfigsResponse = await client.ask_any(DescribeConfigsRequest(resources=resources))
        found = {}
        for each in answer.results:
            if each.error_code == ErrorCode.NONE:
                found[each.resource_name] = _read({config.name: config.value for config in each.configs})
            else:
                log.info("topic %s: its limits are not known: %s", said(each.resource_name), error_name(each.error_code))
        return found

    try:
        found = ask_patiently(settings, ask, timeout_s) if topics else {}
    except (FencepostError, Unanswered) as error:
        log.info("topics %s: their limits are not known: %s", said(", ".join(topics)), error)
        found = {}
    return TopicLimits(found, settings.compression_type, settings.compression_level)


def _read(configs: Mapping[str, str | None]) -> Limits:
    given = {name: int(value) for name in (BYTES, BEFORE, AFTER) if (value := configs.get(name))}
    by_broker = configs.get(KIND) == "LogAppendTime"
    return Limits(
        bytes_max=given.get(BYTES, UNLIMITED),
        keyed="compact" in (configs.get(POLICY) or ""),
        before_max_ms=UNLIMITED if by_broker else given.get(BEFORE, UNLIMITED),
        after_max_ms=UNLIMITED if by_broker else given.get(AFTER, UNLIMITED),
    )
