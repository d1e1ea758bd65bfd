"""Shared by the commands: one line on standard error about a failure, and reading of addresses and NAME=VALUE pairs.

An error that the user can correct ends with exit code 2 and never with a traceback. This module imports neither rich nor a client.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import typer

from fencepost.cli.passwords import value_of, with_environment
from fencepost.cli.shown import warn

BOOTSTRAP_VARIABLES: Final = ("FENCEPOST_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")
USAGE: Final = 2
INTERRUPTED: Final = 130
_running: ContextVar[str] = ContextVar("running", default="")


class Complaint(Exception):
    """An error that the user can correct, in one sentence. `code`: the command's exit code."""

    def __init__(self, reason: str, *, code: int = USAGE) -> None:
        super().__init__(reason)
        self.code = code


@contextmanager
def complaining(command: str) -> Iterator[None]:
    """If the block raises a Complaint, the command prints one line and ends with its exit code. Ctrl-C does the same."""
    _running.set(command)
    # The command reports at its end what the producer logs, so the log is not printed.
    logging.getLogger("fencepost").addHandler(logging.NullHandler())
    try:
        yield
    except Complaint as complaint:
        _say(command, str(complaint))
        raise typer.Exit(complaint.code) from None
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


def bootstrap_from(option: str | None) -> str:
    """The given address, or the environment's."""
    found = option or next(filter(None, map(os.environ.get, BOOTSTRAP_VARIABLES)), None)
    if not found:
        raise Complaint(f"no broker address: give --bootstrap HOST:PORT, or set {' or '.join(BOOTSTRAP_VARIABLES)}")
    return found


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The pairs of NAME=VALUE options, each name once. NAME@FILE reads the value from a file. NAME alone prompts for a password."""
    found: dict[str, str] = {}
    for text in given or ():
        try:
            name, value = value_of(option, text)
        except ValueError as error:
            raise Complaint(str(error)) from None
        if name in found:
            raise Complaint(f"{option} {name} is given twice")
        found[name] = value
    return found


def client_settings(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The pairs as settings of a client, with passwords from the environment."""
    return with_environment(pairs(option, given))


def _say(command: str, words: str) -> None:
    warn(f"fencepost {command}: {' '.join(words.split())}")
