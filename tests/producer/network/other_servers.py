"""Servers that are not Kafka: one answers in HTTP, and one sends its own banner first."""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.certificates import Certificate


@contextmanager
def http_server(secured: Certificate | None = None) -> Iterator[str]:
    """The standard library's server. It waits for the end of a line before it sends. `secured`: its certificate for TLS. Yields its
    address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    if secured is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(secured.certfile, secured.keyfile)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Writes no log lines."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def banner_server(banner: bytes, *, first: bool = True) -> Iterator[str]:
    """Sends the banner to each client, at once or after the first bytes of the client, and then closes. Yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    ending = threading.Event()

    def serve() -> None:
        while not ending.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(5)
                    if not first:
                        connection.recv(65536)
                    connection.sendall(banner)
                    if first:
                        connection.recv(65536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield "{}:{}".format(*listener.getsockname())
    finally:
        ending.set()
        thread.join(10)
        listener.close()
