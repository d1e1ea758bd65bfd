"""Files of settings: which brokers a command asks, and how it logs in.

A TOML file has a table for each profile. A file of another suffix is Kafka's client.properties: it is one profile. The names are Kafka's,
with dots. A password comes from the file, from another file, or from the environment, so that no command line has it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Final

from fencepost.cli.error_lines import CommandError
from fencepost.cli.output import warn
from fencepost.cli.passwords import is_secret

FILE_VARIABLE: Final = "FENCEPOST_CONFIG"
NAME_VARIABLE: Final = "FENCEPOST_PROFILE"
DEFAULT: Final = "default"
TOML: Final = ".toml"
SERVERS: Final = "bootstrap.servers"
SERVERS_SPELLED: Final = (SERVERS, "bootstrap_servers", "metadata.broker.list")
"""The address as a setting: also as a program spells it, and as librdkafka does."""
FROM_FILE, FROM_ENV = "from_file", "from_env"

_asked: ContextVar[tuple[str | None, str | None]] = ContextVar("asked", default=(None, None))


def ask_for(file: str | None, name: str | None) -> None:
    """Use this file, or the usual one, and its profile of this name, or `default`."""
    _asked.set((file, name))
    _read.cache_clear()


def usual_file() -> Path:
    """Where the profiles are if no option and no variable names a file."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "fencepost" / "config.toml"


def profile(*, addressed: bool) -> dict[str, str]:
    """The settings of the profile in use. `addressed`: the brokers' address is known already. Then the profile `default` is not used unless
    it was asked for, because its password is not meant for other brokers."""
    file, name = _asked.get()
    if file is not None or name is not None:
        return _read(Path(file) if file is not None else usual_file(), name)
    if addressed or not _is_there(usual_file()):
        return {}
    return _read(usual_file(), None)


def _is_there(file: Path) -> bool:
    """Whether it is a file. A directory that this user may not enter has none: the home of another user, after sudo."""
    try:
        return file.is_file()
    except OSError:
        return False


def source_of_settings(option: str) -> str:
    """Where a command's settings come from: the option, and the file if one is named."""
    file, name = _asked.get()
    return option if file is None and name is None else f"{option} or {file or usual_file()}"


@cache
def _read(file: Path, name: str | None) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"settings in {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CommandError(f"settings in {file}: the file is not UTF-8") from None
    found = _of_toml(file, text, name) if file.suffix == TOML else _of_properties(file, text, name)
    settings = {key: _value(file, key, value) for key, value in found.items()}
    if os.name == "posix" and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        instead = f", or give {{{FROM_FILE} = ...}} or {{{FROM_ENV} = ...}}" if file.suffix == TOML else ""
        for key, value in found.items():
            if is_secret(key) and not isinstance(value, Mapping):
                warn(f"{file}: other users can read {key}: chmod 600{instead}")
    return settings


def _of_toml(file: Path, text: str, name: str | None) -> dict[str, object]:
    import tomllib

    try:
        profiles = tomllib.loads(text)
        wanted = profiles.get(name or DEFAULT)
        if isinstance(wanted, Mapping):
            return dict(_flat(wanted))
        outside = SERVERS in dict(_flat(profiles))
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"settings in {file}: {error}") from None
    except RecursionError:
        raise CommandError(f"settings in {file}: tables or arrays are nested too deeply") from None
    if outside:
        raise CommandError(f"settings in {file}: {SERVERS} is in no profile: write [{name or DEFAULT}] above the settings")
    known = ", ".join(each for each, table in profiles.items() if isinstance(table, Mapping)) or "none"
    raise CommandError(f"settings in {file}: there is no profile {name or DEFAULT!r}; known: {known}")


def _of_properties(file: Path, text: str, name: str | None) -> dict[str, object]:
    from fencepost.broker_stub.configs.server_properties import read_properties

    if name is not None:
        raise CommandError(f"profile {name!r}: {file} is a file of one profile without a name; .toml files have profiles")
    try:
        return dict(read_properties(text))
    except ValueError as error:
        raise CommandError(f"settings in {file}: {error}") from None


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """TOML takes `sasl.mechanism` for a table in a table."""
    for key, value in table.items():
        if isinstance(value, Mapping) and not value.keys() & {FROM_FILE, FROM_ENV}:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _value(file: Path, key: str, value: object) -> str:
    match value:
        case {"from_file": str(other), **more} if not more:
            try:
                return (file.parent / Path(other).expanduser()).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, ValueError, RuntimeError) as error:  # not UTF-8, a NUL in the name, or the home of an unknown user
                raise CommandError(f"settings in {file}: {key} from {other}: {getattr(error, 'strerror', None) or error}") from None
        case {"from_env": str(variable), **more} if not more:
            found = os.environ.get(variable)
            if found is None:
                raise CommandError(f"settings in {file}: {key}: the environment has no {variable}")
            return found
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case _:
            raise CommandError(
                f"settings in {file}: {key}: give a text, a number, true, false, {{{FROM_FILE} = PATH}} or {{{FROM_ENV} = NAME}}"
            )
