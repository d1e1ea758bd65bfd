"""How long a lone record takes, and how much memory a long run does: the two measurements that are not of throughput."""

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
"""One lone record for so many of the load's: they are waited for one by one."""

LONE_WARM_UP = 100
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def lone_records(sender: Sender, load: Load) -> Figures:
    """One record after the other, each waited for."""
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
    """By how many bytes the peak of the resident memory in a run exceeds what it was before."""
    if STATUS.exists():
        before = status("VmRSS")
        if os.access(CLEAR_REFS, os.W_OK):
            CLEAR_REFS.write_text("5")  # begins the peak anew
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
