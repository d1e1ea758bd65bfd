"""Errors of a command: one line on standard error, and the exit code.

An error that the user can correct ends with exit code 2 and never with a traceback. This module imports neither rich nor a client.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import typer

from fencepost.cli.output import warn

NO: Final = 1
"""The exit code if there is no such thing, or if a transaction has the other outcome."""
USAGE: Final = 2
UNKNOWN: Final = 3
"""The exit code if the outcome is unknown."""
INTERRUPTED: Final = 130
_running: ContextVar[str] = ContextVar("running", default="")


class CommandError(Exception):
    """An error that the user can correct, in one sentence. `code`: the command's exit code."""

    def __init__(self, reason: str, *, code: int = USAGE) -> None:
        super().__init__(reason)
        self.code = code


@contextmanager
def reporting_errors(command: str) -> Iterator[None]:
    """If the block raises CommandError, the command prints one line and ends with its exit code. Ctrl-C does the same."""
    _running.set(command)
    # The command reports at its end what the producer logs, so the log is not printed.
    logging.getLogger("fencepost").addHandler(logging.NullHandler())
    try:
        yield
    except CommandError as error:
        _say(command, str(error))
        raise typer.Exit(error.code) from None
    except KeyboardInterrupt:
        _say(command, "interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of the output has closed the pipe. Flushing the buffered output at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def running_command() -> str:
    """The name of the command, with which its lines on standard error begin."""
    return _running.get()


def warn_of(reasons: Iterable[str]) -> None:
    """Print a line on standard error for each reason."""
    for reason in dict.fromkeys(reasons):
        warn(f"fencepost {running_command()}: {reason}")


def _say(command: str, words: str) -> None:
    warn(f"fencepost {command}: {' '.join(words.split())}")
