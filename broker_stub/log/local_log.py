"""The segments of a log: appends roll into a new one, reads find theirs, and old ones are removed (Kafka's `LocalLog`).

It always has at least one segment; only the last one, the active segment, is appended to. It knows no producers, no high watermark and no
log start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from fencepost.broker_stub.log.config import LogConfig
from fencepost.broker_stub.log.segment import LOG, LogSegment, Place, file_name
from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.broker_stub.storage.directory import Directory
from fencepost.broker_stub.storage.memory import WHOLE_BYTES_MIN
from fencepost.producer.wire.records import BatchHeader

CLEANED: Final = ".cleaned"
"""The suffix of a compacted segment that is being written."""
SWAP: Final = ".swap"
"""The suffix of a finished one, until it has replaced the segments of which it was made."""


class Slice(NamedTuple):
    """Bytes of one segment for a reader. `base_offset`: of the batch where they start. `end_offset`: an offset at or past their end, as far
    as the sparse index tells it."""

    records: bytes | memoryview
    base_offset: int
    end_offset: int


class LocalLog:
    """See the module. `segments`: those that the directory has already. `end_offset`: that of the next record."""

    __slots__ = ("_bases", "_config", "_directory", "_segments", "end_offset")

    def __init__(
        self,
        end_offset: int,
        directory: Directory,
        *,
        config: Callable[[], LogConfig],
        now_ms: int,
        segments: Sequence[LogSegment] = (),
    ) -> None:
        self._config = config
        self._directory = directory
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in segments]
        self.end_offset = end_offset
        if not segments:
            self._begin(end_offset, now_ms=now_ms)

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        return tuple(self._segments)

    @property
    def active(self) -> LogSegment:
        return self._segments[-1]

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def roll(self, base_offset: int, aborted: list[AbortedTxn], *, now_ms: int) -> None:
        """Begins a new segment. The active one is flushed before, or replaced if it has no batches. `aborted`: the aborted transactions
        whose markers are in it."""
        self.active.close()
        if self.active.size:
            self.active.flush(aborted)
            self._directory.sync()
        if not self.active.size and self.active.base_offset == base_offset:
            self._delete(len(self._segments) - 1, len(self._segments))
        self._begin(base_offset, now_ms=now_ms)

    def append(self, data: bytes, *, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Appends one batch to the active segment."""
        self.active.append(data, last_offset=last_offset, max_timestamp=max_timestamp, now_ms=now_ms)
        self.end_offset = last_offset + 1

    def read(self, offset: int, end_offset: int, max_bytes: int, *, min_one_batch: bool, large_alone: bool = False) -> Slice:
        """Bytes of one segment, from the batch with the offset up to `end_offset`, at most `max_bytes`. The first batch is whole even if it
        is larger; without `min_one_batch` it is then left out. `large_alone`: nothing follows a first batch of WHOLE_BYTES_MIN."""
        number, place = self._locate(offset)
        if place is None:
            return Slice(b"", self.end_offset, self.end_offset)
        segment = self._segments[number]
        beyond = self._base_after(number)
        available = (segment.size if end_offset >= beyond else segment.position_of(end_offset)) - place.position
        size = min(max(max_bytes, place.size), available) if min_one_batch or max_bytes >= place.size else 0
        if large_alone and place.size >= WHOLE_BYTES_MIN:
            size = min(size, place.size)
        if size <= 0:
            return Slice(b"", place.base_offset, place.base_offset)
        past = segment.offset_index.offset_past(place.position + size)
        return Slice(segment.file.read(place.position, size), place.base_offset, beyond if past is None else past)

    def corrupt(self, offset: int) -> bool:
        """Flips a bit at the end of the batch with that offset. False: there is none."""
        number, place = self._locate(offset)
        if place is None or place.base_offset > offset:
            return False
        file = self._segments[number].file
        last = place.position + place.size - 1
        file.overwrite(last, bytes([file.read(last, 1)[0] ^ 1]))
        return True

    def start_of_batch(self, offset: int) -> int:
        """The base offset of the batch with this offset; without one the end of the log."""
        _, place = self._locate(offset)
        return self.end_offset if place is None else place.base_offset

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch."""
        for segment in tuple(self._segments):
            yield from segment.batches()

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Each batch that ends at or past the offset."""
        number, place = self._locate(offset)
        if place is not None:
            yield from self._segments[number].batches(place.position)
            for segment in self._segments[number + 1 :]:
                yield from segment.batches()

    def since(self, timestamp: int, start_offset: int) -> Iterator[bytes | memoryview]:
        """The batches that may have the first record at or past the timestamp and the offset, oldest first. As in Kafka they are in one
        segment, the first one whose largest timestamp is late enough, though that record may be below the offset."""
        for segment in self._segments:
            if segment.newest_ms >= timestamp:
                for place in segment.since(timestamp, start_offset):
                    yield segment.file.read(place.position, place.size)
                return

    def of_largest_timestamp(self) -> bytes | memoryview | None:
        """The first batch with the largest timestamp of the log. None: no batch has a timestamp."""
        segment = max(self._segments, key=lambda each: each.largest_timestamp)
        place = segment.of_largest_timestamp()
        return None if place is None else segment.file.read(place.position, place.size)

    def truncate(self, offset: int, *, now_ms: int) -> None:
        """Removes the batches that end at or past the offset."""
        if offset < self._bases[0]:
            self.restart_at(offset, now_ms=now_ms)
            return
        count = bisect_right(self._bases, offset)
        self._delete(count, len(self._segments))
        self._directory.sync()  # a segment that came back would leave a gap before it
        self.active.truncate(offset, now_ms=now_ms)
        self.end_offset = offset

    def restart_at(self, offset: int, *, now_ms: int) -> None:
        """Removes everything. The next record has that offset."""
        self._delete(0, len(self._segments))
        self._begin(offset, now_ms=now_ms)
        self.end_offset = offset

    def new_cleaned_segment(self, base_offset: int, *, now_ms: int) -> LogSegment:
        """An empty segment that is no part of the log yet."""
        self._directory.remove(file_name(base_offset, LOG) + CLEANED)
        return LogSegment(base_offset, self._directory, self._config(), now_ms=now_ms, suffix=CLEANED)

    def replace(self, old: Sequence[LogSegment], new: LogSegment, aborted: list[AbortedTxn]) -> bool:
        """Puts a segment in the place of successive ones. `aborted`: the aborted transactions whose markers are in it. False: one of the
        old segments is gone, and nothing was changed."""
        at = bisect_left(self._bases, old[0].base_offset)
        if self._segments[at : at + len(old)] != [*old]:
            new.delete(delay_ms=0)
            return False
        new.flush(aborted)
        self._directory.sync()
        new.rename(SWAP)
        self._directory.sync()
        self._delete(at, at + len(old))
        new.rename("")
        self._directory.sync()
        self._segments.insert(at, new)
        self._bases.insert(at, new.base_offset)
        return True

    def remove_first(self, count: int) -> None:
        """Removes the oldest segments; one must be left."""
        self._delete(0, count)

    def _begin(self, base_offset: int, *, now_ms: int) -> None:
        self._segments.append(LogSegment(base_offset, self._directory, self._config(), now_ms=now_ms))
        self._bases.append(base_offset)

    def _delete(self, start: int, stop: int) -> None:
        for segment in self._segments[start:stop]:
            segment.delete(delay_ms=self._config().file_delete_delay_ms)
        del self._segments[start:stop], self._bases[start:stop]

    def _locate(self, offset: int) -> tuple[int, Place | None]:
        """The number of the segment that has the first batch which ends at or past the offset, and that batch."""
        last = len(self._segments) - 1
        if offset >= self.end_offset:
            return last, None
        for number in range(max(0, bisect_right(self._bases, offset) - 1), last + 1):
            place = self._segments[number].first_reaching(offset)
            if place is not None:
                return number, place
        return last, None

    def _base_after(self, number: int) -> int:
        """Where the next segment begins; after the last one the end of the log."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else self.end_offset
