"""05: Spark Structured Streaming into Kafka, exactly once. A query over files of orders writes each micro-batch as one transaction. The
driver dies after Kafka's commit, before Spark records it. The query starts again, and Spark hands that batch over again. Kafka has every
order once.

The program starts three brokers, so it runs anywhere with a Java. To use your Kafka, set FENCEPOST_BOOTSTRAP=host:port.
"""

import json
import os
import secrets
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from fencepost import BrokerStub, ExactlyOnceKafkaWriter, Producer

FILES, ORDERS_IN_EACH = 3, 400
TOPIC = f"orders-{secrets.token_hex(4)}"


class Watcher(StreamingQueryListener):
    """Spark reports a query's progress; the writer's metrics say what happened to the batch in Kafka."""

    def __init__(self, writer: ExactlyOnceKafkaWriter) -> None:
        self.writer = writer

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """It begins."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        batch = next((each for each in self.writer.history if each["batch"] == event.progress.batchId), None)
        if batch is not None:
            print(
                f"batch {batch['batch']}: {batch['rows']} rows, {batch['ledger']} (guard {batch['guard'] or '-'}: {batch['guard_reason']})"
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """No new data."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The query has ended."""


class PowerCut(Exception):
    """The crash of the driver."""


def run(spark: SparkSession, place: Path, bootstrap: str, *, power_cut_after: int | None = None) -> None:
    """One start of the driver: the query over all available files. The sink id is the same at every start."""
    orders = spark.readStream.schema("id int, customer string").option("maxFilesPerTrigger", 1).json(str(place / "orders"))
    rows = orders.selectExpr("customer as key", "to_json(struct(*)) as value")
    writer = ExactlyOnceKafkaWriter(bootstrap, TOPIC, topic=TOPIC)
    watcher = Watcher(writer)

    def write(df: DataFrame, batch_id: int) -> None:
        writer(df, batch_id)
        if batch_id == power_cut_after:
            raise PowerCut  # Kafka has committed the batch, and Spark has not recorded it

    spark.streams.addListener(watcher)
    call = writer if power_cut_after is None else write
    query = rows.writeStream.foreachBatch(call).option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        spark.streams.removeListener(watcher)
        writer.close()


def committed(bootstrap: str, partitions: list[int]) -> list[int]:
    """The order ids that a reader with read_committed finds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "audit",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in partitions])
    found: list[int] = []
    ends = 0
    while ends < len(partitions):
        message = consumer.poll(30)
        assert message is not None, "the broker is silent"
        error = message.error()
        if error is None:
            found.append(json.loads(message.value() or b"")["id"])
        ends += error is not None and error.code() == KafkaError._PARTITION_EOF
    consumer.close()
    return found


own = None if "FENCEPOST_BOOTSTRAP" in os.environ else BrokerStub(brokers=3, default_partitions=4)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors on this machine use this Python
with own or nullcontext(), tempfile.TemporaryDirectory() as directory:
    where = own.bootstrap if own is not None else os.environ["FENCEPOST_BOOTSTRAP"]
    place = Path(directory)
    (place / "orders").mkdir()
    for number in range(FILES):
        orders = range(number * ORDERS_IN_EACH, (number + 1) * ORDERS_IN_EACH)
        lines = [json.dumps({"id": order, "customer": f"customer-{order % 70}"}) for order in orders]
        (place / "orders" / f"{number}.json").write_text("\n".join(lines))
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("orders")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")  # quicker tasks
        .config("spark.log.level", "OFF")  # the crash would fill the screen
        .getOrCreate()
    )
    try:
        run(spark, place, where, power_cut_after=1)
    except StreamingQueryException:
        print("power cut: Kafka has committed batch 1, and Spark has not recorded it")
    run(spark, place, where)
    spark.stop()
    with Producer(bootstrap_servers=where) as producer:
        ids = committed(where, producer.partitions_for(TOPIC))
    print(f"orders: {FILES * ORDERS_IN_EACH}, in Kafka: {len(ids)}, of different orders: {len(set(ids))}")
    assert sorted(ids) == list(range(FILES * ORDERS_IN_EACH))
