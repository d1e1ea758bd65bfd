"""The position of a job, as its topic keeps it: key and value of a record that is committed with the records before the position.

The key is the job's name. The value is one JSON object. A value of an unknown format, or with missing or additional fields, is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta, Struct

from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.version import VERSION
from fencepost.txn.foundations.versioned_json import Format

__all__ = ["BadJobEntry", "JobEntry", "job_name"]

FORMAT: Final = 1
NAME_CHARS_MAX: Final = 200

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Moment = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
"""The end of the year 9999, the last that Python's calendar has."""
Text = Annotated[str, Meta(min_length=1)]


class BadJobEntry(Misuse, ValueError):
    """The value is no position of a job, or the name cannot be a job's."""


_VALUE: Final = Format(FORMAT, "position of a job", BadJobEntry)


class JobEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job has committed last. `position`: where its source continues, in the source's own form. `source`: the kind of source.
    `records`: how many records of the source the job has committed since it began. `topic`: where it writes, None if only a reset knows the
    job. `at_ms`: the time of the commit, in milliseconds since 1970 by the job's clock. `library`: the version of fencepost that wrote
    it."""

    job: Text
    position: Any
    source: Text
    records: Count
    topic: Text | None
    transactional_id: Text
    at_ms: Moment
    library: str = VERSION

    def dumps(self) -> bytes:
        """The value of the entry's record. Raises BadJobEntry for a position that JSON cannot hold."""
        try:
            return _VALUE.dumps(self)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise BadJobEntry(f"position={self.position!r:.300}: a position must be a value that JSON can hold: {error}") from None

    @classmethod
    def loads(cls, value: bytes) -> Self:
        """Read what `dumps` wrote. Raises BadJobEntry."""
        return _VALUE.loads(cls, value)


def job_name(name: object) -> str:
    """A legal name of a job. Raises BadJobEntry."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > NAME_CHARS_MAX:
        raise BadJobEntry(f"job={name!r:.300}: the name of a job is a printable text of 1 to {NAME_CHARS_MAX} characters")
    return name
