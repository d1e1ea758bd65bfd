"""The rows of the chaos matrix: what is done to the writer, and how large. Each is one campaign on a site; it prints its report.

Whether the report is good enough is for the tests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tests.txn.spark.chaos.campaign import Campaign, Report
from tests.txn.spark.chaos.plan import Plan
from tests.txn.spark.chaos.site import Site

PATIENT = {"max_reruns": 50}
CLUSTER = "local-cluster[2,2,1024]"


def planned(campaign: Campaign, site: Site, *, partitions: int, **given: Any) -> Plan:
    """A plan with a topic, and a sink, of its own."""
    name = re.sub(r"\W+", "-", campaign.title)
    settings = {**PATIENT, **given.pop("settings", {})}
    return Plan(
        run=0,
        directory=str(campaign.directory),
        bootstrap=site.bootstrap,
        sink=name,
        topic=site.topic(name, partitions),
        settings=settings,
        **given,
    )


def driver_kills(site: Site, points: Sequence[str], *, guard: str, seed: int = 0) -> Report:
    """A driver for each point, killed there in a batch of its own; local[2], two tasks."""
    with Campaign(f"driver killed {guard} {site.name} {len(points)}") as campaign:
        plan = planned(
            campaign,
            site,
            partitions=4,
            guard=guard,
            master="local[2]",
            tasks=2,
            batches=len(points) + 1,
            rows=2000,
            seed=seed,
            settings={"batch_size": 4096},
        )
        for number, point in enumerate(points):
            campaign.start(replace(plan, death=point, death_batch=number + 1)).await_death()
        campaign.start(plan).wait(0)
        return told(campaign, plan, site, 4)


def told(campaign: Campaign, plan: Plan, site: Site, partitions: int) -> Report:
    report = campaign.report(plan, partitions, site.bootstrap)
    print(f"seed {plan.seed}: {report.line()}", flush=True)
    return report
