"""Passwords for the commands: from a file, the environment or a prompt.

Every user that can list processes sees a password on a command line, and the shell stores it in its history. The commands accept it, with a
warning. This module does not import typer, so that `fencepost broker` starts fast. Its ValueErrors contain no password.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fencepost.cli.output import printable, warn

SASL_VARIABLE: Final = "FENCEPOST_SASL_PASSWORD"
KEY_VARIABLE: Final = "FENCEPOST_SSL_KEY_PASSWORD"
SECRET: Final = ("password", "secret", "jaas", "key.pem", "key_pem", "oauthbearer.config", "oauthbearer_config")
"""Parts of the names of secret settings."""

FROM_ENVIRONMENT: Final = (
    (("sasl.username", "sasl_username", "sasl_plain_username"), ("sasl.password", "sasl_password", "sasl_plain_password"), SASL_VARIABLE),
    (
        ("ssl.key.location", "ssl_keyfile", "ssl.certificate.location", "ssl.keystore.location", "ssl_certfile"),
        ("ssl.key.password", "ssl_password"),
        KEY_VARIABLE,
    ),
)
"""If one of the first settings is given and none of the second, the variable gives the value of the second."""


def value_of(option: str, text: str) -> tuple[str, str]:
    """The name and value of NAME=VALUE or NAME@FILE. NAME alone prompts for a password."""
    end = next((at for at, each in enumerate(text) if each in "=@"), len(text))
    name, sign, rest = text[:end], text[end : end + 1], text[end + 1 :]
    if sign == "@" and name:
        return name, from_file(option, name, rest)
    if sign == "=" and name:
        if is_secret(name):
            warn(f"{option} {name}=...: {_seen()}: give {name}@FILE, or {name} alone for a prompt{_or_variable(name)}")
        return name, rest
    if name and is_secret(name):
        return name, ask(f"{option} {name}", name)
    raise ValueError(f"{option} {text!r} is not NAME=VALUE")


def with_environment(settings: dict[str, str]) -> dict[str, str]:
    """The settings, with passwords from the environment."""
    more = {}
    for needed, names, variable in FROM_ENVIRONMENT:
        found = os.environ.get(variable)
        if found and settings.keys() & set(needed) and not settings.keys() & set(names):
            more[names[0]] = found
    return {**settings, **more}


def users(option: str, given: Iterable[str]) -> dict[str, str]:
    """Names and passwords of NAME:PASSWORD, or of the lines of @FILE. For NAME alone, the password is from the environment or a prompt."""
    found: dict[str, str] = {}
    for text in given:
        if text.startswith("@"):
            lines = from_file(option, "", text[1:]).splitlines()
            found.update(_user(f"{option} {text}: a line", line) for line in lines if line.strip())
        elif ":" in text:
            found.update([_user(option, text)])
            warn(f"{option} NAME:PASSWORD: {_seen()}: give @FILE with such lines, or NAME alone with {SASL_VARIABLE} or a prompt")
        elif text:
            found[text] = os.environ.get(SASL_VARIABLE) or ask(f"{option} {text}", f"password of {text}")
        else:
            raise ValueError(f"{option} takes NAME, NAME:PASSWORD or @FILE")
    return found


def from_file(option: str, name: str, path: str) -> str:
    """The file's content, without the newline at its end."""
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"{option} {name}@{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{option} {name}@{path}: the file is not UTF-8") from None


def ask(option: str, what: str) -> str:
    """A password from a prompt, which does not show it."""
    import getpass
    import warnings

    with warnings.catch_warnings():
        # Without a terminal getpass reads standard input, and shows it.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(f"{printable(what)}: ")
        except (getpass.GetPassWarning, EOFError):
            raise ValueError(
                f"{option}: there is no terminal for a prompt: give the password by a file (@FILE) or by {SASL_VARIABLE}"
            ) from None


def is_secret(name: str) -> bool:
    return any(each in name.lower() for each in SECRET)


def _user(where: str, text: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise ValueError(f"{where} is not NAME:PASSWORD")
    return name, password


def _seen() -> str:
    return "every user that can list this machine's processes sees a password on a command line"


def _or_variable(name: str) -> str:
    return next((f", or set {variable}" for _, names, variable in FROM_ENVIRONMENT if name in names), "")
