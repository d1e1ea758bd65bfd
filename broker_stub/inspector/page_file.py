"""The page as one HTML file: its parts from the package, joined, with a moment inside or without one.

The file loads nothing. Its Content-Security-Policy allows only its own script and style, and a live page also its own server.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

import msgspec

SCRIPTS: Final = ("dom.js", "state.js", "overview.js", "lanes.js", "exchanges.js", "views.js", "main.js")
TITLE: Final = "fencepost inspector"
_SPECIAL: Final = {b"<": b"\\u003c", b">": b"\\u003e", b"&": b"\\u0026"}
"""What could end the element in which the data is. In JSON they stand only in texts."""


def live_page() -> bytes:
    """The page that asks its server."""
    return _page("null", TITLE, connects="'self'")


def shared_page(moment: dict[str, Any], *, title: str = TITLE) -> bytes:
    """The page with that moment inside, as a file."""
    data = msgspec.json.encode(moment)
    for character, spelled in _SPECIAL.items():
        data = data.replace(character, spelled)
    return _page(data.decode(), title, connects="'none'")


def policy(*, connects: str) -> str:
    """The Content-Security-Policy."""
    return (
        f"default-src 'none'; script-src '{_digest(_script())}'; style-src 'self' 'unsafe-inline'; connect-src {connects}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _page(data: str, title: str, *, connects: str) -> bytes:
    parts = {"CSP": policy(connects=connects), "TITLE": escape(title), "STYLE": _read("style.css"), "DATA": data, "SCRIPT": _script()}
    before, *rest = _read("page.html").split("%")
    pieces = [before]
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        pieces += [parts[name], text]
    return "".join(pieces).encode()


@cache
def _script() -> str:
    return '"use strict";(() => {\n' + "".join(map(_read, SCRIPTS)) + "})();\n"


@cache
def _read(name: str) -> str:
    return (files("fencepost.broker_stub.inspector") / "page" / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"
