"""11: read-process-write in one call. The pipeline reads orders, writes an invoice for each, and commits both in one transaction. An order
that cannot be processed becomes a dead letter, with the reason in its headers.

A service calls `pipeline.run()`, and `pipeline.stop()` in its signal handler. docs/pipelines.md explains the rest.
"""

import json

from confluent_kafka import Message

from fencepost import BrokerStub, OutputRecord, Pipeline, Producer


def invoice(message: Message) -> OutputRecord | None:
    order = json.loads(message.value() or b"")
    if order["amount"] == 0:
        return None  # nothing to pay: the order is processed, and has no invoice
    return OutputRecord(key=message.key(), value=b"pay %d EUR" % order["amount"], headers={"currency": b"EUR"})


with BrokerStub() as broker:
    with Producer(bootstrap_servers=broker.bootstrap) as shop:
        for number in range(1_000):
            shop.send("orders", b'{"amount": %d}' % (number % 10), key=b"customer %d" % (number % 7))
        shop.send("orders", b"{half an order")

    with Pipeline(
        bootstrap_servers=broker.bootstrap,
        source="orders",
        group="billing",
        sink="invoices",
        dead_letters="orders.dead",
        transform=invoice,
    ) as pipeline:
        stats = pipeline.run_until_idle(timeout=60)

    print(stats)
    invoices, (letter,) = broker.records("invoices", 0), broker.records("orders.dead", 0)
    print(f"{len(invoices)} invoices; a dead letter: {letter.value!r}")
    for name, value in letter.headers:
        if name in ("fencepost.reason", "fencepost.offset"):
            print(f"    {name}: {(value or b'').decode()}")
    assert (stats.records_in, len(invoices), stats.dead_letters) == (1_001, 900, 1)
