"""How a task passes its rows to its participant: to partitions that are its own for the whole batch, or leased.

With leases, the task keeps rows by partition until it is granted some of these partitions. Rows without a partition go to one that is free,
and more of them follow while it is busy, up to ASIDE_BYTES. While rows are in flight, the task reads more. It waits only when it keeps many
rows. It gives a partition back after its records are acknowledged: with its next rows, or after a while if Spark has none for it yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.shared.participant import Participant
from fencepost.txn.shared.participation import TP, Participation, Written
from fencepost.txn.spark.guards.partition_lease_server import TaskLease
from fencepost.txn.spark.guards.partition_leases import ANY
from fencepost.txn.spark.rows.columns import HEADERS, KEY, TIMESTAMP, VALUE
from fencepost.txn.spark.rows.row_placement import PLACED, Portion, all_in
from fencepost.txn.spark.rows.task_summary import joined

ASIDE_BYTES: Final = 16 * 1024 * 1024
"""If a task keeps more bytes, it waits for a partition. If so many followed to a busy one, the task keeps the next rows."""
IDLE_S: Final = 1.0
"""A task that got no rows for so long gives its partitions back once their records are acknowledged."""


class Delivery(Protocol):
    """See the module."""

    def add(self, portion: Portion) -> None:
        """Write rows of one topic."""

    def finish(self) -> list[Written]:
        """The accounts, for each partition with records, when all of them are acknowledged."""


class OwnPartitions:
    """`participation`: of the partitions that only this task writes in this batch. `tasks`: the number of tasks."""

    def __init__(self, participant: Participant, participation: Participation, timeout_s: float, *, tasks: int) -> None:
        self._participant = participant
        self._timeout_s = timeout_s
        participant.begin(participation, participants=tasks)

    def add(self, portion: Portion) -> None:
        send(self._participant, portion.topic, portion.rows)

    def finish(self) -> list[Written]:
        return self._participant.finish(self._timeout_s)


class Aside(Struct):
    """Rows of one partition that the task has not been granted yet, or rows for any partition of a topic."""

    rows: list[pa.RecordBatch]
    bytes: int


class LeasedPartitions:
    """`participation`: of all partitions; its sequences are those of the batch's beginning, and not used. `tasks`: the tasks that write the
    batch."""

    def __init__(self, participant: Participant, participation: Participation, lease: TaskLease, timeout_s: float, *, tasks: int) -> None:
        self._participant = participant
        self._participation = participation
        self._lease = lease
        self._tasks = tasks
        self._timeout_s = timeout_s
        self._aside: dict[TP, Aside] = {}
        self._bytes = 0
        self._out: list[BulkFuture] = []
        # For rows without a partition: the granted partition of each topic, and the bytes that followed since the grant.
        self._anywhere: dict[str, int] = {}
        self._followed_bytes = 0
        self._written: dict[TP, Written] = {}
        self._lock = RLock()
        self._added = False
        self._failure: BaseException | None = None

    def add(self, portion: Portion) -> None:
        with self._lock:
            self._refuse_failed()
            self._added = True
            self._add(portion)

    def finish(self) -> list[Written]:
        with self._lock:
            self._refuse_failed()
            return self._finish()

    def give_if_idle(self) -> None:
        """Give the partitions back if no rows came since the last call and all records are acknowledged. `add` and `finish` raise what this
        raises."""
        with self._lock:
            self._give_if_idle()

    def _give_if_idle(self) -> None:
        added, self._added = self._added, False
        if added or self._failure is not None or not all(each.done() for each in self._out):
            return
        try:
            self._give()
        except Exception as error:  # noqa: BLE001  # raised to the task
            self._failure = error

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _add(self, portion: Portion) -> None:
        idle = all(each.done() for each in self._out)
        granted = self._anywhere.get(portion.topic)
        if granted is not None and not idle and self._followed_bytes < ASIDE_BYTES:
            self._followed_bytes += portion.bytes
            self._out.append(send(self._participant, portion.topic, all_in(portion.rows, granted)))
            return
        for partition, rows in split(portion.rows) if PLACED in portion.rows.schema.names else [(ANY, portion.rows)]:
            size = portion.bytes * rows.num_rows // portion.rows.num_rows
            aside = self._aside.setdefault((portion.topic, partition), Aside([], 0))
            aside.rows.append(rows)
            aside.bytes += size
            self._bytes += size
        if idle:
            self._give()
            self._take(0.0)
        while self._bytes > ASIDE_BYTES:
            self._give()
            self._take(self._timeout_s)

    def _finish(self) -> list[Written]:
        self._give()
        while self._aside:
            self._take(self._timeout_s)
            self._give()
        self._lease.give([], done=True)
        return [self._written[tp] for tp in sorted(self._written)]

    def _take(self, wait_s: float) -> None:
        """Send the rows of the granted partitions."""
        wanted = sorted(self._aside, key=lambda tp: -self._aside[tp].bytes)
        granted = self._lease.take(wanted, wait_s)
        if not granted:
            return
        self._participant.begin(replace(self._participation, sequences=tuple(granted)), participants=self._tasks)
        rows: dict[str, list[pa.RecordBatch]] = {}
        for topic, partition, _ in granted:
            aside = self._aside.pop((topic, partition), None)
            if aside is not None:
                self._bytes -= aside.bytes
                rows.setdefault(topic, []).extend(aside.rows)
                continue
            aside = self._aside.pop((topic, ANY))
            self._bytes -= aside.bytes
            self._anywhere[topic] = partition
            self._out += [send(self._participant, topic, all_in(each, partition)) for each in aside.rows]
        # In one piece, because the kept rows may be in many pieces of few rows each.
        self._out += [
            send(self._participant, topic, batch)
            for topic, pieces in rows.items()
            for batch in pa.Table.from_batches(pieces).combine_chunks().to_batches()
        ]

    def _give(self) -> None:
        """Wait for the records in flight, and give the partitions back."""
        if not self._out:
            return
        written = self._participant.finish(self._timeout_s)
        self._out.clear()
        self._anywhere.clear()
        self._followed_bytes = 0
        self._lease.give(written)
        for each in written:
            tp = each.topic, each.partition
            self._written[tp] = joined(self._written.get(tp), each)


@contextmanager
def giving_if_idle(delivery: LeasedPartitions) -> Iterator[LeasedPartitions]:
    """While the task waits for Spark's rows, other tasks get the partitions that it does not write to."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(IDLE_S):
            delivery.give_if_idle()

    watcher = threading.Thread(target=watch, name="fencepost-idle-leases", daemon=True)
    watcher.start()
    try:
        yield delivery
    finally:
        ended.set()
        watcher.join()


def split(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each partition, in their order."""
    order = pc.array_sort_indices(rows.column(PLACED))
    rows = rows.take(order)
    runs = pc.run_end_encode(rows.column(PLACED))
    begin = 0
    for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield partition, rows.slice(begin, end - begin)
        begin = end


def send(participant: Participant, topic: str, rows: pa.RecordBatch) -> BulkFuture:
    """Rows with the column PLACED, as `Placer` makes them."""
    return participant.send_arrow(topic, rows, partition=PLACED, **columns_of(rows))


def columns_of(rows: pa.RecordBatch) -> dict[str, Any]:
    """The existing columns, as `send_arrow` needs them."""
    return {"value": VALUE, **{name: name if name in rows.schema.names else None for name in (KEY, HEADERS, TIMESTAMP)}}
