"""What is said of a line that is no JSON, or not the JSON that the options need."""

from __future__ import annotations

import io

import pytest

from fencepost.txn.files.fields import Fields
from fencepost.txn.files.json_lines import json_chunks, json_converter
from fencepost.txn.files.lines import Lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a":', "no JSON: Input data was truncated"),
        (b"x", "no JSON: JSON is malformed: invalid character (byte 0)"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"b":1}', "there is no field 'a'; the fields are b"),
        (b'{"a":"\\ud800"}', "\\ud800 (byte 6) is one half of a surrogate pair: alone it is no character"),
    ],
)
def test_a_bad_line(line: bytes, reason: str) -> None:
    """The reason says whether the line is no JSON at all. The other lines are records."""
    data = io.BytesIO(b'{"a":1}\n' + line + b'\n{"a":2}\n')
    (chunk,) = json_chunks(Lines(data.read), json_converter(Fields(key="a")))
    assert chunk.bad == [(2, line, reason)]
    assert [key for key, _ in chunk.rows] == [b"1", b"2"]
