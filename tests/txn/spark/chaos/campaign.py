"""One campaign and its report: a driver starts, is killed or fails, and is started again, until all batches are written.

Every process of it has a mark in its environment, by which leftover processes are found and ended.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from fencepost.spark_demo.processes import spark_home
from tests.drawn import drawn
from tests.txn.spark.chaos.account import Account, take_account
from tests.txn.spark.chaos.plan import Plan
from tests.txn.spark.conftest import provide_java
from tests.waiting import until

MARK = "FENCEPOST_CHAOS"
STORY = drawn(8, of="stories of Spark's kills")
"""Each takes half a minute to a minute: a run tells one of the eight."""
FULL = os.environ.get("FENCEPOST_SPARK_CHAOS") == "full"
ROOT = Path(__file__).parents[4]
# Append the checkout to the path, so that the installed package comes first.
PROGRAM = "import sys; sys.path.append(sys.argv[2]); from tests.txn.spark.chaos.{driver} import main; sys.exit(main(sys.argv[1]))"
DRIVER_S = 1800.0 if FULL else 240.0
"""How long a driver may take from one event to the next."""
GONE_S = 20.0


class Report(Struct, frozen=True, kw_only=True):
    """The results. `mid_produce`: kills of executors after the task's first records were acknowledged and before the others were sent.

    `reattempts`: task attempts to which Spark gave the number 0, although the task had been started before in the same stage. `retries`:
    attempts with higher numbers.
    """

    title: str
    guards: tuple[str, ...]
    starts: int
    deaths: tuple[str, ...]
    kills: int
    mid_produce: int
    raised: int
    reattempts: int
    retries: int
    reruns: int
    skipped: int
    seconds: float
    account: Account

    def line(self) -> str:
        a = self.account
        verdict = "exact" if a.exact else f"LOST {a.lost:,}, DOUBLED {a.doubled:,}, strange {a.strange:,}, open partitions {a.open}"
        return "; ".join(
            [
                f"{self.title}: guard {'+'.join(self.guards)}",
                f"{self.starts} starts ({', '.join(self.deaths) or 'no driver killed'})",
                f"{self.kills} executors killed, {self.mid_produce} mid-produce",
                f"{self.raised} tasks raised",
                f"{self.reattempts} stage re-attempts and {self.retries} retries of tasks",
                f"{self.reruns} reruns, {self.skipped} batches skipped",
                f"expected {a.expected:,}, present {a.present:,}: {verdict} ({self.seconds:.0f} s)",
            ]
        )


class Campaign:
    """Runs plans in a temporary directory, which is removed at the end together with all running processes. `driver`: the module to run."""

    def __init__(self, title: str, driver: str = "driver") -> None:
        provide_java()
        self.title = title
        self._driver = driver
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        self._directory = tempfile.TemporaryDirectory(prefix="fencepost-chaos-", ignore_cleanup_errors=True)
        self.directory = Path(self._directory.name)
        self._drivers: list[Driver] = []
        self._began = time.monotonic()

    def start(self, plan: Plan) -> Driver:
        """Start a driver."""
        plan = replace(plan, run=len(self._drivers))
        driver = Driver(plan, self.mark, self._driver)
        self._drivers.append(driver)
        return driver

    def report(self, plan: Plan, partitions: int, bootstrap: str) -> Report:
        """Read the topic, and make the report."""
        events = plan.events.all()
        began = [each for each in events if each["kind"] == "began"]
        batches = [each for each in events if each["kind"] == "batch"]
        first: dict[tuple[int, int, int], int] = {}
        reattempts = 0
        for each in began:
            if each["attempt"] == 0:
                place = each["run"], each["stage"], each["task"]
                reattempts += first.setdefault(place, each["attempt_id"]) != each["attempt_id"]
        kills = [each for each in events if each["kind"] in ("kill", "lose")]
        return Report(
            title=self.title,
            guards=tuple(sorted({each["guard"] for each in batches if each["guard"]})),
            starts=len(self._drivers),
            deaths=tuple(each["point"] for each in events if each["kind"] == "death"),
            kills=len(kills),
            mid_produce=sum(each["acked"] > 0 and each["rows_left"] > 0 for each in kills),
            raised=sum(each["kind"] == "raise" for each in events),
            reattempts=reattempts,
            retries=sum(each["attempt"] > 0 for each in began),
            reruns=sum(each["reruns"] for each in batches),
            skipped=sum(each["ledger"] == "skipped" for each in batches),
            seconds=time.monotonic() - self._began,
            account=take_account(bootstrap, plan.topic, partitions, plan.expected),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            for driver in self._drivers[-2:]:
                error.add_note(f"driver {driver.plan.run} ended with {driver.tail()}")
        for driver in self._drivers:
            driver.kill()
        for pid in marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not marked(self.mark), "the campaign's processes are gone", timeout_s=GONE_S)
        self._directory.cleanup()


class Driver:
    """The process of a driver."""

    def __init__(self, plan: Plan, mark: str, module: str) -> None:
        self.plan = plan
        self.output = Path(plan.directory, f"output-{plan.run}.txt")
        name, _, value = mark.partition("=")
        home = spark_home(Path(plan.directory))
        environment = {
            **os.environ,
            name: value,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM.format(driver=module), str(plan.write()), str(ROOT)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=plan.directory,
                env=environment,
            )

    @property
    def pids(self) -> list[int]:
        """The process ids of the driver and, once it is known, of its JVM."""
        return [self._process.pid, *(each["jvm"] for each in self.plan.events.all("started") if each["run"] == self.plan.run)]

    def wait(self, *codes: int) -> int:
        """Wait until the driver ends, with one of these exit codes."""
        code = self._process.wait(DRIVER_S)
        assert code in codes, f"driver {self.plan.run} ended with {code}, not {codes}: {self.tail()}"
        return code

    def await_death(self) -> None:
        """Wait until the driver has killed itself or was killed."""
        self.wait(-signal.SIGKILL)

    def killed_after(self, seconds: float) -> None:
        """Kill the driver so many seconds after its session is up."""
        self.until(lambda: len(self.pids) > 1, "it has a session")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            raise AssertionError(f"driver {self.plan.run} was to be killed, and ended before: {self.tail()}")
        self.signal(signal.SIGKILL)
        self.await_death()
        self.plan.events.tell("death", run=self.plan.run, point=f"{seconds:.1f} s after its start")

    def until(self, ask: Callable[[], Any], what: str) -> Any:
        """Wait for a condition while the driver runs."""

        def asked() -> Any:
            found = ask()
            assert found or self._process.poll() is None, f"driver {self.plan.run} ended before {what}: {self.tail()}"
            return found

        return until(asked, what, timeout_s=DRIVER_S, pause_max_s=0.1)

    def signal(self, which: signal.Signals) -> None:
        """Send a signal to the driver and its JVM."""
        for pid in reversed(self.pids):
            with suppress(ProcessLookupError):
                os.kill(pid, which)

    def kill(self) -> None:
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
        self._process.wait(GONE_S)

    def tail(self) -> str:
        """The end of the driver's output, without Java's stack traces."""
        lines = self.output.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if not line.startswith("\tat ")][-40:])


def marked(mark: str) -> list[int]:
    """The processes with the mark in their environment."""
    return [pid for pid, environment in _environments() if mark.encode() in environment]


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                state = (place / "stat").read_bytes().rsplit(b")", 1)[1].split()[0]
                if state != b"Z":
                    yield int(place.name), (place / "environ").read_bytes().split(b"\0")
