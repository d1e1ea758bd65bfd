"""12: delivery semantics, at most once. The program commits the offsets first and processes the messages then. It crashes in between: the
messages that were committed and not processed have no result. Compare 13 (at least once) and 14 (exactly once)."""

from collections import Counter

from confluent_kafka import Consumer, KafkaError

from fencepost import BrokerStub, Producer

ORDERS = 1_000
AT_ONCE = 100
CRASH_AT = b"order 250"


class PowerCut(BaseException):
    """The crash."""


def bill(bootstrap: str, *, power_cut: bool) -> None:
    """Write an invoice for each order that the group has not read yet."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.subscribe(["orders"])
    try:
        with Producer(bootstrap_servers=bootstrap) as producer:
            done = False
            while not done:
                messages = consumer.consume(AT_ONCE, timeout=1)
                done = any((error := each.error()) is not None and error.code() == KafkaError._PARTITION_EOF for each in messages)
                orders = [each for each in messages if each.error() is None]
                if orders:
                    consumer.commit(asynchronous=False)  # first the offsets ...
                for order in orders:  # ... then the results
                    if power_cut and order.value() == CRASH_AT:
                        raise PowerCut
                    producer.send("invoices", b"invoice for " + (order.value() or b""))
    finally:
        consumer.close()


with BrokerStub() as broker:
    broker.create_topic("orders", partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap) as shop:
        shop.send_many("orders", [b"order %d" % number for number in range(ORDERS)])
    try:
        bill(broker.bootstrap, power_cut=True)
    except PowerCut:
        print(f"power cut at {CRASH_AT.decode()!r}")
    bill(broker.bootstrap, power_cut=False)
    seen = Counter(record.value for record in broker.records("invoices", 0))
    print(f"the reader sees {seen.total()} invoices: {ORDERS - len(seen)} orders have none, {seen.total() - len(seen)} have several")
    assert seen.total() == len(seen) < ORDERS
