"""A question to a cluster has its answer or its error, wherever it is asked, and Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.faults.rules import Fault
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire import Api
from fencepost.txn.protocol.ask_now import ask_now, ask_patiently
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered
from tests.strike import MARKS, Struck, interrupt, struck
from tests.waiting import until

pytestmark = MARKS
LIMIT_S = 20.0
REQUEST = ContextVar("REQUEST", default="none")


def threads() -> int:
    return sum(thread.name == "fencepost-ask" and thread.is_alive() for thread in threading.enumerate())


async def answer() -> str:
    await asyncio.sleep(0)
    return REQUEST.get()


def test_an_answer_and_an_error() -> None:
    """Also on a thread that runs a loop. The question sees the caller's context, and no thread is left."""
    REQUEST.set("mine")

    async def fail() -> None:
        raise ArithmeticError("so")

    async def on_a_loop() -> str:
        return ask_now(answer)

    assert ask_now(answer) == asyncio.run(on_a_loop()) == "mine"
    with pytest.raises(ArithmeticError, match="so"):
        ask_now(fail)
    assert threads() == 0


def test_a_question_at_the_exit() -> None:
    """Python 3.12 starts no thread then: a program that closes a producer there still hears the outcome of its commit."""
    program = """
import asyncio, atexit
from fencepost.txn.protocol.ask_now import ask_now

async def answer():
    await asyncio.sleep(0)
    return "answered"

def ask():
    try:
        raise ArithmeticError
    except ArithmeticError:
        print(ask_now(answer))

atexit.register(ask)
"""
    told = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=LIMIT_S)
    assert told.stdout.strip() == "answered", told.stderr


def test_an_interrupted_question() -> None:
    """Wherever Ctrl-C strikes the caller, the call ends with it, the question ends soon, and the next one is answered."""
    interrupted = 0
    for point in range(200):
        try:
            struck(lambda: ask_now(answer), point, interrupt)
        except (Struck, RuntimeError):  # CPython's Condition raises RuntimeError where its exit is struck.
            interrupted += 1
        until(lambda: threads() == 0, "its thread has ended")
        assert ask_now(answer) == REQUEST.get()
    assert interrupted > 20


def test_a_question_without_an_answer() -> None:
    """Ctrl-C in the wait cancels the question, which then runs its `finally`."""
    begun, ended = threading.Event(), threading.Event()

    async def ask() -> None:
        try:
            begun.set()
            await asyncio.sleep(LIMIT_S)
        finally:
            ended.set()

    main = threading.get_ident()

    def press() -> None:
        begun.wait(LIMIT_S)
        signal.pthread_kill(main, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        ask_now(ask)
    pressing.join()
    assert ended.wait(LIMIT_S / 2)
    until(lambda: threads() == 0, "its thread has ended")


@pytest.mark.parametrize("answered", [0, 1])
def test_the_time_passes_while_a_broker_is_asked(answered: int) -> None:
    """The error names the broker and what it has not answered, and not that no broker was asked."""

    async def ask(client: ClusterClient) -> object:
        for _ in range(answered):
            await client.metadata()
        silent.append(stub.faults.on(Api.METADATA).forever().hold())
        return await client.metadata()

    silent: list[Fault] = []
    with BrokerStub() as stub:
        already = ", after 1 answer" if answered else ""
        with pytest.raises(Unanswered, match=rf"^{stub.bootstrap} has not answered METADATA yet{already}$"):
            ask_patiently(read_settings({"bootstrap_servers": stub.bootstrap}), ask, 0.5)
        silent[0].remove()
