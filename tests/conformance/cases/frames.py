"""Frames: their sizes, their order on a connection, and bytes that are no request."""

import struct

from tests.conformance.world import World, case

API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)


@case()
def frame_sizes(w: World) -> None:
    """A length below zero or above 100 MiB closes the connection before the broker reads more."""
    for size in (-1, -(2**31), 100 * 1024 * 1024 + 1, 2**31 - 1):
        w.raw_bytes(struct.pack(">i", size), label=str(size))


@case()
def frames_too_short_for_a_header(w: World) -> None:
    """An empty frame, or one that ends inside its header."""
    for size in (0, 1, 2, 4, 7, 9):
        w.raw_bytes(struct.pack(">i", size) + API_VERSIONS[:size], label=f"{size} bytes")


@case()
def garbage(w: World) -> None:
    """The first bytes of other protocols."""
    for label, data in {
        "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "TLS": bytes.fromhex("16030100a5010000a10303") + b"\0" * 160,
        "zeros": b"\0" * 64,
        "ones": b"\xff" * 64,
    }.items():
        w.raw_bytes(data, label=label)


@case()
def a_body_that_cannot_be_read(w: World) -> None:
    """A body cut short, a negative length inside it, a count beyond its end: the broker closes the connection without an answer."""
    metadata = struct.pack(">hhih", 3, 1, 1, -1)
    flexible = struct.pack(">hhih", 3, 12, 1, -1) + b"\0"
    for label, body in {
        "Metadata v1 without a body": metadata,
        "Metadata v1 with half an array": metadata + struct.pack(">ih", 1, 5) + b"ab",
        "Metadata v1 with a huge count": metadata + struct.pack(">i", 2**31 - 1),
        "Metadata v1 with count -2": metadata + struct.pack(">i", -2),
        "Metadata v1 with a null name": metadata + struct.pack(">ih", 1, -1),
        "Metadata v12 with a huge count": flexible + b"\xff\xff\xff\xff\x0f",
        "Metadata v12 with a count of five bytes and more": flexible + b"\xff\xff\xff\xff\xff\x0f",
        "Produce v9 without a body": struct.pack(">hhih", 0, 9, 1, -1) + b"\0",
        "InitProducerId v0 cut": struct.pack(">hhih", 22, 0, 1, -1) + struct.pack(">h", -1),
        "a name that is not UTF-8": metadata + struct.pack(">ih", 1, 2) + b"\xff\xfe",
    }.items():
        w.raw_exchange(body, label=label)


@case()
def bytes_after_the_body(w: World) -> None:
    """A body longer than its message."""
    w.raw_exchange(API_VERSIONS + b"more", label="ApiVersions v0")
    w.raw_exchange(struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 0) + b"more", label="Metadata v1")
    w.raw_exchange(struct.pack(">hhih", 18, 3, 7, -1) + b"\0" + b"\x02x\x021\0" + b"more", label="ApiVersions v3")


@case()
def a_frame_in_pieces(w: World) -> None:
    """A frame may arrive byte by byte, and two in one piece."""
    w.raw_pieces([bytes([byte]) for byte in struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS], answers=1, label="byte by byte")
    frame = struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS
    w.raw_pieces([frame * 3], answers=3, label="three at once")
    w.raw_pieces([frame + frame[:5], frame[5:]], answers=2, label="one and a half")


@case()
def answers_keep_the_order_of_requests(w: World) -> None:
    """A request that waits delays the responses to later requests on its connection."""
    w.answers_in_order(w.topic())


@case()
def bad_frames_do_not_touch_other_connections(w: World) -> None:
    """Only the connection that sent it is closed."""
    w.neighbours(struct.pack(">i", -1))
