"""The struct of a finding of `fencepost doctor`."""

from __future__ import annotations

import enum

import msgspec


class Verdict(enum.Enum):
    """What a finding means for a producer. NONE: not checked, and the text says why."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    NONE = "-"


class Finding(msgspec.Struct, frozen=True):
    """One row of the list."""

    verdict: Verdict
    subject: str
    words: str
