"""Runs the programs in examples/services with their real servers, and sends them requests in parallel."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import fencepost
from tests.waiting import until

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples" / "services"
START_S: Final = 60.0
REQUEST_S: Final = 60.0


def needs(*modules: str) -> None:
    """Skip the test if one of them is missing. With FENCEPOST_SERVICES=require, fail it."""
    missing = [module for module in modules if find_spec(module) is None]
    if not missing:
        return
    why = f"needs {', '.join(missing)}: pip install 'fencepost[services]', or make services"
    if os.environ.get("FENCEPOST_SERVICES") == "require":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


class Answer(NamedTuple):
    """Of one request. `status`: 0 if the connection broke."""

    status: int
    body: dict[str, Any]


class Service:
    """One server."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    def ask(self, method: str, path: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_S)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            return Answer(0, {})
        finally:
            connection.close()
        return Answer(response.status, json.loads(text) if text.startswith(b"{") else {"text": text.decode()})

    def place(self, numbers: Sequence[int], query: str = "") -> list[Answer]:
        """One request for each, all at the same time."""
        with ThreadPoolExecutor(len(numbers)) as threads:
            return list(threads.map(lambda number: self.ask("POST", f"/orders/{number}{query}"), numbers))

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return self.ask("GET", "/ready").status == 200


@contextmanager
def serving(kafka: str, directory: Path, *command: str, ready: bool = True, **environment: str) -> Iterator[Service]:
    """The server of this command, once it is ready. `PORT` in the command is a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = directory / f"{command[0]}-{port}.log"
    above = str(Path(fencepost.__file__).parents[1])
    where = {**os.environ, "KAFKA": kafka, "PYTHONPATH": above, "PYTHONSAFEPATH": "", "TMPDIR": str(directory), **environment}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *(part.replace("PORT", str(port)) for part in command)],
            cwd=EXAMPLES,
            stdout=out,
            stderr=out,
            env=where,
        )
    service = Service(process, port, log)
    try:
        if ready:
            until(service.is_ready, "the service is ready", timeout_s=START_S, pause_max_s=0.2)
        yield service
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise AssertionError(f"it did not end: {log.read_text()[-3000:]}") from None


def children(pid: int) -> list[int]:
    """The processes that it has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


def seconds_until(good: Any, what: str) -> float:
    """How long it takes."""
    began = time.monotonic()
    until(good, what, timeout_s=REQUEST_S)
    return time.monotonic() - began
