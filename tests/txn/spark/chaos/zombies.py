"""Zombies: a task's worker and a driver that freeze in the middle, and resume after others have done their work."""

from __future__ import annotations

import os
import signal
from typing import Any

from msgspec.structs import replace

from tests.txn.spark.chaos.campaign import Campaign, Report
from tests.txn.spark.chaos.plan import Strike
from tests.txn.spark.chaos.scenarios import CLUSTER, planned, told
from tests.txn.spark.chaos.site import Site

ROWS = 8000


def frozen_task(site: Site, *, guard: str) -> tuple[Report, dict[str, Any]]:
    """A worker freezes after some of its rows, and another task fails. After the rerun has committed the batch, the worker resumes.

    Returns the report, and how the resumed attempt ended.
    """
    with Campaign(f"frozen task {guard} {site.name}") as campaign:
        plan = planned(
            campaign,
            site,
            partitions=4,
            guard=guard,
            master=CLUSTER,
            tasks=2,
            batches=3,
            rows=ROWS,
            seed=0,
            strikes=(Strike(what="freeze", batch=1, task=0), Strike(what="raise", batch=1, task=1, after=0)),
            stays=True,
            settings={"batch_size": 16_384},
            # Spark kills the worker of a task that does not react to its cancellation.
            conf={"spark.python.task.killTimeout": "1h"},
        )
        driver = campaign.start(plan)

        def committed() -> list[int]:
            return [each["batch"] for each in plan.events.all("batch") if each["ledger"] == "committed"]

        driver.until(lambda: 1 in committed(), "the rerun is committed")
        (frozen,) = plan.events.all("freeze")
        os.kill(frozen["pid"], signal.SIGCONT)

        def end() -> dict[str, Any] | None:
            ends = plan.events.all("failed") + plan.events.all("ended")
            return next((each for each in ends if each["attempt_id"] == frozen["attempt_id"]), None)

        ended: dict[str, Any] = driver.until(end, "the woken task ends")
        plan.events.first("leave")
        driver.wait(0)
        return told(campaign, plan, site, 4), ended


def frozen_driver(site: Site, *, guard: str, point: str, successor: str | None = None) -> tuple[Report, dict[str, Any]]:
    """A driver freezes at the point. A second one with the same checkpoint writes the batch.

    If there is a `successor` point, the second one is killed there, and a third one follows. Then the first one resumes. Returns the
    report, and how the first one's batch ended.
    """
    with Campaign(f"frozen driver {guard} {point} {site.name}") as campaign:
        plan = planned(campaign, site, partitions=4, guard=guard, master="local[2]", tasks=2, batches=2, rows=ROWS, seed=0)
        first = campaign.start(replace(plan, death=point, death_batch=1, freezes=True))
        first.until(lambda: plan.events.all("frozen driver"), "it is frozen")
        if successor is not None:
            campaign.start(replace(plan, death=successor, death_batch=1)).await_death()
        campaign.start(plan).wait(0)
        first.signal(signal.SIGCONT)
        first.wait(3)
        (failed,) = [each for each in plan.events.all("batch failed") if each["run"] == 0]
        return told(campaign, plan, site, 4), failed


def is_refused(ended: dict[str, Any]) -> bool:
    """Whether a task attempt ended because its broker refused it: INVALID_PRODUCER_EPOCH or PRODUCER_FENCED."""
    return ended["kind"] == "failed" and ended["code"] in (47, 90)
