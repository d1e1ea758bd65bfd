"""The readers of `format("fencepost")`: ranges of partitions for Spark's tasks, in batches and in streams.

Offsets in checkpoints are those of Spark's Kafka source, {"topic": {"0": 23}}. An executor keeps nothing: each task reads its range over
its own connections. Lost data ends the query unless failOnDataLoss is false.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyspark
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from fencepost.producer.errors import ConfigError, FencepostError
from fencepost.txn.reading import LogReader, OffsetsGone, PartitionGone
from fencepost.txn.reading.positions import Place
from fencepost.txn.spark.datasource.offsets import EARLIEST, LATEST, Offsets, OffsetsJson, Range, as_json, from_json, limited, split
from fencepost.txn.spark.datasource.read_limits import (
    HAS_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from fencepost.txn.spark.datasource.read_options import SourceOptions, Where, connection_settings, kafka_settings, read_source_options

ADVICE = (
    "Some data may have been lost: it was deleted by retention or with its topic, before this query read it. If the query is to go on with "
    "what is there, set the source option 'failOnDataLoss' to 'false'"
)


class DataLoss(FencepostError):
    """Records to be read are gone, and failOnDataLoss is true."""


class RangePartition(InputPartition):
    """The range of one task."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class _Ground:
    """What both readers share: the options, the search for partitions, and the reading of a range. Only the options are sent to
    executors."""

    def __init__(self, given: Mapping[str, str], *, streaming: bool) -> None:
        self.given = dict(given)
        self.options: SourceOptions = read_source_options(given, streaming=streaming)
        self._kafka = kafka_settings(given)
        self._streaming = streaming

    def __reduce__(self) -> tuple[Any, ...]:
        return _ground, (self.given, self._streaming)

    def open(self) -> LogReader:
        return LogReader(connection_settings(self._kafka), isolation=self.options.isolation, limits=self.options.limits)

    def places(self, log: LogReader) -> list[Place]:
        """The partitions to read. Raises PartitionGone if a named one does not exist."""
        options = self.options
        if options.assigned is not None:
            known = log.partitions({topic for topic, _ in options.assigned})
            missing = set(options.assigned) - set(known)
            if missing:
                raise PartitionGone(f"there is no partition {_names(missing)}")
            return list(options.assigned)
        return log.partitions(options.topics if options.topics is not None else log.topics_like(options.pattern or ""))

    def places_left(self, log: LogReader) -> list[Place]:
        """The partitions that exist by now. Raises DataLoss if one is gone and that ends the query."""
        try:
            return self.places(log)
        except PartitionGone as error:
            self.lost(str(error))
        options = self.options
        left: list[Place] = []
        for topic in sorted(options.topics or {topic for topic, _ in options.assigned or ()}):
            with contextlib.suppress(PartitionGone):
                left += log.partitions([topic])
        return left if options.assigned is None else sorted(set(left) & set(options.assigned))

    def find(self, log: LogReader, where: Where, places: list[Place]) -> Offsets:
        """The offset of a place in each partition. Raises ConfigError for a time after every record, if that is an error."""
        if where.special is not None:
            return whole(log.offsets(dict.fromkeys(places, where.special)))
        if where.offsets is not None:
            self._check_named(where, where.offsets, places)
            special = {place: offset for place, offset in where.offsets.items() if offset < 0}
            return where.offsets | whole(log.offsets(special))
        if where.timestamps_ms is not None:
            self._check_named(where, where.timestamps_ms, places)
        asked = where.timestamps_ms if where.timestamps_ms is not None else dict.fromkeys(places, where.timestamp_ms or 0)
        found = log.offsets(asked)
        late = [place for place, offset in found.items() if offset is None]
        starting = where.option.startswith("starting")
        if late and starting and not self.options.latest_where_no_time:
            topic, partition = late[0]
            raise ConfigError(
                f"option {where.option}: {topic}-{partition} has no record from {asked[late[0]]} ms on. With "
                "startingOffsetsByTimestampStrategy=latest reading begins at the end there"
            )
        ends = whole(log.offsets(dict.fromkeys(late, LATEST)))
        return {place: ends[place] if offset is None else offset for place, offset in found.items()}

    def _check_named(self, where: Where, named: Offsets, places: list[Place]) -> None:
        if set(named) != set(places):
            raise ConfigError(
                f"option {where.option} must name every partition that is read, and no other. Named: {_names(named)}. "
                f"Read: {_names(places)}"
            )

    def lost(self, reason: str) -> None:
        """Raises DataLoss if that ends the query."""
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{reason}. {ADVICE}")

    def partitions(self, ranges: list[Range]) -> list[InputPartition]:
        parts = split(ranges, parts_min=self.options.partitions_min, records_max=self.options.records_per_partition_max)
        return [RangePartition(each) for each in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a range; with failOnDataLoss=false those that are left of it."""
        if not isinstance(partition, RangePartition):
            return  # Without partitions Spark makes one of its own.
        wanted = partition.wanted
        start = wanted.start
        headers = self.options.include_headers
        with self.open() as log:
            while True:
                try:
                    yield from log.read(wanted.topic, wanted.partition, start, wanted.until, include_headers=headers)
                    return
                except PartitionGone as error:
                    self.lost(str(error))
                    return
                except OffsetsGone as gone:
                    self.lost(str(gone))
                    if not gone.offset < gone.earliest < wanted.until:
                        return
                    start = gone.earliest


def _ground(given: Mapping[str, str], streaming: bool) -> _Ground:
    return _Ground(given, streaming=streaming)


class BatchReader(DataSourceReader):
    """A batch query: from startingOffsets (earliest) to endingOffsets (latest), as they are when Spark plans the query."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._ground = _Ground(options, streaming=False)

    def partitions(self) -> list[InputPartition]:
        ground, options = self._ground, self._ground.options
        with ground.open() as log:
            places = ground.places(log)
            start = ground.find(log, options.starting, places)
            end = ground.find(log, options.ending, places)
        return ground.partitions([Range(*place, start[place], end[place]) for place in sorted(start)])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ground.read(partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query; one reader for each run. `latestOffset` limits a trigger; new partitions are read from their beginning."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._ground = _Ground(options, streaming=True)
        asked = self._ground.options
        if not HAS_LIMITS and (asked.offsets_per_trigger_max or asked.offsets_per_trigger_min):
            raise ConfigError(f"maxOffsetsPerTrigger and minOffsetsPerTrigger need pyspark 4.2 or newer, this is {pyspark.__version__}")
        self._forget()

    def _forget(self) -> None:
        self._log: LogReader | None = None
        self._initial: OffsetsJson | None = None
        self._pinned: Offsets = {}
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._last_trigger_s = -math.inf

    def __getstate__(self) -> dict[str, Any]:
        return {"_ground": self._ground}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    # -- what Spark's driver asks --------------------------------------------------------------------------------------

    def initialOffset(self) -> OffsetsJson:
        """Where the query begins."""
        log, ground = self._open(), self._ground
        places = ground.places(log)
        found = ground.find(log, ground.options.starting, places)
        self._initial = as_json(found)
        # Spark asks again when it repeats the first batch, and the ends have moved by then. So the first batch takes nothing from
        # partitions that begin at their end: the batch's own end, which is in the checkpoint, keeps that offset.
        ends = self._ends(places)
        self._pinned = {place: offset for place, offset in found.items() if offset >= ends[place]}
        return self._initial

    def latestOffset(self, start: OffsetsJson | None = None, limit: ReadLimit | None = None) -> OffsetsJson:
        """Where the next batch ends."""
        if start is None:
            return as_json(self._ends(self._ground.places(self._open())))  # pyspark before 4.2
        begin = from_json(start)
        self._latest = end = self._known(begin) if self._target is None else self._bounded(begin, self._target)
        if start == self._initial:
            end = end | self._pinned
        begin = self._begin(begin, end)
        if isinstance(limit, ReadMinRows | ReadMaxRows) and self._too_few(begin, end):
            return start
        self._last_trigger_s = time.monotonic()
        return as_json(limited(begin, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end)

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._ground.options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        return ReadMinRows(options.offsets_per_trigger_min) if options.offsets_per_trigger_min is not None else ReadAllAvailable()

    def reportLatestOffset(self) -> OffsetsJson | None:
        return None if self._latest is None else as_json(self._latest)

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends at the present ends of the partitions."""
        ground, log = self._ground, self._open()
        self._target = self._ends(ground.places(log) if ground.options.fail_on_data_loss else ground.places_left(log))

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        begin, until = from_json(start), from_json(end)
        first = start == self._initial
        gone = sorted(set(begin) - set(until))
        if gone:
            self._ground.lost(f"{_names(gone)}: gone since the last batch")
        begin = self._begin(begin, until)
        ranges = [Range(*place, begin[place], until[place]) for place in sorted(until)]
        back = [each for each in ranges if each.size < 0]
        if back and not first:
            each = back[0]
            self._ground.lost(f"{each.topic}-{each.partition}: the end went back from offset {each.start} to {each.until}")
        return self._ground.partitions(ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ground.read(partition)

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    # -- where partitions begin and end --------------------------------------------------------------------------------

    def _open(self) -> LogReader:
        if self._log is None:
            self._log = self._ground.open()
        return self._log

    def _ends(self, places: list[Place]) -> Offsets:
        return whole(self._open().offsets(dict.fromkeys(places, LATEST)))

    def _known(self, begin: Offsets) -> Offsets:
        """The present ends. If one is before the previous batch's end, a leader may not know better yet, so it is asked again."""
        options = self._ground.options
        places = self._ground.places_left(self._open())
        for _ in range(options.offset_retries):
            ends = self._ends(places)
            if all(ends[place] >= begin.get(place, 0) for place in ends):
                return ends
            time.sleep(options.offset_retry_interval_ms / 1000.0)
        return self._ends(places)

    def _bounded(self, begin: Offsets, target: Offsets) -> Offsets:
        """The target. If the previous batch ended after it, the present end, if that is also before the previous batch's end."""
        passed = [place for place, offset in target.items() if offset < begin.get(place, 0)]
        if not passed:
            return target
        now = self._known(begin)
        return {place: min(now.get(place, offset), begin[place]) if place in passed else offset for place, offset in target.items()}

    def _begin(self, begin: Offsets, until: Offsets) -> Offsets:
        """The offsets, with the beginnings of new partitions."""
        new = sorted(set(until) - set(begin))
        found = whole(self._open().offsets(dict.fromkeys(new, EARLIEST)))
        for (topic, partition), offset in found.items():
            if offset > 0:
                self._ground.lost(f"{topic}-{partition}: new since the last batch, and it begins at offset {offset} instead of 0 already")
        return begin | found

    def _too_few(self, begin: Offsets, end: Offsets) -> bool:
        options = self._ground.options
        if options.offsets_per_trigger_min is None or self._target is not None:
            return False
        waited_ms = (time.monotonic() - self._last_trigger_s) * 1000.0
        there = sum(max(0, end[place] - begin[place]) for place in end)
        return there < options.offsets_per_trigger_min and waited_ms < options.trigger_delay_max_ms


def whole(offsets: Mapping[Place, int | None]) -> Offsets:
    """The places without None, which only times can have."""
    found = {place: offset for place, offset in offsets.items() if offset is not None}
    if len(found) < len(offsets):
        raise PartitionGone(f"the brokers told no offset of {_names(set(offsets) - set(found))}")
    return found


def _names(places: Any) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(places)) or "none"
