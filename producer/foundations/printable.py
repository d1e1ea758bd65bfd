"""Text of strangers as it may stand in an error, in a log line and on a terminal.

Brokers say what they like: names of hosts, error messages, states. Nothing is lost of them, but whatever a terminal might obey or nobody
would see (controls, new lines that begin a line of a log, bidirectional and zero-width characters) is escaped as Python does. `said` is for
where such words enter, errors pass all of theirs through `printable`.
"""

from __future__ import annotations

from typing import Final

SAID_CHARACTERS_MAX: Final = 1000


def printable(text: str, *, keep: str = "") -> str:
    """The same in printable characters, but for those to keep."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text)


def said(text: str | None, most: int = SAID_CHARACTERS_MAX) -> str:
    """A broker's words, as much of them as can be read in a message."""
    words = printable((text or "")[: most + 1])
    return words if len(words) <= most else f"{words[:most]}..."
