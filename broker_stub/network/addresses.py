"""Addresses as text: HOST:PORT, with brackets around an IPv6 literal; and text from outside, made safe to print. It resolves nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PORT_MAX: Final = 65_535
TOKEN_VARIABLE: Final = "FENCEPOST_CONTROL_TOKEN"
"""The environment variable with the token of a control. It stands here because both the server and the client import this file cheaply."""


def spelled(host: str, port: int) -> str:
    """The address as clients take it: HOST:PORT."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def all_spelled(addresses: Iterable[tuple[str, int]]) -> str:
    """Several addresses, with commas between them."""
    return ",".join(spelled(host, port) for host, port in addresses)


def printable(text: str, *, longest: int = 200) -> str:
    """Text from outside for a terminal: escapes control and invisible characters, and cuts long text."""
    shown = text if text.isprintable() else "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown if len(shown) <= longest else f"{shown[:longest]}..."


def read_address(text: str) -> tuple[str, int]:
    """Host without brackets, and port. Raises ValueError for anything else."""
    host, _, port = text.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise ValueError(f"{text!r} is not HOST:PORT with a port from 1 to {PORT_MAX}")
    if (":" in bare) != (bare != host):
        raise ValueError(f"{text!r} is not HOST:PORT: write brackets around an IPv6 address, and around nothing else")
    return bare, int(port)
