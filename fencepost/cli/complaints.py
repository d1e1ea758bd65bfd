"""What the commands share: saying in one line on standard error why they cannot, and reading addresses and NAME=VALUE pairs.

Whatever the user can mend ends with exit code 2 and never with a traceback. It loads neither rich nor a client.
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
    """Something that the user can mend, in one sentence. `code`: what the command ends with."""

    def __init__(self, reason: str, *, code: int = USAGE) -> None:
        super().__init__(reason)
        self.code = code


@contextmanager
def complaining(command: str) -> Iterator[None]:
    """A complaint in the block ends the command with one line and its exit code; so does Ctrl-C."""
    _running.set(command)
    # What a producer logs on its way, the command tells in the end, and in its own words.
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
        # Whoever read the output has seen enough. What is still buffered must not fail once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def running_command() -> str:
    """Which command it is, as its lines on standard error begin."""
    return _running.get()


def bootstrap_from(option: str | None) -> str:
    """The address given, or that of the environment."""
    found = option or next(filter(None, map(os.environ.get, BOOTSTRAP_VARIABLES)), None)
    if not found:
        raise Complaint(f"no broker is named: give --bootstrap HOST:PORT, or set {' or '.join(BOOTSTRAP_VARIABLES)}")
    return found


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """What NAME=VALUE options say, each name once; a value may stand in a file (NAME@FILE), and a password be asked for (NAME)."""
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
    """The same of settings of a client, with the passwords that the environment has for it."""
    return with_environment(pairs(option, given))


def _say(command: str, words: str) -> None:
    warn(f"fencepost {command}: {' '.join(words.split())}")
