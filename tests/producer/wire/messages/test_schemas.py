"""Every declaration against Kafka's own: fields, order, types, versions, tags, nullability, defaults, ignorable.

The definitions are Kafka 4.3's. They give the first version of every field, even if Kafka 4 no longer has that version. Only fields that
ended with removed versions are missing; this file adds them as in Kafka 3.9.
"""

from typing import Any
from uuid import UUID

import pytest

from fencepost.producer.wire import REQUESTS, RESPONSES, ZERO_UUID, Api, Message, WireStruct
from fencepost.producer.wire.schema.declarations import Array, Blob, FieldSpec, Kind, Nested, Text, Uuid, describe
from fencepost.producer.wire.schema.fields import NEVER, RecordsType, Scalar
from tests.producer.wire import kafka_schemas
from tests.producer.wire.instances import REMOVED, UNSPOKEN
from tests.producer.wire.kafka_schemas import overlap, snake_case, version_range

pytestmark = pytest.mark.skipif(kafka_schemas.MISSING, reason=kafka_schemas.SKIP_REASON)

MESSAGES = [*REQUESTS.values(), *RESPONSES.values()]

GONE: dict[str, tuple[int, dict[str, Any]]] = {
    "ListOffsetsPartition": (3, {"name": "MaxNumOffsets", "type": "int32", "versions": "0", "default": "1"}),
    "ListOffsetsPartitionResponse": (2, {"name": "OldStyleOffsets", "type": "[]int64", "versions": "0"}),
    "OffsetCommitRequestPartition": (3, {"name": "CommitTimestamp", "type": "int64", "versions": "1", "default": "-1"}),
    "DescribeConfigsResourceResult": (3, {"name": "IsDefault", "type": "bool", "versions": "0"}),
}
"""The fields that exist in removed versions alone, and their places."""

NAMED = {
    "share_groups": {"DescribedAssignment": "Assignment", "DescribedPartitions": "TopicPartitions"},
    "share_fetch": {"AcknowledgePartitionData": "PartitionData", "SharePartitionData": "PartitionData"},
    "share_state": {
        **dict.fromkeys(("InitializedPartition", "ReadPartition", "WrittenPartition", "DeletedPartition"), "PartitionData"),
        **dict.fromkeys(("ReadPartitionResult", "SummaryPartitionResult"), "PartitionResult"),
        "InitializedTopic": "InitializeStateData",
        "WrittenTopic": "WriteStateData",
        "DeletedTopic": "DeleteStateData",
        "ReadTopic": "ReadStateData ReadStateSummaryData",
        "ReadTopicResult": "ReadStateResult",
        "SummaryTopicResult": "ReadStateSummaryResult",
        "TopicResult": "InitializeStateResult WriteStateResult DeleteStateResult",
    },
}
"""In modules with several messages: our names of structs for which Kafka has one name in several messages, or several for the same."""

SCALARS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "float64": "d"}


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_is_the_one_of_the_schema(cls: type[Message]) -> None:
    """API key, direction, first flexible version and every field at every depth are Kafka's.

    The versions are Kafka's and older ones down to 0, unless those were for brokers only.
    """
    schema = kafka_schemas.load(cls.__name__)
    assert cls.api == schema["apiKey"]
    assert cls.is_request == (schema["type"] == "request")
    spoken = version_range(schema["validVersions"])
    unspoken = UNSPOKEN.get(cls.api, range(0))
    older = REMOVED.get(cls.api, range(unspoken.stop, unspoken.stop))
    assert (unspoken.start, older.start, older.stop) == (0, unspoken.stop, spoken.start)
    assert cls.versions == range(older.start, spoken.stop)
    flexible = version_range(schema["flexibleVersions"])
    assert cls.flexible == (flexible.start if flexible else NEVER)
    assert _compare(cls, schema["fields"], cls.versions) >= len(describe(cls))


def test_what_is_gone_is_in_no_version_of_kafka_4() -> None:
    """A field that this file adds to Kafka's definitions belongs only to versions that Kafka 4.0 removed."""
    of = {"ListOffsets": Api.LIST_OFFSETS, "OffsetCommit": Api.OFFSET_COMMIT, "DescribeConfigs": Api.DESCRIBE_CONFIGS}
    for struct, (_, field) in GONE.items():
        api = next(api for name, api in of.items() if struct.startswith(name))
        assert set(version_range(field["versions"])) <= set(REMOVED[api])


def test_every_api_is_there_in_both_directions() -> None:
    """The registered request and response of an API key have that key and the same versions. An unregistered key is not found."""
    assert list(REQUESTS) == list(RESPONSES)
    assert len(REQUESTS) == len(set(REQUESTS)) >= 30
    assert Api.LEADER_AND_ISR not in REQUESTS
    assert REQUESTS.get(Api.LEADER_AND_ISR) is None
    for api in REQUESTS:
        assert REQUESTS[api].api == RESPONSES[api].api == api
        assert REQUESTS[api].is_request
        assert not RESPONSES[api].is_request
        assert REQUESTS[api].versions == RESPONSES[api].versions


def _compare(struct: type[WireStruct], fields: list[dict[str, Any]], versions: range) -> int:
    """Compare a struct with the schema's fields, within `versions`; return how many fields were compared."""
    specs = describe(struct)
    if struct.__name__ in GONE:
        place, gone = GONE[struct.__name__]
        fields = [*fields[:place], gone, *fields[place:]]
    assert [spec.name for spec in specs] == [snake_case(field["name"]) for field in fields], struct
    compared = 0
    for spec, field in zip(specs, fields, strict=True):
        where = f"{struct.__name__}.{spec.name}"
        present = overlap(version_range(field["versions"]), versions)
        assert overlap(range(spec.since, min(spec.until, NEVER) + 1), versions) == present, where
        nullable = overlap(version_range(field.get("nullableVersions", "none")), present)
        assert overlap(range(spec.nullable, 1 << 15), present) == nullable, where
        assert spec.tag == field.get("tag"), where
        if spec.tag is not None:
            assert version_range(field["taggedVersions"]) == version_range(field["versions"]), where
        assert spec.ignorable == field.get("ignorable", False), where
        assert field.get("flexibleVersions") is None, where
        _compare_default(where, spec, field)
        compared += 1 + _compare_type(where, spec.kind, field["type"], field.get("fields", []), present)
    return compared


def _compare_type(where: str, kind: Kind, expected: str, fields: list[dict[str, Any]], versions: range) -> int:
    """Compare a type with the schema's; return how many fields were compared below it."""
    if expected.startswith("[]"):
        assert isinstance(kind, Array), where
        return _compare_type(where, kind.element, expected[2:], fields, versions)
    match kind:
        case Scalar():
            assert kind.code == SCALARS[expected], where
        case Text():
            assert expected == "string", where
        case Blob():
            assert expected == "bytes", where
        case Uuid():
            assert expected == "uuid", where
        case RecordsType():
            assert expected == "records", where
        case Nested():
            ours = kind.struct.__name__
            assert expected in NAMED.get(kind.struct.__module__.rpartition(".")[2], {}).get(ours, ours).split(), where
            return _compare(kind.struct, fields, versions)
        case _:
            pytest.fail(f"{where} is an array here and {expected} in the schema")
    return 0


def _compare_default(where: str, spec: FieldSpec, field: dict[str, Any]) -> None:
    """Compare a default with the schema's text, or with Kafka's default for the type if the schema has none."""
    given = field.get("default")
    expected: object
    match spec.kind:
        case _ if given == "null":
            expected = None
        case Array():
            expected = []
        case RecordsType():
            expected = None if spec.nullable != NEVER else b""
        case Nested():
            assert spec.default == spec.kind.struct(), where
            return
        case Uuid():
            expected = ZERO_UUID if given is None else UUID(given)
        case Text():
            expected = given or ""
        case Blob():
            expected = b""
        case Scalar("?"):
            expected = given in ("true", True)
        case Scalar("d"):
            expected = float(given or 0)
        case _:
            expected = int(str(given or 0), 0)
    assert spec.default == expected, where
    assert type(spec.default) is type(expected), where
