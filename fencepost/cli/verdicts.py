"""What a finding of `fencepost doctor` is. It decides nothing."""

from __future__ import annotations

import enum

import msgspec


class Verdict(enum.Enum):
    """What it means for a producer. NONE: that was not looked at, and the words say why."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    NONE = "-"


class Finding(msgspec.Struct, frozen=True):
    """One row of the list."""

    verdict: Verdict
    subject: str
    words: str
