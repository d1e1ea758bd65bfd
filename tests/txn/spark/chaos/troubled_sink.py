"""`format("fencepost")` for writing, under the name "troubled": its tasks meet faults, and the driver is killed at the plan's point.

A data source runs in processes beside the driver. Such a process ends the driver, the driver's JVM and itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from fencepost.txn.spark.datasource import write_end as sink_end
from fencepost.txn.spark.datasource import write_task as sink_task
from fencepost.txn.spark.datasource.datasource import FencepostDataSource
from fencepost.txn.spark.datasource.write_options import SinkOptions, read_sink_options
from fencepost.txn.spark.datasource.write_task import Told
from fencepost.txn.spark.datasource.writer import StreamWriter, sink_columns
from fencepost.txn.spark.rows.columns import SinkColumns
from tests.txn.spark.chaos.plan import END_TXN, INIT, LEDGER, TASKS, Plan
from tests.txn.spark.chaos.troubles import Troubles

PLAN = "plan"


class TroubledSource(FencepostDataSource):
    """Takes the options of `format("fencepost")`, and the file of a plan."""

    @classmethod
    def name(cls) -> str:
        return "troubled"

    def streamWriter(self, schema: StructType, overwrite: bool) -> TroubledWriter:
        given = {name: value for name, value in self.options.items() if name.lower() != PLAN}
        options = read_sink_options(given, streaming=True)
        return TroubledWriter(Plan.read(self.options[PLAN]), options, sink_columns(schema, options))


class TroubledWriter(StreamWriter):
    """Writes what happens to it to the plan's events."""

    def __init__(self, plan: Plan, options: SinkOptions, columns: SinkColumns) -> None:
        super().__init__(options, columns)
        self._plan = plan

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        assert self._begun is not None
        self._reached(INIT, self._begun.identity.batch)
        return state

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        written = super().write
        (told,) = Troubles(self._plan, sink_task).around(lambda batches: iter([written(batches)]), iterator)
        return told

    def commit(self, messages: list[Any], batchId: int) -> None:
        self._reached(TASKS, batchId)
        patched: Any = sink_end
        record = patched._record

        def recorded(*given: Any) -> None:
            record(*given)
            self._reached(LEDGER, batchId)

        patched._record = recorded
        try:
            super().commit(messages, batchId)
        finally:
            patched._record = record
        skipped = all(each.begun.shared is None for each in messages)
        self._plan.events.tell(
            "batch", batch=batchId, run=self._plan.run, guard="kafka-claims", reruns=0, ledger="skipped" if skipped else "committed"
        )
        self._reached(END_TXN, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        super().abort(messages, batchId)
        self._plan.events.tell("aborted", batch=batchId, run=self._plan.run, heard=sum(each is not None for each in messages))

    def _reached(self, point: str, batch: int) -> None:
        """The write has reached a point."""
        plan = self._plan
        if point != plan.death or batch < plan.death_batch or not plan.events.first(f"death-{plan.run}"):
            return
        (started,) = [each for each in plan.events.all("started") if each["run"] == plan.run]
        plan.events.tell("death", run=plan.run, point=point, batch=batch, jvm=started["jvm"])
        for pid in (started["jvm"], started["pid"], os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
