"""Structs as one JSON object with a format number: tokens, participations and ledger entries, which other processes read.

A text of another format is refused, and so is one with missing, additional or out-of-range fields. This module knows none of the structs.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from fencepost.producer.errors import FencepostError
from fencepost.producer.foundations.version import VERSION
from fencepost.producer.wire.errors import NO_JSON

T = TypeVar("T")


class Format:
    """See the module. `number`: changes whenever a field's meaning changes or a field is added. `what`: the name in error messages.
    `error`: the class to raise. `older`: earlier numbers that are also read, because since then fields were only added, with defaults."""

    def __init__(self, number: int, what: str, error: type[FencepostError], *, older: tuple[int, ...] = ()) -> None:
        self.number: Final = number
        self._known: Final = (*older, number)
        self._what = what
        self._one = f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
        self._error = error

    def dumps(self, value: Struct) -> bytes:
        """One line of JSON."""
        return msgspec.json.encode({"format": self.number, **msgspec.to_builtins(value)})

    def loads(self, kind: type[T], text: str | bytes) -> T:
        """Read what `dumps` wrote."""
        try:
            fields = msgspec.json.decode(text)
        except (*NO_JSON, TypeError) as error:
            raise self._error(f"no {self._what}: the text is not JSON ({error})") from None
        if not isinstance(fields, dict) or "format" not in fields:
            raise self._error(f'no {self._what}: {self._one} is a JSON object with a field "format"')
        said = fields.pop("format")
        if said not in self._known or isinstance(said, bool):
            raise self._error(
                f"{self._one} of format {said!r:.60}; this version of fencepost ({VERSION}) reads format"
                f" {' and '.join(map(str, self._known))}: use the one that made it"
            )
        try:
            return msgspec.convert(fields, kind)
        except msgspec.ValidationError as error:
            raise self._error(f"a damaged {self._what}: {error}") from None
