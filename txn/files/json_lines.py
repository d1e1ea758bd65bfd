"""JSON lines as chunks of rows. A line that is no JSON value, or lacks a field, is a bad line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.txn.files.chunks import ROW_BYTES_MAX, Convert, Row, RowChunk, offsets_in
from fencepost.txn.files.fields import Fields, named
from fencepost.txn.files.lines import Lines

ESCAPES: Final = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|\\.")
"""A surrogate pair in JSON, one half of a pair, or another escape."""


def json_chunks(lines: Lines, convert: Convert) -> Iterator[RowChunk]:
    """Every line is a JSON value, of which `convert` makes a row. Blank lines are skipped."""
    begin = lines.offset
    while batch := lines.batch():
        rows, numbers, raws, bad = [], [], [], []
        first = lines.number - len(batch) + 1
        for number, raw in enumerate(batch, first):
            if not raw.strip():
                continue
            try:
                rows.append(convert(raw))
            except ValueError as error:  # msgspec's errors are subclasses
                bad.append((number, raw, half_of_a_pair(raw) or _reason(error)))
            except RecursionError:
                bad.append((number, raw, "brackets are nested too deeply"))
            else:
                numbers.append(number)
                raws.append(raw)
        yield RowChunk(rows, numbers, raws, bad, next=lines.number + 1, end=lines.offset, offset_of=offsets_in(batch, first, begin))
        begin = lines.offset


def json_converter(fields: Fields) -> Convert:
    """A function that makes a row to send of a line. It raises ValueError."""
    if fields.none:
        check = msgspec.json.Decoder(msgspec.Raw)
        return lambda raw: check.decode(raw) and raw.strip()
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def convert(raw: bytes) -> Row:
        _refuse_large(raw)
        found = decoder.decode(raw)
        key = as_bytes(found, fields.key) if fields.key is not None else None
        value = as_bytes(found, fields.value) if fields.value is not None else raw.strip()
        return (key, value, [(name, as_bytes(found, name)) for name in fields.headers]) if fields.headers else (key, value)

    return convert


def json_value(raw: bytes) -> object:
    """The value of a line, for a program's own function. It raises ValueError."""
    _refuse_large(raw)
    return msgspec.json.decode(raw)


def _refuse_large(raw: bytes) -> None:
    if len(raw) > ROW_BYTES_MAX:
        raise ValueError(f"{len(raw):,} bytes are more than {ROW_BYTES_MAX >> 20} MiB, the limit for a line of which fields are taken")


def _reason(error: ValueError) -> str:
    """What msgspec says of a line that is no JSON begins without a subject: it may be taken for the file's."""
    no_json = isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError)
    return f"no JSON: {error}" if no_json else str(error)


def half_of_a_pair(raw: bytes) -> str | None:
    """What is wrong with a line that escapes one half of a surrogate pair. msgspec calls such a line truncated if it ends soon after."""
    for escape in ESCAPES.finditer(raw):
        if escape["half"]:
            return f"\\u{escape['half'].decode()} (byte {escape.start()}) is one half of a surrogate pair: alone it is no character"
    return None


def as_bytes(found: dict[str, msgspec.Raw], name: str) -> bytes | None:
    """A string's text, None for null, and any other value as its JSON text."""
    raw = found.get(name)
    if raw is None:
        raise ValueError(f"there is no field {name!r}; the fields are {named(found)}")
    text = bytes(raw)
    if text.startswith(b'"'):
        return msgspec.json.decode(text, type=str).encode()
    return None if text == b"null" else text
