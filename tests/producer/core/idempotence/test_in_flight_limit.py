"""At most five unresolved batches a partition, pipelined in sequence order, wherever its leader is and whatever its links do."""

from __future__ import annotations

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.core.harness import PID, Desk
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
    desk = Desk().introduce()
    desk.send(*[b"%d" % i for i in range(8)])
    assert [flight.stamp for flight in desk.produces()] == [(PID, 0, sequence) for sequence in range(1, 6)]
    desk.ack(desk.produces()[0])
    assert [flight.stamp[2] for flight in desk.produces()] == [2, 3, 4, 5, 6]


def test_one_batch_until_the_first_acknowledgement() -> None:
    """A broker takes any first sequence of a producer id that it does not know: until one is acknowledged there is one batch in flight."""
    desk = Desk().learn()
    desk.send(b"0", b"1", b"2")
    assert [flight.values for flight in desk.produces()] == [[b"0"]]
    desk.ack(desk.produces()[0])
    assert [flight.values for flight in desk.produces()] == [[b"1"], [b"2"]]


def test_after_a_long_rest_a_partition_is_introduced_anew() -> None:
    """Brokers forget a producer id that rests (producer.id.expiration.ms): after ten minutes of rest one batch goes first again."""
    desk = Desk(metadata_max_idle_ms=1e9).introduce()
    desk.advance(599_000)
    desk.send(b"0", b"1")
    assert len(desk.produces()) == 2
    for flight in desk.produces():
        desk.ack(flight)
    desk.advance(600_000)
    desk.send(b"2", b"3")
    assert [flight.values for flight in desk.produces()] == [[b"2"]]


def test_five_are_counted_across_connections() -> None:
    """Three batches hang on the old leader's link, which says nothing; when the leader moves, none of them and only two more may go to
    the new one: the broker's window of five is per partition, not per connection."""
    desk = Desk(request_timeout_ms=1e6, delivery_timeout_ms=2e6).introduce()
    desk.send(b"0", b"1", b"2")
    desk.leaders[0] = (2, 1)
    desk.advance(desk.settings.metadata_max_age_ms)  # nothing else would have the producer look
    desk.send(*[b"%d" % i for i in range(3, 10)])
    assert [flight.stamp[2] for flight in desk.produces(node=1)] == [1, 2, 3]
    assert [flight.stamp[2] for flight in desk.produces(node=2)] == [4, 5]


def test_a_hung_leader_then_another_one() -> None:
    """The old leader's link goes dead with five batches on it, the leader moves: never more than five unresolved batches are about, and
    everything arrives once, in order."""
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
    desk = Desk(partitions=2)
    desk.leaders[1] = (2, 0)
    desk.introduce()
    desk.send(*[b"a"] * 9, partition=0)
    desk.send(*[b"b"] * 2, partition=1)
    assert len(desk.produces(node=1)) == 5
    assert len(desk.produces(node=2)) == 2


def test_one_request_carries_one_batch_of_each_partition() -> None:
    """Batches of several partitions of one leader share a request, at most one of each: a broker refuses two of one partition."""
    desk = Desk(partitions=3, linger_ms=5.0, batch_size=1000).introduce()
    for partition in range(3):
        desk.send(b"x", b"y", partition=partition)
    desk.advance(5)
    (flight,) = desk.produces()
    assert sorted(flight.blobs) == [0, 1, 2]
    for topic in flight.message.topic_data:
        indexes = [part.index for part in topic.partition_data]
        assert len(indexes) == len(set(indexes))


def test_a_request_stays_below_max_request_size() -> None:
    """Batches that together exceed max_request_size go in several requests; one alone goes however large it is."""
    desk = Desk(partitions=3, max_request_size=1024).introduce()
    queues = desk.accumulator.topics["t"]
    for partition in range(3):
        assert desk.accumulator.append(queues, partition, 1, None, b"x" * 400, None, None) is not None
    desk.send(b"y" * 400, partition=0)
    sizes = [[len(blob) for blob in flight.blobs.values()] for flight in desk.produces()]
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
    desk = Desk(enable_idempotence=False).learn()
    desk.send(b"0", b"1", b"2")
    first, second, third = desk.produces()
    desk.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    desk.refuse(second, ErrorCode.NOT_ENOUGH_REPLICAS)
    desk.refuse(third, ErrorCode.NOT_ENOUGH_REPLICAS)
    sent = []
    for _ in range(3):
        desk.advance(50)
        (flight,) = desk.produces()
        sent += flight.values
        desk.ack(flight)
    assert sent == [b"0", b"1", b"2"]
