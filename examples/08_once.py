"""08: a record arrives once although its acknowledgement was lost.

The stub appends the first batch and then stays silent on that connection. After `request_timeout_ms` the producer closes the connection,
and sends the batch again with the same sequence. The broker answers that it has the batch already.
"""

from fencepost import Api, BrokerStub, Producer

with BrokerStub() as broker:
    lost = broker.faults.on(Api.PRODUCE).drop_reply()

    with Producer(bootstrap_servers=broker.bootstrap, request_timeout_ms=500) as producer:
        where = producer.send("payments", b"25 EUR", key=b"order-1").result(timeout=30)

    print(f"acknowledged at offset {where.offset}, after {lost.hits} lost reply")
    print(f"sent {len(broker.journal.requests(Api.PRODUCE))} times, refused as a duplicate {broker.stats()['duplicates']} time")
    assert [record.value for record in broker.records("payments", where.partition)] == [b"25 EUR"]
