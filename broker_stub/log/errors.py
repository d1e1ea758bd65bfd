"""The errors of a log.

A client gets them as error codes. CorruptSnapshot and CorruptFile are for a reader of files.
"""

from __future__ import annotations

from fencepost.producer.wire.codes import ErrorCode, error_name

RecordErrors = tuple[tuple[int, str], ...]


class AppendRefused(Exception):
    """A refused append, which wrote nothing. `rule` is the row or check that refused it, such as D10 or V6. `record_errors` has (position
    in the batch, message) of each bad record.
    """

    def __init__(self, code: ErrorCode, message: str, *, rule: str, record_errors: RecordErrors = ()) -> None:
        super().__init__(f"{error_name(code)} ({rule}): {message}")
        self.code = code
        self.message = message
        self.rule = rule
        self.record_errors = record_errors


class OffsetOutOfRange(Exception):
    """A read below the log's start or above its end."""

    def __init__(self, offset: int, *, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is not within {log_start_offset} to {log_end_offset}")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class CorruptSnapshot(Exception):
    """Bytes that are no producer snapshot."""


class CorruptFile(Exception):
    """A file of a log that is not what its name says. `position`: of the byte, or of the line (from 1) in a text file."""

    def __init__(self, kind: str, position: int, reason: str) -> None:
        super().__init__(f"{kind}, position {position}: {reason}")
        self.kind = kind
        self.position = position
        self.reason = reason
