"""Messages, and their encoding and decoding in every supported version. One class stands for all versions of a message; the version is an
argument.

A version outside `versions` raises UnsupportedVersion. A value that the version cannot carry raises UnsupportedFieldValue. Bytes that break
the layout raise Malformed. `producer.wire.frame` handles headers and length prefixes.
"""

from __future__ import annotations

from struct import error as StructError
from typing import ClassVar, TypeVar

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.errors import UnsupportedFieldValue, UnsupportedVersion
from fencepost.producer.wire.schema.compiler import decoder_of, encoder_of
from fencepost.producer.wire.schema.fields import Buffer, WireStruct


class Message(WireStruct):
    """The body of a request or of a response."""

    api: ClassVar[Api]
    versions: ClassVar[range]
    """The supported versions."""
    flexible: ClassVar[int]
    """The first version with compact lengths and tag buffers, or NEVER."""
    is_request: ClassVar[bool]


M = TypeVar("M", bound=Message)


def encode(message: Message, version: int) -> bytes:
    """The body in this version, in one piece."""
    return b"".join(encode_parts(message, version))


def encode_parts(message: Message, version: int) -> list[Buffer]:
    """The body in pieces, for a gathering write: records above 4 KiB are the caller's own object, not a copy."""
    parts: list[Buffer] = []
    parts.append(encode_into(message, version, bytearray(), parts))
    return parts


def encode_into(message: Message, version: int, out: bytearray, parts: list[Buffer]) -> bytearray:
    """Append the body to `out` and return the last buffer.

    If records are not copied, `out` and then the records move to `parts`, and encoding continues in a new buffer.
    """
    if version not in message.versions:
        raise UnsupportedVersion(type(message).__name__, version, versions=message.versions)
    try:
        return encoder_of(type(message), version, flexible=version >= message.flexible)(message, out, parts)
    except (StructError, UnicodeEncodeError) as error:
        # A number out of its field's range or text with lone surrogates. The line of the generated source in the traceback says which.
        raise UnsupportedFieldValue(f"{type(message).__name__} v{version}: {error}") from error


def decode(cls: type[M], version: int, data: Buffer, *, start: int = 0) -> M:
    """The message in `data` from `start` to its end. Its records are views into `data`: do not change `data` while they are in use."""
    if version not in cls.versions:
        raise UnsupportedVersion(cls.__name__, version, versions=cls.versions)
    if type(data) is not bytes:
        data = memoryview(data).cast("B")
    message: M = decoder_of(cls, version, flexible=version >= cls.flexible, api=cls.api)(data, start, len(data))
    return message
