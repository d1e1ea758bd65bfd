"""A small process that ends shortly after this one. It kills the brokers and removes the directories that were left behind.

It waits on a pipe whose other end only this process holds, so it also acts after a SIGKILL of this process. It knows only process groups
and directories, and nothing about Kafka.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

_PROGRAM = """
import os, shutil, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
groups, directories = [], []
for line in sys.stdin:
    word, _, rest = line.rstrip("\\n").partition(" ")
    kept = groups if word.endswith("group") else directories
    if word.startswith("forget"):
        kept.remove(rest)
    else:
        kept.append(rest)
for group in groups:
    try:
        os.killpg(int(group), signal.SIGKILL)
    except ProcessLookupError:
        pass
for directory in directories:
    shutil.rmtree(directory, ignore_errors=True)
"""


class Reaper:
    """Remembers process groups and directories until they are forgotten. It starts with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def watch_group(self, group: int) -> None:
        self._tell(f"group {group}")

    def forget_group(self, group: int) -> None:
        self._tell(f"forget-group {group}")

    def watch_directory(self, directory: Path) -> None:
        self._tell(f"directory {directory}")

    def forget_directory(self, directory: Path) -> None:
        self._tell(f"forget-directory {directory}")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._process is None:
                # Its own session: Ctrl-C in the terminal must not stop it before it has done its work.
                self._process = subprocess.Popen(
                    [sys.executable, "-S", "-E", "-c", _PROGRAM], stdin=subprocess.PIPE, text=True, start_new_session=True
                )
            assert self._process.stdin is not None
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


reaper = Reaper()
