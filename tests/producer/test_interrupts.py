"""Ctrl-C interrupts every wait, soon, and leaves a producer that works."""

from __future__ import annotations

import pytest

from tests.producer.child_programs import run

STAGE = """
taken = False

def raise_once(number, frame):
    global taken
    if not taken:
        taken = True
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, raise_once)
from fencepost.broker_stub import BrokerStub
stub = BrokerStub(auto_create_topics=False).start()
stub.create_topic("t")
producer = Producer(bootstrap_servers=stub.bootstrap, **quick, batch_size=0, buffer_memory=4_000, max_request_size=3_000, exit_flush_ms=300)
producer.send("t", b"hello").result(20)
held = stub.faults.on(0).before().forever().hold()
pending = producer.send("t", b"x" * 2_000)
held.wait(1, 20)
struck = []

def strike(condition):
    '''Press Ctrl-C until it is noticed: a signal just before a thread waits for a lock is noticed only after the wait.'''
    until(condition)
    struck.append(time.monotonic())
    while not taken:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

def interrupt(call, condition):
    '''Make the call; when the condition shows that it waits, press Ctrl-C.'''
    threading.Thread(target=strike, args=(condition,)).start()
    try:
        call()
        print("returned")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - struck[-1] < 10)
"""

WANTED = "lambda: 'missing' in producer._sender.engine.core.metadata_updater._wanted"
CALLS = {
    "send on a full buffer": ("lambda: producer.send('t', b'y' * 2_500)", "lambda: producer._accumulator.waiting"),
    "send to an unknown topic": ("lambda: producer.send('missing', b'y')", WANTED),
    "partitions_for": ("lambda: producer.partitions_for('missing')", WANTED),
    "result": ("pending.result", "lambda: pending.batch._waiting is not None"),
    "exception": ("pending.exception", "lambda: pending.batch._waiting is not None"),
    "flush": ("producer.flush", "lambda: producer._accumulator.hurried() and pending.batch._waiting is not None"),
}


@pytest.mark.parametrize("wait", CALLS)
def test_a_wait_is_interrupted(wait: str) -> None:
    """KeyboardInterrupt comes out of the waiting call at once, and the producer goes on: what was pending and what is sent next arrive."""
    call, condition = CALLS[wait]
    ended = run(
        STAGE
        + f"""
interrupt({call}, {condition})
held.remove()
producer.flush(20)
print(pending.result(0).offset, producer.send("t", b"z").result(20).offset)
producer.close(20)
stub.close()
"""
    )
    assert ended.lines == ["interrupted True", "1 2"]
    assert ended.complaints == ""


def test_close_is_interrupted() -> None:
    """Ctrl-C during close ends the wait: the thread is ended, what was pending is told, and a second close has nothing to do."""
    ended = run(
        STAGE
        + """
interrupt(producer.close, lambda: producer._accumulator.hurried() and pending.batch._waiting is not None)
print(producer._sender.running, type(pending.exception(0)).__name__)
producer.close()
stub.close()
"""
    )
    assert ended.lines == ["interrupted True", "False DeliveryFatal"]


def test_the_block_is_left_soon() -> None:
    """Ctrl-C inside a `with` block leaves within exit_flush_ms, not after the delivery deadline, and comes out as KeyboardInterrupt."""
    ended = run(
        STAGE
        + """
def work():
    with producer:
        threading.Thread(target=strike, args=(lambda: pending.batch._waiting is not None,)).start()
        pending.result()
began = time.monotonic()
try:
    work()
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 20, producer._sender.running)
stub.close()
"""
    )
    assert ended.lines == ["interrupted True False"]


def test_a_program_that_is_interrupted_ends() -> None:
    """A program without a signal handler: Ctrl-C during a wait ends it within exit_flush_ms, and the log says what was lost."""
    ended = run(
        STAGE
        + """
threading.Thread(target=strike, args=(lambda: pending.batch._waiting is not None,)).start()
pending.result()
"""
    )
    assert ended.code != 0
    assert "KeyboardInterrupt" in ended.complaints
    assert "1 record was not delivered" in ended.complaints
    assert ended.seconds < 30


def test_flush_is_interrupted_in_its_first_step() -> None:
    """Ctrl-C while `flush` is only waking the sender: lingering is as before, so that records are put together again."""
    ended = run(
        STAGE
        + """
held.remove()
producer.flush(20)
wake = producer._shared.wake

def struck():
    producer._shared.wake = wake
    os.kill(os.getpid(), signal.SIGINT)
    wake()

producer._shared.wake = struck
try:
    producer.flush(20)
    print("returned")
except KeyboardInterrupt:
    print("interrupted", producer._accumulator.hurried())
producer.close(20)
stub.close()
"""
    )
    assert ended.lines == ["interrupted False"]
    assert ended.complaints == ""
