"""Bytes from a topic as text that does no harm to a terminal, or as JSON that says what it is.

Nothing is lost: what is no UTF-8, and whatever a terminal might obey, is escaped as Python and C do; JSON has it in base64.
"""

from __future__ import annotations

from base64 import b64encode


def shown(data: bytes | None) -> str:
    """One line of printable characters; `null` for none."""
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(each if each.isprintable() else _escaped(each) for each in text)


def as_json(data: bytes | None) -> object:
    """The text, an object with the bytes in base64 where they are no text, null for none."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
