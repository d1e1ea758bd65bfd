"""XXH3 with 64 bits, without a seed and with the default secret, as Kafka hashes the topics of a group (KIP-1101).

Slow, and made for short inputs.
"""

from __future__ import annotations

from functools import partial
from typing import Final

_ALL: Final = (1 << 64) - 1
_HALF: Final = (1 << 32) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES: Final = 16
_BLOCK: Final = _STRIPE * _STRIPES


def xxh3_64(data: bytes) -> int:
    """The hash, without a sign."""
    size = len(data)
    if size == 0:
        return _end64(_secret(56) ^ _secret(64))
    if size <= 3:
        word = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _end64(word ^ (_int(_SECRET, 0, 4) ^ _int(_SECRET, 4, 4)))
    if size <= 8:
        return _end_short((_int(data, size - 4, 4) + (_int(data, 0, 4) << 32)) ^ (_secret(8) ^ _secret(16)), size)
    if size <= 16:
        low, high = _int(data, 0) ^ _secret(24) ^ _secret(32), _int(data, size - 8) ^ _secret(40) ^ _secret(48)
        return _end(size + int.from_bytes(low.to_bytes(8, "little"), "big") + high + _folded(low, high))
    if size <= 128:
        pairs = range((size - 1) // 32, -1, -1)
        return _end(size * _P1 + sum(_mixed(data, 16 * n, 32 * n) + _mixed(data, size - 16 * (n + 1), 32 * n + 16) for n in pairs))
    return _middle(data) if size <= 240 else _long(data)


def _middle(data: bytes) -> int:
    size = len(data)
    first = _end(size * _P1 + sum(_mixed(data, 16 * n, 16 * n) for n in range(8)))
    rest = sum(_mixed(data, 16 * n, 16 * (n - 8) + 3) for n in range(8, size // 16))
    return _end(first + rest + _mixed(data, size - 16, 136 - 17))


def _long(data: bytes) -> int:
    size = len(data)
    lanes = [_P32_3, _P1, _P2, _P3, _P4, _P32_2, _P5, _P32_1]
    blocks = (size - 1) // _BLOCK
    for block in range(blocks):
        for n in range(_STRIPES):
            _add(lanes, data, block * _BLOCK + n * _STRIPE, n * 8)
        for n, lane in enumerate(lanes):
            lanes[n] = ((lane ^ lane >> 47) ^ _secret(len(_SECRET) - _STRIPE + 8 * n)) * _P32_1 & _ALL
    for n in range((size - 1 - blocks * _BLOCK) // _STRIPE):
        _add(lanes, data, blocks * _BLOCK + n * _STRIPE, n * 8)
    _add(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    return _end(size * _P1 + sum(_folded(lanes[2 * n] ^ _secret(11 + 16 * n), lanes[2 * n + 1] ^ _secret(19 + 16 * n)) for n in range(4)))


def _add(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    """One stripe of 64 bytes."""
    for n in range(8):
        value = _int(data, at + 8 * n)
        key = value ^ _secret(secret_at + 8 * n)
        lanes[n ^ 1] = lanes[n ^ 1] + value & _ALL
        lanes[n] = lanes[n] + (key & _HALF) * (key >> 32) & _ALL


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    return _folded(_int(data, at) ^ _secret(secret_at), _int(data, at + 8) ^ _secret(secret_at + 8))


def _folded(one: int, other: int) -> int:
    product = one * other
    return (product ^ product >> 64) & _ALL


def _end(value: int) -> int:
    value &= _ALL
    value = (value ^ value >> 37) * 0x165667919E3779F9 & _ALL
    return value ^ value >> 32


def _end64(value: int) -> int:
    value = (value ^ value >> 33) * _P2 & _ALL
    value = (value ^ value >> 29) * _P3 & _ALL
    return value ^ value >> 32


def _end_short(value: int, size: int) -> int:
    value = (value ^ _rotated(value, 49) ^ _rotated(value, 24)) * 0x9FB21C651E98DF25 & _ALL
    value = (value ^ (value >> 35) + size) * 0x9FB21C651E98DF25 & _ALL
    return value ^ value >> 28


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _ALL


def _int(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


_secret = partial(_int, _SECRET)
