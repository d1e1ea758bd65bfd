"""Output of the commands on standard output and standard error. All text reaches the terminal through this module.

Names, keys, reasons and errors can come from other parties. The module escapes bytes that are not UTF-8, control characters, and invisible
ones (bidirectional, zero-width), as Python and C do; in JSON as JSON does. No information is lost. `console` does the same for rich's
output. The module imports nothing heavy, so that `fencepost broker` starts fast.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from types import TracebackType

from fencepost.producer.foundations.printable import printable as printable


def say(*lines: str) -> None:
    """Print lines on standard output, and flush."""
    # Each with its end in one piece, here and in `warn`: `print` would add the end in a second one, and another thread could come between.
    print("\n".join(map(printable, lines)) + "\n", end="", flush=True)


def warn(text: str) -> None:
    """A line on standard error."""
    print(printable(text) + "\n", end="", file=sys.stderr, flush=True)


def say_json(value: object) -> None:
    """A line of JSON on standard output."""
    say(json_line(value))


def json_line(value: object) -> str:
    """JSON that is one line of printable characters."""
    import msgspec

    # Only strings contain unprintable characters: between values msgspec writes no white space but spaces.
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else "".join(each if each.isprintable() else _json_escaped(each) for each in text)


def shown(data: bytes | None) -> str:
    """Bytes from a topic as one line of printable characters; `null` for none."""
    return "null" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def as_json(data: bytes | None) -> object:
    """The text; an object with the bytes in base64 if they are not UTF-8; null for none."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def show_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A `sys.excepthook` that escapes the traceback, because its last line may quote foreign text."""
    print(crash_text(kind, error, trace), end="", file=sys.stderr)


def crash_text(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """A traceback."""
    import traceback

    return printable("".join(traceback.format_exception(kind, error, trace)), keep="\n")


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
