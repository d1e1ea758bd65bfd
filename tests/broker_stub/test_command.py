"""`python -m fencepost.broker_stub`: quick to end, and plain about what is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from fencepost import broker_stub
from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.command import ending_signals
from tests.broker_stub.stub_calls import Talker, refused
from tests.drawn import drawn
from tests.strike import struck


def environment() -> dict[str, str]:
    """This process's, with the tested packages importable from anywhere."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(broker_stub.__file__)))
    return {**os.environ, "PYTHONPATH": root}


def command(*arguments: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fencepost.broker_stub", *arguments],
        env=environment() | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def listening(process: subprocess.Popen[str]) -> list[int]:
    """The ports of the brokers, once they listen."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "listening on" in line
    return [int(address.rpartition(":")[2]) for address in line.rpartition(" ")[2].split(",")]


class PortTalker(Talker):
    """A talker to a broker of which only the port is known."""

    def __init__(self, port: int) -> None:
        super(Talker, self).__init__(("127.0.0.1", port), client_id="cold")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_on_a_signal(number: int) -> None:
    """It says where it listens, ends by itself on a signal, with status 0, and its ports are free again."""
    process = command("--brokers", "2", "--port", "0", "--config", "num.partitions=4")
    try:
        ports = listening(process)
        assert len(set(ports)) == 2
        with closing(PortTalker(ports[0])) as talker:
            talker.metadata("t")
            assert len(talker.metadata("t").topics[0].partitions) == 4
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "", "stopped\n")
    assert all(refused(("127.0.0.1", port)) for port in ports)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_just_before_the_wait_ends_it(number: int) -> None:
    """Also one that comes in the first step of the wait; and the handlers are those from before."""
    before = signal.getsignal(number)
    for early in (True, False):
        with ending_signals() as wait:
            if early:
                signal.raise_signal(number)
                wait()
            else:
                struck(wait, 0, lambda: signal.raise_signal(number))
    assert signal.getsignal(number) is before
    assert signal.set_wakeup_fd(-1) == -1


@drawn(4)
@pytest.mark.parametrize("attempt", range(20))
def test_a_signal_right_after_the_first_line_ends_the_command(attempt: int) -> None:
    """That is where the command begins to wait. Without the GIL, a wait for a lock would often not see it."""
    process = command("--port", "0")
    try:
        listening(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(("--config", "nonsense"), "NAME=VALUE"), (("--config", "no.such=1"), "no.such"), (("--brokers", "0"), "at least one broker")],
)
def test_the_command_says_what_is_wrong(arguments: tuple[str, ...], reason: str) -> None:
    """A mistake ends it with one line and a status that is not 0, without a traceback."""
    process = command("--port", "0", *arguments)
    _, err = process.communicate(timeout=10)
    assert process.returncode != 0
    assert reason in err
    assert "Traceback" not in err


def test_a_taken_port_is_said() -> None:
    """If another process has the port, the command says so."""
    with BrokerStub() as stub:
        process = command("--port", str(stub.addresses[1][1]))
        _, err = process.communicate(timeout=10)
    assert process.returncode != 0
    assert "in use" in err
    assert "Traceback" not in err
