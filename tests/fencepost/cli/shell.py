"""Runs `fencepost` in its own process, as a shell does, or in this process. Both have a wide terminal without colours."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from typer import testing
from typer.testing import CliRunner

from fencepost.broker_stub import BrokerStub
from fencepost.cli.app import app

DEADLINE_S = 60.0

# CliRunner makes the whole tree of commands for each call, which takes 0.09 s. The tree holds nothing of a call.
_cached: Any = testing
_cached._get_command = cache(_cached._get_command)


def surroundings(**more: str) -> dict[str, str]:
    """An environment with a wide terminal and no colours, so that no message is wrapped, and without any address from outside."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("FENCEPOST_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")}
    return {**inherited, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", **more}


class _Runner(CliRunner):
    """Gives the command a file as its standard input, where CliRunner gives it an object without a descriptor."""

    @contextmanager
    def isolation(
        self, input: bytes | str | None = None, env: Mapping[str, str | None] | None = None, color: bool = False
    ) -> Iterator[tuple[io.BytesIO, io.BytesIO, io.BytesIO]]:
        assert not isinstance(input, str)
        with super().isolation(None, env, color) as streams, TemporaryFile() as file:
            file.write(input or b"")
            file.seek(0)
            sys.stdin = io.TextIOWrapper(file)  # CliRunner puts the former one back.
            yield streams


def run(*arguments: object, given: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which is a quarter of a second faster; return its exit code, standard output and standard error.
    `given`: its standard input, a file with a descriptor."""
    inherited = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", "FENCEPOST_BOOTSTRAP": "", "KAFKA_BOOTSTRAP_SERVERS": ""}
    words = [*map(str, arguments)]
    ran = _Runner().invoke(app, words, input=given, env=inherited | environment, prog_name="fencepost")
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return subprocess.CompletedProcess(words, ran.exit_code, ran.stdout_bytes.decode(), ran.stderr_bytes.decode())


def run_apart(*arguments: object, given: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process, as `run` does here."""
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", *map(str, arguments)],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
        env=surroundings(**environment),
    )
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


class Ran(NamedTuple):
    """The exit code of a command and its output."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The output as JSON objects, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


def invoke(*arguments: object, given: str | None = None) -> Ran:
    """`run`, with a result that has names for what these tests look at most."""
    ran = run(*arguments, given=None if given is None else given.encode())
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def produce(stub: BrokerStub, *arguments: object, given: bytes | None = None, apart: bool = False) -> subprocess.CompletedProcess[str]:
    """`fencepost produce` to the topic "t" of the stub, in this process or `apart`, in its own. It reads the standard input by its file
    descriptor; apart, that is a pipe."""
    return (run_apart if apart else run)("produce", "--bootstrap", stub.bootstrap, "--topic", "t", *arguments, given=given)


def peak_of(*arguments: object) -> tuple[int, subprocess.CompletedProcess[str]]:
    """The peak of the command's memory in KiB, without the processes that it started."""
    # A process's ru_maxrss begins with what the one that started it had; VmHWM is its own.
    watched = "import pathlib, re, runpy, sys; sys.argv[0] = 'fencepost'\n"
    watched += "try:\n runpy.run_module('fencepost', run_name='__main__')\n"
    watched += "finally:\n print(re.search(r'VmHWM:\\s*(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])"
    ran = subprocess.run(
        [sys.executable, "-c", watched, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=surroundings(),
        stdin=subprocess.DEVNULL,
    )
    return int(ran.stdout.split()[-1]), ran


@contextmanager
def running(*arguments: object, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The running process, with pipes to it. It ends with the block."""
    command = [sys.executable, "-m", "fencepost", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=surroundings(**environment), **pipes)  # type: ignore[call-overload]  # mypy does not see into the dictionary
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)


def first_lines(process: subprocess.Popen[bytes], count: int) -> list[str]:
    """The first lines that it prints on standard output."""
    assert process.stdout is not None
    said = b""
    while said.count(b"\n") < count:
        assert select.select([process.stdout], [], [], DEADLINE_S)[0], f"it is not up in time: {said!r}"
        came = os.read(process.stdout.fileno(), 4096)
        assert came, f"it has ended: {said!r}"
        said += came
    return said.decode().splitlines()


@contextmanager
def serving(*arguments: object) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The running broker or proxy, and its address."""
    with running(*arguments) as process:
        (line,) = first_lines(process, 1)
        assert " listening on " in line
        yield process, line.split()[-1]


def ended(process: subprocess.Popen[bytes], number: signal.Signals) -> tuple[int, str]:
    """Send the signal; the exit code and standard error."""
    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, errors.decode()


def complaint(ran: subprocess.CompletedProcess[str]) -> str:
    """The one line of a command that ended with exit code 2 and wrote nothing else."""
    assert (ran.returncode, ran.stdout) == (2, ""), ran
    [line] = ran.stderr.splitlines()
    return line


@contextmanager
def answer_once(answer: bytes) -> Iterator[int]:
    """The port of a server that waits for its first client's first bytes, sends this answer and closes. It ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE_S)

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(DEADLINE_S)
                accepted.recv(1024)
                accepted.sendall(answer)

        answering = threading.Thread(target=serve)
        answering.start()
        yield int(listener.getsockname()[1])
        answering.join(DEADLINE_S)
