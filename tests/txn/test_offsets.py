"""How far a group has read: the shapes in which the consumers of Python have offsets."""

from __future__ import annotations

import aiokafka
import kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, TopicPartition

from fencepost.txn.offsets import OffsetAndMetadata, read_offsets


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({("t", 0): 5, ("t", 1): 0}, {("t", 0): OffsetAndMetadata(5), ("t", 1): OffsetAndMetadata(0)}),
        ({("t", 0): OffsetAndMetadata(5, 3, "note")}, {("t", 0): OffsetAndMetadata(5, 3, "note")}),
        ({kafka.TopicPartition("t", 0): kafka.OffsetAndMetadata(5, "note", 3)}, {("t", 0): OffsetAndMetadata(5, 3, "note")}),
        ({kafka.TopicPartition("t", 0): kafka.OffsetAndMetadata(5, None, None)}, {("t", 0): OffsetAndMetadata(5)}),
        ({aiokafka.TopicPartition("t", 0): aiokafka.structs.OffsetAndMetadata(5, "note")}, {("t", 0): OffsetAndMetadata(5, -1, "note")}),
        ({aiokafka.TopicPartition("t", 0): 5}, {("t", 0): OffsetAndMetadata(5)}),
        ([TopicPartition("t", 0, 5)], {("t", 0): OffsetAndMetadata(5)}),
        ([TopicPartition("t", 0, 5, metadata="note", leader_epoch=3)], {("t", 0): OffsetAndMetadata(5, 3, "note")}),
        ([TopicPartition("t", 0, OFFSET_INVALID), TopicPartition("t", 1, 0)], {("t", 1): OffsetAndMetadata(0)}),
        ({}, {}),
        ([], {}),
    ],
)
def test_every_form_of_offsets_is_read(given: object, read: object) -> None:
    """Each says the same: a partition, the next record's offset, perhaps a leader epoch and a note. What has no position is left out."""
    assert read_offsets(given) == read


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (5, TypeError, "offsets is a int: a mapping"),
        ("t", TypeError, "offsets is a str: a mapping"),
        ([("t", 0)], TypeError, r"offsets has \('t', 0\) in a list"),
        ({"t": 5}, TypeError, r"offsets names 't': a partition is \(topic, partition\)"),
        ({("t", 0, 1): 5}, TypeError, "a partition is"),
        ({("", 0): 5}, ValueError, "topic=''"),
        ({(b"t", 0): 5}, TypeError, "topic must be a str"),
        ({("t", -1): 5}, ValueError, "t: partition=-1: from 0 to 2147483647"),
        ({("t", "0"): 5}, TypeError, "t: partition='0'"),
        ({("t", 0): -1}, ValueError, "t-0: offset=-1: from 0 to 9223372036854775807"),
        ({("t", 0): 1 << 63}, ValueError, "t-0: offset=9223372036854775808"),
        ({("t", 0): "5"}, TypeError, "t-0: offset='5': an int or OffsetAndMetadata"),
        ({("t", 0): (5, "note")}, TypeError, "an int or OffsetAndMetadata"),
        ({("t", 0): True}, TypeError, "t-0: offset=True"),
        ({("t", 0): OffsetAndMetadata(5, -2)}, ValueError, "t-0: leader_epoch=-2"),
        ({("t", 0): kafka.OffsetAndMetadata(5, b"note", -1)}, TypeError, "t-0: metadata=b'note'"),
        ([TopicPartition("t", 0, OFFSET_BEGINNING)], ValueError, "t-0: offset=-2"),
        ([TopicPartition("t", 0, 5), TopicPartition("t", 0, 6)], ValueError, "offsets names t-0 twice"),
    ],
)
def test_what_cannot_be_committed(given: object, kind: type[Exception], words: str) -> None:
    """The error names the partition, the value, and what it may be."""
    with pytest.raises(kind, match=words):
        read_offsets(given)


def test_a_note_that_no_request_carries() -> None:
    """It is refused in the program's call, with the partition."""
    with pytest.raises(ValueError, match=r"t-0: metadata='a.ud800' cannot be encoded as UTF-8"):
        read_offsets({("t", 0): OffsetAndMetadata(1, metadata="a\ud800")})
