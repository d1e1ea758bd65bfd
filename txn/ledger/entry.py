"""An entry of the ledger: the newest written batch of a sink, committed in the transaction of its rows. Key and value of its record.

The key is the sink's name, for `write_once` followed by `#` and the job's name. The value is one JSON object. A value of an unknown format,
with missing or additional fields, or with values that no writer produces, is refused with BadLedgerEntry.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

import msgspec
from msgspec import Meta, Struct

from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.version import VERSION
from fencepost.txn.foundations.versioned_json import Format

__all__ = ["FORMAT", "BadLedgerEntry", "LedgerEntry", "LedgerPartition", "ledger_key"]

FORMAT: Final = 2
"""The value's format. A change of a field's meaning, or a new field, changes this number."""
OLDER: Final = (1,)
"""Format 1 did not contain the transactional id."""


class BadLedgerEntry(Misuse, ValueError):
    """The value is no ledger entry, or the name cannot be a sink's."""


_VALUE: Final = Format(FORMAT, "entry of a ledger", BadLedgerEntry, older=OLDER)

VALUE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The limit of an entry's value. Readers limit the memory for a batch, and must not skip an entry."""

JOB_MARK: Final = "#"
NAME_CHARS_MAX: Final = 1000

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Moment = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
"""The end of the year 9999, the last that Python's calendar has."""
Text = Annotated[str, Meta(min_length=1)]


class LedgerPartition(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a batch wrote to one partition: [topic, partition, records, first_offset], the last null if the broker did not tell it."""

    topic: Text
    partition: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    records: Count
    first_offset: Count | None


class LedgerEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A batch that was written. `query`: the id of the streaming query (`<checkpoint>/metadata`), None for `write_once`, where `job` names
    the job and `batch` is its version. `fingerprint`: a digest of the batch's source offsets, None if they could not be read. `at_ms`: the
    time of the write, in milliseconds since 1970 by the writer's clock. `library`: the version of fencepost that wrote it.
    `transactional_id`: that of its transaction, None if an earlier version wrote it without."""

    sink: Text
    query: str | None
    batch: Count
    fingerprint: Text | None
    rows: Count
    partitions: tuple[LedgerPartition, ...] = ()
    job: Text | None = None
    at_ms: Moment
    library: str = VERSION
    transactional_id: Text | None = None

    @property
    def key(self) -> str:
        """The key of the entry's record."""
        return ledger_key(self.sink, self.job)

    def dumps(self) -> bytes:
        """The value of the entry's record. Raises BadLedgerEntry for values that `loads` would refuse."""
        try:
            value = _VALUE.dumps(self)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise BadLedgerEntry(f"no entry of a ledger: {error}") from None
        if len(value) > VALUE_BYTES_MAX:
            raise BadLedgerEntry(
                f"an entry of {len(value)} bytes, for {counted(len(self.partitions), 'partition')}: at most {VALUE_BYTES_MAX} are read"
            )
        self.loads(value)
        return value

    @classmethod
    def loads(cls, value: bytes) -> Self:
        """Read what `dumps` wrote. Raises BadLedgerEntry."""
        entry = _VALUE.loads(cls, value)
        ledger_key(entry.sink, entry.job)
        return entry


def ledger_key(sink: str, job: str | None = None) -> str:
    """The key of the entry of a sink, or of a job in it. Raises BadLedgerEntry for names that could be taken for others."""
    if not _is_text(sink) or JOB_MARK in sink:
        raise BadLedgerEntry(f"sink={sink!r}: a text that is not empty and has no {JOB_MARK!r}")
    if job is not None and not _is_text(job):
        raise BadLedgerEntry(f"job={job!r}: a text that is not empty")
    key = sink if job is None else f"{sink}{JOB_MARK}{job}"
    if len(key) > NAME_CHARS_MAX:
        raise BadLedgerEntry(f"sink={sink!r:.60}: with its job {len(key)} characters, at most {NAME_CHARS_MAX} may be")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise BadLedgerEntry(f"sink={sink!r}, job={job!r}: a text that UTF-8 can hold") from None
    return key


def _is_text(given: object) -> bool:
    return isinstance(given, str) and bool(given)
