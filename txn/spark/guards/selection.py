"""The choice of a batch's guard: a table that is read from the top, with the reasons for the log.

`driver` needs no tasks: for small batches. `turns` moves no rows and keeps Spark's tasks, but executors must reach the driver. `barrier`
leaves the proof to Spark, but all tasks must run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from fencepost.txn.spark.connection.spark_context import allocation_and_speculation, context_of, slots_of

GUARDS: Final = ("auto", "barrier", "status", "claims", "turns", "kafka-claims", "driver", "off")

ROW_BYTES: Final = 24
"""Arrow's overhead for a row, besides its keys, values and headers."""


class Situation(Struct, frozen=True, kw_only=True):
    """What the choice depends on. `slots`: tasks that can run at once now, None if Spark does not tell. `numbered`: rows name their
    partitions; otherwise the write stage's tasks are combined from others, which barrier stages forbid (SPARK-24820). `last_bytes`: the
    size of the previous batch when collected, None for the first. `collect_bytes_max`: the limit of that. `starved`: a barrier stage of
    this batch did not get its slots. `vouched`: the user set the number of tasks. `unreachable`: executors did not reach the driver."""

    classic: bool
    tasks: int
    slots: int | None
    dynamic: bool
    speculation: bool
    numbered: bool
    last_bytes: int | None = None
    collect_bytes_max: int
    starved: bool = False
    vouched: bool = False
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
        "rows need not be moved, nor tasks be fewer than Spark makes of them, where these take turns",
    ),
    Row(
        "barrier",
        lambda now: not (now.dynamic or not now.numbered or now.starved) and now.slots is not None and now.tasks <= now.slots,
        "all its tasks can run at once",
    ),
    Row(
        "status",
        lambda now: now.classic and not now.speculation,
        "its tasks cannot be sure to run at once, and Spark's status store can be asked",
    ),
    Row("kafka-claims", lambda now: True, "its tasks cannot be sure to run at once, and Spark's status store cannot be trusted here"),
)


def choose(now: Situation) -> tuple[str, str]:
    """The guard's name, and the reason."""
    return next((row.guard, row.why) for row in TABLE if row.fits(now))


def objection(guard: str, now: Situation) -> str | None:
    """Why a guard that the user named is not possible."""
    checks: dict[str, tuple[tuple[bool, str], ...]] = {
        "barrier": (
            (now.dynamic, "barrier stages do not run with spark.dynamicAllocation.enabled=true (SPARK-24942)"),
            (
                now.slots is not None and now.tasks > now.slots,
                f"a barrier stage of {now.tasks} tasks needs as many slots, and there are {now.slots}: set tasks={now.slots} or less",
            ),
            (
                now.slots is None and not now.vouched,
                "Spark Connect does not say how many tasks can run at once, and a barrier stage without slots waits for them: set tasks= to"
                " what the cluster has for certain, or use kafka-claims",
            ),
        ),
        "status": (
            (not now.classic, "Spark Connect has no status tracker"),
            (now.speculation, "with spark.speculation=true two copies of a task may write at once: take barrier or claims"),
        ),
        "turns": (
            (not now.classic, "under Spark Connect this process need not be where executors look for their driver: use kafka-claims"),
            (now.speculation, "with spark.speculation=true every batch with a copied task is written again: take barrier"),
        ),
    }
    return next((why for wrong, why in checks.get(guard, ()) if wrong), None)


def situation(
    spark: Any,
    *,
    tasks: int,
    numbered: bool,
    last_bytes: int | None,
    collect_bytes_max: int,
    starved: bool = False,
    vouched: bool = False,
    unreachable: bool = False,
) -> Situation:
    """What Spark tells now."""
    context = context_of(spark)
    dynamic, speculation = allocation_and_speculation(context) if context is not None else (False, False)
    return Situation(
        classic=context is not None,
        tasks=tasks,
        slots=slots_of(context) if context is not None else None,
        dynamic=dynamic,
        speculation=speculation,
        numbered=numbered,
        unreachable=unreachable,
        last_bytes=last_bytes,
        collect_bytes_max=collect_bytes_max,
        starved=starved,
        vouched=vouched,
    )
