"""An HTTP API with pages for tests: its records, its faults, and what was asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlparse


class PagesServer:
    """Serves `records` in pages of `size`, at `/records?page=N`. `failures`: statuses to answer with first. `asked`: the pages that were
    asked for."""

    def __init__(self, records: list[Any], size: int = 100) -> None:
        self.records = records
        self.size = size
        self.failures: list[int] = []
        self.asked: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = int(parse_qs(urlparse(self.path).query).get("page", ["0"])[0])
                outer.asked.append(page)
                if outer.failures:
                    self.send_error(outer.failures.pop(0))
                    return
                begin = page * outer.size
                more = begin + outer.size < len(outer.records)
                body = json.dumps({"records": outer.records[begin : begin + outer.size], "next": page + 1 if more else None}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/records"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
