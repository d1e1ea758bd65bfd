"""Pages of an HTTP API as a source, by a token, a cursor or a page number that your functions choose.

It uses Python's own urllib, so proxies and certificates are those of the environment. The position is the page's token and how many of its
records are done. A later run asks for that page again, so the last page may get more records, and must keep those that it had.
"""

from __future__ import annotations

import http.client
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import Struct
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from fencepost.producer.errors import ConfigError
from fencepost.producer.foundations.printable import said
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.jobs.errors import SourceChanged
from fencepost.txn.jobs.source import ItemSource
from fencepost.txn.loop.checks import INT32_MAX, check_within

log = logging.getLogger("fencepost.job")

PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 10.0
AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""

Token = str | int | None


class PagePosition(Struct, frozen=True, array_like=True):
    """`token`: of the page, None for the first. `done`: how many of its records are done. `check`: the checksum of the last of them."""

    token: Token
    done: int = 0
    check: int = 0


class _Again(Exception):
    """The request failed in a way that may pass."""


class HttpPages(ItemSource):
    """Records of pages, from the first to the last.

        HttpPages(
            lambda cursor: f"https://api.example.com/orders?after={cursor or 0}",
            lambda page: (page["orders"], page.get("next")),
        )

    `request`: makes the URL, or a urllib Request with headers, of a page from its token, None for the first page. `read`: returns a page's
    records, and the token of the next page (a text or a whole number; None: this is the last). It gets the page's JSON, or what `decode`
    makes of its bytes. `timeout_s`: how long a request waits for the next bytes. `attempts`: how often a page is asked for, with growing
    pauses.

    Without a `transform` each record is sent as JSON. A later run asks for the last page again, and continues with the records that it got
    since.
    """

    kind = "pages"

    def __init__(
        self,
        request: Callable[[Any], str | urllib.request.Request],
        read: Callable[[Any], tuple[Sequence[Any], Token]],
        *,
        decode: Callable[[bytes], Any] = msgspec.json.decode,
        timeout_s: float = 30.0,
        attempts: int = 5,
    ) -> None:
        for name, function in (("request", request), ("read", read), ("decode", decode)):
            if not callable(function):
                raise ConfigError(f"{name}={function!r:.300}: it must be a function")
        check_within("attempts", attempts, 1, INT32_MAX)
        given: object = timeout_s
        if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
            raise ConfigError(f"timeout_s={timeout_s!r}: a number of seconds above 0")
        self._request = request
        self._read = read
        self._decode = decode
        self._timeout_s = timeout_s
        self._attempts = attempts

    def __repr__(self) -> str:
        return f"HttpPages({self._request!r})"

    def open(self, position: Any) -> Iterator[tuple[Any, PagePosition] | None]:
        """The records after this position, each with the position after it."""
        try:
            at = msgspec.convert(position, PagePosition) if position is not None else PagePosition(None)
        except msgspec.ValidationError as error:
            raise BadInput(f"position={position!r:.300} is no position in pages: {error}") from None
        while True:
            yield None  # The request may take long.
            items, following = self._page(at)
            for number, item in enumerate(items[at.done :], at.done + 1):
                is_end = number == len(items) and following is not None
                yield item, PagePosition(following) if is_end else PagePosition(at.token, number, _check(item))
            if following is None:
                return
            at = PagePosition(following)

    def to_record(self, item: Any) -> bytes:
        """The record of an item, if there is no transform."""
        return item if isinstance(item, bytes) else msgspec.json.encode(item)

    def _page(self, at: PagePosition) -> tuple[Sequence[Any], Token]:
        request = self._request(at.token)
        url = request.full_url if isinstance(request, urllib.request.Request) else request
        asking = Retrying(
            retry=retry_if_exception_type(_Again),
            stop=stop_after_attempt(self._attempts),
            wait=wait_random_exponential(multiplier=PAUSE_S, max=PAUSE_MAX_S),
            before_sleep=_say_again,
            reraise=True,
        )
        try:
            body: bytes = asking(self._ask, request, url)
        except _Again as error:
            raise InputBroken(f"{error} (attempts={self._attempts})") from error.__cause__
        try:
            page = self._decode(body)
        except ValueError as error:  # msgspec's errors are subclasses
            raise InputBroken(f"{said(url, 300)}: the page cannot be decoded: {error}") from error
        items, following = self._read(page)
        if at.done > len(items):
            raise SourceChanged(
                f"{said(url, 300)} has {len(items)} records, and the job has read {at.done} of them: a page may get more records, and must"
                " keep those that it had. To begin again: `fencepost jobs reset JOB --to-start --execute`"
            )
        if at.done and _check(items[at.done - 1]) != at.check:
            raise SourceChanged(
                f"{said(url, 300)}: record {at.done} is not the one that the job has read there. To begin again: `fencepost jobs reset JOB"
                " --to-start --execute`"
            )
        if following is not None and following == at.token:
            raise InputBroken(f"{said(url, 300)} names itself as the next page ({following!r:.100})")
        return items, following

    def _ask(self, request: str | urllib.request.Request, url: str) -> bytes:
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                body: bytes = answer.read(PAGE_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                words = f"{said(url, 300)}: HTTP {error.code} {said(str(error.reason), 100)}"
            raise (_Again if error.code in AGAIN else InputBroken)(words) from error
        except (OSError, http.client.HTTPException) as error:
            raise _Again(f"{said(url, 300)}: {said(str(error), 200)}") from error
        except ValueError as error:
            raise BadInput(f"request() returned {url!r:.300}: {error}") from None
        if len(body) > PAGE_BYTES_MAX:
            raise InputBroken(f"{said(url, 300)}: the page has more than {PAGE_BYTES_MAX >> 20} MiB")
        return body


def _check(item: Any) -> int:
    try:
        return crc32(item if isinstance(item, bytes) else msgspec.json.encode(item, order="sorted"))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return 0


def _say_again(state: RetryCallState) -> None:
    log.warning("%s; the page is asked for again", state.outcome.exception() if state.outcome is not None else "")
