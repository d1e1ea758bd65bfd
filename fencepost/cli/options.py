"""Options that several commands have: the broker's address, and NAME=VALUE pairs.

It opens no connection.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.passwords import value_of, with_environment

BOOTSTRAP_VARIABLES: Final = ("FENCEPOST_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")

TIMEOUT_S: Final = 15.0
"""How long a command waits for the answer to one request."""

Bootstrap = Annotated[str | None, typer.Option(metavar="HOST:PORT", help=f"A broker; default: {' or '.join(BOOTSTRAP_VARIABLES)}.")]


def bootstrap_from(option: str | None) -> str:
    """The given address, or the environment's."""
    found = option or next(filter(None, map(os.environ.get, BOOTSTRAP_VARIABLES)), None)
    if not found:
        raise CommandError(f"no broker address: give --bootstrap HOST:PORT, or set {' or '.join(BOOTSTRAP_VARIABLES)}")
    return found


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The pairs of NAME=VALUE options, each name once. NAME@FILE reads the value from a file. NAME alone prompts for a password."""
    found: dict[str, str] = {}
    for text in given or ():
        try:
            name, value = value_of(option, text)
        except ValueError as error:
            raise CommandError(str(error)) from None
        if name in found:
            raise CommandError(f"{option} {name} is given twice")
        found[name] = value
    return found


def client_settings(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The pairs as settings of a client, with passwords from the environment."""
    return with_environment(pairs(option, given))
