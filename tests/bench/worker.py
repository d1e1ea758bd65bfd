"""One measurement in its own process: reads a `Load` from standard input, writes the `Figures` to standard output.

It measures three things per record: the call while the buffer has room (the median of several bursts into an empty buffer), the call over a
long run with all its waits, and the time and CPU until that run's last delivery is observed.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from types import TracebackType

import msgspec

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.bench.ceiling import replay
from tests.bench.contenders import Sender, open_sender
from tests.bench.java import run_java
from tests.bench.load import Contender, Figures, Load, Scenario
from tests.bench.lone import lone_records, peak_growth


def measure(load: Load) -> Figures:
    """Run the load's contender. Raises RuntimeError if a record was not acknowledged."""
    if load.contender is Contender.CEILING:
        return replay(load)
    if load.contender is Contender.JAVA:
        return run_java(load)
    with ExitStack() as stack:
        sender = open_sender(load)
        stack.callback(sender.close)
        if load.scenario is Scenario.LONE:
            return lone_records(sender, load)
        # The first records wait for metadata, connection and producer id.
        run(sender, load.burst, threads=1)
        sender.finish()
        burner = stack.enter_context(Burner()) if load.scenario is Scenario.BESIDE_BURNER else None
        if load.scenario is Scenario.MEMORY:
            return memory_run(sender, load)
        bursts = [burst(sender, load) for _ in range(load.bursts)]
        return long_run(sender, load, burst_us=median(bursts) / load.burst / 1e3, burner=burner)


def memory_run(sender: Sender, load: Load) -> Figures:
    """A long run, and the peak of its memory."""
    found: list[Figures] = []
    grown = peak_growth(lambda: found.append(long_run(sender, load, burst_us=None, burner=None)))
    return msgspec.structs.replace(found[0], grown_bytes=grown, grown_share=grown / load.buffer_bytes)


def burst(sender: Sender, load: Load) -> int:
    """Nanoseconds of one burst's calls. The buffer has room for all of them."""
    spent_ns = run(sender, load.burst, threads=load.scenario.threads)
    sender.finish()
    return spent_ns


def long_run(sender: Sender, load: Load, *, burst_us: float | None, burner: Burner | None) -> Figures:
    before = sender.acked
    if burner is not None:
        burner.mark()
    cpu_ns, began_ns = time.process_time_ns(), time.perf_counter_ns()
    sends_ns = run(sender, load.records, threads=load.scenario.threads)
    sender.finish()
    spent_ns, cpu_ns = time.perf_counter_ns() - began_ns, time.process_time_ns() - cpu_ns
    share: float | None = None
    if burner is not None:
        share, burnt_ns = burner.since_mark()
        cpu_ns -= burnt_ns
    acked = sender.acked - before
    if acked != load.records:
        raise RuntimeError(f"{acked} of {load.records} records were acknowledged")
    return Figures(
        acked=acked,
        acked_per_s=acked * 1e9 / spent_ns,
        cpu_ns=cpu_ns / acked,
        burst_us=burst_us,
        send_us=sends_ns / acked / 1e3,
        burner_share=share,
    )


def run(sender: Sender, count: int, *, threads: int) -> int:
    """Nanoseconds from the first call of any thread to the return of the last call of all threads."""
    if threads == 1:
        began_ns = time.perf_counter_ns()
        sender.send(count)
        return time.perf_counter_ns() - began_ns
    together = threading.Barrier(threads)

    def call() -> tuple[int, int]:
        together.wait()
        began_ns = time.perf_counter_ns()
        sender.send(count // threads)
        return began_ns, time.perf_counter_ns()

    with ThreadPoolExecutor(threads) as pool:
        clocks = [caller.result() for caller in [pool.submit(call) for _ in range(threads)]]
    return max(ended_ns for _, ended_ns in clocks) - min(began_ns for began_ns, _ in clocks)


class Burner:
    """A thread that only computes, in Python."""

    def __init__(self) -> None:
        self._cpu_ns = 0
        self._marked = (0, 0)
        self._ended = False
        self._thread = threading.Thread(target=self._burn, daemon=True)

    def __enter__(self) -> Burner:
        self._thread.start()
        self.mark()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended = True
        self._thread.join()

    def mark(self) -> None:
        """Start to count again."""
        self._marked = (self._cpu_ns, time.perf_counter_ns())

    def since_mark(self) -> tuple[float, int]:
        """The burner's share of one core since `mark`, and its CPU time in nanoseconds."""
        cpu_ns, began_ns = self._marked
        burnt_ns = self._cpu_ns - cpu_ns
        return burnt_ns / (time.perf_counter_ns() - began_ns), burnt_ns

    def _burn(self) -> None:
        while not self._ended:
            for _ in range(20):
                sum(number * number for number in range(100))
            self._cpu_ns = time.thread_time_ns()


def main() -> None:
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(measure(load)))


if __name__ == "__main__":
    main()
