"""Counters of a proxy. Only the loop's thread changes them; other threads read a copy."""

from msgspec import Struct


class ProxyCounters(Struct):
    """Plain numbers that only grow."""

    connections: int = 0
    requests: int = 0
    answers: int = 0
    unreachable: int = 0  # connections whose broker could not be reached
    connections_cut: int = 0  # of clients, by `cut_connections` or a fault
