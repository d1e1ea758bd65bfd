"""Prints the entries of one file of a log. The fields have the names that kafka-dump-log prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from fencepost.broker_stub.log.checkpoint_text import (
    LEADER_EPOCHS,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    read_leader_epochs,
    read_offsets,
    read_partition_metadata,
)
from fencepost.broker_stub.log.errors import CorruptFile, CorruptSnapshot
from fencepost.broker_stub.log.index_entries import read_offset_index, read_time_index, read_txn_index
from fencepost.broker_stub.log.producer_snapshot import read_snapshot
from fencepost.cli.error_lines import CommandError
from fencepost.cli.log_batches import StoredBatch, base_offset_of, batches_in
from fencepost.cli.output import as_json, say, say_json, shown, warn
from fencepost.producer.wire.records import ControlType, CorruptBatch, read_marker, read_records

Row = dict[str, Any]


def dump_file(path: Path, *, records: bool, json: bool) -> bool:
    """Print the file's entries. Returns whether it is whole."""
    if path.is_dir():
        raise CommandError(f"{path}: it is a directory: give .log, index or checkpoint files; `log verify` takes a directory")
    if path.exists() and not path.is_file():
        raise CommandError(f"{path}: it is no regular file")
    if not json:
        say(f"Dumping {path}")
    whole = True
    try:
        for row in _rows(path, records):
            whole = whole and row.get("isvalid", True)
            say_json({"file": str(path), **row}) if json else say(_line(row))
    except (CorruptFile, CorruptSnapshot) as error:
        warn(f"{path}: {error}")
        return False
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    return whole


def _rows(path: Path, records: bool) -> Iterator[Row]:
    by_suffix = _BY_SUFFIX.get(path.suffix)
    if path.suffix == ".log":
        return _batches(path, records)
    reader = by_suffix or _BY_NAME.get(path.name)
    if reader is None:
        kinds = ", ".join((".log", *_BY_SUFFIX, *_BY_NAME))
        raise CommandError(f"{path}: the name tells no kind of log file; known are {kinds}")
    return reader(path)


def _line(row: Row) -> str:
    """The row as `name: value`. A record is behind its batch."""
    inside = "| " if "keySize" in row else ""
    return inside + " ".join(f"{name}: {_text(value)}" for name, value in row.items())


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return shown(value) if isinstance(value, bytes) or value is None else str(value)


def _batches(path: Path, records: bool) -> Iterator[Row]:
    if path.stem.isdigit():
        base_offset_of(path)
    for batch in batches_in(path):
        yield _batch(batch)
        if records:
            try:
                yield from _records(batch)
            except CorruptBatch as error:
                raise CorruptFile("log", batch.position, str(error)) from None


def _batch(batch: StoredBatch) -> Row:
    header = batch.header
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.records_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": batch.position,
        _TIME_NAMES[header.timestamp_type]: header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": batch.codec,
        "crc": header.crc,
        "isvalid": batch.is_valid,
    }


_TIME_NAMES: Final = ("CreateTime", "LogAppendTime")


def _records(batch: StoredBatch) -> Iterator[Row]:
    header = batch.header
    for record in read_records(batch.data):
        row: Row = {
            "offset": record.offset,
            _TIME_NAMES[header.timestamp_type]: record.timestamp,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
        }
        if not header.is_control:
            row |= {
                "sequence": record.sequence,
                "headers": [[name, as_json(value)] for name, value in record.headers],
                "key": as_json(record.key),
                "payload": as_json(record.value),
            }
        else:
            kind, coordinator_epoch, _ = read_marker(batch.data)
            if kind in (ControlType.ABORT, ControlType.COMMIT):
                row |= {"endTxnMarker": ControlType(kind).name, "coordinatorEpoch": coordinator_epoch}
            else:
                row["controlType"] = ControlType(kind).name if kind in list(ControlType) else kind
        yield row


def _offset_index(path: Path) -> Iterator[Row]:
    for offset, position in read_offset_index(base_offset_of(path), path.read_bytes()):
        yield {"offset": offset, "position": position}


def _time_index(path: Path) -> Iterator[Row]:
    for timestamp, offset in read_time_index(base_offset_of(path), path.read_bytes()):
        yield {"timestamp": timestamp, "offset": offset}


def _txn_index(path: Path) -> Iterator[Row]:
    for txn in read_txn_index(path.read_bytes()):
        yield {
            "version": 0,
            "producerId": txn.producer_id,
            "firstOffset": txn.first_offset,
            "lastOffset": txn.last_offset,
            "lastStableOffset": txn.last_stable_offset,
        }


def _snapshot(path: Path) -> Iterator[Row]:
    for producer_id, entry in read_snapshot(path.read_bytes()).items():
        row: Row = {
            "producerId": producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.txn_first_offset,
            "lastTimestamp": entry.last_timestamp,
        }
        for batch in entry.batches:
            row |= {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield row


def _leader_epochs(path: Path) -> Iterator[Row]:
    for epoch, start in read_leader_epochs(path.read_bytes()):
        yield {"epoch": epoch, "startOffset": start}


def _offsets(path: Path, kind: str) -> Iterator[Row]:
    for (topic, partition), offset in read_offsets(kind, path.read_bytes()).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _partition_metadata(path: Path) -> Iterator[Row]:
    yield {"version": 0, "topicId": str(read_partition_metadata(path.read_bytes()))}


_Reader = Callable[[Path], Iterator[Row]]
_BY_SUFFIX: Final[dict[str, _Reader]] = {
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _txn_index,
    ".snapshot": _snapshot,
}
_BY_NAME: Final[dict[str, _Reader]] = {
    LEADER_EPOCHS: _leader_epochs,
    PARTITION_METADATA: _partition_metadata,
    **{kind: partial(_offsets, kind=kind) for kind in OFFSET_CHECKPOINTS},
}
