"""After five seconds every command that talks to a broker says what it waits for, where, and for how long."""

from __future__ import annotations

import io
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import typer

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.proxy import discovery
from fencepost.cli import consume, control_client, doctor_checks, reachability, topics, waiting
from fencepost.cli.app import app
from fencepost.cli.output import say, warn
from fencepost.producer.core.cluster import outage
from fencepost.producer.wire import Api
from tests.fencepost.cli.shell import DEADLINE_S, run, running
from tests.fencepost.cli.test_hostile_names import names_of
from tests.fencepost.cli.test_txn import prepare

pytestmark = pytest.mark.timeout(200)

SAY_AFTER_S = 0.1
PATIENCE_S = 0.7
"""Each command waits this long: long enough for the line to come before the end, also on a busy machine."""

NO_BROKER = {"broker", "spark-demo", "log dump", "log verify"}
"""They bring their own, or read files."""

TALKING: dict[str, tuple[object, ...]] = {
    "produce": ("--topic", "t", "--config", f"max.block.ms={PATIENCE_S * 1000:.0f}", os.devnull),
    "consume": ("--topic", "t"),
    "doctor": (),
    "topics list": (),
    "topics create": ("u",),
    "topics delete": ("u",),
    "topics describe": ("u",),
    "groups list": (),
    "groups describe": ("g",),
    "groups offsets": ("g",),
    "groups reset": ("g", "--to-latest", "--all-topics"),
    "groups plan": ("g",),
    "txn list": (),
    "txn describe": ("a",),
    "txn commit": ("TOKEN",),
    "txn abort": ("TOKEN",),
    "txn status": ("TOKEN",),
    "txn find-hanging": (),
    "txn abort-hanging": ("--topic", "t", "--partition", 0, "--start-offset", 0),
    "txn commit-hanging": ("--topic", "t", "--partition", 0, "--start-offset", 0),
    "ledger list": (),
    "ledger show": ("s",),
    "ledger reset": ("s", "--yes"),
    "jobs list": (),
    "jobs describe": ("j",),
    "jobs reset": ("j", "--to-start"),
    "proxy": (),
    "demo": ("--rows", 2_000),
    "fault add": ("--action", "drop"),
    "fault list": (),
    "fault remove": ("--all",),
    "fault release": (1,),
    "fault sever": (1, 2),
    "fault mend": (1, 2),
    "fault slow": (1, 2, 100),
    "fault stop": (1,),
    "fault start": (1,),
    "fault power": (1,),
    "fault pause": (1,),
    "fault resume": (1,),
    "fault clock": (1, -5),
    "fault loading": (1, 5),
    "fault slow-disk": (1, 5),
    "fault disk": (1, "full"),
    "fault corrupt": ("t", 0, 0),
}


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and says nothing."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])

        accepting = threading.Thread(target=accept)
        accepting.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join(DEADLINE_S)
    for each in kept:
        each.close()


@pytest.fixture
def soon(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """The message that comes after seconds comes at once, and all waits are shorter: as long as the parameter says, or PATIENCE_S."""
    patience_s: float = getattr(request, "param", PATIENCE_S)
    monkeypatch.setattr(waiting, "SAY_AFTER_S", SAY_AFTER_S)
    monkeypatch.setattr(reachability, "REACH_MS", patience_s * 1000)
    for module, name in (
        (control_client, "TIMEOUT_S"),
        (consume, "METADATA_TIMEOUT_S"),
        (doctor_checks, "REQUEST_TIMEOUT_S"),
        (topics, "TIMEOUT_S"),
        (discovery, "DISCOVER_TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, patience_s)
    return patience_s


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic("t")
        yield stub


def said(words: list[object]) -> list[str]:
    """What it says of waiting."""
    return [line for line in run(*words, FENCEPOST_CONTROL="").stderr.splitlines() if "still waiting for " in line]


def line_of(command: str, address: str, token: str) -> list[object]:
    group = command.split()
    rest = [token if each == "TOKEN" else each for each in TALKING[command]]
    at: dict[str, list[object]] = {
        "doctor": [address],
        "proxy": [address],
        "fault": ["--control", f"http://{address}"],
        "groups": ["--bootstrap", address, "--timeout", PATIENCE_S],
        "txn": ["--bootstrap", address, "--timeout", PATIENCE_S],
        "ledger": ["--bootstrap", address, "--timeout", PATIENCE_S],
        "jobs": ["--bootstrap", address, "--timeout", PATIENCE_S],
    }
    return [*group, *rest, *at.get(group[0], ["--bootstrap", address])]


def test_every_command_that_talks_is_here() -> None:
    """No command is left out below but those that ask no other broker."""
    assert set(TALKING) | NO_BROKER == set(names_of(typer.main.get_command(app)))


@pytest.fixture(scope="module")
def token() -> str:
    with BrokerStub() as stub:
        stub.create_topic("t")
        return str(prepare(stub))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("command", TALKING)
def test_before_a_broker_that_says_nothing(silent: str, token: str, command: str) -> None:
    """One line that names the command, the address and a number of seconds."""
    [line] = said(line_of(command, silent, token))
    assert line.startswith(f"fencepost {command}: still waiting for ")
    assert silent in line
    assert ", for at most " in line


@pytest.mark.parametrize("soon", [1.6], indirect=True)  # the connection has to be there before that
@pytest.mark.parametrize(
    ("api", "words", "awaited"),
    [
        (Api.METADATA, ("topics", "list"), "the list of topics"),
        (Api.METADATA, ("topics", "describe", "t"), "the list of topics"),
        (Api.LIST_OFFSETS, ("topics", "describe", "t"), "the offsets of topic 't'"),
        (Api.DESCRIBE_CONFIGS, ("topics", "describe", "t"), "the configs of topic 't'"),
        (Api.CREATE_TOPICS, ("topics", "create", "u"), "topic 'u'"),
        (Api.DELETE_TOPICS, ("topics", "delete", "t"), "the end of topic 't'"),
        (Api.METADATA, ("consume", "--topic", "t"), "where topic 't'"),
    ],
)
def test_before_a_broker_that_no_longer_answers(stub: BrokerStub, soon: float, api: Api, words: tuple[object, ...], awaited: str) -> None:
    """The line names what is awaited, if the connection was fine and the broker then does not answer one API."""
    stub.faults.on(api).forever().hold()
    # On a slow machine it may have waited for the connection, too.
    line = said([*words, "--bootstrap", stub.bootstrap])[-1]
    assert f"still waiting for {awaited}" in line
    assert stub.bootstrap in line
    assert line.endswith(f", for at most {soon} s")


@pytest.mark.usefixtures("soon")
def test_records_on_their_way_and_records_to_come(stub: BrokerStub) -> None:
    """`produce` says how many records are on their way and how long each may be, `consume` how long it waits for one."""
    line = said(["consume", "--topic", "t", "--timeout", 1, "--bootstrap", stub.bootstrap])[-1]
    assert line == f"fencepost consume: still waiting for records of topic 't' at {stub.bootstrap}, for at most 1 s without one"
    stub.faults.on(Api.PRODUCE).forever().hold()
    brief = ("--config", "delivery.timeout.ms=1000", "--config", "request.timeout.ms=700", "--config", "linger.ms=0")
    line = said(["produce", "--topic", "t", "--format", "lines", *brief, "--bootstrap", stub.bootstrap, __file__])[-1]
    assert line.startswith(f"still waiting for topic 't' at {stub.bootstrap}: ")
    assert line.endswith(" records are in flight, each for at most 1 s")


def test_after_five_seconds(silent: str) -> None:
    """A command from a shell prints what it waits for while it goes on waiting."""
    with running("produce", "--bootstrap", silent, "--topic", "t", os.devnull) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
    assert line == f"fencepost produce: still waiting for topic 't' at {silent}, for at most 15 s\n"


def test_two_threads_say_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of one does not come between another's line and its end."""

    class Pieces(io.StringIO):
        def write(self, text: str) -> int:
            pieces.append(text)
            return len(text)

    pieces: list[str] = []
    monkeypatch.setattr(sys, "stdout", Pieces())
    monkeypatch.setattr(sys, "stderr", Pieces())
    say("a", "b")
    warn("c")
    assert [each for each in pieces if each] == ["a\nb\n", "c\n"]


def test_a_broker_at_an_address_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker answers at the given address, and advertises another one that clients cannot reach. `produce` and `consume` name it."""
    monkeypatch.setattr(outage, "FIRST_WARNING_MS", 100.0)
    with BrokerStub(advertised_host="127.0.0.2") as stub:
        stub.create_topic("t")
        here = stub.bootstrap.replace("127.0.0.2", "127.0.0.1")
        quick = [word for name in ("delivery.timeout.ms", "request.timeout.ms") for word in ("--config", f"{name}=1000")]
        sent = run("produce", "--topic", "t", "--bootstrap", here, *quick, "--config", "linger.ms=0", "-", given=b"a line\n")
        assert sent.returncode == 1
        assert f"broker 1 at {stub.bootstrap} cannot be used for 0 s, and others can; 1 record waits for an acknowledgement" in sent.stderr
        read = run("consume", "--topic", "t", "--bootstrap", here, "--from-beginning", "--exit-eof")
        assert read.returncode == 2
        assert stub.bootstrap in read.stderr
