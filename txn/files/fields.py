"""Which fields of a record become its key, its value and its headers; and names of fields in error messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from fencepost.producer.foundations.counted import counted

NAMES_MAX: Final = 20
NAME_CHARACTERS_MAX: Final = 40


class Fields(Struct, frozen=True):
    """The names of the fields. `value`: None for the whole record. `as_options`: errors name the options of the command `produce`, and
    otherwise the arguments of `FileSource`."""

    key: str | None = None
    value: str | None = None
    headers: tuple[str, ...] = ()
    as_options: bool = True

    @property
    def none(self) -> bool:
        return self.key is None and self.value is None and not self.headers

    @property
    def wanted(self) -> Iterable[tuple[str, str]]:
        """Each name, with how the user gave it: `--key-field id`."""
        if self.key is not None:
            yield self.said("key", self.key), self.key
        if self.value is not None:
            yield self.said("value", self.value), self.value
        for name in self.headers:
            yield self.said("header", name), name

    def said(self, role: str, name: str) -> str:
        return f"--{role}-field {name}" if self.as_options else f"{role}_field{'s' if role == 'header' else ''}={name!r}"


def named(names: Iterable[str]) -> str:
    """The first names, each cut to a length that fits into a message."""
    every = list(names)
    words = [name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}..." for name in every[:NAMES_MAX]]
    more = f" and {counted(len(every) - NAMES_MAX, 'other', spec=',')}" if len(every) > NAMES_MAX else ""
    return f"{', '.join(words)}{more}" if every else "none"
