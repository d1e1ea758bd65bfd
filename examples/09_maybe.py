"""09: what a failure says. The error of a failed record says whether the record may be in the log.

`persisted` NO: it is safe to send the record again. MAYBE: sending it again could duplicate it.
"""

from fencepost import Api, BrokerStub, ErrorCode, Persisted, Producer

DEADLINES = {"linger_ms": 0, "request_timeout_ms": 300, "delivery_timeout_ms": 1_000, "resolve_grace_ms": 200}

with BrokerStub() as broker, Producer(DEADLINES, bootstrap_servers=broker.bootstrap) as producer:
    producer.send("payments", b"1 EUR").result(timeout=30)

    # The broker refuses: the record is not in the log.
    broker.faults.on(Api.PRODUCE).error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    refused = producer.send("payments", b"2 EUR").exception(timeout=30)
    print(refused)
    assert refused is not None
    assert refused.persisted is Persisted.NO

    # The broker appends the record and then answers nothing, not even the producer's question about it. The outcome is unknown.
    silences = [broker.faults.on(Api.PRODUCE).after_append().drop().forever(), broker.faults.on(Api.DESCRIBE_PRODUCERS).drop().forever()]
    unknown = producer.send("payments", b"3 EUR").exception(timeout=30)
    print(unknown)
    assert unknown is not None
    assert unknown.persisted is Persisted.MAYBE
    for silence in silences:
        silence.remove()

    # Neither failure ends the producer: the next record succeeds.
    producer.send("payments", b"4 EUR").result(timeout=30)
    assert [record.value for record in broker.records("payments", 0)] == [b"1 EUR", b"3 EUR", b"4 EUR"]
