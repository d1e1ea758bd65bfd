"""Asking the control of a running `fencepost broker` or `fencepost proxy`, within a deadline.

What is refused there is a Complaint here, in the words that came back.
"""

from __future__ import annotations

import os
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from fencepost.cli.complaints import Complaint

ASK_S: Final = 15.0
VARIABLE: Final = "FENCEPOST_CONTROL"
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
HOW: Final = "`fencepost broker --control PORT` and `fencepost proxy ... --control PORT` print its URL"


def control_from(option: str | None) -> str:
    """The URL given, or that of the environment; http:// may be left out."""
    given = option or os.environ.get(VARIABLE)
    if not given:
        raise Complaint(f"no control is named: give --control URL, or set {VARIABLE}; {HOW}")
    url = given if "://" in given else f"http://{given}"
    try:
        split = urlsplit(url)
        usable = split.scheme == "http" and split.hostname and split.port
    except ValueError:
        usable = None
    if not usable:
        raise Complaint(f"--control {given!r} is not http://HOST:PORT; {HOW}")
    return url.rstrip("/")


def ask(control: str, method: str, path: str, body: object = None) -> Any:
    """The answer to one request."""
    data = None if body is None else msgspec.json.encode(body)
    request = Request(f"{control}{path}", data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        # No proxy of the environment's: the control is on this machine or next to it.
        with build_opener(ProxyHandler({})).open(request, timeout=ASK_S) as answer:
            return msgspec.json.decode(answer.read(ANSWER_BYTES_MAX))
    except HTTPError as error:
        raise Complaint(_refusal(control, error.read(ANSWER_BYTES_MAX), error.code)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Complaint(f"--control {control}: what answers there is no control of fencepost; {HOW}") from None
    except URLError as error:
        raise Complaint(f"--control {control}: {error.reason}; {HOW}") from None
    except (OSError, HTTPException) as error:
        raise Complaint(f"--control {control}: {str(error) or type(error).__name__}; {HOW}") from None


def _refusal(control: str, body: bytes, status: int) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return f"--control {control}: what answers there (HTTP {status}) is no control of fencepost; {HOW}"
