"""09: what a failure tells. A record that is not acknowledged says whether it may be in the log.

`persisted` NO means: send it again with an easy mind. MAYBE means that sending it again could double it.
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

    # The broker appends and nothing is heard of it any more, not even when it is asked: nobody can know.
    silences = [broker.faults.on(Api.PRODUCE).after_append().drop().forever(), broker.faults.on(Api.DESCRIBE_PRODUCERS).drop().forever()]
    unknown = producer.send("payments", b"3 EUR").exception(timeout=30)
    print(unknown)
    assert unknown is not None
    assert unknown.persisted is Persisted.MAYBE
    for silence in silences:
        silence.remove()

    # Neither failure poisons the producer: the next record goes through, behind what is there.
    producer.send("payments", b"4 EUR").result(timeout=30)
    assert [record.value for record in broker.records("payments", 0)] == [b"1 EUR", b"3 EUR", b"4 EUR"]
