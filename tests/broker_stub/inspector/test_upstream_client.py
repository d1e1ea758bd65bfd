"""What the inspector behind a proxy asks of a broker, which may be anything."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from fencepost.broker_stub.inspector import upstream_client
from fencepost.broker_stub.inspector.upstream_client import UpstreamClient
from fencepost.producer.wire import MetadataRequest


def test_a_response_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that sends one byte now and then does not hold the inspector up for as long as it likes."""
    monkeypatch.setattr(upstream_client, "WHOLE_S", 0.3)
    ended = threading.Event()

    def trickle() -> None:
        link, _ = server.accept()
        with link:
            link.sendall((1000).to_bytes(4, "big"))
            while not ended.wait(0.02):
                try:
                    link.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle)
        thread.start()
        client = UpstreamClient()
        began = time.monotonic()
        try:
            with pytest.raises(TimeoutError):
                client.ask(server.getsockname(), MetadataRequest(), 9)
            assert time.monotonic() - began < 10
        finally:
            ended.set()
            client.close()
            thread.join()
