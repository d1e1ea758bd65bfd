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
from fencepost.cli.profiles import SERVERS, profile

BOOTSTRAP_VARIABLES: Final = ("FENCEPOST_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")

TIMEOUT_S: Final = 15.0
"""How long a command waits for the answer to one request."""

Bootstrap = Annotated[str | None, typer.Option(metavar="HOST:PORT", help=f"A broker; default: {' or '.join(BOOTSTRAP_VARIABLES)}.")]


def bootstrap_from(option: str | None) -> str:
    """The given address, or that of the profile in use, or the environment's."""
    kept = _profile(option)
    found = option or kept.get(SERVERS) or _of_environment()
    if not found:
        lacking = f"the profile has no {SERVERS}, but {', '.join(kept)}: " if kept else ""
        raise CommandError(
            f"no broker address: {lacking}give --bootstrap HOST:PORT or --profile NAME, or set {' or '.join(BOOTSTRAP_VARIABLES)}"
        )
    return found


def connection(bootstrap: str | None, option: str, given: Sequence[str] | None) -> tuple[str, dict[str, str]]:
    """The brokers' address, and the client's settings, `given` as NAME=VALUE with the option of that name."""
    return bootstrap_from(bootstrap), client_settings(bootstrap, option, given)


def client_settings(bootstrap: str | None, option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The profile's settings, replaced by the given ones, with passwords from the environment."""
    named = pairs(option, given)
    replaced = {SERVERS, *(name.replace("_", ".") for name in named)}
    kept = {name: value for name, value in _profile(bootstrap).items() if name.replace("_", ".") not in replaced}
    return with_environment({**kept, **named})


def _profile(bootstrap: str | None) -> dict[str, str]:
    return profile(addressed=bool(bootstrap or _of_environment()))


def _of_environment() -> str | None:
    return next(filter(None, map(os.environ.get, BOOTSTRAP_VARIABLES)), None)


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
