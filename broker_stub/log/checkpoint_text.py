"""The text files of Kafka's logs: leader-epoch-checkpoint, the offset checkpoints of a log.dir, and partition.metadata.

It does no I/O. A checkpoint has its version, the number of entries, and one entry a line.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Final

from fencepost.broker_stub.log.errors import CorruptFile

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
REPLICATION_OFFSETS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (RECOVERY_POINTS, REPLICATION_OFFSETS, LOG_START_OFFSETS, CLEANER_OFFSETS)
_VERSION: Final = "0"
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def write_leader_epochs(entries: list[tuple[int, int]]) -> str:
    """`entries`: (epoch, start offset)."""
    return _written([f"{epoch} {start}" for epoch, start in entries])


def read_leader_epochs(data: bytes) -> list[tuple[int, int]]:
    """(epoch, start offset), ascending in both. Raises CorruptFile."""
    found: list[tuple[int, int]] = []
    for line, words in _lines(LEADER_EPOCHS, data, 2):
        entry = (_epoch(line, words[0]), _number(LEADER_EPOCHS, line, words[1]))
        if found and not (entry[0] > found[-1][0] and entry[1] > found[-1][1]):
            raise CorruptFile(LEADER_EPOCHS, line, f"epoch {entry[0]} at offset {entry[1]} does not follow epoch {found[-1][0]}")
        found.append(entry)
    return found


def write_offsets(entries: dict[tuple[str, int], int]) -> str:
    """`entries`: the offset of each (topic, partition)."""
    return _written([f"{topic} {partition} {offset}" for (topic, partition), offset in entries.items()])


def read_offsets(kind: str, data: bytes) -> dict[tuple[str, int], int]:
    """The offset of each (topic, partition). Raises CorruptFile."""
    return {
        (topic, _number(kind, line, partition)): _number(kind, line, offset) for line, (topic, partition, offset) in _lines(kind, data, 3)
    }


def write_partition_metadata(topic_id: uuid.UUID) -> str:
    encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"version: {_VERSION}\ntopic_id: {encoded}"


def read_partition_metadata(data: bytes) -> uuid.UUID:
    """The topic's id. Raises CorruptFile."""
    found = {}
    for line, text in enumerate(_text(PARTITION_METADATA, data), 1):
        name, colon, value = text.partition(": ")
        if not colon:
            raise CorruptFile(PARTITION_METADATA, line, f"{text!r} is no `name: value`")
        found[name] = (line, value.strip())
    for name in ("version", "topic_id"):
        if name not in found:
            raise CorruptFile(PARTITION_METADATA, len(found) + 1, f"{name} is missing")
    line, version = found["version"]
    if version != _VERSION:
        raise CorruptFile(PARTITION_METADATA, line, f"version {version!r}, only {_VERSION} is known")
    line, encoded = found["topic_id"]
    try:
        return uuid.UUID(bytes=base64.b64decode(encoded + "==", altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise CorruptFile(PARTITION_METADATA, line, f"{encoded!r} is no topic id") from None


def _written(entries: list[str]) -> str:
    return "".join(f"{line}\n" for line in (_VERSION, len(entries), *entries))


def _text(kind: str, data: bytes) -> list[str]:
    try:
        return data.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptFile(kind, data.count(b"\n", 0, error.start) + 1, "not UTF-8") from None


def _lines(kind: str, data: bytes, words: int) -> list[tuple[int, list[str]]]:
    """The entries with their line numbers."""
    lines = _text(kind, data)
    if lines[0] != _VERSION:
        raise CorruptFile(kind, 1, f"version {lines[0]!r}, only {_VERSION} is known")
    count = _number(kind, 2, lines[1] if len(lines) > 1 else "")
    if count != len(lines) - 2:
        raise CorruptFile(kind, 2, f"{count} entries are announced, {len(lines) - 2} are there")
    split = [(number, line.split()) for number, line in enumerate(lines[2:], 3)]
    for number, found in split:
        if len(found) != words:
            raise CorruptFile(kind, number, f"{len(found)} words where an entry has {words}")
    return split


def _epoch(line: int, word: str) -> int:
    epoch = _number(LEADER_EPOCHS, line, word)
    if epoch > _INT32_MAX:
        raise CorruptFile(LEADER_EPOCHS, line, f"{word!r} is not a leader epoch from 0 to 2^31 - 1")
    return epoch


def _number(kind: str, line: int, word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 20 and int(word) <= _INT64_MAX):
        raise CorruptFile(kind, line, f"{word!r} is not a number from 0 to 2^63 - 1")
    return int(word)
