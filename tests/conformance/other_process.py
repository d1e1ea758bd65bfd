"""A program in its own process, with which a test exchanges lines. The test may freeze, continue or kill it."""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
import sys
import textwrap
import threading
from types import TracebackType
from typing import Self

PATIENCE_S = 90.0
"""A program that hangs is killed after this."""


class OtherProcess:
    """A process with the other arguments in its sys.argv. It ends with the block."""

    def __init__(self, program: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._watchdog = threading.Timer(PATIENCE_S, self._process.kill)
        self._watchdog.start()

    def line(self) -> str:
        """The next line that the process prints, "" after its end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def has_line(self, timeout_s: float) -> bool:
        """Whether the process prints something within this time, or ends. For a program that has not printed more than was read."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], timeout_s)[0])

    def say(self, line: str = "") -> None:
        """Write a line to the process's input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def rest(self) -> list[str]:
        """The output of the process until it ends by itself."""
        assert self._process.stdout is not None
        lines = self._process.stdout.read().splitlines()
        self._process.wait(PATIENCE_S)
        return lines

    def freeze(self) -> None:
        """SIGSTOP: its connections stay open, and it does nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.wait(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
