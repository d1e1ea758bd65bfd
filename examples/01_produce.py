"""01: sending. `send` returns a future at once. The future has the offset, or the error.

The program starts its own broker, so it runs anywhere. To use your Kafka, set FENCEPOST_BOOTSTRAP=host:port.
"""

import os
from contextlib import nullcontext

from fencepost import BrokerStub, Producer, RecordFuture

own = None if "FENCEPOST_BOOTSTRAP" in os.environ else BrokerStub(default_partitions=3)


def report(future: RecordFuture) -> None:
    """The producer calls it on its sender thread, in the order of a partition's records."""
    failure = future.exception()
    if failure is not None:
        print(f"not delivered, and in the log: {failure.persisted.name}: {failure}")


with own or nullcontext():
    bootstrap = own.bootstrap if own is not None else os.environ["FENCEPOST_BOOTSTRAP"]
    with Producer(bootstrap_servers=bootstrap, compression_type="zstd", value_serializer="json") as producer:
        # One record, and its place. result() waits for the acknowledgement. Programs that send much look at futures later, or never.
        where = producer.send("orders", {"id": 1, "total": "25.00"}, key=b"customer-7").result(timeout=30)
        print(f"acknowledged: {where.topic}-{where.partition} at offset {where.offset}")

        # Records of one key keep their order. Headers and timestamps are optional. The producer calls the callback with every outcome.
        for number in range(2, 1_000):
            producer.send("orders", {"id": number}, key=b"customer-%d" % (number % 50), headers=[("source", b"web")], on_delivery=report)
        producer.flush(timeout=30)  # raises a failure that the program has not looked at

        # Many records without a future for each: one future has the offsets by partition and the failures by row.
        bulk = producer.send_many("orders", [(b"customer-1", {"id": number}) for number in range(1_000, 6_000)])
        deliveries = bulk.result(timeout=30)
        print(f"a bulk: {deliveries.acknowledged} acknowledged, {len(deliveries.failures)} failed")
    # At the end of the block the producer delivers the remaining records, then closes its connections.
    print("closed: everything was delivered")
