"""`LogReader`: topics, offsets and ranges of partitions, for a blocking caller. One thread with an event loop sends the requests.

Threads must not share it. While the caller uses one piece of a range, the next answer is in flight; the reader holds no more than that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from fencepost.producer.config.settings import Settings
from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.records.batch_header import BatchHeader
from fencepost.txn.foundations.call_outcome import CallOutcome
from fencepost.txn.protocol.cluster_client import ClusterClient
from fencepost.txn.reading.committed import seen_batches
from fencepost.txn.reading.errors import Unreadable
from fencepost.txn.reading.limits import Isolation, Limits
from fencepost.txn.reading.loop import LoopThread
from fencepost.txn.reading.positions import Place, all_topics, list_offsets, partition_counts, patiently
from fencepost.txn.reading.rows import RowBuilder
from fencepost.txn.reading.scan import Answer, Scan

T = TypeVar("T")
SHARE_ROWS: Final = 1 << 20
SHARES_MAX: Final = 64
"""A batch is decoded once for each share of its offsets."""
_numbers = itertools.count(1)


class LogReader:
    """See the module. `settings` are a producer's; only those of connections, security and retries are used."""

    def __init__(self, settings: Settings, *, isolation: Isolation = Isolation.READ_COMMITTED, limits: Limits | None = None) -> None:
        self.isolation = isolation
        self.limits = limits or Limits()
        self._client = ClusterClient(settings)
        self._thread = LoopThread(f"fencepost-reader-{next(_numbers)}", partial(self._client.__aexit__, None, None, None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connections. It may be called again."""
        self._thread.close()

    # -- where ---------------------------------------------------------------------------------------------------------

    def topics_like(self, pattern: str) -> list[str]:
        """The topics whose whole name matches this regular expression."""
        like = re.compile(pattern)
        return [name for name in self._ask(lambda: all_topics(self._client), "topics") if like.fullmatch(name)]

    def partitions(self, topics: Collection[str]) -> list[Place]:
        """Every partition of these topics. Raises PartitionGone for an unknown topic."""
        if not topics:
            return []
        counts = self._ask(lambda: partition_counts(self._client, topics), f"the partitions of {', '.join(sorted(topics))}")
        return [(topic, partition) for topic in sorted(counts) for partition in range(counts[topic])]

    def offsets(self, asked: Mapping[Place, int]) -> dict[Place, int | None]:
        """For each partition the offset of a timestamp in ms, `limits.EARLIEST` or `limits.LATEST`: that of the first record that is not
        older, or None. The latest is the last stable offset with read_committed, and the high watermark without."""
        return self._ask(lambda: list_offsets(self._client, asked, self.isolation), "offsets")

    # -- what ----------------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int, start: int, until: int, *, include_headers: bool = False) -> Iterator[Any]:
        """Record batches (pyarrow) of the records from offset `start` to before `until`, in order, with `rows.SCHEMA`.

        Raises OffsetsGone if the log does not have `start`, PartitionGone, ReadTimeout, Unreadable, NotPermitted.
        """
        if start < 0:
            raise ValueError(f"start={start}: an offset from 0 on")
        if start >= until:
            return
        scan = Scan(self._client, topic, partition, until, self.isolation, self.limits)
        coming: CallOutcome[Answer] | None = self._thread.start(scan.fetch(start))
        rows = RowBuilder(topic, partition, include_headers=include_headers)
        try:
            while coming is not None:
                answer = self._thread.wait(coming)
                coming = self._thread.start(scan.fetch(answer.next_offset)) if answer.next_offset < until else None
                for header, batch in self._batches(answer, topic, partition):
                    if header.base_offset >= until:
                        break
                    for first, end in _shares(header, start, until):
                        if rows.opened and (rows.rows >= self.limits.rows or rows.opened >= self.limits.piece_bytes):
                            if rows.rows:
                                yield rows.finish()
                            rows = RowBuilder(topic, partition, include_headers=include_headers)
                        try:
                            rows.add(header, batch, first, end)
                        except CorruptBatch as error:
                            raise Unreadable(f"{topic}-{partition}, batch at offset {header.base_offset}: {error}") from None
            if rows.rows:
                yield rows.finish()
        finally:
            if coming is not None:
                self._thread.drop(coming)

    def _batches(self, answer: Answer, topic: str, partition: int) -> Iterator[Any]:
        try:
            yield from seen_batches(answer.data, self.isolation)
        except CorruptBatch as error:
            raise Unreadable(f"{topic}-{partition} before offset {answer.next_offset}: {error}") from None

    def _ask(self, ask: Callable[[], Awaitable[T]], what: str) -> T:
        return self._thread.run(patiently(self._client, ask, self.limits.timeout_ms / 1000.0, what))


def _shares(header: BatchHeader, start: int, until: int) -> Iterator[tuple[int, int]]:
    """The ranges of offsets in which a batch is decoded: one, unless the batch has very many records. A few thousand bytes can hold ten
    million records, and each row takes a hundred bytes until it is returned."""
    if header.records_count <= SHARE_ROWS:
        yield start, until
        return
    first, end = max(start, header.base_offset), min(until, header.last_offset + 1)
    step = max(SHARE_ROWS, (end - first) // SHARES_MAX + 1)
    for begin in range(first, end, step):
        yield begin, min(begin + step, end)
