"""Passwords of the command line: by a file, the environment or a prompt; on the command line itself they are taken, with a warning."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fencepost import Producer
from fencepost.broker_stub import BrokerStub
from fencepost.cli.passwords import SASL_VARIABLE, is_secret, value_of
from fencepost.producer.config.security import ALIASES
from tests.fencepost.cli.shell import DEADLINE_S, ended, run, serving, surroundings

pytestmark = pytest.mark.timeout(120)

PASSWORD = "a =:@secret"
SASL = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=alice")
COMMANDS = {
    ("produce", "--topic", "t", os.devnull): "--config",
    ("consume", "--topic", "t", "--from-beginning", "--exit-eof"): "--config",
    ("topics", "list"): "--client-config",
    ("txn", "list"): "--config",
    ("ledger", "list"): "--config",
    ("doctor",): "--config",
}


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(sasl={"alice": PASSWORD}) as stub:
        stub.create_topic("t")
        yield stub


def line_of(command: tuple[str, ...], stub: BrokerStub, *settings: str) -> list[str]:
    option = COMMANDS[command]
    at = [stub.bootstrap] if command == ("doctor",) else ["--bootstrap", stub.bootstrap]
    return [*command, *at, *(word for setting in (*SASL, *settings) for word in (option, setting))]


def ran(words: list[str], **environment: str) -> tuple[int, str]:
    done = run(*words, given=b"", **{SASL_VARIABLE: "", **environment})
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_client_takes_its_password_by_a_safe_way(stub: BrokerStub, tmp_path: Path, command: tuple[str, ...]) -> None:
    """A file and the environment do without a word; the command line does too, with one warning that names the ways and no password."""
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    for code, errors in (
        ran(line_of(command, stub, f"sasl.password@{file}")),
        ran(line_of(command, stub), **{SASL_VARIABLE: PASSWORD}),
    ):
        assert (code, "sees a password" in errors) == (0, False), errors
    code, errors = ran(line_of(command, stub, f"sasl.password={PASSWORD}"), **{SASL_VARIABLE: "another"})
    assert code == 0, errors
    [warning] = [line for line in errors.splitlines() if "password" in line]
    assert (
        f"{COMMANDS[command]} sasl.password=...: every user that can list this machine's processes sees a password on a command line"
        in warning
    )
    assert f"give sasl.password@FILE, or sasl.password alone for a prompt, or set {SASL_VARIABLE}" in warning
    assert PASSWORD not in errors


def test_a_password_is_asked_for_at_the_terminal(stub: BrokerStub) -> None:
    """The name of the setting alone has the command ask; what is typed is not shown."""
    command = [sys.executable, "-m", "fencepost", *line_of(("topics", "list"), stub, "sasl.password")]
    terminal, line = pty.openpty()
    # A session of its own, which takes the first terminal that it opens for its own.
    asking = subprocess.Popen(
        ["sh", "-c", f'exec "$@" < {os.ttyname(line)}', "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=surroundings(),
    )
    shown = b""
    try:
        while b"sasl.password: " not in shown:
            assert select.select([terminal], [], [], DEADLINE_S)[0], shown
            shown += os.read(terminal, 1024)
        os.close(line)
        os.write(terminal, PASSWORD.encode() + b"\n")
        out, errors = asking.communicate(timeout=DEADLINE_S)
        assert (asking.returncode, errors) == (0, b""), errors
        assert b"t" in out
        # The last output. Linux reports the closed other end as an error.
        with suppress(OSError):
            shown += os.read(terminal, 1024)
        assert PASSWORD.encode() not in shown
    finally:
        asking.kill()
        asking.wait(DEADLINE_S)
        os.close(terminal)


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "list", "--bootstrap", "127.0.0.1:1", "--client-config", "sasl.password"],
        ["broker", "--port", "0", "--sasl-user", "alice"],
    ],
)
def test_without_a_terminal_there_is_no_prompt(command: list[str]) -> None:
    """One line says so at once, and what to give instead; standard input is not read."""
    asked = subprocess.run(
        [sys.executable, "-m", "fencepost", *command],
        capture_output=True,
        text=True,
        input=f"{PASSWORD}\n",
        start_new_session=True,
        timeout=DEADLINE_S,
        check=False,
        env=surroundings(),
    )
    assert asked.returncode == 2
    [line] = asked.stderr.splitlines()
    assert "there is no terminal for a prompt: give the password by a file (@FILE) or by FENCEPOST_SASL_PASSWORD" in line


def test_the_users_of_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a file of lines, by the environment, or, with a warning that does not repeat it, on the command line."""
    file = tmp_path / "users"
    file.write_text("alice:a:secret\n\nbob:b\n")
    monkeypatch.setenv(SASL_VARIABLE, "from the environment")
    wanted = {"alice": "a:secret", "bob": "b", "carol": "from the environment", "dan": "d:secret"}
    with serving("broker", "--port", "0", "--sasl-user", f"@{file}", "--sasl-user", "carol", "--sasl-user", "dan:d:secret") as (
        process,
        at,
    ):
        for name, password in wanted.items():
            sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": name, "sasl_password": password}
            with Producer({"bootstrap_servers": at, **sasl}) as producer:
                assert producer.partitions_for("t", DEADLINE_S) == [0]
        _, errors = ended(process, signal.SIGTERM)
    warning, stopped = errors.splitlines()
    assert stopped == "stopped"
    assert warning.startswith("--sasl-user NAME:PASSWORD: every user that can list this machine's processes sees a password")
    assert "secret" not in warning


def test_values_from_files(tmp_path: Path) -> None:
    """The first of = and @ counts; a file that cannot be read is named, and no password is."""
    file = tmp_path / "a=b"
    file.write_text("x\n")
    assert value_of("--config", f"linger.ms@{file}") == ("linger.ms", "x")
    assert value_of("--config", "client.id=a@b") == ("client.id", "a@b")
    with pytest.raises(ValueError, match=r"--config sasl\.password@/no/such/file: No such file or directory"):
        value_of("--config", "sasl.password@/no/such/file")
    with pytest.raises(ValueError, match=r"--config 'linger\.ms' is not NAME=VALUE"):
        value_of("--config", "linger.ms")


def test_every_secret_setting_is_known_as_one() -> None:
    """What the settings keep secret, the command line warns of, by each of its names."""
    kept = {"ssl_password", "sasl_password", "sasl_oauthbearer_config"}
    names = kept | {name for name, meant in ALIASES.items() if meant in kept}
    assert [name for name in sorted(names) if not is_secret(name)] == []
    assert not any(map(is_secret, ("sasl.username", "ssl.key.location", "linger.ms")))
