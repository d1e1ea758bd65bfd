"""One pass over the dirty part of a log: it notes the newest offset of each key, and writes the segments anew without what is older
(Kafka's `Cleaner`).

The pass is a generator that stops after each few batches, so that a broker with one thread can serve its clients meanwhile. Appends do not
disturb it, because it reads only segments that are not appended to. If one of them is deleted or truncated meanwhile, the pass ends
without a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencepost.broker_stub.log.cleaner.batch_filter import BatchFilter
from fencepost.broker_stub.log.cleaner.cleaned_transactions import CleanedTransactions
from fencepost.broker_stub.log.cleaner.log_to_clean import LogToClean, between
from fencepost.broker_stub.log.cleaner.offset_map import OffsetMap
from fencepost.broker_stub.log.partition_log import PartitionLog
from fencepost.broker_stub.log.segment import RELATIVE_OFFSET_MAX, LogSegment
from fencepost.producer.wire.records import read_header, read_records


def clean(what: LogToClean, *, keys_max: int, now_ms: int) -> Iterator[int]:
    """Cleans the log, and yields the bytes that were read since the last time. `keys_max`: a pass notes no more keys; the next one begins
    where it stopped."""
    log = what.log
    offsets = OffsetMap(keys_max)
    yield from _note_keys(what, offsets)
    end = offsets.latest_offset + 1
    transactions = CleanedTransactions(log.aborted_transactions)
    segments = [segment for segment in log.segments if segment.base_offset < end]
    for group in _grouped(segments, log, what.first_uncleanable_offset):
        batch_filter = BatchFilter(
            offsets,
            transactions,
            log.last_records(),
            end_offset=what.first_uncleanable_offset,
            delete_retention_ms=log.config.delete_retention_ms,
            decompressed_bytes_max=log.config.decompressed_bytes_max,
            now_ms=now_ms,
        )
        cleaned = log.new_cleaned_segment(group[0].base_offset)
        for segment in group:
            yield from _copy(segment, cleaned, batch_filter)
        cleaned.close()
        if not log.replace_segments(group, cleaned, transactions.kept):
            return
        transactions.kept = []
    log.first_dirty_offset = end


def _note_keys(what: LogToClean, offsets: OffsetMap) -> Iterator[int]:
    """Notes each key of the dirty part, except of aborted transactions, until the map is full."""
    log, start = what.log, what.first_dirty_offset
    offsets.latest_offset = start - 1
    transactions = CleanedTransactions(txn for txn in log.aborted_transactions if txn.last_offset >= start)
    dirty = between(log.segments, start, what.first_uncleanable_offset)
    ends = [*(segment.base_offset for segment in dirty[1:]), what.first_uncleanable_offset]
    for segment, end in zip(dirty, ends, strict=False):
        for header, batch in segment.batches(segment.offset_index.lookup(start)):
            if header.is_control:
                transactions.drops_marker(header, batch)
            elif not transactions.drops_data(header):
                for record in read_records(batch, verify_crc=False, limit=log.config.decompressed_bytes_max, with_headers=False):
                    if record.key is None or record.offset < start:
                        continue
                    if offsets.is_full:
                        return
                    offsets.put(record.key, record.offset)
            offsets.latest_offset = max(offsets.latest_offset, header.last_offset)
            yield header.size
        offsets.latest_offset = max(offsets.latest_offset, end - 1)


def _grouped(segments: Sequence[LogSegment], log: PartitionLog, end: int) -> Iterator[list[LogSegment]]:
    """Segments that are small enough to become one."""
    config, left = log.config, list(segments)
    while left:
        group = [left.pop(0)]
        size, index_bytes, time_bytes = group[0].size, group[0].offset_index.bytes, group[0].time_index.bytes
        while left:
            following = left[0]
            last = (left[1].base_offset if len(left) > 1 else end) - 1
            size += following.size
            index_bytes += following.offset_index.bytes
            time_bytes += following.time_index.bytes
            too_large = size > config.segment_bytes or max(index_bytes, time_bytes) > config.segment_index_bytes
            if too_large or (following.size and last - group[0].base_offset > RELATIVE_OFFSET_MAX):
                break
            group.append(left.pop(0))
        yield group


def _copy(segment: LogSegment, cleaned: LogSegment, batch_filter: BatchFilter) -> Iterator[int]:
    for header, batch in segment.batches():
        kept = batch_filter.filter(header, batch)
        if kept is not None:
            max_timestamp = header.max_timestamp if kept is batch else read_header(kept).max_timestamp
            cleaned.append(bytes(kept), last_offset=header.last_offset, max_timestamp=max_timestamp, now_ms=segment.modified_ms)
        yield header.size
    cleaned.modified_ms = segment.modified_ms
