"""14: delivery semantics, exactly once. Results and offsets are committed in one transaction. The program crashes in the middle: the reader
sees one result of each message. Compare 12 (at most once) and 13 (at least once)."""

from collections import Counter

from confluent_kafka import Message

from fencepost import BrokerStub, Pipeline, Producer

ORDERS = 1_000
AT_ONCE = 100
CRASH_AT = b"order 250"


class PowerCut(BaseException):
    """The crash. (An Exception would be a message that cannot be processed, which is tried again.)"""


def bill(bootstrap: str, *, power_cut: bool) -> None:
    """Write an invoice for each order that the group has not read yet."""

    def invoice(order: Message) -> bytes:
        if power_cut and order.value() == CRASH_AT:
            raise PowerCut
        return b"invoice for " + (order.value() or b"")

    Pipeline(
        bootstrap_servers=bootstrap,
        source="orders",
        group="billing",
        sink="invoices",
        transform=invoice,
        batch_size=AT_ONCE,
        consumer={"fetch.wait.max.ms": 20},
    ).run_until_idle(timeout=60)


with BrokerStub() as broker:
    broker.create_topic("orders", partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap) as shop:
        shop.send_many("orders", [b"order %d" % number for number in range(ORDERS)])
    try:
        bill(broker.bootstrap, power_cut=True)
    except PowerCut:
        print(f"power cut at {CRASH_AT.decode()!r}; invoices so far: {len(broker.records('invoices', 0))}")
    bill(broker.bootstrap, power_cut=False)
    seen = Counter(record.value for record in broker.records("invoices", 0))
    print(f"the reader sees {seen.total()} invoices: {ORDERS - len(seen)} orders have none, {seen.total() - len(seen)} have several")
    assert seen.total() == len(seen) == ORDERS
