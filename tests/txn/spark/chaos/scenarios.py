"""The rows of the chaos matrix: the faults of each, and its size. Each row is one campaign on a site, and prints its report.

The tests decide whether the report is good enough.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer.wire import Api
from tests.txn.spark.chaos.campaign import Campaign, Report
from tests.txn.spark.chaos.plan import INIT, Plan, Strike
from tests.txn.spark.chaos.site import Site

PATIENT = {"max_reruns": 20}
RANDOM_WITHIN_S = 12.0
CLUSTER = "local-cluster[2,2,1024]"


def planned(campaign: Campaign, site: Site, *, partitions: int, **given: Any) -> Plan:
    """A plan with its own topic and sink."""
    name = re.sub(r"\W+", "-", f"{campaign.title} {given.get('seed', 0)}")
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
            # A driver takes the sink over only with its first batch.
            campaign.start(replace(plan, death=point, death_batch=0 if point == INIT else number + 1)).await_death()
        campaign.start(plan).wait(0)
        return told(campaign, plan, site, 4)


def random_kills(site: Site, kills: int, *, guard: str, seed: int) -> Report:
    """Drivers killed at any time; local[2], two tasks."""
    draw = random.Random(seed)
    with Campaign(f"driver killed at random {guard} {site.name}") as campaign:
        plan = planned(campaign, site, partitions=4, guard=guard, master="local[2]", tasks=2, batches=4 * kills, rows=20_000, seed=seed)
        for _ in range(kills):
            campaign.start(plan).killed_after(draw.uniform(0.0, RANDOM_WITHIN_S))
        campaign.start(plan).wait(0)
        return told(campaign, plan, site, 4)


def lost_replies(site: Site, *, guard: str, seed: int = 0) -> Report:
    """The responses to EndTxn are lost: of the first commit once, of the second three times, of the third always.

    The driver of the third is then killed, so that it never gets the outcome.
    """
    with FaultProxy(site.bootstrap, journal=0) as proxy, Campaign(f"EndTxn unanswered {guard} {site.name}") as campaign:
        plan = planned(
            campaign,
            site,
            partitions=4,
            guard=guard,
            master="local[2]",
            tasks=2,
            batches=5,
            rows=2000,
            seed=seed,
            settings={"request_timeout_ms": 1000},
        )
        through = replace(plan, bootstrap=proxy.bootstrap)
        lost = [proxy.faults.on(Api.END_TXN).drop_reply().times(number) for number in (1, 3)]
        driver = campaign.start(through)
        driver.until(lambda: len([each for each in plan.events.all("batch") if each["ledger"] == "committed"]) >= 3, "three batches")
        lost.append(proxy.faults.on(Api.END_TXN).drop_reply().forever())
        driver.until(lambda: lost[-1].hits, "an EndTxn that is not answered")
        driver.signal(signal.SIGKILL)
        driver.await_death()
        campaign.start(plan).wait(0)
        assert [fault.hits >= least for fault, least in zip(lost, (1, 3, 1), strict=True)] == [True] * 3
        return told(campaign, plan, site, 4)


def python_failures(site: Site, *, guard: str, seed: int, batches: int = 26) -> Report:
    """15 of 100 task attempts raise; local[2] with retries, four tasks."""
    with Campaign(f"tasks raise {guard} {site.name}") as campaign:
        plan = planned(
            campaign,
            site,
            partitions=4,
            guard=guard,
            master="local[4,4]",
            tasks=4,
            batches=batches,
            rows=20_000,
            seed=seed,
            raise_chance=0.15,
        )
        campaign.start(plan).wait(0)
        return told(campaign, plan, site, 4)


def executor_kills(
    site: Site,
    *,
    guard: str,
    seed: int,
    batches: int = 13,
    rows: int = 240_000,
    kill_chance: float = 0.0,
    strikes: Sequence[Strike] = (),
    starts: int = 3,
) -> Report:
    """Executors are killed during their writes, with about five Produce batches of one size for each of twelve partitions.

    A query that gives up is started again, up to `starts` times.
    """
    with Campaign(f"executors killed {guard} {site.name}") as campaign:
        plan = planned(
            campaign,
            site,
            partitions=12,
            guard=guard,
            master=CLUSTER,
            tasks=12,
            batches=batches,
            rows=rows,
            maps=8,
            reduces=12 if guard == "turns" else 0,
            seed=seed,
            kill_chance=kill_chance,
            strikes=tuple(strikes),
            # A batch leaves only when it is full, so that the batches of another attempt have the same size.
            settings={"batch_size": rows * 65 // 12 // 5, "linger_ms": 5000},
        )
        while campaign.start(plan).wait(0, 3) and starts > 1:
            starts -= 1
        return told(campaign, plan, site, 12)


def told(campaign: Campaign, plan: Plan, site: Site, partitions: int) -> Report:
    report = campaign.report(plan, partitions, site.bootstrap)
    print(f"seed {plan.seed}: {report.line()}", flush=True)
    return report
