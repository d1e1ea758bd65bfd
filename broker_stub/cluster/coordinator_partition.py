"""Which partition of an internal topic a group or a transactional id belongs to; that partition's leader is its coordinator."""

from __future__ import annotations


def partition_for(key: str, partitions: int) -> int:
    """Java's `Utils.abs(key.hashCode()) % partitions`, over UTF-16 code units."""
    data = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
