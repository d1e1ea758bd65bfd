"""A partition has at most five unresolved batches, pipelined in sequence order, also while its leader moves and connections are lost."""

from __future__ import annotations

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.core.harness import PID, CoreHarness
from tests.producer.stub_helpers import ONE_EACH, arrivals, quick, until, values


def test_five_requests_are_really_in_flight() -> None:
    """With answers held back the broker has five batches of the partition appended, the sixth is not sent before one is answered."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).reply().forever().hold()
        futures = [producer.send("t", b"%d" % i) for i in range(12)]
        held.wait(5, 20)
        until(lambda: stub.end_offset("t", 0) == 6, "five more in the log")
        assert held.hits == 5
        assert [arrival.header.base_sequence for arrival in arrivals(stub)] == [0, 1, 2, 3, 4, 5]
        assert not any(future.done() for future in futures)
        held.remove()
        producer.flush(20)
        assert values(stub, "t") == [b"hello", *(b"%d" % i for i in range(12))]
        assert len(arrivals(stub)) == 13, "nothing was sent twice"


def test_pipelined_batches_leave_in_sequence_order() -> None:
    """Five batches leave at once, each under the sequence after its predecessor; the next follows the first answer."""
    harness = CoreHarness().introduce()
    harness.send(*[b"%d" % i for i in range(8)])
    assert [flight.stamp for flight in harness.produces()] == [(PID, 0, sequence) for sequence in range(1, 6)]
    harness.ack(harness.produces()[0])
    assert [flight.stamp[2] for flight in harness.produces()] == [2, 3, 4, 5, 6]


def test_one_batch_until_the_first_acknowledgement() -> None:
    """A broker takes any first sequence of a producer id that it does not know: until one is acknowledged there is one batch in flight."""
    harness = CoreHarness().learn()
    harness.send(b"0", b"1", b"2")
    assert [flight.values for flight in harness.produces()] == [[b"0"]]
    harness.ack(harness.produces()[0])
    assert [flight.values for flight in harness.produces()] == [[b"1"], [b"2"]]


def test_after_a_long_rest_a_partition_is_introduced_anew() -> None:
    """Brokers forget a producer id that rests (producer.id.expiration.ms): after ten minutes of rest one batch goes first again."""
    harness = CoreHarness(metadata_max_idle_ms=1e9).introduce()
    harness.advance(599_000)
    harness.send(b"0", b"1")
    assert len(harness.produces()) == 2
    for flight in harness.produces():
        harness.ack(flight)
    harness.advance(600_000)
    harness.send(b"2", b"3")
    assert [flight.values for flight in harness.produces()] == [[b"2"]]


def test_five_are_counted_across_connections() -> None:
    """Three batches are in flight on a silent connection to the old leader. After the leader moves, only two more may go to the new leader.

    The limit of five is per partition, not per connection.
    """
    harness = CoreHarness(request_timeout_ms=1e6, delivery_timeout_ms=2e6).introduce()
    harness.send(b"0", b"1", b"2")
    harness.leaders[0] = (2, 1)
    harness.advance(harness.settings.metadata_max_age_ms)  # nothing else would have the producer look
    harness.send(*[b"%d" % i for i in range(3, 10)])
    assert [flight.stamp[2] for flight in harness.produces(node=1)] == [1, 2, 3]
    assert [flight.stamp[2] for flight in harness.produces(node=2)] == [4, 5]


def test_a_hung_leader_then_another_one() -> None:
    """The old leader's connection goes silent with five batches in flight, and the leader moves. At most five batches are unresolved.

    Everything arrives once, in order.
    """
    with BrokerStub(brokers=2) as stub:
        stub.create_topic("t", replication_factor=2)
        with quick(stub, **ONE_EACH, request_timeout_ms=1000, metadata_max_age_ms=100) as producer:
            producer.send("t", b"hello").result(20)
            old = stub.leader("t", 0)
            hung = stub.faults.on(Api.PRODUCE).where(node=old).after_append().times(1).drop()
            futures = [producer.send("t", b"%d" % i) for i in range(20)]
            hung.wait(1, 20)
            stub.move_leader("t", 0)
            assert [future.result(20).offset for future in futures] == list(range(1, 21))
            assert values(stub, "t") == [b"hello", *(b"%d" % i for i in range(20))]
            sequences = [arrival.header.base_sequence for arrival in arrivals(stub)]
            for place, sequence in enumerate(sequences):
                unresolved = {s for s in sequences[:place] if s > sequence}
                assert len(unresolved) < 5, f"{sequence} was sent when {sorted(unresolved)} already were"


def test_partitions_do_not_wait_for_each_other() -> None:
    """A partition whose window is full does not keep another partition's batches from another broker."""
    harness = CoreHarness(partitions=2)
    harness.leaders[1] = (2, 0)
    harness.introduce()
    harness.send(*[b"a"] * 9, partition=0)
    harness.send(*[b"b"] * 2, partition=1)
    assert len(harness.produces(node=1)) == 5
    assert len(harness.produces(node=2)) == 2


def test_one_request_carries_one_batch_of_each_partition() -> None:
    """Batches of several partitions of one leader share a request, at most one of each: a broker refuses two of one partition."""
    harness = CoreHarness(partitions=3, linger_ms=5.0, batch_size=1000).introduce()
    for partition in range(3):
        harness.send(b"x", b"y", partition=partition)
    harness.advance(5)
    (flight,) = harness.produces()
    assert sorted(flight.blobs) == [0, 1, 2]
    for topic in flight.message.topic_data:
        indexes = [part.index for part in topic.partition_data]
        assert len(indexes) == len(set(indexes))


def test_a_request_stays_below_max_request_size() -> None:
    """Batches that together exceed max_request_size go in several requests; one alone goes however large it is."""
    harness = CoreHarness(partitions=3, max_request_size=1024).introduce()
    queues = harness.accumulator.topics["t"]
    for partition in range(3):
        assert harness.accumulator.append(queues, partition, 1, None, b"x" * 400, None, None) is not None
    harness.send(b"y" * 400, partition=0)
    sizes = [[len(blob) for blob in flight.blobs.values()] for flight in harness.produces()]
    assert len(sizes) > 1
    assert all(sum(each) <= 1024 for each in sizes)


def test_sequences_wrap_end_to_end() -> None:
    """A partition whose sequences cross 2^31 goes on as if nothing were: five in flight, retries, in order, once."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        start = 2**31 - 3
        assert producer.partitions_for("t") == [0]
        producer._sender.engine.core.produce_requests.sender(producer._accumulator.topics["t"].queues[0]).window.first_sequence = start
        producer.send("t", b"hello").result(20)
        lost = stub.faults.on(Api.PRODUCE).after_append().on_call(2).disconnect()
        futures = [producer.send("t", b"%d" % i) for i in range(10)]
        assert [future.result(20).offset for future in futures] == list(range(1, 11))
        assert lost.hits == 1
        seen = {arrival.header.base_sequence for arrival in arrivals(stub)}
        assert seen == {start, start + 1, 2**31 - 1, *range(8)}
        assert {arrival.header.producer_epoch for arrival in arrivals(stub)} == {0}, "the wrap costs no epoch"
        assert values(stub, "t") == [b"hello", *(b"%d" % i for i in range(10))]


def test_without_idempotence_batches_still_go_in_order() -> None:
    """Without idempotence a retried batch goes first and alone too: max_in_flight costs no order."""
    harness = CoreHarness(enable_idempotence=False).learn()
    harness.send(b"0", b"1", b"2")
    first, second, third = harness.produces()
    harness.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.refuse(second, ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.refuse(third, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert [flight.values for flight in harness.ack_one_by_one(3, after_ms=50)] == [[b"0"], [b"1"], [b"2"]]
