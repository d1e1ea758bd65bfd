"""01: sending. `send` returns at once with a future; the future has the offset, or says what went wrong.

It starts a broker of its own, so that it runs anywhere; for a Kafka of yours set FENCEPOST_BOOTSTRAP=host:port.
"""

import os
from contextlib import nullcontext

from fencepost import BrokerStub, Producer, RecordFuture

own = None if "FENCEPOST_BOOTSTRAP" in os.environ else BrokerStub(default_partitions=3)


def report(future: RecordFuture) -> None:
    """Called on the producer's sender thread, in the order of a partition's records."""
    failure = future.exception()
    if failure is not None:
        print(f"not delivered, and in the log: {failure.persisted.name}: {failure}")


with own or nullcontext():
    bootstrap = own.bootstrap if own is not None else os.environ["FENCEPOST_BOOTSTRAP"]
    with Producer(bootstrap_servers=bootstrap, compression_type="zstd", value_serializer="json") as producer:
        # One record, and where it went. result() waits; a program that sends much looks at futures later, or never.
        where = producer.send("orders", {"id": 1, "total": "25.00"}, key=b"customer-7").result(timeout=30)
        print(f"acknowledged: {where.topic}-{where.partition} at offset {where.offset}")

        # Records of one key keep their order. Headers and timestamps as they are needed; the callback hears of every outcome.
        for number in range(2, 1_000):
            producer.send("orders", {"id": number}, key=b"customer-%d" % (number % 50), headers=[("source", b"web")], on_delivery=report)
        producer.flush(timeout=30)  # raises what nobody has looked at

        # Many at once, without an object for each: one future, with offsets by partition and failures by row.
        bulk = producer.send_many("orders", [(b"customer-1", {"id": number}) for number in range(1_000, 6_000)])
        deliveries = bulk.result(timeout=30)
        print(f"a bulk: {deliveries.acknowledged} acknowledged, {len(deliveries.failures)} failed")
    # Leaving the block delivers what is left, then closes the connections.
    print("closed: everything was delivered")
