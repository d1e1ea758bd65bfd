"""Measures the latency of a lone record, and the memory of a long run."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.contenders import Sender
from tests.bench.load import Figures, Load

LONE_SHARE = 1_000
"""One lone record for so many of the load's records, because the bench waits for each of them."""

LONE_WARM_UP = 100
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def lone_records(sender: Sender, load: Load) -> Figures:
    """Send one record after the other, and wait for each."""
    count = max(LONE_WARM_UP, load.records // LONE_SHARE)
    keys = (load.keys * (1 + (count + LONE_WARM_UP) // len(load.keys)))[: count + LONE_WARM_UP]
    for key in keys[:LONE_WARM_UP]:
        sender.lone(key)
    taken: list[int] = []
    cpu_ns, began_ns = time.process_time_ns(), time.perf_counter_ns()
    for key in keys[LONE_WARM_UP:]:
        called_ns = time.perf_counter_ns()
        sender.lone(key)
        taken.append(time.perf_counter_ns() - called_ns)
    spent_ns, cpu_ns = time.perf_counter_ns() - began_ns, time.process_time_ns() - cpu_ns
    taken.sort()
    return Figures(
        acked=count,
        acked_per_s=count * 1e9 / spent_ns,
        cpu_ns=cpu_ns / count,
        p50_us=taken[count // 2] / 1e3,
        p99_us=taken[count * 99 // 100] / 1e3,
    )


def peak_growth(run: Callable[[], object]) -> int:
    """How many bytes the peak of resident memory in a run exceeds the memory before it."""
    if STATUS.exists():
        before = status("VmRSS")
        if os.access(CLEAR_REFS, os.W_OK):
            CLEAR_REFS.write_text("5")  # resets the peak
        run()
        return status("VmHWM") - before
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    run()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - peak


def status(name: str) -> int:
    """A figure of /proc, in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024
