"""The errors with which a job ends. Each leaves the job's position at the first record that is not committed."""

from __future__ import annotations

from functools import partial
from typing import Final

from fencepost.producer.errors import FencepostError

__all__ = ["BadRecord", "JobFailed", "SourceChanged"]


class JobFailed(FencepostError):
    """The job cannot continue. Nothing is lost: its next run continues at its position."""


class SourceChanged(JobFailed):
    """The source is not the one that the job has read: a file was truncated or replaced, or the job has another kind of source now. Nothing
    was read from it."""


class BadRecord(JobFailed):
    """A record of the source cannot be written, and the job has no topic for dead letters. `place`: where the record is. `attempts`: how
    many times the transform was tried. `__cause__`: the last error, if there is one. Everything before the record is committed."""

    def __init__(self, reason: str, *, place: str, attempts: int = 1) -> None:
        self.reason: Final = reason
        self.place: Final = place
        self.attempts: Final = attempts
        super().__init__(
            f"{place}: {reason}. Everything before this record is committed. Correct the record or the transform and run the job again, or"
            ' set dead_letters="<topic>" for such records'
        )

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), place=self.place, attempts=self.attempts), (self.reason,)
