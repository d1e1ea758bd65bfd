"""03: a transaction. The program reads orders and writes an invoice for each. One transaction commits the invoices and the read offsets.
The program crashes in the middle and starts again. Every order has one invoice.

The program starts its own broker, so it runs anywhere. `--bootstrap HOST:PORT` uses your Kafka.
"""

import argparse
import secrets
from collections import Counter
from contextlib import nullcontext

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from fencepost import BrokerStub, Producer, TransactionalProducer

ORDERS = 1_000
AT_ONCE = 100
RUN = secrets.token_hex(4)  # topics, group and id of this run's own
INPUT, OUTPUT, GROUP = f"orders-{RUN}", f"invoices-{RUN}", f"billing-{RUN}"

READING = {"enable.auto.commit": False, "isolation.level": "read_committed", "fetch.wait.max.ms": 20}

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--bootstrap", help="host:port of a Kafka, instead of a broker of the program's own")
given = arguments.parse_args()


class PowerCut(Exception):
    """The crash in the middle of the program."""


def partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, 0) for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions]


def invoice(order: Message) -> bytes:
    return b"invoice for " + (order.value() or b"")


def bill(bootstrap: str, *, power_cut_after: int | None = None) -> int:
    """Write an invoice for every order that the group has not read yet; return the number of transactions. Kafka calls this
    read-process-write."""
    consumer = Consumer({**READING, "bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([INPUT])
    # The transactional.id is the same after every restart, so the coordinator aborts an earlier run's open transaction first.
    with TransactionalProducer(bootstrap_servers=bootstrap, transactional_id=GROUP) as producer:
        transactions = 0
        try:
            while sum(max(0, read.offset) for read in consumer.committed(partitions(consumer, INPUT), timeout=30)) < ORDERS:
                orders = [order for order in consumer.consume(AT_ONCE, timeout=1) if order.error() is None]
                with producer.transaction(timeout=30) as tx:
                    for order in orders:
                        tx.send(OUTPUT, invoice(order), key=order.key())
                    if transactions == power_cut_after:
                        raise PowerCut
                    # The consumer's position, and its membership in the group. The coordinator refuses a removed member's offsets.
                    tx.send_offsets(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
                transactions += bool(orders)
        finally:
            consumer.close()
    return transactions


def committed(bootstrap: str, topic: str) -> Counter[bytes]:
    """The values that a reader with read_committed finds."""
    consumer = Consumer({**READING, "bootstrap.servers": bootstrap, "group.id": f"audit-{RUN}", "enable.partition.eof": True})
    found: Counter[bytes] = Counter()
    left = partitions(consumer, topic)
    consumer.assign(left)
    ends = 0
    while ends < len(left):
        message = consumer.poll(30)
        assert message is not None, "the broker is silent"
        error = message.error()
        if error is None:
            found[message.value() or b""] += 1
        ends += error is not None and error.code() == KafkaError._PARTITION_EOF
    consumer.close()
    return found


own = None if given.bootstrap else BrokerStub(default_partitions=3)
with own or nullcontext():
    where = given.bootstrap or (own.bootstrap if own is not None else "")
    with Producer(bootstrap_servers=where) as shop:
        shop.partitions_for(OUTPUT)
        shop.send_many(INPUT, [(b"customer-%d" % (number % 70), b"order %d" % number) for number in range(ORDERS)]).result(timeout=30)
    try:
        bill(where, power_cut_after=4)
    except PowerCut:
        print(f"power cut in the fifth transaction; invoices so far: {committed(where, OUTPUT).total()}")
    print(f"begun again, and done after {bill(where)} more transactions")
    invoices = committed(where, OUTPUT)
    twice = sum(count > 1 for count in invoices.values())
    print(f"orders: {committed(where, INPUT).total()}, invoices: {invoices.total()}, of different orders: {len(invoices)}, twice: {twice}")
    assert len(invoices) == invoices.total() == ORDERS
