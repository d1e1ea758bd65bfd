"""The errors of encoding and decoding.

An error code in a well-formed response is a value, not one of these errors. Other modules decide what it means.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codes import Api, api_name

NO_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The errors of msgspec for invalid JSON: wrong grammar, not UTF-8, or nested too deeply."""


class WireError(Exception):
    """Bytes that cannot be decoded, or a message that cannot be encoded. It can be pickled with all attributes."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class Malformed(WireError):
    """Bytes that break the layout of their message.

    `offset` is the start of the refused item, counted from the start of the data.
    """

    def __init__(self, reason: str, offset: int, *, api: int | None = None, version: int | None = None) -> None:
        where = "frame" if api is None else api_name(api) if version is None else f"{api_name(api)} v{version}"
        super().__init__(f"{where}: {reason} at byte {offset}")
        self.reason = reason
        self.offset = offset
        self.api: Api | int | None = Api(api) if api in _KNOWN else api
        self.version = version


class FrameTooLarge(WireError):
    """A length prefix that is negative or above the limit. `frames` are the complete frames that came before it in the same data."""

    def __init__(self, size: int, limit: int, *, frames: list[bytes]) -> None:
        super().__init__(f"a frame of {counted(size, 'byte')}, where 0 to {limit} are allowed")
        self.size = size
        self.limit = limit
        self.frames = frames


class UnsupportedVersion(WireError):
    """A version of the message that is not supported here."""

    def __init__(self, message: str, version: int, *, versions: range) -> None:
        super().__init__(f"{message} v{version} is not supported, only v{versions.start} to v{versions.stop - 1}")
        self.version = version
        self.versions = versions


class UnsupportedFieldValue(WireError):
    """A value that the chosen version cannot carry: the field is not in it, or null, range or encoding do not fit."""


_KNOWN: Final = frozenset(Api)


def _rebuild(cls: type[WireError], args: tuple[object, ...], state: dict[str, object]) -> WireError:
    """The unpickled error, with its text and attributes, made without its constructor."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error
