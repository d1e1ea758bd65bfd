"""Host names that resolve to the addresses that a test chooses. It changes only look-ups of these names; connections are the system's."""

from __future__ import annotations

import socket
from typing import Any

import pytest


def names(monkeypatch: pytest.MonkeyPatch, **addresses: list[str]) -> list[str]:
    """Let these host names resolve to these addresses. Return the names that were looked up."""
    asked: list[str] = []
    honest = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **options: Any) -> Any:
        if host not in addresses:
            return honest(host, *args, **options)
        asked.append(host)
        if not addresses[host]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = []
        for ip in addresses[host]:
            family = socket.AF_INET6 if ":" in ip else socket.AF_INET
            where: Any = (ip, 0, 0, 0) if ":" in ip else (ip, 0)
            found.append((family, socket.SOCK_STREAM, 6, "", where))
        return found

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked
