"""Text from brokers and other peers, made safe for errors, log lines and terminals.

A broker can send any text: host names, error messages, states. Characters that do not print are escaped as in Python: controls, new lines,
bidirectional and zero-width characters. A terminal may obey them, and a reader cannot see them. Code that reads a broker's text calls
`said`. Every error passes its whole text through `printable`.
"""

from __future__ import annotations

from typing import Final

SAID_CHARACTERS_MAX: Final = 1000


def printable(text: str, *, keep: str = "") -> str:
    """The text with every other character escaped. `keep`: characters that stay as they are."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text)


def said(text: str | None, most: int = SAID_CHARACTERS_MAX) -> str:
    """A broker's text, printable and cut to `most` characters."""
    words = printable((text or "")[: most + 1])
    return words if len(words) <= most else f"{words[:most]}..."
