"""What docs/guarantees.md promises, played from outside: a producer, a cluster that misbehaves, and the log at the end.

Everything here uses the public names only. How the promises are kept inside is tested with the producer's own tests.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost import (
    Api,
    BrokerStub,
    BufferFull,
    DeliveryFatal,
    DeliveryTimeout,
    DeliveryUnknown,
    ErrorCode,
    Fatal,
    Misuse,
    Persisted,
    Producer,
    ProducerClosed,
    ProducerForked,
    RecordFuture,
    RecordRefused,
    RecordTooLarge,
    TopicUnavailable,
    UndeliveredRecords,
)
from tests.later import Jump, jump, limit_passes
from tests.producer.stub_helpers import probe
from tests.waiting import despite, until

__all__ = ["jump"]

TOPIC = "t"
DEADLINE_S = 30.0
QUICK: dict[str, Any] = {
    "linger_ms": 0,
    "request_timeout_ms": 400,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
}
DELIVERY_MS, GRACE_MS = 6_000, 1_000
LIMITED: dict[str, Any] = {**QUICK, "request_timeout_ms": 5_000, "delivery_timeout_ms": DELIVERY_MS, "resolve_grace_ms": GRACE_MS}
"""For deliveries that are to fail when the clock jumps. Not far: brokers that do not hear of each other for so long are still alive."""
ONCE: dict[str, Any] = {"retry_backoff_ms": 2 * DELIVERY_MS, "retry_backoff_max_ms": 2 * DELIVERY_MS}
"""What is refused is not tried again before its time has passed, so no request is on its way then."""


@pytest.fixture
def broker() -> Iterator[BrokerStub]:
    """Three brokers and a topic of one partition."""
    with BrokerStub(brokers=3) as stub:
        stub.create_topic(TOPIC)
        yield stub


def made(broker: BrokerStub, **settings: Any) -> Producer:
    return Producer(bootstrap_servers=broker.bootstrap, **{**QUICK, **settings})


def values(broker: BrokerStub, partition: int = 0, topic: str = TOPIC) -> list[bytes]:
    return [record.value or b"" for record in broker.records(topic, partition)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def send_each(producer: Producer, sent: list[bytes]) -> list[RecordFuture]:
    """Every record in a batch of its own, as far as batch_size allows."""
    return [producer.send(TOPIC, value) for value in sent]


# -- replies, connections, brokers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["before", "silent before", "after", "silent after", "middle of the reply"])
def test_a_lost_request_or_reply(broker: BrokerStub, trouble: str) -> None:
    """Whether the request was lost or its reply, by silence or by a cut: each record once, in order."""
    rule = broker.faults.on(Api.PRODUCE)
    at = {"before": rule.before, "after": rule.after_append, "reply": rule.reply}[trouble.split()[-1]]()
    at.times(2)
    fault = at.drop() if "silent" in trouble else at.disconnect()
    with made(broker, batch_size=0) as producer:
        futures = send_each(producer, numbers(20))
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(20))
    assert fault.hits == 2
    assert values(broker) == numbers(20)
    assert broker.stats()["duplicates"] >= (0 if "before" in trouble else 1)


def test_connections_cut_all_the_time(broker: BrokerStub) -> None:
    """Every connection dies again and again: each record once, in order, at the offset that its future has."""
    with made(broker, batch_size=200) as producer:
        futures = []
        for place, value in enumerate(numbers(500)):
            futures.append(producer.send(TOPIC, value))
            if place % 50 == 49:
                broker.cut_connections()
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(500))
    assert values(broker) == numbers(500)


def test_the_leader_moves(broker: BrokerStub) -> None:
    """Leaders change under load: each record once, in order."""
    with made(broker, batch_size=200) as producer:
        for place, value in enumerate(numbers(500)):
            producer.send(TOPIC, value)
            if place % 50 == 49:
                broker.move_leader(TOPIC, 0)
        producer.flush(DEADLINE_S)
    assert values(broker) == numbers(500)


@pytest.mark.parametrize("clean", [True, False], ids=["restarted", "killed"])
def test_a_broker_goes_and_comes_back(clean: bool) -> None:
    """The only broker restarts with five unanswered batches in its log, of which it then remembers one: each record once, in order."""
    with BrokerStub() as broker:
        broker.create_topic(TOPIC)
        with made(broker, batch_size=0, request_timeout_ms=5_000) as producer:
            producer.send(TOPIC, b"first").result(DEADLINE_S)
            held = broker.faults.on(Api.PRODUCE).reply().forever().hold()
            futures = send_each(producer, numbers(5))
            until(lambda: broker.end_offset(TOPIC, 0) == 6, "all appended")
            broker.stop_broker(1, clean=clean)
            held.remove()
            broker.start_broker(1)
            assert [future.result(DEADLINE_S).offset for future in futures][-1] == 5
            producer.send(TOPIC, b"last").result(DEADLINE_S)
        assert values(broker) == [b"first", *numbers(5), b"last"]


def test_a_slow_broker(broker: BrokerStub) -> None:
    """Answers that come after request_timeout_ms are late, not lost: each record once, in order."""
    slow = broker.faults.on(Api.PRODUCE).after_append().times(2).delay(600)
    with made(broker, batch_size=0) as producer:
        futures = send_each(producer, numbers(10))
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(10))
    assert slow.hits == 2
    assert values(broker) == numbers(10)


def test_a_frozen_broker(jump: Jump, broker: BrokerStub) -> None:
    """A broker that stops answering anything is given up at the delivery deadline with MAYBE, and used again when it is back."""
    with made(broker, **LIMITED) as producer:
        producer.send(TOPIC, b"before").result(DEADLINE_S)
        frozen = broker.faults.on().before().forever().hold()
        late = producer.send(TOPIC, b"meanwhile")
        frozen.wait(1, DEADLINE_S)
        jump(DELIVERY_MS, producer)
        jump(GRACE_MS, producer)
        # A connection that is being made would be waited for much longer.
        failure = late.exception(5)
        assert isinstance(failure, DeliveryTimeout)
        assert failure.persisted is Persisted.MAYBE
        frozen.remove()
        producer.send(TOPIC, b"after").result(DEADLINE_S)
    assert values(broker).count(b"before") == values(broker).count(b"after") == 1


def test_no_broker_at_all(jump: Jump) -> None:
    """Without a broker `send` to an unknown topic ends after max_block_ms and says what was tried; nothing was accepted."""
    with BrokerStub() as gone:
        bootstrap = gone.bootstrap
    with Producer(bootstrap_servers=bootstrap, **QUICK, max_block_ms=20_000) as producer:
        tried = producer._sender.engine.trouble
        late = limit_passes(jump, 20_000, producer, lambda: producer.send(TOPIC, b"1"), lambda: bootstrap in tried())
    assert isinstance(late, TopicUnavailable)
    assert bootstrap in str(late)


# -- deadlines -------------------------------------------------------------------------------------------------------------


def test_the_deadline_of_what_was_never_sent(jump: Jump, broker: BrokerStub) -> None:
    """No leader until the deadline: the record fails with NO, and sending it again is safe."""
    with made(broker, **LIMITED) as producer:
        producer.send(TOPIC, b"1").result(DEADLINE_S)
        for node in (1, 2, 3):
            broker.stop_broker(node)
        # What is written to a connection whose end has not been noticed was sent.
        until(lambda: not producer.stats().connection_count, "every connection is seen to be closed")
        late = producer.send(TOPIC, b"2")
        jump(DELIVERY_MS, producer)
        failure = late.exception(DEADLINE_S)
        assert isinstance(failure, DeliveryTimeout)
        assert failure.persisted is Persisted.NO
        for node in (1, 2, 3):
            broker.start_broker(node)
        # Its deadline is short, and brokers that are back take as long as they take.
        despite(DeliveryTimeout, lambda: producer.send(TOPIC, b"2").result(DEADLINE_S))
    assert values(broker) == [b"1", b"2"]


def test_the_deadline_of_a_batch_without_an_answer(jump: Jump, broker: BrokerStub) -> None:
    """Appended, never answered, and not told when asked: MAYBE. The record is in the log, and nothing is doubled."""
    silence = broker.faults.on(Api.PRODUCE, Api.DESCRIBE_PRODUCERS).after_append().forever().drop()
    with made(broker, **LIMITED) as producer:
        late = producer.send(TOPIC, b"1")
        silence.wait(1, DEADLINE_S)
        jump(DELIVERY_MS, producer)
        silence.wait(2, DEADLINE_S)
        jump(GRACE_MS, producer)
        failure = late.exception(DEADLINE_S)
        assert isinstance(failure, DeliveryTimeout | DeliveryUnknown)
        assert failure.persisted is Persisted.MAYBE
        silence.remove()
        producer.send(TOPIC, b"2").result(DEADLINE_S)
    assert values(broker) == [b"1", b"2"]


def test_too_few_replicas_until_the_deadline(jump: Jump) -> None:
    """Refused for want of in-sync replicas until the deadline: NO. When they are back, the producer goes on."""
    with BrokerStub(brokers=2, config={"min.insync.replicas": "2"}) as broker:
        broker.create_topic(TOPIC)
        with made(broker, **{**LIMITED, **ONCE}) as producer:
            producer.send(TOPIC, b"1").result(DEADLINE_S)
            follower = 3 - broker.leader(TOPIC, 0)
            broker.stop_broker(follower)
            refused = probe(broker, Api.PRODUCE)
            late = producer.send(TOPIC, b"2")
            refused.wait(1, DEADLINE_S)
            until(lambda: not producer.stats().requests_in_flight, "the refusal is heard")
            jump(DELIVERY_MS, producer)
            failure = late.exception(DEADLINE_S)
            assert isinstance(failure, DeliveryTimeout)
            assert (failure.persisted, failure.code) == (Persisted.NO, ErrorCode.NOT_ENOUGH_REPLICAS)
            broker.start_broker(follower)
            producer.send(TOPIC, b"3").result(DEADLINE_S)
        assert values(broker) == [b"1", b"3"]


def test_appended_and_not_replicated_in_time(jump: Jump, broker: BrokerStub) -> None:
    """The leader says that it has the record and that its replicas do not confirm, until the deadline: YES."""
    told = broker.faults.on(Api.PRODUCE).after_append().forever().error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    producer = made(broker, **LIMITED)
    late = producer.send(TOPIC, b"1")
    told.wait(2, DEADLINE_S)
    jump(DELIVERY_MS, producer)
    failure = late.exception(DEADLINE_S)
    producer.close(DEADLINE_S)
    assert failure is not None
    assert failure.persisted is Persisted.YES
    assert values(broker) == [b"1"]


# -- topics ----------------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_deleted(jump: Jump, broker: BrokerStub) -> None:
    """Records for a topic that is gone fail at the deadline with NO; other topics are not disturbed."""
    broker.create_topic("other")
    with made(broker, **{**LIMITED, **ONCE}, allow_auto_create_topics=False) as producer:
        producer.send(TOPIC, b"1").result(DEADLINE_S)
        broker.delete_topic(TOPIC)
        late = producer.send(TOPIC, b"2")
        producer.send("other", b"3").result(DEADLINE_S)
        until(lambda: not producer.stats().requests_in_flight, "every request is answered")
        jump(DELIVERY_MS, producer)
        failure = late.exception(DEADLINE_S)
        assert failure is not None
        assert failure.persisted is Persisted.NO


def test_a_topic_that_is_deleted_and_made_again(broker: BrokerStub) -> None:
    """The new topic gets what is sent from then on, from its first offset."""
    with made(broker) as producer:
        for number in range(3):
            producer.send(TOPIC, b"old %d" % number).result(DEADLINE_S)
        broker.delete_topic(TOPIC)
        broker.create_topic(TOPIC)
        sent = [producer.send(TOPIC, b"new %d" % number).result(DEADLINE_S).offset for number in range(3)]
    assert sent == [0, 1, 2]
    assert values(broker) == [b"new 0", b"new 1", b"new 2"]


def test_a_topic_that_grows(broker: BrokerStub) -> None:
    """New partitions are noticed and used, also when one is asked for by number."""
    with made(broker, request_timeout_ms=5_000) as producer:
        producer.send(TOPIC, b"1").result(DEADLINE_S)
        broker.add_partitions(TOPIC, 3)
        assert producer.send(TOPIC, b"2", partition=2).result(DEADLINE_S).partition == 2
        assert producer.partitions_for(TOPIC) == [0, 1, 2]
    assert values(broker, 2) == [b"2"]


# -- records and memory ----------------------------------------------------------------------------------------------------


def test_a_record_that_is_too_large(broker: BrokerStub) -> None:
    """Above max_request_size `send` raises at once. A batch above the topic's limit is split; only a record that exceeds it alone fails."""
    broker.create_topic("small", config={"max.message.bytes": "1000"})
    with made(broker, linger_ms=50) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send(TOPIC, b"x" * 2_000_000)
        futures = [producer.send("small", b"%d" % number * (5_000 if number == 7 else 200)) for number in range(10)]
        failures = {number: future.exception(DEADLINE_S) for number, future in enumerate(futures)}
    assert [number for number, failure in failures.items() if failure is not None] == [7]
    refused = failures[7]
    assert isinstance(refused, RecordRefused)
    assert refused.persisted is Persisted.NO
    assert values(broker, topic="small") == [b"%d" % number * 200 for number in range(10) if number != 7]


def test_a_record_that_the_topic_does_not_allow(broker: BrokerStub) -> None:
    """The broker refuses a record's batch (no key on a compacted topic): NO, and the next ones go through."""
    broker.create_topic("compacted", config={"cleanup.policy": "compact"})
    with made(broker) as producer:
        failure = producer.send("compacted", b"1").exception(DEADLINE_S)
        assert isinstance(failure, RecordRefused)
        assert (failure.persisted, failure.code) == (Persisted.NO, ErrorCode.INVALID_RECORD)
        producer.send("compacted", b"2", key=b"k").result(DEADLINE_S)
    assert values(broker, topic="compacted") == [b"2"]


def test_a_failed_batch_among_others(broker: BrokerStub) -> None:
    """The broker refuses one of five batches permanently. The four others and the next one are in the log, once and in order."""
    with made(broker, batch_size=0) as producer:
        producer.send(TOPIC, b"first").result(DEADLINE_S)
        held = broker.faults.on(Api.PRODUCE).before().times(1).hold()
        broker.faults.on(Api.PRODUCE).before().on_call(3).error(ErrorCode.INVALID_TIMESTAMP)
        futures = send_each(producer, numbers(5))
        held.wait(1, 20)
        held.remove()
        failed = [number for number, future in enumerate(futures) if future.exception(DEADLINE_S) is not None]
        producer.send(TOPIC, b"last").result(DEADLINE_S)
    assert len(failed) == 1
    assert values(broker) == [b"first", *[value for number, value in enumerate(numbers(5)) if number not in failed], b"last"]


def test_the_buffer_is_full(broker: BrokerStub) -> None:
    """`send` waits for room up to max_block_ms, then raises BufferFull; what it refused is not sent, what it took is."""
    with made(broker, buffer_memory=20_000, max_request_size=10_000, max_block_ms=200, request_timeout_ms=5_000) as producer:
        producer.partitions_for(TOPIC, DEADLINE_S)
        producer.send(TOPIC, b"first").result(DEADLINE_S)
        held = broker.faults.on(Api.PRODUCE).before().forever().hold()
        accepted = 1
        with pytest.raises(BufferFull, match="not accepted"):
            for _ in range(100):
                producer.send(TOPIC, b"x" * 1_000)
                accepted += 1
        held.remove()
        producer.flush(DEADLINE_S)
    assert 10 < accepted < 21
    assert len(values(broker)) == accepted


# -- permissions and identity ----------------------------------------------------------------------------------------------


def test_no_permission_on_a_topic(broker: BrokerStub) -> None:
    """The topic's records fail with NO; the producer goes on."""
    broker.create_topic("secret")
    broker.faults.on(Api.PRODUCE).where(topic="secret").forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with made(broker) as producer:
        failure = producer.send("secret", b"1").exception(DEADLINE_S)
        assert isinstance(failure, RecordRefused)
        assert failure.persisted is Persisted.NO
        producer.send(TOPIC, b"2").result(DEADLINE_S)
    assert values(broker) == [b"2"]


@pytest.mark.parametrize(
    ("api", "code"),
    [(Api.INIT_PRODUCER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (Api.PRODUCE, ErrorCode.PRODUCER_FENCED)],
    ids=["no permission", "fenced"],
)
def test_the_producer_cannot_go_on(broker: BrokerStub, api: Api, code: ErrorCode) -> None:
    """The record fails with NO, and `send` raises the Fatal from then on."""
    broker.faults.on(api).forever().error(code)
    with made(broker) as producer:
        failure = producer.send(TOPIC, b"1").exception(DEADLINE_S)
        assert isinstance(failure, DeliveryFatal | RecordRefused)
        assert failure.persisted is Persisted.NO
        with pytest.raises(Fatal, match=code.name):
            producer.send(TOPIC, b"2")
    assert values(broker) == []


# -- callbacks -------------------------------------------------------------------------------------------------------------


def test_a_callback_raises(broker: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the other callbacks run, in the order of their records, and the producer goes on."""
    seen: list[int] = []

    def called(future: RecordFuture) -> None:
        seen.append(future.result().offset)
        raise RuntimeError("mine to mend")

    with made(broker) as producer:
        for value in numbers(5):
            producer.send(TOPIC, value, on_delivery=called)
        producer.flush(DEADLINE_S)
    assert seen == [0, 1, 2, 3, 4]
    assert len([record for record in caplog.records if record.exc_info and "callback" in record.message]) == 5


def test_a_callback_sends_flushes_or_closes(broker: BrokerStub) -> None:
    """`send` in a callback works, and on a full buffer raises at once instead of waiting for itself; waiting there is a Misuse."""
    outcomes: list[type[BaseException] | None] = []
    done = threading.Event()

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
            outcomes.append(None)
        except Exception as error:  # noqa: BLE001  # every error is the result that is compared
            outcomes.append(type(error))

    with made(broker, buffer_memory=4_000, max_request_size=4_000) as producer:

        def called(future: RecordFuture) -> None:
            attempt(lambda: producer.send(TOPIC, b"from a callback"))
            attempt(lambda: [producer.send(TOPIC, b"x" * 1_000) for _ in range(5)])
            attempt(producer.flush)
            attempt(producer.close)
            attempt(lambda: producer.send(TOPIC, b"y").result())
            done.set()

        producer.send(TOPIC, b"first", on_delivery=called)
        assert done.wait(DEADLINE_S)
    assert outcomes[:4] == [None, BufferFull, Misuse, Misuse]
    assert outcomes[4] in (BufferFull, Misuse)


def test_unobserved_failures_are_logged_and_raised_once(broker: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """The producer logs each unobserved failure once. `flush` raises them; `close` raises only later ones."""
    broker.faults.on(Api.PRODUCE).times(2).error(ErrorCode.INVALID_RECORD)
    producer = made(broker)
    producer.send(TOPIC, b"1")
    with pytest.raises(UndeliveredRecords) as raised:
        producer.flush(DEADLINE_S)
    assert (raised.value.count, raised.value.failures[0].persisted) == (1, Persisted.NO)
    producer.flush(DEADLINE_S)
    producer.send(TOPIC, b"2")
    with pytest.raises(UndeliveredRecords):
        producer.close(DEADLINE_S)
    assert len([record for record in caplog.records if "not delivered" in record.message and record.levelno == logging.ERROR]) == 2


# -- the process -----------------------------------------------------------------------------------------------------------


def run(broker: BrokerStub, code: str, *, settings: str = "") -> subprocess.CompletedProcess[str]:
    """A program of its own with a producer in it, run to its end."""
    program = f"from fencepost import Producer\nproducer = Producer(bootstrap_servers={broker.bootstrap!r}, {settings})\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE_S)


INTERRUPT_WHEN_WAITING = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
main = threading.main_thread().ident
def watch():
    while not sys._current_frames()[main].f_code.co_filename.endswith('threading.py'):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=watch, daemon=True).start()
"""


def test_a_fork(broker: BrokerStub) -> None:
    """In the child every call on the parent's producer raises ProducerForked; the parent's goes on, and the child's own one works."""
    with made(broker) as producer:
        producer.send(TOPIC, b"parent").result(DEADLINE_S)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for call in (lambda: producer.send(TOPIC, b"child"), producer.flush, producer.close):
                    try:
                        call()
                    except ProducerForked:
                        code += 1
                with made(broker) as own:
                    own.send(TOPIC, b"child's own").result(DEADLINE_S)
                    code += 1
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 5
        producer.send(TOPIC, b"parent again").result(DEADLINE_S)
    assert values(broker) == [b"parent", b"child's own", b"parent again"]


def test_exit_without_close(broker: BrokerStub) -> None:
    """What was sent is flushed at exit."""
    ended = run(broker, f"[producer.send('{TOPIC}', b'%d' % n) for n in range(100)]", settings="linger_ms=60000, request_timeout_ms=1000")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert values(broker) == numbers(100)


def test_exit_without_close_and_without_a_broker(broker: BrokerStub) -> None:
    """When nothing answers, exit waits no longer than exit_flush_ms and says how many records were not delivered."""
    broker.faults.on(Api.PRODUCE).before().forever().hold()
    begun = time.monotonic()
    ended = run(broker, f"[producer.send('{TOPIC}', b'%d' % n) for n in range(100)]", settings="exit_flush_ms=300")
    assert time.monotonic() - begun < DEADLINE_S / 2
    assert "100 records were not delivered" in ended.stderr


@pytest.mark.parametrize(
    "wait", ["producer.flush()", "future.result()", f"[producer.send('{TOPIC}', b'x' * 1000) for _ in range(100)]", "producer.close()"]
)
def test_ctrl_c(broker: BrokerStub, wait: str) -> None:
    """Ctrl-C interrupts every wait, and the process ends."""
    broker.faults.on(Api.PRODUCE).before().forever().hold()
    code = f"future = producer.send('{TOPIC}', b'1')\n{INTERRUPT_WHEN_WAITING}{wait}"
    ended = run(broker, code, settings="exit_flush_ms=100, buffer_memory=20000, max_request_size=10000")
    assert "KeyboardInterrupt" in ended.stderr
    assert ended.returncode != 0


def test_after_close(broker: BrokerStub) -> None:
    """`close` delivers what is left; afterwards `send` raises, and closing again does nothing."""
    producer = made(broker, linger_ms=60_000, delivery_timeout_ms=120_000)
    producer.send(TOPIC, b"1")
    producer.close(DEADLINE_S)
    producer.close(DEADLINE_S)
    with pytest.raises(ProducerClosed):
        producer.send(TOPIC, b"2")
    assert values(broker) == [b"1"]


def test_close_with_a_timeout_that_passes(broker: BrokerStub) -> None:
    """`close` fails what has no outcome by then, and says whether it may be in the log."""
    producer = made(broker, request_timeout_ms=5_000)
    producer.send(TOPIC, b"1").result(DEADLINE_S)
    held = broker.faults.on(Api.PRODUCE).before().times(1).hold()
    future = producer.send(TOPIC, b"2")
    held.wait(1, 20)
    with pytest.raises(UndeliveredRecords):
        producer.close(0.1)
    failure = future.exception()
    held.remove()
    assert failure is not None
    assert failure.persisted is Persisted.MAYBE
