"""Reports sockets that were not closed. Garbage is collected in a later test, so each socket remembers where it was created, and the report
names this place.

The sockets of two packages are closed without a report. kafka-python leaves a connection that it gives up while connecting to the garbage
collector. pyspark 3.5 to 4.1 leaves the socket of `collect` to it.
"""

from __future__ import annotations

import socket
import sys
import traceback
import warnings
from importlib.metadata import PackageNotFoundError, version
from types import FrameType


def _spark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


FORGIVEN = ("kafka", "pyspark") if _spark().startswith(("3.", "4.0.", "4.1.")) else ("kafka",)
"""Packages whose unclosed sockets are not reported."""

FRAMES = 12

_made: dict[int, tuple[str, traceback.StackSummary]] = {}
_init = socket.socket.__init__


def watch() -> None:
    """Watch all sockets of this process from now on."""
    socket.socket.__init__ = _watched  # type: ignore[method-assign]
    socket.socket.__del__ = _found  # type: ignore[attr-defined]


def _watched(self: socket.socket, *arguments: object, **options: object) -> None:
    _init(self, *arguments, **options)  # type: ignore[arg-type]
    frame = sys._getframe(1)
    _made[id(self)] = _maker(frame), traceback.StackSummary.extract(traceback.walk_stack(frame), limit=FRAMES, lookup_lines=False)


def _found(self: socket.socket) -> None:
    maker, stack = _made.pop(id(self), ("", None))
    if self.fileno() == -1:
        return
    if maker not in FORGIVEN:
        where = "".join(reversed(stack.format())) if stack is not None else "somewhere\n"
        warnings.warn(f"unclosed {self!r}, made in\n{where}", ResourceWarning, stacklevel=2, source=self)
    self.close()


def _maker(frame: FrameType | None) -> str:
    """The package that created the socket: the innermost one outside Python itself."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in sys.stdlib_module_names:
            return package
        frame = frame.f_back
    return ""
