"""Asking the control of a running `fencepost broker` or `fencepost proxy`, within a deadline.

What is refused there is a Complaint here, in the words that came back.
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
from fencepost.cli.complaints import Complaint
from fencepost.cli.waiting import waiting
from fencepost.producer.wire.errors import NO_JSON

ASK_S: Final = 15.0
VARIABLE: Final = "FENCEPOST_CONTROL"
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
HOW: Final = "`fencepost broker --control PORT` and `fencepost proxy ... --control PORT` print its URL"


class Place(NamedTuple):
    """Where a control is, without the token, which is for nobody's eyes; `token` is empty for none."""

    url: str
    token: str


def control_from(option: str | None) -> Place:
    """The URL given, or that of the environment; http:// may be left out. The token stands in it, or in the environment."""
    given = option or os.environ.get(VARIABLE)
    if not given:
        raise Complaint(f"no control is named: give --control URL, or set {VARIABLE}; {HOW}")
    url = given if "://" in given else f"http://{given}"
    try:
        split = urlsplit(url)
        usable = split.scheme == "http" and split.hostname and split.port
    except ValueError:
        usable = None
    before, at, address = url.rpartition("@")
    if not usable:
        raise Complaint(f"--control {given.rpartition('@')[2]!r} is not http://HOST:PORT; {HOW}")
    token = unquote(before.rpartition(":")[2]) if at else os.environ.get(TOKEN_VARIABLE, "")
    if not (token.isascii() and token.isprintable()):
        raise Complaint(f"the token for the control at {address} is none: it has letters, digits and -._~")
    return Place((f"http://{address}" if at else url).rstrip("/"), token)


def ask(control: Place, method: str, path: str, shape: object, body: object = None) -> Any:
    """The answer to one request, which has at least what `shape` (a TypedDict) names."""
    status, said = _said(control, method, path, None if body is None else msgspec.json.encode(body))
    if not 200 <= status < 300:  # a redirection, too: a token is for whom it was given to, not for whoever he names
        raise Complaint(_refusal(control, said, status))
    try:
        told = msgspec.json.decode(said)
        msgspec.convert(told, shape)
    except NO_JSON:
        raise Complaint(f"--control {control.url}: what answers there is no control of fencepost; {HOW}") from None
    return told


def _said(control: Place, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
    """Status and body, whole within ASK_S. No proxy of the environment's is asked: the control is on this machine or next to it."""
    split = urlsplit(control.url)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {control.token}"} if control.token else {})
    connection = HTTPConnection(split.hostname or "", split.port, timeout=ASK_S)
    late = threading.Event()

    def give_up(link: socket.socket) -> None:
        late.set()
        with suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)

    try:
        with waiting(f"an answer from the control {control.url}", ASK_S):
            connection.connect()
            # A timeout of the socket's begins anew with each byte.
            limit = threading.Timer(ASK_S, give_up, (connection.sock,))
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
        reason = f"it did not answer within {ASK_S:g} s" if late.is_set() else str(error) or type(error).__name__
        raise Complaint(f"--control {control.url}: {reason}; {HOW}") from None
    finally:
        connection.close()


def _refusal(control: Place, body: bytes, status: int) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (*NO_JSON, KeyError, TypeError):
        return f"--control {control.url}: what answers there (HTTP {status}) is no control of fencepost; {HOW}"
