"""What happens at moments that are easily overlooked: while the producer dies, inside a call, and in a child that multiprocessing made."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, FencepostError, Persisted, Producer, RecordFuture
from fencepost.producer.core.cluster.cluster_connection_states import LinkState
from fencepost.producer.wire import Api, ErrorCode, MetadataResponse
from fencepost.producer.wire.records import batch_builder
from tests.later import Jump, jump
from tests.producer.stub_helpers import drop, quick, until, values

__all__ = ["jump"]

PROGRAM_TIMEOUT_S = 60


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(default_partitions=1) as stub:
        yield stub


def test_what_is_accepted_while_the_producer_dies_has_an_outcome(stub: BrokerStub) -> None:
    """Threads that send while a fatal error ends the producer are refused or get a failed future; none waits for ever."""
    for _ in range(5):
        futures: list[RecordFuture] = []
        fatal = stub.faults.on(Api.INIT_PRODUCER_ID).before().times(1).error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        producer = quick(stub, buffer_memory=2_000_000, batch_size=1_000)
        producer.partitions_for("t")

        def send(producer: Producer = producer, futures: list[RecordFuture] = futures) -> None:
            try:
                while True:
                    futures.append(producer.send("t", b"x"))
            except FencepostError:
                return

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert fatal.hits == 1
        deadline = time.monotonic() + 20
        outcomes = [future.exception(max(0.0, deadline - time.monotonic())) for future in futures]
        assert all(isinstance(outcome, DeliveryError) for outcome in outcomes)
        producer.close(5)


def test_a_failure_inside_the_sender_fails_its_batch(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender thread fails after it took a batch from its queue and before the window has it. The batch fails with the producer, with
    MAYBE, because its outcome is unknown."""

    def broken(*_: object, **__: object) -> bytes:
        raise MemoryError("while sealing")

    producer = quick(stub, compression_type="gzip")
    producer.partitions_for("t")
    monkeypatch.setattr(batch_builder, "compress", broken)
    future = producer.send("t", b"x")
    failure = future.exception(20)
    assert failure is not None
    assert failure.persisted is Persisted.MAYBE
    assert "while sealing" in str(failure)
    producer.close(5)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR], ids=lambda code: code.name)
def test_a_topic_that_was_refused_once_is_still_watched(stub: BrokerStub, code: ErrorCode) -> None:
    """An answer that refuses a topic in use does not end the interest in it: when it is created again, that is noticed."""
    with quick(stub, metadata_max_age_ms=50, delivery_timeout_ms=60_000) as producer:
        producer.send("t", b"before").result(20)
        refused = stub.faults.on(Api.METADATA).where(topic="t").before().times(1).error(code)
        refused.wait(1, 20)
        stub.delete_topic("t")
        stub.create_topic("t", partitions=1)
        producer.send("t", b"after").result(20)
    assert values(stub, "t") == [b"after"]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR, 4711], ids=str)
def test_a_producer_id_that_is_refused_for_now(jump: Jump, stub: BrokerStub, code: int) -> None:
    """Nothing is written yet, so the producer retries InitProducerId after every code. The error at the deadline names the code."""
    fault = stub.faults.on(Api.INIT_PRODUCER_ID).before().times(2).error(code)
    with quick(stub) as producer:
        producer.send("t", b"x").result(20)
    assert fault.hits == 2
    fault = stub.faults.on(Api.INIT_PRODUCER_ID).before().forever().error(code)
    with quick(stub) as producer:
        late = producer.send("t", b"y")
        nodes = producer._sender.engine.core.nodes
        until(lambda: any(node.node_id == 1 and node.state is LinkState.UP for node in nodes), "a connection to the leader")
        fault.wait(2, 20)
        jump(120_000, producer)
        failure = late.exception(20)
        assert failure is not None
        assert failure.persisted is Persisted.NO
        assert "no producer id was assigned: InitProducerId was answered with" in str(failure)


@pytest.mark.parametrize("index", [-1, 2**31 - 1])
def test_partitions_that_cannot_be(stub: BrokerStub, index: int) -> None:
    """A Metadata answer with a senseless partition number counts as one without a leader; the producer asks again and goes on."""
    with quick(stub) as producer:
        producer.send("t", b"0").result(20)
        view = producer._sender.engine.core.view
        answer = stub.journal.requests(Api.METADATA)[-1].response
        assert isinstance(answer, MetadataResponse)
        topic = answer.topics[0]
        import msgspec

        senseless = msgspec.structs.replace(topic.partitions[0], partition_index=index)
        for partitions in ([senseless], []):
            heard = view.learn(
                msgspec.structs.replace(answer, topics=[msgspec.structs.replace(topic, partitions=partitions)]), [topic.name or ""]
            )
            assert [(news.change.name, news.partitions) for news in heard] == [("MISSING", 0)]
        producer.send("t", b"1").result(20)


def test_losses_of_a_collected_producer_are_said(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """When a producer without references is collected, the log says how many records were not delivered."""
    held = [quick(stub, linger_ms=60_000)]
    held[0].partitions_for("t")
    for _ in range(7):
        held[0].send("t", b"x")
    sender = held[0]._sender
    with pytest.warns(ResourceWarning, match="without close"):
        drop(held)
    until(lambda: not sender.running, "the end of the thread")
    assert any("7 records in 1 batch were not delivered" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_flushes_at_its_end(stub: BrokerStub, method: str) -> None:
    """Such a child ends without atexit; what it sent and did not flush is delivered all the same."""
    program = f"""
import multiprocessing
from fencepost import Producer

def work():
    global producer
    producer = Producer(bootstrap_servers={stub.bootstrap!r}, linger_ms=60000)
    for number in range(100):
        producer.send("t", b"%d" % number, partition=0)

if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
    print(child.exitcode)
"""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "program.py")
        script.write_text(program)
        ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S)
    assert (ran.stdout, ran.returncode) == ("0\n", 0), ran.stderr
    assert values(stub, "t") == [b"%d" % number for number in range(100)]


INTERRUPTED = """
import signal, sys, threading, time, os
from fencepost import Producer
armed = False
def interrupt(number, frame):
    # Only in the block below: Python may run this handler before and behind it, too.
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=0, batch_size=2000)
producer.partitions_for("t")
stop = False
def strike():
    while not stop:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.003)
sent, struck = [], 0
thread = threading.Thread(target=strike, daemon=True)
thread.start()
end = time.monotonic() + 40
while struck < 300 and time.monotonic() < end:
    try:
        armed = True
        while time.monotonic() < end:
            for _ in range(10):
                sent.append(producer.send("t", b"x", partition=0))
            time.sleep(0.001)  # a compiled producer would take millions
        armed = False
    except KeyboardInterrupt:
        struck += 1
stop = True
thread.join()
failed = [future.exception(30) for future in sent]
print(struck == 300, sum(failure is not None for failure in failed))
producer.close()
"""


def test_ctrl_c_in_the_middle_of_send(stub: BrokerStub) -> None:
    """Wherever it strikes, the record is accepted or it is not: no batch is spoilt, and the producer goes on."""
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(bootstrap=stub.bootstrap)], capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S
    )
    assert ran.stdout == "True 0\n", (ran.stdout, ran.stderr[-2000:])


def test_a_new_thread_is_not_taken_for_the_sender_that_was(stub: BrokerStub) -> None:
    """After the end of the sender thread the system gives its number to other threads. A second `close` from such a thread does nothing."""
    raised: list[FencepostError] = []

    def close_again(producer: Producer) -> None:
        try:
            producer.close(1)
            producer.flush(1)
        except FencepostError as error:
            raised.append(error)

    for _ in range(20):
        producer = quick(stub)
        producer.send("t", b"x").result(20)
        producer.close()
        for _ in range(5):
            thread = threading.Thread(target=close_again, args=(producer,))
            thread.start()
            thread.join(20)
    assert raised == []
