"""Requests to the control of a running `fencepost broker` or `fencepost proxy`, within a deadline.

If the control refuses a request, `ask` raises a CommandError with the control's text.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from fencepost.broker_stub.network.addresses import TOKEN_VARIABLE
from fencepost.cli.error_lines import CommandError
from fencepost.cli.options import TIMEOUT_S
from fencepost.cli.waiting import waiting
from fencepost.producer.wire.errors import NO_JSON

VARIABLE: Final = "FENCEPOST_CONTROL"
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
HOW: Final = "`fencepost broker --control PORT` and `fencepost proxy ... --control PORT` print its URL"


class Place(NamedTuple):
    """The URL of a control without its token, so that messages can show it; `token` is empty if there is none."""

    url: str
    token: str


def control_from(option: str | None) -> Place:
    """The given URL, or the environment's; http:// may be left out. The token is in the URL or in the environment."""
    given = option or os.environ.get(VARIABLE)
    if not given:
        raise CommandError(f"no control is named: give --control URL, or set {VARIABLE}; {HOW}")
    url = given if "://" in given else f"http://{given}"
    try:
        split = urlsplit(url)
        usable = split.scheme == "http" and split.hostname and split.port
    except ValueError:
        usable = None
    before, at, address = url.rpartition("@")
    if not usable:
        raise CommandError(f"--control {given.rpartition('@')[2]!r} is not http://HOST:PORT; {HOW}")
    token = unquote(before.rpartition(":")[2]) if at else os.environ.get(TOKEN_VARIABLE, "")
    if not (token.isascii() and token.isprintable()):
        raise CommandError(f"the token for the control at {address} is not valid: only letters, digits and -._~ are possible")
    return Place((f"http://{address}" if at else url).rstrip("/"), token)


def ask(control: Place, method: str, path: str, shape: object, body: object = None) -> Any:
    """The answer to one request. It has at least the keys of `shape` (a TypedDict)."""
    status, said = _said(control, method, path, None if body is None else msgspec.json.encode(body))
    if not 200 <= status < 300:  # a redirection, too: following it would send the token to another server
        raise CommandError(_refusal(control, said, status))
    try:
        told = msgspec.json.decode(said)
        msgspec.convert(told, shape)
    except NO_JSON:
        raise CommandError(f"--control {control.url}: the server there is not a fencepost control; {HOW}") from None
    return told


def _said(control: Place, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
    """Status and body, complete within TIMEOUT_S. It ignores the environment's HTTP proxies: the control is on this machine or near it."""
    split = urlsplit(control.url)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {control.token}"} if control.token else {})
    connection = HTTPConnection(split.hostname or "", split.port, timeout=TIMEOUT_S)
    late = threading.Event()

    def give_up(sock: socket.socket) -> None:
        late.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    try:
        with waiting(f"an answer from the control {control.url}", TIMEOUT_S):
            connection.connect()
            # The socket's timeout starts again with each byte.
            limit = threading.Timer(TIMEOUT_S, give_up, (connection.sock,))
            limit.daemon = True
            limit.start()
            try:
                connection.request(method, f"{split.path}{path}", data, headers)
                answer = connection.getresponse()
                said = answer.read(ANSWER_BYTES_MAX)
            finally:
                limit.cancel()
            if late.is_set():
                raise TimeoutError
            return answer.status, said
    except (OSError, HTTPException) as error:
        reason = f"it did not answer within {TIMEOUT_S:g} s" if late.is_set() else str(error) or type(error).__name__
        raise CommandError(f"--control {control.url}: {reason}; {HOW}") from None
    finally:
        connection.close()


def _refusal(control: Place, body: bytes, status: int) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (*NO_JSON, KeyError, TypeError):
        return f"--control {control.url}: the server there (HTTP {status}) is not a fencepost control; {HOW}"
