"""Asking the control of a running `fencepost broker` or `fencepost proxy`, within a deadline.

What is refused there is a Complaint here, in the words that came back.
"""

from __future__ import annotations

import os
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from broker_stub.spelling import TOKEN_VARIABLE
from fencepost.cli.complaints import Complaint
from fencepost.cli.waiting import waiting

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


class _Stay(HTTPRedirectHandler):
    """A token is for whom it was given to, not for whoever he names."""

    def redirect_request(self, *_: object) -> None:
        return None


def ask(control: Place, method: str, path: str, shape: object, body: object = None) -> Any:
    """The answer to one request, which has at least what `shape` (a TypedDict) names."""
    data = None if body is None else msgspec.json.encode(body)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {control.token}"} if control.token else {})
    try:
        request = Request(f"{control.url}{path}", data=data, method=method, headers=headers)
        # No proxy of the environment's: the control is on this machine or next to it.
        opener = build_opener(ProxyHandler({}), _Stay())
        with waiting(f"an answer from the control {control.url}", ASK_S), opener.open(request, timeout=ASK_S) as answer:
            told = msgspec.json.decode(answer.read(ANSWER_BYTES_MAX))
            msgspec.convert(told, shape)
            return told
    except HTTPError as error:
        raise Complaint(_refusal(control, error.read(ANSWER_BYTES_MAX), error.code)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Complaint(f"--control {control.url}: what answers there is no control of fencepost; {HOW}") from None
    except URLError as error:
        raise Complaint(f"--control {control.url}: {error.reason}; {HOW}") from None
    except (OSError, HTTPException) as error:
        raise Complaint(f"--control {control.url}: {str(error) or type(error).__name__}; {HOW}") from None


def _refusal(control: Place, body: bytes, status: int) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return f"--control {control.url}: what answers there (HTTP {status}) is no control of fencepost; {HOW}"
