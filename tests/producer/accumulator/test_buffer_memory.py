"""The byte budget, from the caller's side: it is kept, waited for, given back whole, and never leaks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import BufferFull, ProducerClosed
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import ONE_EACH, quick, until, values

SMALL = {**ONE_EACH, "buffer_memory": 5_000, "max_request_size": 4_000}


@pytest.mark.parametrize("trouble", ["none", "refused", "lost", "expired", "split"])
def test_everything_is_given_back(trouble: str) -> None:
    """When every record has its outcome, success or failure, all bytes of the budget are free again."""
    config = {"max.message.bytes": "500"} if trouble == "split" else None
    with BrokerStub() as stub:
        stub.create_topic("t", config=config)
        settings = {"linger_ms": 20, "request_timeout_ms": 200, "delivery_timeout_ms": 400, "resolve_grace_ms": 50}
        with quick(stub, **settings) as producer:
            if trouble == "refused":
                stub.faults.on(Api.PRODUCE).before().times(3).error(ErrorCode.INVALID_RECORD)
            elif trouble == "lost":
                stub.faults.on(Api.PRODUCE).after_append().times(2).disconnect()
            elif trouble == "expired":
                stub.faults.on(Api.PRODUCE).before().times(4).drop()
            # Every other one with a callback, which counts, too, as does a row.
            heard = [None, list[object]().append]
            futures = [producer.send("t", b"x" * 100, key=b"%d" % i, headers=[("h", b"v")], on_delivery=heard[i % 2]) for i in range(50)]
            rows = producer.send_many("t", [(b"%d" % i, b"x" * 100) for i in range(50)])
            until(lambda: rows.done() and all(future.done() for future in futures), "all outcomes")
            until(lambda: producer._accumulator.used == 0, "the budget")
            for future in futures:
                future.exception(0)
            assert rows.result(0).acknowledged + len(rows.result(0).failures) == 50


def test_send_waits_for_room_and_goes_on() -> None:
    """With the buffer full send blocks; an acknowledgement makes room and it returns, long before max_block_ms."""
    with BrokerStub() as stub, quick(stub, **SMALL) as producer:
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().hold()
        producer.send("t", b"a" * 3_000)
        held.wait(1, 20)
        with ThreadPoolExecutor() as pool:
            blocked = pool.submit(producer.send, "t", b"b" * 3_000)
            until(lambda: producer._accumulator.waiting, "send waits")
            assert not blocked.done()
            held.release()
            assert blocked.result(20).result(20).offset == 2


def test_waiting_for_room_ends_the_linger() -> None:
    """A caller that waits for room makes the lingering batches leave: otherwise the two would wait for each other."""
    with BrokerStub() as stub, quick(stub, **{**SMALL, "batch_size": 100_000, "linger_ms": 60_000}) as producer:
        for i in range(10):
            producer.send("t", b"%d" % i + b"x" * 2_000)
        producer.flush(20)
        assert [value[:1] for value in values(stub, "t")] == [b"%d" % i for i in range(10)]


def test_the_budget_is_never_exceeded() -> None:
    """Eight threads send with a small buffer. The bytes in use never exceed it, and all records of all threads arrive."""
    with BrokerStub() as stub, quick(stub, **SMALL) as producer:
        producer.send("t", b"hello").result(20)
        most: list[int] = []

        def work(number: int) -> None:
            for i in range(25):
                producer.send("t", b"%d-%d-" % (number, i) + b"x" * 500, on_delivery=lambda future: most.append(producer._accumulator.used))

        with ThreadPoolExecutor(8) as pool:
            for each in [pool.submit(work, number) for number in range(8)]:
                each.result(60)
        producer.flush(20)
        assert len(values(stub, "t")) == 8 * 25 + 1
        assert max(most) <= 5_000


def test_a_full_buffer_after_max_block() -> None:
    """When no room comes in time BufferFull is raised, the record was not accepted, and the next send works once there is room."""
    with BrokerStub() as stub, quick(stub, **{**SMALL, "max_block_ms": 50}) as producer:
        producer.partitions_for("t", timeout=20)
        producer.send("t", b"hello").result(20)
        until(lambda: producer._accumulator.used == 0, "the room of the first record")
        held = stub.faults.on(Api.PRODUCE).before().hold()
        kept = producer.send("t", b"a" * 3_000)
        used = producer._accumulator.used
        for _ in range(2):
            with pytest.raises(BufferFull):
                producer.send("t", b"b" * 3_000)
        assert producer._accumulator.used == used
        held.remove()
        assert kept.result(20).offset == 1
        until(lambda: producer._accumulator.used == 0, "the room of the record that was kept")
        assert producer.send("t", b"c" * 3_000).result(20).offset == 2


def test_close_wakes_a_send_that_waits_for_room() -> None:
    """A send that waits for room when the producer is closed raises ProducerClosed, soon."""
    with BrokerStub() as stub:
        producer = quick(stub, **SMALL)
        producer.send("t", b"hello").result(20)
        stub.faults.on(Api.PRODUCE).before().forever().hold()
        lost = producer.send("t", b"a" * 3_000)
        with ThreadPoolExecutor() as pool:
            blocked = pool.submit(producer.send, "t", b"b" * 3_000)
            until(lambda: producer._accumulator.waiting, "send waits")
            lost.add_done_callback(lambda future: None)
            producer.close(0.05)
            assert isinstance(blocked.exception(5), ProducerClosed)
        stub.faults.clear()


def test_close_wakes_a_send_that_waits_for_a_topic() -> None:
    """A send that waits for an unknown topic when the producer is closed raises ProducerClosed, soon."""
    with BrokerStub(auto_create_topics=False) as stub:
        producer = quick(stub)
        with ThreadPoolExecutor() as pool:
            blocked = pool.submit(producer.send, "missing", b"x")
            until(lambda: stub.journal.requests(Api.METADATA), "it asked")
            producer.close(5)
            assert isinstance(blocked.exception(5), ProducerClosed)


def test_settled_records_are_let_go() -> None:
    """A future keeps its outcome and not its record: the encoded bytes are gone once the batch has its outcome."""
    with BrokerStub() as stub, quick(stub) as producer:
        future = producer.send("t", b"x" * 1_000)
        future.result(20)
        assert future.batch.builder is None


def test_sixteen_threads_while_leaders_move() -> None:
    """Sixteen threads send to three partitions while leaders move and connections are cut: every record arrives once, and each thread's
    records of a partition in the order in which it sent them."""
    with BrokerStub(brokers=3) as stub:
        stub.create_topic("t", partitions=3, replication_factor=3)
        with quick(stub, linger_ms=1, batch_size=2_000) as producer:
            producer.partitions_for("t")
            ending = threading.Event()

            def trouble() -> None:
                turn = 0
                while not ending.wait(0.02):
                    stub.move_leader("t", turn % 3)
                    if turn % 5 == 0:
                        stub.cut_connections()
                    turn += 1

            def work(number: int) -> None:
                for i in range(100):
                    producer.send("t", b"%d %d" % (number, i), partition=(number + i) % 3)

            with ThreadPoolExecutor(17) as pool:
                troubling = pool.submit(trouble)
                for each in [pool.submit(work, number) for number in range(16)]:
                    each.result(60)
                producer.flush(60)
                ending.set()
                troubling.result(20)
            log = [values(stub, "t", partition) for partition in range(3)]
            assert sum(map(len, log)) == 16 * 100
            for partition, found in enumerate(log):
                for number in range(16):
                    mine = [int(value.split()[1]) for value in found if value.startswith(b"%d " % number)]
                    assert mine == [i for i in range(100) if (number + i) % 3 == partition]
