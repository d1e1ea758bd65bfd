"""Regular expressions to which members subscribe. Kafka uses RE2/J; this is Python's `re`, without what RE2 does not know.

A topic must match as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

REGEX_MIN_INTERVAL_MS: Final = 10_000
"""A group's regular expressions are not resolved again before."""

_UNKNOWN_TO_RE2: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\((\?(?:[=!>]|<[=!]))|(\\[1-9]))")
_SAID_BY_RE2: Final = {
    "unterminated character set": "missing closing ]",
    "missing ), unterminated subpattern": "missing closing )",
    "unbalanced parenthesis": "regexp/syntax: internal error",
    "nothing to repeat": "missing argument to repetition operator",
    "multiple repeat": "invalid nested repetition operator",
    "bad escape (end of pattern)": "trailing backslash at end of expression",
}
"""RE2's words for Python's."""


def regex_problem(regex: str) -> str | None:
    """What is wrong with it, in RE2's words. None: it can be used."""
    unknown = _UNKNOWN_TO_RE2.search(regex)
    if unknown is not None:
        return "invalid or unsupported Perl syntax" if unknown[1] else "invalid escape sequence"
    try:
        re.compile(regex)
    except re.error as error:
        return _SAID_BY_RE2.get(error.msg, error.msg)
    except (OverflowError, RecursionError):
        return "invalid repeat count"
    return None


def matching(regex: str, topics: Iterable[str]) -> list[str]:
    """The topics that match, sorted."""
    pattern = re.compile(regex)
    return sorted(topic for topic in topics if pattern.fullmatch(topic))
