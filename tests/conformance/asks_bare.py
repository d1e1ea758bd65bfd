"""Questions below the level of messages: frames as bytes, and whether the connection stays open."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from fencepost.producer import wire
from tests.conformance.asks_fetch import FETCH_VERSION, fetch_request
from tests.conformance.raw import Closed, RawConnection, Silent
from tests.conformance.stage import Stage, Topic


class BareAsks(Stage):
    """A part of the world of a case."""

    def raw_exchange(self, body: bytes, *, label: str) -> None:
        """Send one frame with that body on a new connection."""
        self.raw_bytes(struct.pack(">i", len(body)) + body, label=label)

    def raw_bytes(self, data: bytes, *, label: str) -> None:
        """Send the bytes, and note what comes back."""
        with self.open() as connection:
            self.note(label, _outcome(connection, data))

    def raw_pieces(self, pieces: Sequence[bytes], *, answers: int, label: str) -> None:
        """Send the bytes piece by piece, and note how many responses come."""
        with self.open() as connection:
            came = 0
            try:
                for piece in pieces:
                    connection.send_bytes(piece)
                for _ in range(answers):
                    connection.receive_frame()
                    came += 1
                self.note(label, f"{came} answers")
            except Closed:
                self.note(label, f"{came} answers, then closed")
            except Silent:
                self.note(label, f"{came} answers, then silent")

    def answers_in_order(self, topic: Topic) -> None:
        """Send a Fetch that waits, and behind it a request that could be answered at once."""
        waits = fetch_request([(topic, 0, 0)], FETCH_VERSION, max_wait_ms=300)
        with self.open(topic.leaders[0]) as connection:
            sent = [connection.send(waits, FETCH_VERSION), connection.send(wire.ApiVersionsRequest(), 0)]
            came = [struct.unpack_from(">i", connection.receive_frame())[0] for _ in sent]
            self.note("answers", "in order" if came == sent else "out of order")

    def neighbours(self, data: bytes) -> None:
        """An error on one connection does not affect another connection."""
        with self.open() as bad, self.open() as good:
            bad.send_bytes(data)
            self.note("the one that sent it", "closed" if bad.is_closed() else "alive")
            good.ask(wire.ApiVersionsRequest(), 0)
            self.note("its neighbour", "alive")


def _outcome(connection: RawConnection, data: bytes) -> str:
    try:
        connection.send_bytes(data)
        answer = connection.receive_frame()
    except Closed:
        return "closed"
    except Silent:
        return "silent"
    shown = f"answer {answer.hex()}" if len(answer) <= 24 else f"answer {answer[:6].hex()}..."
    try:
        connection.ask(wire.ApiVersionsRequest(), 0)
    except Closed:
        return f"{shown}, then closed"
    except Silent:
        return f"{shown}, then silent"
    return f"{shown}, and lives on"
