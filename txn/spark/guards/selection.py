"""The choice of a batch's guard: a table that is read from the top, with the reasons for the log.

`driver` needs no tasks: for small batches. `turns` moves no rows and keeps Spark's tasks, but executors must reach the driver.
`kafka-claims` needs nothing but Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from fencepost.txn.spark.connection.spark_context import allocation_and_speculation, context_of

GUARDS: Final = ("auto", "driver", "turns", "kafka-claims", "off")
ADVICE: Final = "use 'kafka-claims' with speculation, under Spark Connect, or if executors cannot reach the driver, and 'auto' otherwise"
"""For a name that is no guard."""

ROW_BYTES: Final = 24
"""Arrow's overhead for a row, besides its keys, values and headers."""


class Situation(Struct, frozen=True, kw_only=True):
    """What the choice depends on. `last_bytes`: the size of the previous batch when collected, None for the first. `collect_bytes_max`: the
    limit of that. `unreachable`: executors did not reach the driver."""

    classic: bool
    speculation: bool
    last_bytes: int | None = None
    collect_bytes_max: int
    unreachable: bool = False


class Row(Struct, frozen=True):
    """A guard, its condition, and the reason."""

    guard: str
    fits: Callable[[Situation], bool]
    why: str


TABLE: Final = (
    Row(
        "driver",
        lambda now: now.last_bytes is not None and now.last_bytes <= now.collect_bytes_max,
        "the batch before had at most collect_bytes_max bytes",
    ),
    Row(
        "turns",
        lambda now: now.classic and not (now.speculation or now.unreachable),
        "executors reach the driver, and rows need not be moved",
    ),
    Row("kafka-claims", lambda now: True, "executors may not reach the driver (Spark Connect, a closed port), or speculation copies tasks"),
)


def choose(now: Situation) -> tuple[str, str]:
    """The guard's name, and the reason."""
    return next((row.guard, row.why) for row in TABLE if row.fits(now))


def objection(guard: str, now: Situation) -> str | None:
    """Why a guard that the user named is not possible."""
    if guard != "turns":
        return None
    if not now.classic:
        return "under Spark Connect executors may not reach this process: set guard='kafka-claims'"
    if now.speculation:
        return "with spark.speculation=true every batch with a copied task is written again: set guard='kafka-claims'"
    return None


def situation(spark: Any, *, last_bytes: int | None, collect_bytes_max: int, unreachable: bool = False) -> Situation:
    """What Spark tells now."""
    context = context_of(spark)
    return Situation(
        classic=context is not None,
        speculation=context is not None and allocation_and_speculation(context)[1],
        unreachable=unreachable,
        last_bytes=last_bytes,
        collect_bytes_max=collect_bytes_max,
    )
