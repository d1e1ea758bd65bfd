"""The demo's processes: a stub, and a Spark driver with its JVM and executors. It also finds and ends processes that remain.

It signals only processes that it started, and their descendants. It identifies a process by its id and its command line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

EXECUTOR: Final = "CoarseGrainedExecutorBackend"
START_S: Final = 30.0
PRODUCE_MS: Final = 40
"""How long the broker takes for each Produce."""
GONE_S: Final = 20.0
PROC: Final = Path("/proc")


class Seen(NamedTuple):
    """A process in the system's list."""

    pid: int
    parent: int
    command: str


class Stub:
    """`fencepost broker` with a control, in a process of its own."""

    def __init__(self, partitions: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fencepost", "broker", "--port", "0", "--partitions", str(partitions), "--control", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._process.pid
        self.bootstrap = self._address()
        self._control = self._address()
        # The broker is slow, so that a kill hits a task in the middle of a partition's batches, not after them.
        self._ask("/faults", {"on": ["PRODUCE"], "action": "delay", "ms": PRODUCE_MS, "forever": True})

    @property
    def appended(self) -> int:
        """The number of record batches in the stub's logs."""
        return int(self._ask("/stats")["appended"])

    def _ask(self, path: str, what: dict[str, Any] | None = None) -> Any:
        """A request to the control."""
        body = json.dumps(what).encode() if what is not None else None
        request = urllib.request.Request(self._control + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=START_S) as answer:
            return json.load(answer)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(GONE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _address(self) -> str:
        """The last word of the stub's next line of output."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise OSError("the broker did not start")
        return line.split()[-1]


class Driver:
    """A Spark application. `pid`: the id of its Python process."""

    def __init__(self, plan: Path, environment: dict[str, str]) -> None:
        with (plan.parent / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fencepost.spark_demo.driver", str(plan)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self.pid = self._process.pid
        self._family: set[Seen] = set()

    @property
    def code(self) -> int | None:
        """The exit code; None while the driver runs."""
        return self._process.poll()

    def executors(self) -> list[int]:
        """The ids of its executors' JVMs."""
        return sorted(each.pid for each in self.look() if EXECUTOR in each.command)

    def look(self) -> list[Seen]:
        """The driver's descendants. `clear_up` ends those that were seen here."""
        listed = processes()
        family, wave = [], {self.pid}
        while wave:
            found = [each for each in listed if each.parent in wave]
            family += found
            wave = {each.pid for each in found}
        self._family.update(family)
        return family

    def kill_executor(self, pid: int) -> None:
        """Send SIGKILL to an executor's JVM and its Python workers, as if their machine was lost."""
        family, wave = [pid], {pid}
        seen = self.look()
        while wave:
            wave = {each.pid for each in seen if each.parent in wave}
            family += wave
        for each in family:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def kill(self, jvm: int | None) -> None:
        """Send SIGKILL to the driver's JVM and Python."""
        self.look()
        for pid in (jvm, self.pid):
            if pid is not None and self.code is None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(GONE_S)

    def clear_up(self) -> None:
        """End the driver's remaining descendants."""
        deadline = time.monotonic() + GONE_S
        while (left := self._left()) and time.monotonic() < deadline:
            for each in left:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)
            time.sleep(0.05)

    def _left(self) -> list[Seen]:
        known = {(each.pid, each.command) for each in self._family}
        return [each for each in processes() if (each.pid, each.command) in known]


def processes() -> list[Seen]:
    """All processes of the machine, without zombies."""
    if (PROC / "self" / "stat").exists():  # systems without /proc have ps
        return [each for each in map(_read, PROC.iterdir()) if each is not None]
    shown = subprocess.run(["ps", "-axww", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True, timeout=START_S)
    lines = [line.split(None, 3) for line in shown.stdout.splitlines()]
    return [Seen(int(line[0]), int(line[1]), line[3]) for line in lines if len(line) == 4 and not line[2].startswith("Z")]


def _read(place: Path) -> Seen | None:
    """A process from Linux's /proc; None if it has ended."""
    if not place.name.isdigit():
        return None
    try:
        state, parent = (place / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[:2]
        command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return None
    return None if state == "Z" else Seen(int(place.name), int(parent), command)


def spark_home(place: Path) -> Path:
    """A SPARK_HOME with links to pyspark's files, so that Spark does not create its work directory beside the installed package."""
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = place / "spark"
    if not home.exists():
        home.mkdir()
        for each in Path(spec.origin).parent.iterdir():
            if each.name != "work":
                (home / each.name).symlink_to(each)
    return home
