"""Programs in a child process, for tests that cannot run in pytest's own process: exit, fork, receive a signal."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

PATIENCE_S = 60.0
"""A script that hangs fails its test after this; a good one takes well under a second."""

PREAMBLE = """
import gc, logging, os, signal, sys, threading, time, warnings
from fencepost.producer import *
bootstrap = sys.argv[1] if len(sys.argv) > 1 else ""
quick = dict(linger_ms=0, retry_backoff_ms=5, retry_backoff_max_ms=50, reconnect_backoff_ms=5, reconnect_backoff_max_ms=50)

def attempt(call):
    try:
        return repr(call())
    except BaseException as error:
        return type(error).__name__

def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.001)
"""


class Ended:
    """How a script ended: its exit code, what it wrote, and the seconds that it took."""

    def __init__(self, process: subprocess.CompletedProcess[str], seconds: float) -> None:
        self.code = process.returncode
        self.lines = process.stdout.splitlines()
        self.complaints = process.stderr
        self.seconds = seconds


def run(code: str, *arguments: str) -> Ended:
    """Run a script to its end. Fails if the script hangs."""
    began = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PREAMBLE + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ended(process, time.monotonic() - began)
