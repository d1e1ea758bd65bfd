"""Byte for byte against kio, an independent implementation from the same schemas: both write the same bytes and read each other's.

kio has only the versions of Kafka 4; test_older_versions compares the others. The output of a failing example has the lines that reproduce
it. `--hypothesis-seed` repeats a whole run.
"""

import dataclasses
import datetime
import io
import types
import typing
from typing import Any, get_args, get_origin
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from fencepost.producer.wire import ZERO_UUID, Message, WireStruct, encode
from fencepost.producer.wire.schema.declarations import describe
from tests.drawn import drawn
from tests.producer.wire.effort import drawing
from tests.producer.wire.instances import EVERY, OLDER, messages, of_message
from tests.producer.wire.messages.frames import check_body, check_frame

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

quickly = drawing(12)


def kio_class(cls: type[Message], version: int) -> Any:
    """kio's class for this message and version."""
    return (load_request_schema if cls.is_request else load_response_schema)(int(cls.api), version)


def kio_has(cls: type[Message], version: int) -> bool:
    """Without importing it: kio has a module for each message and version, and those of the rows that are not drawn take seconds."""
    kind = EntityType.request if cls.is_request else EntityType.response
    return kind in schema_name_map.get(api_key_map.get(int(cls.api), ""), {}).get(version, {})


KNOWN = [(cls, version) for cls, version in EVERY if kio_has(cls, version)]

KNOWN_ID = [f"{cls.__name__}-v{version}" for cls, version in KNOWN]


def test_what_kio_does_not_have() -> None:
    """Every version of Kafka 4.3 is compared here. Only versions that Kafka 4.0 removed are missing."""
    assert [each for each in EVERY if each not in KNOWN] == OLDER


@drawn(4, kind=of_message)
@pytest.mark.parametrize(("cls", "version"), KNOWN, ids=KNOWN_ID)
def test_bodies_are_the_same_bytes(cls: type[Message], version: int) -> None:
    """kio reads this project's bytes back to the same values and writes the same bytes, and the other way round."""
    theirs = kio_class(cls, version)
    write, read = entity_writer(theirs), entity_reader(theirs)

    @quickly
    @given(messages(cls, version))
    def compare(ours: Message) -> None:
        mirror = _to_kio(ours, version, theirs)
        buffer = io.BytesIO()
        write(buffer, mirror)
        data = buffer.getvalue()
        check_body(ours, version, data)
        assert read(data, 0) == (mirror, len(data))

    compare()


@drawn(4, kind=of_message)
@pytest.mark.parametrize(("cls", "version"), KNOWN, ids=KNOWN_ID)
def test_frames_have_the_same_header(cls: type[Message], version: int) -> None:
    """Both headers are those of kio for this message and version, for client ids of any text and null."""
    header_class = kio_class(cls, version).__header_schema__
    body = encode(cls(), version)

    @settings(quickly, max_examples=5)
    @given(st.integers(-(1 << 31), (1 << 31) - 1), st.none() | st.text(st.characters(codec="utf-8")))
    def compare(correlation_id: int, client_id: str | None) -> None:
        buffer = io.BytesIO()
        header: dict[str, Any] = {"correlation_id": correlation_id}
        if cls.is_request:
            header |= {"request_api_key": int(cls.api), "request_api_version": version, "client_id": client_id}
        entity_writer(header_class)(buffer, header_class(**header))
        check_frame(cls, version, buffer.getvalue() + body, correlation_id, client_id)

    compare()


def _to_kio(ours: WireStruct, version: int, theirs: Any) -> Any:
    """Our values in kio's class for this version. A field that only one of the two has is an error."""
    unused = {field.name for field in describe(type(ours)) if field.present(version)}
    values = {}
    for field in dataclasses.fields(theirs):
        name = field.name if field.name in unused else f"{field.name}_ms"
        unused.remove(name)
        values[field.name] = _value_to_kio(getattr(ours, name), version, field.type, field.metadata.get("kafka_type"))
    assert not unused, f"{type(ours).__name__} v{version} has fields that kio has not: {unused}"
    return theirs(**values)


def _value_to_kio(value: Any, version: int, hint: Any, kafka_type: str | None) -> Any:
    """One value in kio's types: it has types for codes, durations and times, and null for the zero id."""
    match value:
        case WireStruct():
            return _to_kio(value, version, _dataclass_in(hint))
        case list():
            return tuple(_value_to_kio(item, version, hint, None) for item in value)
        case UUID():
            return None if value == ZERO_UUID else value
        case int() if kafka_type == "error_code":
            return KioErrorCode(value)
        case int() if kafka_type in ("timedelta_i32", "timedelta_i64"):
            return value * MILLISECOND
        case int() if kafka_type == "datetime_i64":
            return None if value == -1 else EPOCH + value * MILLISECOND
        case _:
            return value


def _dataclass_in(hint: Any) -> Any:
    """The class inside optional and tuple types."""
    while get_origin(hint) in (types.UnionType, typing.Union, tuple):
        hint = next(argument for argument in get_args(hint) if argument not in (type(None), Ellipsis))
    return hint
