"""A driver whose query writes a topic with `format("fencepost")` until it has read all of its input.

The input is another topic, read with the same format, or files, which take fewer processes. A query that fails is started again in the same
application, as often as the plan's settings say.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from fencepost.txn.spark import route
from fencepost.txn.spark.datasource.datasource import register
from tests.txn.spark.chaos.campaign import ROOT
from tests.txn.spark.chaos.driver import CONF
from tests.txn.spark.chaos.plan import Plan
from tests.txn.spark.chaos.troubled_sink import PLAN, TroubledSource

STARTS = 40
"""Of a query."""
QUERY_S = 1500


def main(path: str) -> int:
    """Return 0 once everything is written, 3 if the query failed too often."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    plan = Plan.read(path)
    _show_tests(Path(plan.directory))
    builder = SparkSession.builder.master(plan.master).appName(f"chaos {plan.sink}")
    places = {"spark.sql.warehouse.dir": f"{plan.directory}/warehouse", "spark.local.dir": f"{plan.directory}/local"}
    for name, value in {**CONF, **places, **plan.conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    plan.events.tell("started", run=plan.run, jvm=gateway.proc.pid)
    register(spark)
    spark.dataSource.register(TroubledSource)
    for _ in range(STARTS):
        if _written(spark, plan, path):
            spark.stop()
            return 0
    return 3


def _written(spark: SparkSession, plan: Plan, path: str) -> bool:
    """Whether the query reached the end of its input."""
    files = files_of(plan)
    if files.exists():
        rows = spark.readStream.option("maxFilesPerTrigger", plan.tasks).text(str(files))
    else:
        source = {"subscribe": input_of(plan.topic), "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(plan.rows)}
        rows = spark.readStream.format("fencepost").options(**_kafka(plan), **source).load()
    if plan.keyed:
        rows = route(rows.select("key", "value"), plan.tasks, topic=plan.topic)
    else:
        rows = rows.select("value")
    sink = {"topic": plan.topic, "sinkId": plan.sink, "checkpointLocation": f"{plan.directory}/checkpoint", PLAN: path}
    settings = {name: str(value) for name, value in plan.settings.items()}
    query = rows.writeStream.format("troubled").options(**_kafka(plan), **sink, **settings).trigger(availableNow=True).start()
    try:
        return query.awaitTermination(QUERY_S) is True
    except Exception as error:  # noqa: BLE001  # its class says where in Spark it failed
        plan.events.tell("query failed", run=plan.run, text=str(error)[:500])
        return False


def input_of(topic: str) -> str:
    """The topic to read."""
    return f"{topic}-input"


def files_of(plan: Plan) -> Path:
    """The directory to read, if it exists. A batch has as many files as there are tasks."""
    return Path(plan.directory, "input")


def _kafka(plan: Plan) -> dict[str, str]:
    return {"kafka.bootstrap.servers": plan.bootstrap}


def _show_tests(directory: Path) -> None:
    """Let Spark's processes import these tests, and the installed package, but not the checkout."""
    shown = directory / "path"
    shown.mkdir(exist_ok=True)
    connection: Any = shown / "tests"
    if not connection.exists():
        connection.symlink_to(ROOT / "tests", target_is_directory=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(shown)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
