"""Passwords for the commands: from a file, the environment or a prompt.

What stands on a command line is seen by everybody who can list processes, and kept in the shell's history: it is taken, with a warning.
Nothing here loads typer, which a broker of a script does without. What is wrong is a ValueError that has no password in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fencepost.cli.shown import printable, warn

SASL_VARIABLE: Final = "FENCEPOST_SASL_PASSWORD"
KEY_VARIABLE: Final = "FENCEPOST_SSL_KEY_PASSWORD"
SECRET: Final = ("password", "secret", "jaas", "key.pem", "key_pem", "oauthbearer.config", "oauthbearer_config")
"""What the names of settings that nobody should see have in them."""

FROM_ENVIRONMENT: Final = (
    (("sasl.username", "sasl_username", "sasl_plain_username"), ("sasl.password", "sasl_password", "sasl_plain_password"), SASL_VARIABLE),
    (
        ("ssl.key.location", "ssl_keyfile", "ssl.certificate.location", "ssl.keystore.location", "ssl_certfile"),
        ("ssl.key.password", "ssl_password"),
        KEY_VARIABLE,
    ),
)
"""Where one of the first settings is given and none of the second, the variable is the second's."""


def value_of(option: str, text: str) -> tuple[str, str]:
    """The name and value that NAME=VALUE says, or NAME@FILE, or NAME alone where that is a password, which is asked for."""
    end = next((at for at, each in enumerate(text) if each in "=@"), len(text))
    name, sign, rest = text[:end], text[end : end + 1], text[end + 1 :]
    if sign == "@" and name:
        return name, from_file(option, name, rest)
    if sign == "=" and name:
        if is_secret(name):
            warn(f"{option} {name}=...: {_seen()}: give {name}@FILE, or {name} alone to be asked for it{_or_variable(name)}")
        return name, rest
    if name and is_secret(name):
        return name, ask(f"{option} {name}", name)
    raise ValueError(f"{option} {text!r} is not NAME=VALUE")


def with_environment(settings: dict[str, str]) -> dict[str, str]:
    """The same, with the passwords that the environment has for them."""
    more = {}
    for needed, names, variable in FROM_ENVIRONMENT:
        found = os.environ.get(variable)
        if found and settings.keys() & set(needed) and not settings.keys() & set(names):
            more[names[0]] = found
    return {**settings, **more}


def users(option: str, given: Iterable[str]) -> dict[str, str]:
    """Names and passwords of NAME:PASSWORD, of the lines of @FILE, or of NAME alone, whose password the environment or a prompt has."""
    found: dict[str, str] = {}
    for text in given:
        if text.startswith("@"):
            lines = from_file(option, "", text[1:]).splitlines()
            found.update(_user(f"{option} {text}: a line", line) for line in lines if line.strip())
        elif ":" in text:
            found.update([_user(option, text)])
            warn(f"{option} NAME:PASSWORD: {_seen()}: give @FILE with such lines, or NAME alone, and {SASL_VARIABLE} or to be asked for it")
        elif text:
            found[text] = os.environ.get(SASL_VARIABLE) or ask(f"{option} {text}", f"password of {text}")
        else:
            raise ValueError(f"{option} takes NAME, NAME:PASSWORD or @FILE")
    return found


def from_file(option: str, name: str, path: str) -> str:
    """What stands in the file, without the newline at its end."""
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"{option} {name}@{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{option} {name}@{path}: it is no UTF-8") from None


def ask(option: str, what: str) -> str:
    """What is typed at the terminal, which does not show it."""
    import getpass
    import warnings

    with warnings.catch_warnings():
        # Where there is no terminal it would read standard input, and show it.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(f"{printable(what)}: ")
        except (getpass.GetPassWarning, EOFError):
            raise ValueError(f"{option}: there is no terminal to ask for it: give it by a file (@FILE) or by {SASL_VARIABLE}") from None


def is_secret(name: str) -> bool:
    return any(each in name.lower() for each in SECRET)


def _user(where: str, text: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise ValueError(f"{where} is not NAME:PASSWORD")
    return name, password


def _seen() -> str:
    return "everybody who can list this machine's processes sees a password on a command line"


def _or_variable(name: str) -> str:
    return next((f", or set {variable}" for _, names, variable in FROM_ENVIRONMENT if name in names), "")
