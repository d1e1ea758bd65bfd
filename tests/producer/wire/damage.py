"""Damages bytes for the tests that read damaged data."""

from __future__ import annotations

import random


def damage(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three changes of the kinds that break lengths, counts, text and nesting."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(6):
            case 0 if at < len(out):
                out[at] = rng.randrange(256)
            case 1 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                del out[at : at + rng.randint(1, 4)]
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 4))
            case 4:
                extreme = rng.choice(
                    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80" * 6, b"\x80\x00", b"\x00\x00\x00\x00"]
                )
                out[at : at + len(extreme)] = extreme
            case _:
                start = rng.randrange(len(out) + 1)
                out[at:at] = out[start : start + rng.randint(1, 16)]
    return bytes(out)
