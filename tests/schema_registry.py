"""A stand-in for Confluent's Schema Registry: it registers and finds schemas over its HTTP API. It checks no compatibility."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/vnd.schemaregistry.v1+json"
NO_SUBJECT, NO_SCHEMA = 40401, 40403


class SchemaRegistry:
    """The schemas by id, and the ids of each subject in the order of their versions. `guid`: of every schema, if it is told."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.url = ""
        self.guid: str | None = None
        self._lock = threading.Lock()

    def register(self, subject: str, given: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            number = self._number(given) or len(self.schemas) + 1
            self.schemas[number] = given
            versions = self.subjects.setdefault(subject, [])
            if number not in versions:
                versions.append(number)
            return self._described(subject, number)

    def look_up(self, subject: str, given: dict[str, Any]) -> dict[str, Any] | int:
        """The schema in the subject, or the registry's error code."""
        with self._lock:
            if subject not in self.subjects:
                return NO_SUBJECT
            number = self._number(given)
            return self._described(subject, number) if number in self.subjects[subject] else NO_SCHEMA

    def latest(self, subject: str) -> dict[str, Any] | int:
        with self._lock:
            return self._described(subject, self.subjects[subject][-1]) if subject in self.subjects else NO_SUBJECT

    def answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | int:
        self.requests.append(f"{method} {path}")
        if found := re.fullmatch(r"/subjects/([^/]+)/versions", path):
            return self.register(found[1], body)
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/latest", path):
            return self.latest(found[1])
        if found := re.fullmatch(r"/subjects/([^/]+)", path):
            return self.look_up(found[1], body)
        if re.fullmatch(r"/schemas/guids/[-0-9a-f]+", path):
            return next(iter(self.schemas.values()), NO_SCHEMA)
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            return self.schemas.get(int(found[1]), NO_SCHEMA)
        return NO_SUBJECT

    def _number(self, given: dict[str, Any]) -> int | None:
        return next((number for number, known in self.schemas.items() if known == given), None)

    def _described(self, subject: str, number: int | None) -> dict[str, Any]:
        assert number is not None
        guid = {"guid": self.guid} if self.guid is not None else {}
        return {**guid, "subject": subject, "id": number, "version": self.subjects[subject].index(number) + 1, **self.schemas[number]}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """A registry on a port of its own."""
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            found = registry.answer(self.command, self.path.partition("?")[0], body)
            status = 404 if isinstance(found, int) else 200
            told = json.dumps({"error_code": found, "message": "not found"} if isinstance(found, int) else found).encode()
            self.send_response(status)
            self.send_header("Content-Type", JSON)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
