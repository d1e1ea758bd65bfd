"""Campaigns for `format("fencepost")`, for reading and writing: a query copies a topic of numbered rows into another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fencepost.producer.producer import Producer
from tests.txn.spark.chaos.campaign import Campaign, Report
from tests.txn.spark.chaos.plan import Plan, Strike
from tests.txn.spark.chaos.scenarios import CLUSTER, planned, told
from tests.txn.spark.chaos.site import Site
from tests.txn.spark.chaos.source_sink_driver import files_of, input_of

DRIVER = "source_sink_driver"
WIDTH = 65
"""Bytes of a row in a batch of records, roughly."""
BATCHES = 5
"""Of records that a partition gets in a batch of Spark's."""
FILL_S = 300.0


def source_sink_kills(
    site: Site,
    *,
    deaths: Sequence[tuple[str, int]],
    strikes: Sequence[Strike] = (),
    kill_chance: float = 0.0,
    keyed: bool = True,
    from_topic: bool = True,
    batches: int,
    rows: int,
    partitions: int,
    seed: int = 0,
    master: str = CLUSTER,
    last: str = CLUSTER,
    conf: Mapping[str, str] | None = None,
) -> Report:
    """A driver for each death (a point, and the batch in which, or after which, it is reached), and one more with the master `last`.

    Strikes and chance kill executors. `from_topic`: the source is a topic; files have no keys.
    """
    with Campaign(f"source and sink {'keyed' if keyed else 'keyless'} {site.name}", DRIVER) as campaign:
        plan = planned(
            campaign,
            site,
            partitions=partitions,
            guard="kafka-claims",
            master=master,
            tasks=partitions,
            batches=batches,
            rows=rows,
            seed=seed,
            keyed=keyed,
            kill_chance=kill_chance,
            strikes=tuple(strikes),
            conf=dict(conf or {}),
        )
        # A batch leaves only when it is full, so that the batches of another attempt have the same size.
        size = max(1024, rows * WIDTH // partitions // BATCHES)
        plan = replace(plan, settings={"kafka.batch.size": size, "kafka.linger.ms": 5000})
        if from_topic:
            fill_topic(site, plan)
        else:
            fill_files(plan)
        for point, batch in deaths:
            campaign.start(replace(plan, death=point, death_batch=batch)).await_death()
        campaign.start(replace(plan, master=last)).wait(0)
        return told(campaign, plan, site, partitions)


def fill_topic(site: Site, plan: Plan) -> None:
    """Write the rows to read, equally many into each partition."""
    topic = site.topic(input_of(plan.topic), plan.tasks)
    with Producer(bootstrap_servers=site.bootstrap, buffer_memory=256 << 20) as producer:
        for number in range(plan.expected):
            key, value = row_of(number)
            producer.send(topic, value, key=key, partition=number % plan.tasks)
        producer.flush(FILL_S)


def fill_files(plan: Plan) -> None:
    """Write the same rows as lines of files."""
    files_of(plan).mkdir()
    rows = plan.rows // plan.tasks
    for place, first in enumerate(range(0, plan.expected, rows)):
        lines = b"".join(row_of(number)[1] + b"\n" for number in range(first, first + rows))
        (files_of(plan) / f"{place:03}.txt").write_bytes(lines)


def row_of(number: int) -> tuple[Any, bytes]:
    """The number and its digest, with the same width in all rows, as in the driver's columns."""
    key = b"%010d" % number
    return key, key + b"|" + hashlib.md5(key, usedforsecurity=False).hexdigest().encode()
