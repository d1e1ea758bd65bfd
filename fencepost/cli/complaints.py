"""What the commands share: saying in one line on standard error why they cannot, and reading addresses and NAME=VALUE pairs.

Whatever the user can mend ends with exit code 2 and never with a traceback. It loads neither rich nor a client.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer

BOOTSTRAP_VARIABLES: Final = ("FENCEPOST_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")
USAGE: Final = 2
INTERRUPTED: Final = 130


class Complaint(Exception):
    """Something that the user can mend, in one sentence. `code`: what the command ends with."""

    def __init__(self, reason: str, *, code: int = USAGE) -> None:
        super().__init__(reason)
        self.code = code


@contextmanager
def complaining(command: str) -> Iterator[None]:
    """A complaint in the block ends the command with one line and its exit code; so does Ctrl-C."""
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


def bootstrap_from(option: str | None) -> str:
    """The address given, or that of the environment."""
    found = option or next(filter(None, map(os.environ.get, BOOTSTRAP_VARIABLES)), None)
    if not found:
        raise Complaint(f"no broker is named: give --bootstrap HOST:PORT, or set {' or '.join(BOOTSTRAP_VARIABLES)}")
    return found


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """What NAME=VALUE options say, each name once."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Complaint(f"{option} {text!r} is not NAME=VALUE")
        if name in found:
            raise Complaint(f"{option} {name} is given twice")
        found[name] = value
    return found


def _say(command: str, words: str) -> None:
    print(f"fencepost {command}: {' '.join(words.split())}", file=sys.stderr)
