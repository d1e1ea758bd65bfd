"""How fast this machine is, for the few tests with a limit in seconds. They are marked `alone`."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Final

USUAL_S: Final = 0.075
"""The CPU seconds of a start of Python with asyncio on the machines for which the limits were set."""


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Waits until the process has ended, and returns its CPU seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


@functools.cache
def slowness() -> float:
    """How many times the usual CPU time this machine needs for the same work; at least 1.0. Other processes change it little."""
    took = [cpu_of(subprocess.Popen([sys.executable, "-I", "-c", "import asyncio"])) for _ in range(8)]
    return max(1.0, min(took) / USUAL_S)
