"""Counters of a cluster. Only the loop's thread changes them; other threads read a copy."""

from msgspec import Struct
from msgspec.structs import asdict


class Counters(Struct):
    """Plain numbers that only grow."""

    connections: int = 0
    frames: int = 0
    requests: int = 0
    appended: int = 0  # batches written
    duplicates: int = 0  # batches answered from the producer cache
    refused: int = 0  # batches that the log refused
    leader_moves: int = 0
    restarts: int = 0
    connections_cut: int = 0  # of clients, by `cut_connections` or a fault

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
