"""One of the processes of a program, which a campaign kills and starts again."""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.conformance.reaper import reaper

END_TIMEOUT_S: Final = 60.0
LINES: Final = 30
LINE_MAX: Final = 300

Command = Callable[[Path], list[str]]
"""From an instance's directory to its command."""


class Instance:
    """The process, with its directory and its log."""

    def __init__(self, command: Command, directory: Path, number: int) -> None:
        self._command, self._parent, self._number = command, directory, number
        self._fresh = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.log = directory / f"{number}.log"
        self._home = self._new_home()

    def start(self, *, fresh: bool = False) -> None:
        if fresh:
            self._home = self._new_home()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self._home), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        reaper.watch_group(self._process.pid)

    @property
    def status(self) -> int | None:
        """The exit status, if it has ended by itself."""
        return None if self._process is None else self._process.poll()

    def last_lines(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def errors(self) -> str:
        """The newest lines of its log that name an error."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([line[:LINE_MAX] for line in lines if "ERROR" in line or "Error" in line or "xception" in line][-LINES:])

    def end(self, how: signal.Signals) -> None:
        """Send it the signal and wait for its end."""
        process = self._process
        if process is None:
            return
        self._process = None
        process.send_signal(how)
        try:
            process.wait(END_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            reaper.forget_group(process.pid)

    def _new_home(self) -> Path:
        home = self._parent / f"{self._number}.{next(self._fresh)}"
        home.mkdir()
        return home
