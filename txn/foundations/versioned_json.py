"""Structs as one JSON object that says its format: tokens, participations and entries of the ledger, written by one process and read by
another.

A text of another format is refused, as are fields that are missing, too many, or out of their bounds. It knows none of the structs.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from fencepost.producer.errors import FencepostError
from fencepost.producer.version import VERSION
from fencepost.producer.wire.errors import NO_JSON

T = TypeVar("T")


class Format:
    """See the module. `number`: whatever changes what a field means, or adds one, changes it. `what`: for messages; `error`: raised.
    `older`: numbers of before that are read as well, where fields have only been added since, with defaults."""

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
