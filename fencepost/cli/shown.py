"""What the commands say, on standard output and standard error: the one place through which text reaches a terminal.

Names, keys, reasons and errors come from strangers. Nothing is lost of them: what is no UTF-8, and whatever a terminal might obey or nobody
would see (controls, bidirectional and zero-width characters), is escaped as Python and C do, in JSON as JSON does. `console` does the same
for what rich draws. It loads nothing, so that a broker of a script is up at once.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from types import TracebackType

from fencepost.producer.foundations.printable import printable as printable


def say(*lines: str) -> None:
    """Lines on standard output, there at once."""
    print("\n".join(map(printable, lines)), flush=True)


def warn(text: str) -> None:
    """A line on standard error."""
    print(printable(text), file=sys.stderr, flush=True)


def say_json(value: object) -> None:
    """A line of JSON on standard output."""
    say(json_line(value))


def json_line(value: object) -> str:
    """JSON that is one line of printable characters."""
    import msgspec

    # What is not printable stands in strings only: msgspec puts no white space but spaces between values.
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else "".join(each if each.isprintable() else _json_escaped(each) for each in text)


def shown(data: bytes | None) -> str:
    """Bytes from a topic as one line of printable characters; `null` for none."""
    return "null" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def as_json(data: bytes | None) -> object:
    """The text, an object with the bytes in base64 where they are no text, null for none."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def show_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """`sys.excepthook`, whose last line may quote a stranger."""
    print(crash_text(kind, error, trace), end="", file=sys.stderr)


def crash_text(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """A traceback."""
    import traceback

    return printable("".join(traceback.format_exception(kind, error, trace)), keep="\n")


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
