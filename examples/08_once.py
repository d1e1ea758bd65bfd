"""08: a record arrives once although its acknowledgement was lost.

The stub appends the first batch and then says nothing more on that connection. The producer gives the connection up after
`request_timeout_ms`, sends the batch again with the same sequence, and the broker answers that it has it already.
"""

from fencepost import Api, BrokerStub, Producer

with BrokerStub() as broker:
    lost = broker.faults.on(Api.PRODUCE).drop_reply()

    with Producer(bootstrap_servers=broker.bootstrap, request_timeout_ms=500) as producer:
        where = producer.send("payments", b"25 EUR", key=b"order-1").result(timeout=30)

    print(f"acknowledged at offset {where.offset}, after {lost.hits} lost reply")
    print(f"sent {len(broker.journal.requests(Api.PRODUCE))} times, refused as a duplicate {broker.stats()['duplicates']} time")
    assert [record.value for record in broker.records("payments", where.partition)] == [b"25 EUR"]
