"""The error codes and the topics in any message, found by the names of fields. A new message needs no row here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import msgspec

from fencepost.producer.wire import Message, error_name


def errors_in(response: Message) -> list[str]:
    """The names of the error codes in a response, each once, without NONE."""
    codes = {value for _, name, value in _fields(response) if name.endswith("error_code") and isinstance(value, int) and value}
    return [error_name(code) for code in sorted(codes)]


def topics_in(request: Message, name_of: Callable[[UUID], str | None]) -> list[str]:
    """The topics' names and ids in a message, each once."""
    found: dict[str, None] = {}
    for struct, name, value in _fields(request):
        if isinstance(value, UUID):
            value = name_of(value)
        if isinstance(value, str) and value and (name in ("topic", "topic_id") or (name == "name" and "Topic" in struct)):
            found[value] = None
    return list(found)


def _fields(value: object) -> Iterator[tuple[str, str, object]]:
    """Every field of a message and of the structs in it, as (struct's name, field's name, value)."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            yield type(value).__name__, name, inner
            yield from _fields(inner)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _fields(each)
