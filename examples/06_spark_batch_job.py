"""06: a Spark batch job into Kafka, once for each version. A second run of the same version, as by a scheduler, writes nothing. A new
version is written. A late old version is refused.

The program starts three brokers, so it runs anywhere with a Java. To use your Kafka, set FENCEPOST_BOOTSTRAP=host:port.
"""

import os
import secrets
import sys
from contextlib import nullcontext

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from fencepost import BrokerStub, OlderVersion, Producer, write_once

PRODUCTS = 5_000
TOPIC = f"prices-{secrets.token_hex(4)}"


def load_prices(spark: SparkSession, bootstrap: str, day: int) -> None:
    """The job: all prices of a day, visible to readers at once."""
    prices = spark.range(PRODUCTS).selectExpr(
        "concat('product-', id) as key", f"to_json(named_struct('product', id, 'day', {day}, 'cents', id % 997)) as value"
    )
    done = write_once(prices, bootstrap, TOPIC, job_id="load-prices", version=day, topic=TOPIC)
    print(f"version {day}: {done['ledger']}, {done['rows']} rows into {done['partitions']} partitions")


def committed(bootstrap: str, partitions: list[int]) -> int:
    """The number of records that a reader with read_committed finds."""
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
    count = ends = 0
    while ends < len(partitions):
        message = consumer.poll(30)
        assert message is not None, "the broker is silent"
        error = message.error()
        count += error is None
        ends += error is not None and error.code() == KafkaError._PARTITION_EOF
    consumer.close()
    return count


own = None if "FENCEPOST_BOOTSTRAP" in os.environ else BrokerStub(brokers=3, default_partitions=4)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors on this machine use this Python
with own or nullcontext():
    where = own.bootstrap if own is not None else os.environ["FENCEPOST_BOOTSTRAP"]
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("prices")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")  # quicker tasks
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    load_prices(spark, where, 20260801)
    load_prices(spark, where, 20260801)  # the scheduler missed the success, and runs it again
    load_prices(spark, where, 20260802)
    try:
        load_prices(spark, where, 20260801)
    except OlderVersion as error:
        print(f"refused: {error}")
    spark.stop()
    with Producer(bootstrap_servers=where) as producer:
        count = committed(where, producer.partitions_for(TOPIC))
    print(f"prices in Kafka: {count}")
    assert count == 2 * PRODUCTS
