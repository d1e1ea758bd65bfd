"""The guards of one writer: it chooses one for each write, makes it on first use, and closes all of them with the writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import DataFrame

from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.connection.spark_context import context_of
from fencepost.txn.spark.errors import GuardUnavailable
from fencepost.txn.spark.guards.guards import Guard, KafkaClaimsGuard, NoGuard, TurnsGuard
from fencepost.txn.spark.guards.kafka_claims import KafkaClaims
from fencepost.txn.spark.guards.selection import choose, objection, situation
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.settings import WriterSettings


class WriterGuards:
    """See the module."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings) -> None:
        self._settings = settings
        self._kafka = kafka
        self._lock = RLock()
        self._made: dict[str, Guard] = {}
        self._context: Any = None
        self._unreachable = False

    def choose(self, df: DataFrame, metrics: BatchMetrics, last_bytes: int | None) -> tuple[str, str]:
        """The guard's name, and the reason. `last_bytes`: the size of the previous batch. Raises GuardUnavailable if the user named a guard
        that is not possible."""
        asked = self._settings.guard
        self._follow(df)
        self._unreachable = self._unreachable or metrics.unreachable > 0
        # All writes of a batch use the same guard, because a partition has one writer in a transaction. What failed here is not tried
        # again.
        if asked == "auto" and metrics.guard == "driver" and not metrics.reruns:
            return metrics.guard, metrics.guard_reason
        now = situation(
            df.sparkSession,
            last_bytes=None if metrics.guard or metrics.reruns else last_bytes,
            collect_bytes_max=self._settings.collect_bytes_max,
            unreachable=self._unreachable,
        )
        if asked == "auto":
            return choose(now)
        if (why_not := objection(asked, now)) is not None:
            raise GuardUnavailable(f"guard={asked!r}: {why_not}")
        return asked, "asked for"

    def get(self, name: str, df: DataFrame) -> Guard:
        """The guard of that name. If the program has stopped its SparkContext and made another, guards are made again, because they use the
        old context's address."""
        self._follow(df)
        with self._lock:
            if name not in self._made:
                self._made[name] = MAKERS[name](self._settings, self._kafka, df)
            return self._made[name]

    def _follow(self, df: DataFrame) -> None:
        """Forget what belongs to a SparkContext that the program has stopped: guards, and whether executors reach the driver."""
        context = context_of(df.sparkSession)
        if context is not self._context:
            self.close()
            self._context, self._unreachable = context, False

    def close(self) -> None:
        """Close all guards."""
        with self._lock:
            made = [*self._made.values()]
            self._made.clear()
        for guard in made:
            guard.close()


def _turns(settings: WriterSettings, kafka: KafkaSettings, df: DataFrame) -> Guard:
    """Executors ask the guard over TCP, at the address of Spark's driver."""
    host = str(df.sparkSession.conf.get("spark.driver.host", "127.0.0.1"))
    bind = str(df.sparkSession.conf.get("spark.driver.bindAddress", host))
    try:
        return TurnsGuard(bind, host)
    except OSError as error:
        raise GuardUnavailable(
            f"guard='turns': this process cannot listen at {bind}, the address of Spark's driver ({error}): set spark.driver.bindAddress"
            " to an address of this host, or guard='kafka-claims'"
        ) from error


def _kafka_claims(settings: WriterSettings, kafka: KafkaSettings, df: DataFrame) -> Guard:
    _, timeout_ms = kafka.resolve_owner(settings.transaction_timeout_ms)
    claims = KafkaClaims(kafka, topic=settings.claims_topic, timeout_s=settings.timeout_s, transaction_timeout_ms=timeout_ms)
    return KafkaClaimsGuard(claims)


MAKERS: Final[dict[str, Callable[[WriterSettings, KafkaSettings, DataFrame], Guard]]] = {
    "turns": _turns,
    "kafka-claims": _kafka_claims,
    "off": lambda settings, kafka, df: NoGuard(),
}
