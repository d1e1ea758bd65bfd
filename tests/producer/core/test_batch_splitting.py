"""MESSAGE_TOO_LARGE: the batch is split and goes on; futures, callbacks and waiters survive it; a single record fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Persisted, Producer, RecordFuture, RecordRefused
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.core.harness import PID, CoreHarness, Flight
from tests.producer.stub_helpers import arrivals, probe, quick, until, values


@contextmanager
def narrow(max_message_bytes: int = 400, **settings: object) -> Iterator[tuple[BrokerStub, Producer]]:
    """A topic whose batches must be small, and a producer that makes large ones."""
    with BrokerStub() as stub:
        stub.create_topic("t", config={"max.message.bytes": str(max_message_bytes)})
        with quick(stub, **{"linger_ms": 60_000, **settings}) as producer:
            yield stub, producer


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_is_too_large_is_split_until_it_fits(codec: str) -> None:
    """Forty records in one batch of 5 KB, 400 bytes allowed: all arrive once, in order, with the offsets that their futures say."""
    with narrow(compression_type=codec) as (stub, producer):
        payloads = [bytes([i]) * 5 + b"%d" % (7**i) for i in range(40)]
        futures = [producer.send("t", payload, timestamp=1_700_000_000_000 + i) for i, payload in enumerate(payloads)]
        producer.flush(20)
        assert values(stub, "t") == payloads
        assert [future.result(0).offset for future in futures] == list(range(40))
        assert [future.result(0).timestamp for future in futures] == [1_700_000_000_000 + i for i in range(40)]


def test_the_pieces_keep_the_sequences() -> None:
    """The pieces take the sequences of the batch that they replace, under the same epoch, one at a time; nothing is skipped."""
    harness = CoreHarness(batch_size=4_096, linger_ms=5.0).introduce()
    harness.send(*[b"%d" % i for i in range(4)])
    harness.advance(5)
    (whole,) = harness.produces()
    assert whole.stamp == (PID, 0, 1)
    harness.refuse(whole, ErrorCode.MESSAGE_TOO_LARGE)
    harness.advance(50)
    stamps, sent = [], []
    for _ in range(2):
        (piece,) = harness.produces()
        stamps.append(piece.stamp)
        sent += piece.values
        harness.ack(piece)
        harness.advance(50)
    assert stamps == [(PID, 0, 1), (PID, 0, 3)]
    assert sent == [b"0", b"1", b"2", b"3"]


def test_waiters_and_callbacks_survive() -> None:
    """Threads that wait in result, callbacks of single records, and flush: all get the outcome of the piece that holds the record."""
    with narrow() as (stub, producer):
        heard: list[RecordFuture] = []
        futures = [producer.send("t", b"%d" % i + b"x" * 50, on_delivery=heard.append) for i in range(30)]
        held = stub.faults.on(Api.PRODUCE).before().hold()
        with ThreadPoolExecutor(6) as pool:
            waiting = [pool.submit(futures[i].result, 20) for i in range(0, 30, 5)]
            held.wait(1, 20)
            held.release()
            assert [each.result(20).offset for each in waiting] == list(range(0, 30, 5))
        producer.flush(20)
        assert heard == futures
        assert [future.result(0).offset for future in futures] == list(range(30))


def test_records_behind_it_keep_their_place() -> None:
    """Batches that were pipelined behind the one that is split arrive after its pieces."""
    with narrow(linger_ms=0, batch_size=1_000) as (stub, producer):
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().hold()
        first = producer.send("t", b"first")
        held.wait(1, 20)
        payloads = [b"%d" % i + b"x" * (150 if i % 9 else 5) for i in range(60)]
        futures = [producer.send("t", payload) for payload in payloads]
        held.release()
        producer.flush(20)
        assert first.result(0).offset == 1
        assert [future.result(0).offset for future in futures] == list(range(2, 62))
        assert values(stub, "t") == [b"hello", b"first", *payloads]


def test_a_single_record_that_is_too_large_fails_alone() -> None:
    """The record that no split can help fails as refused and not in the log; its neighbours of the same batch arrive."""
    with narrow() as (stub, producer):
        futures = [producer.send("t", payload) for payload in (b"a", b"b", b"x" * 1_000, b"c")]
        until(lambda: producer._accumulator.used > 1_000, "it is accepted")
        big = futures.pop(2)
        for future in futures:
            assert future.exception(20) is None
        failure = big.exception(20)
        assert isinstance(failure, RecordRefused)
        assert (failure.code, failure.persisted) == (ErrorCode.MESSAGE_TOO_LARGE, Persisted.NO)
        assert values(stub, "t") == [b"a", b"b", b"c"]
        assert producer.send("t", b"d").result(20).offset == 3


def test_splitting_costs_no_retries() -> None:
    """With retries=1 a batch that must be split five times over still arrives: a split is no attempt that failed."""
    with narrow(max_message_bytes=120, retries=1) as (stub, producer):
        futures = [producer.send("t", b"%d" % i + b"x" * 30) for i in range(32)]
        producer.flush(20)
        assert [future.result(0).offset for future in futures] == list(range(32))
        assert stub.end_offset("t", 0) == 32


def test_a_lost_reply_to_a_piece() -> None:
    """A piece whose reply is lost is resent as it was and recognised, like any batch."""
    with narrow() as (stub, producer):
        futures = [producer.send("t", b"%d" % i + b"x" * 50) for i in range(10)]
        lost = stub.faults.on(Api.PRODUCE).after_append().on_call(3).disconnect()
        producer.flush(20)
        assert lost.hits == 1
        assert [future.result(0).offset for future in futures] == list(range(10))
        assert len(values(stub, "t")) == 10
        assert len({arrival.blob for arrival in arrivals(stub)}) < len(arrivals(stub))


def in_doubt_and_too_large() -> tuple[CoreHarness, list[RecordFuture], Flight]:
    """The first attempt of a batch is lost, and the second one refused for its size. Returns the harness and the request that follows."""
    harness = CoreHarness(batch_size=4_096, linger_ms=5.0).introduce()
    futures = harness.send(*[b"%d" % i for i in range(4)])
    harness.advance(5)
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], ErrorCode.MESSAGE_TOO_LARGE)
    assert not any(future.done() for future in futures)
    return harness, futures, harness.questions()[0]


def test_what_may_be_in_the_log_is_not_split() -> None:
    """The first attempt's reply was lost, the second is told that the batch is too large (the limit was lowered meanwhile): the leader has
    the first, or cannot tell, so it is not taken apart; the failure says MAYBE."""
    for known in ((PID, 0, 4), None):
        harness, futures, question = in_doubt_and_too_large()
        harness.tell(question, known)
        assert [failure.persisted for future in futures if (failure := future.exception(0))] == [Persisted.MAYBE] * 4
        (later,) = harness.send(b"later")
        harness.advance(5)
        harness.ack(harness.produces()[0], offset=5)
        assert later.exception(0) is None


def test_what_is_not_in_the_log_is_split() -> None:
    """The reply to the first attempt was lost, the second is told that the batch is too large, and the leader does not have it. It is
    split, on its own sequences, and every record arrives."""
    harness, futures, question = in_doubt_and_too_large()
    harness.tell(question, (PID, 0, 0))
    for place in range(2):
        harness.advance(50)
        (flight,) = harness.produces()
        assert (flight.values, flight.stamp) == ([b"%d" % (2 * place), b"%d" % (2 * place + 1)], (PID, 0, 1 + 2 * place))
        harness.ack(flight, offset=1 + 2 * place)
    assert [future.result(0).offset for future in futures] == [1, 2, 3, 4]


def test_a_late_copy_of_what_was_split() -> None:
    """The limit is raised again and a copy of the lost attempt arrives after all: the parts do not fit, nothing is doubled, and nothing
    that is in the log is called absent."""
    harness, futures, question = in_doubt_and_too_large()
    harness.tell(question, (PID, 0, 0))
    harness.advance(50)
    for _ in range(10):
        for flight in harness.produces():
            harness.refuse(flight, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        for again in harness.questions():
            harness.tell(again, (PID, 0, 4))
        harness.advance(50)
    assert [failure.persisted for future in futures if (failure := future.exception(0))] == [Persisted.MAYBE] * 4


def test_another_leader_may_take_it_whole() -> None:
    """The leader that refuses the size is followed by another one before it can be asked: the batch goes there as it was."""
    harness, futures, question = in_doubt_and_too_large()
    harness.leaders[0] = (2, 1)
    while question.node == 1:
        harness.tell(question, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        harness.advance(500)
        (question,) = harness.questions()
    harness.tell(question, (PID, 0, 0))
    harness.advance(50)
    (flight,) = harness.produces(node=2)
    assert len(flight.values) == 4
    harness.ack(flight, offset=1)
    assert futures[3].result(0).offset == 4


def test_a_lost_reply_and_a_lowered_limit() -> None:
    """Fifteen records in a batch whose request is lost, and a limit that is lowered before it is sent again: all arrive, in parts."""
    with BrokerStub() as stub, quick(stub, linger_ms=60_000) as producer:
        producer.send("t", b"hello")
        producer.flush(20)
        lost = stub.faults.on(Api.PRODUCE).before().disconnect().times(1)
        refused = stub.faults.on(Api.PRODUCE).before().on_call(2).error(ErrorCode.MESSAGE_TOO_LARGE)
        futures = [producer.send("t", b"%d" % i) for i in range(15)]
        producer.flush(20)
        assert (lost.hits, refused.hits) == (1, 1)
        assert [future.result(0).offset for future in futures] == list(range(1, 16))
        assert stub.end_offset("t", 0) == 16


def test_asking_while_it_is_being_split() -> None:
    """A thread that polls done and result of the same futures all through the split never sees another record's offset."""
    with narrow(max_message_bytes=200) as (stub, producer):
        futures = [producer.send("t", b"%d" % i + b"x" * 20) for i in range(24)]
        produced = probe(stub, Api.PRODUCE)
        ending = threading.Event()

        def poll() -> None:
            while not ending.is_set():
                for place, future in enumerate(futures):
                    if future.done():
                        assert future.result(0).offset == place

        with ThreadPoolExecutor() as pool:
            polling = pool.submit(poll)
            try:
                producer.flush(30)
            finally:
                ending.set()
            polling.result(20)
        assert [future.result(0).offset for future in futures] == list(range(24))
        assert produced.hits > 5


def test_the_pieces_keep_the_deadline() -> None:
    """Splitting gives no time: what is left of the batch expires when the batch would have."""
    harness = CoreHarness(batch_size=4_096, linger_ms=5.0, delivery_timeout_ms=1_000, request_timeout_ms=900).introduce()
    futures = harness.send(*[b"%d" % i for i in range(4)])
    harness.advance(900)
    harness.refuse(harness.produces()[0], ErrorCode.MESSAGE_TOO_LARGE)
    harness.advance(90)
    harness.refuse(harness.produces()[0], ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.advance(20)
    assert [failure.persisted for future in futures if (failure := future.exception(0))] == [Persisted.NO] * 4


def test_the_pieces_keep_the_grace() -> None:
    """A batch in doubt is split within its grace, which begins anew for no piece."""
    harness = CoreHarness(
        batch_size=4_096, linger_ms=5.0, delivery_timeout_ms=1_000, request_timeout_ms=500, resolve_grace_ms=200, retry_backoff_ms=1.0
    ).introduce()
    futures = harness.send(*[b"%d" % i for i in range(4)])
    harness.advance(5)
    harness.lose(1)
    harness.advance(95)
    harness.refuse(harness.produces()[0], ErrorCode.MESSAGE_TOO_LARGE)
    harness.advance(1_000)
    assert not futures[0].done()
    harness.tell(harness.questions()[-1], (PID, 0, 0))
    assert [len(flight.values) for flight in harness.produces()] == [2]
    harness.advance(101)
    assert [failure.persisted for future in futures if (failure := future.exception(0))] == [Persisted.MAYBE] * 4


def test_a_batch_whose_failure_is_decided_is_not_split() -> None:
    """Its records have failed: that the broker finds them too large changes nothing, and none of them is sent again."""
    harness = CoreHarness(batch_size=4_096, linger_ms=5.0, delivery_timeout_ms=1_000, request_timeout_ms=900_000).introduce()
    futures = harness.send(*[b"%d" % i for i in range(4)])
    harness.advance(5)
    (whole,) = harness.produces()
    harness.advance(60_000)
    (question,) = harness.questions()
    assert [failure.persisted for future in futures if (failure := future.exception(0))] == [Persisted.MAYBE] * 4
    harness.refuse(whole, ErrorCode.MESSAGE_TOO_LARGE)
    harness.tell(question, (PID, 0, 0))
    harness.advance(60_000)
    assert harness.produces() == []
    (later,) = harness.send(b"later")
    harness.advance(5)
    (produce,) = harness.produces()
    assert produce.values == [b"later"]
    harness.ack(produce)
    assert later.exception(0) is None
