"""The guards of one writer: it chooses one for each write, makes it on first use, and closes all of them with the writer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace
from pyspark.sql import DataFrame

from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.connection.spark_context import context_of
from fencepost.txn.spark.errors import GuardUnavailable
from fencepost.txn.spark.guards.guards import BarrierGuard, ClaimsGuard, Guard, KafkaClaimsGuard, LeaseGuard, NoGuard, StatusGuard
from fencepost.txn.spark.guards.kafka_claims import KafkaClaims
from fencepost.txn.spark.guards.selection import Situation, choose, objection, situation
from fencepost.txn.spark.rows.columns import SinkColumns
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.settings import WriterSettings

LOOK_S: Final = 0.25
"""How often slots are counted while the writer waits for them."""


class Guards:
    """See the module."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings) -> None:
        self._settings = settings
        self._kafka = kafka
        self._lock = threading.Lock()
        self._made: dict[str, Guard] = {}
        self._context: Any = None
        self._had: set[str] = set()
        self._unreachable = False

    def choose(self, df: DataFrame, columns: SinkColumns, tasks: int, metrics: BatchMetrics, last_bytes: int | None) -> tuple[str, str]:
        """The guard's name, and the reason. `last_bytes`: the size of the previous batch. Raises GuardUnavailable if the user named a guard
        that is not possible."""
        asked = self._settings.guard

        def look() -> Situation:
            return situation(
                df.sparkSession,
                tasks=tasks,
                numbered=columns.placed,
                last_bytes=last_bytes,
                collect_bytes_max=self._settings.collect_bytes_max,
                starved=metrics.starved > 0,
                vouched=self._settings.tasks is not None,
                unreachable=self._unreachable,
            )

        self._unreachable = self._unreachable or metrics.unreachable > 0
        now = look()
        if asked != "auto":
            self._refuse(asked, now, look)
            return asked, "asked for"
        # All writes of a batch use the same guard, because a partition has one writer in a transaction. What failed here is not tried
        # again.
        if metrics.guard == "driver" and not metrics.reruns:
            return metrics.guard, metrics.guard_reason
        return choose(replace(now, last_bytes=None) if metrics.guard or metrics.reruns else now)

    def _refuse(self, asked: str, now: Situation, look: Callable[[], Situation]) -> None:
        """Raises GuardUnavailable if the guard is not possible. A guard that was possible before is waited for, because a lost executor
        comes back."""
        deadline = time.monotonic() + self._settings.barrier_wait_ms / 1000.0 if asked in self._had else 0.0
        while (why_not := objection(asked, now)) is not None:
            if time.monotonic() >= deadline:
                patience = f" (waited for {self._settings.barrier_wait_ms} ms (barrier_wait_ms), because it was possible before)"
                raise GuardUnavailable(f"guard={asked!r}: {why_not}{patience if asked in self._had else ''}")
            time.sleep(LOOK_S)
            now = look()
        self._had.add(asked)

    def get(self, name: str, df: DataFrame) -> Guard:
        """The guard of that name. If the program has stopped its SparkContext and made another, guards are made again, because they use the
        old context or its address."""
        context = context_of(df.sparkSession)
        if context is not self._context:
            self.close()
        with self._lock:
            self._context = context
            if name not in self._made:
                self._made[name] = MAKERS[name](self._settings, self._kafka, df)
            return self._made[name]

    def close(self) -> None:
        """Close all guards."""
        with self._lock:
            made = [*self._made.values()]
            self._made.clear()
        for guard in made:
            guard.close()


def _asked(make: Callable[[str, str], Guard], name: str) -> Callable[[WriterSettings, KafkaSettings, DataFrame], Guard]:
    """The maker of a guard that executors ask over TCP, at the address of Spark's driver."""

    def made(settings: WriterSettings, kafka: KafkaSettings, df: DataFrame) -> Guard:
        host = str(df.sparkSession.conf.get("spark.driver.host", "127.0.0.1"))
        bind = str(df.sparkSession.conf.get("spark.driver.bindAddress", host))
        try:
            return make(bind, host)
        except OSError as error:
            raise GuardUnavailable(
                f"guard={name!r}: this process cannot listen at {bind}, the address of Spark's driver ({error}): a client of Spark Connect"
                " does not run where the driver runs; use kafka-claims"
            ) from error

    return made


MAKERS: Final[dict[str, Callable[[WriterSettings, KafkaSettings, DataFrame], Guard]]] = {
    "barrier": lambda settings, kafka, df: BarrierGuard(),
    "status": lambda settings, kafka, df: StatusGuard(df.sparkSession.sparkContext),
    "claims": _asked(ClaimsGuard, "claims"),
    "turns": _asked(LeaseGuard, "turns"),
    "kafka-claims": lambda settings, kafka, df: KafkaClaimsGuard(
        KafkaClaims(kafka, topic=settings.claims_topic, timeout_s=settings.timeout_s)
    ),
    "off": lambda settings, kafka, df: NoGuard(),
}
