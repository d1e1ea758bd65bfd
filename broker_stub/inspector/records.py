"""Some records of a log for the page: texts where keys and values are texts, otherwise bytes in hexadecimal digits, both cut."""

from __future__ import annotations

from typing import Any, Final

from fencepost.broker_stub.log import PartitionLog
from fencepost.producer.wire.records import CorruptBatch, Record, read_records

RECORDS_MAX: Final = 50
BYTES_MAX: Final = 256
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024


def records_from(log: PartitionLog, offset: int) -> list[dict[str, Any]]:
    """The records from that offset on, also those of open and aborted transactions, without markers."""
    found: list[dict[str, Any]] = []
    for header, batch in log.batches_from(max(offset, log.log_start_offset)):
        if header.is_control:
            continue
        try:
            records = read_records(batch, limit=BATCH_BYTES_MAX)
        except CorruptBatch as error:
            found.append(
                {
                    "offset": header.base_offset,
                    "timestamp": header.max_timestamp,
                    "key": None,
                    "value": f"unreadable: {error}",
                    "headers": [],
                }
            )
            records = []
        found += [_shown(each) for each in records if each.offset >= offset]
        if len(found) >= RECORDS_MAX:
            break
    return found[:RECORDS_MAX]


def _shown(record: Record) -> dict[str, Any]:
    headers = [[name, text_of(value) or ""] for name, value in record.headers[:10]]
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": headers,
    }


def text_of(content: bytes | None) -> str | None:
    """The content as text if it is UTF-8, else its bytes in hexadecimal digits. None for null."""
    if content is None:
        return None
    part = bytes(content[:BYTES_MAX])
    try:
        text = part.decode()
    except UnicodeDecodeError:
        text = f"0x{part.hex()}"
    return text if len(content) <= BYTES_MAX else f"{text}... ({len(content)} bytes)"
