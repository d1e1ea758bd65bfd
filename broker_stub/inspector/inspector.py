"""`Inspector`: the page of a stub or a proxy on this computer, live; and the same page as a file.

It listens only on 127.0.0.1, and only its own page may use it through a browser. It has its own thread. While a page is open it takes a
snapshot on the cluster's thread a few times a second, and none while no page is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from http import HTTPStatus
from os import PathLike
from pathlib import Path
from typing import Any, Final

from fencepost.broker_stub.arguments import check_arguments
from fencepost.broker_stub.faults.specs import add_fault
from fencepost.broker_stub.inspector.moments import Moments, as_event, encoded
from fencepost.broker_stub.inspector.page_file import live_page, policy, shared_page
from fencepost.broker_stub.inspector.source import Source
from fencepost.broker_stub.network.addresses import spelled
from fencepost.broker_stub.network.http import File, HttpError, HttpServer, Request, Stream, refusing
from fencepost.broker_stub.network.http_thread import HttpThread, Served

HOST: Final = "127.0.0.1"
TICK_S: Final = 0.4
SILENCE_S: Final = 5.0
"""After so much silence a stream gets a comment, which finds clients that have gone."""
PAGES_MAX: Final = 8
HTML: Final = "text/html; charset=utf-8"

Told = tuple[HTTPStatus, Any]


def share(source: Source, file: str | PathLike[str], *, at_end: bool = False) -> Path:
    """Writes this moment as one HTML file. `at_end`: see `findings`. OSError if that fails."""
    path = Path(file)
    path.write_bytes(shared_page(Moments(source, at_end=at_end).whole()))
    return path


class Inspector(Served):
    """Serves while it is started; `port` 0 takes a free one. OSError for a port in use."""

    def __init__(self, source: Source, *, port: int = 0) -> None:
        check_arguments(port=port)
        self._source = source
        self._moments = Moments(source)
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._http = HttpThread("inspector", lambda: HttpServer(self._answer, has_page=True), host=HOST, port=port)

    def __repr__(self) -> str:
        return f"Inspector(url={self.url!r})" if self._http.has_started and not self._http.once.closed else "Inspector(url=None)"

    @property
    def url(self) -> str:
        """The page's address. RuntimeError before the start and after `close`."""
        self._http.once.check_open()
        if not self._http.has_started:
            raise RuntimeError("the inspector has not started, so its port is not known: call start()")
        return f"http://{spelled(HOST, self._http.port)}/"

    # -- requests, each in a thread of its own -----------------------------------------------------------------------------

    def _answer(self, request: Request) -> Told:
        for (method, pattern), route in ROUTES.items():
            arguments = request.arguments(pattern) if method == request.method else None
            if arguments is not None:
                with refusing():
                    return route(self, request, arguments)
        raise HttpError(HTTPStatus.NOT_FOUND, f"{request.method[:20]} {request.path[:100]}: the page does not ask for that")

    def _page(self, request: Request, arguments: list[str]) -> Told:
        headers = (
            f"Content-Security-Policy: {policy(connects=chr(39) + 'self' + chr(39))}; frame-ancestors 'none'",
            "Cache-Control: no-store",
        )
        return HTTPStatus.OK, File(live_page(), HTML, headers)

    def _events(self, request: Request, arguments: list[str]) -> Told:
        if len(self._pages) >= PAGES_MAX:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"{PAGES_MAX} pages are open already: close one")
        return HTTPStatus.OK, Stream(self._news)

    def _moment(self, request: Request, arguments: list[str]) -> Told:
        return HTTPStatus.OK, self._moments.whole()

    def _share(self, request: Request, arguments: list[str]) -> Told:
        moment = Moments(self._source).whole()
        name = f"fencepost-{moment['taken'].replace(':', '').replace('+0000', 'Z')}.html"
        return HTTPStatus.OK, File(shared_page(moment), HTML, (f'Content-Disposition: attachment; filename="{name}"',))

    def _records(self, request: Request, arguments: list[str]) -> Told:
        if self._source.records is None:
            raise KeyError("a proxy has no records of its own: read them with `fencepost consume`")
        query = request.query
        numbers = [query.get(name, "") for name in ("partition", "offset")]
        if not all(each.isascii() and each.isdigit() and len(each) < 19 for each in numbers):
            raise ValueError(f"partition={numbers[0][:20]}, offset={numbers[1][:20]}: whole numbers from 0 on")
        partition, offset = map(int, numbers)
        return HTTPStatus.OK, {"records": self._source.records(query.get("topic", ""), partition, offset)}

    def _add_fault(self, request: Request, arguments: list[str]) -> Told:
        return HTTPStatus.CREATED, add_fault(self._source.faults, request.body).as_data()

    def _remove_fault(self, request: Request, arguments: list[str]) -> Told:
        self._fault(arguments[0]).remove()
        return HTTPStatus.OK, {}

    def _remove_faults(self, request: Request, arguments: list[str]) -> Told:
        self._source.faults.clear()
        return HTTPStatus.OK, {}

    def _release(self, request: Request, arguments: list[str]) -> Told:
        self._fault(arguments[0]).release()
        return HTTPStatus.OK, {}

    def _fault(self, given: str) -> Any:
        for fault in self._source.faults.installed:
            if str(fault.id) == given:
                return fault
        raise KeyError(f"there is no fault {given[:20]} any more")

    # -- the stream of each page, on the loop ------------------------------------------------------------------------------

    async def _news(self) -> AsyncGenerator[bytes, None]:
        if len(self._pages) >= PAGES_MAX:
            return  # Several asked at the same time. Its browser asks again and is told so.
        news: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=16)
        self._pages.add(news)
        try:
            yield as_event(await asyncio.to_thread(lambda: encoded(self._moments.whole())))
            if self._ticking is None or self._ticking.done():
                self._ticking = asyncio.get_running_loop().create_task(self._tick())
            while True:
                try:
                    async with asyncio.timeout(SILENCE_S):
                        event = await news.get()
                except TimeoutError:
                    event = b": still here\n\n"
                if event is None:
                    return  # it reads too slowly; its browser asks again and gets everything
                yield event
        finally:
            self._pages.discard(news)

    async def _tick(self) -> None:
        """Sends what is new to every page, until the last one is closed."""
        while self._pages:
            await asyncio.sleep(TICK_S)
            try:
                moment = await asyncio.to_thread(self._moments.news)
            except (RuntimeError, TimeoutError):  # the stub is closed, or it is busy
                continue
            if moment is None:
                continue
            event = as_event(encoded(moment))
            for page in self._pages:
                if page.full():
                    with suppress(asyncio.QueueEmpty):
                        while True:
                            page.get_nowait()
                    page.put_nowait(None)
                else:
                    page.put_nowait(event)


Route = Callable[[Inspector, Request, list[str]], Told]
ROUTES: Final[dict[tuple[str, str], Route]] = {
    ("GET", "/"): Inspector._page,
    ("GET", "/events"): Inspector._events,
    ("GET", "/moment"): Inspector._moment,
    ("GET", "/share"): Inspector._share,
    ("GET", "/records"): Inspector._records,
    ("POST", "/faults"): Inspector._add_fault,
    ("DELETE", "/faults"): Inspector._remove_faults,
    ("DELETE", "/faults/{id}"): Inspector._remove_fault,
    ("POST", "/faults/{id}/release"): Inspector._release,
}
"""The method and path of each request that the page makes."""
