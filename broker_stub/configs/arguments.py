"""The arguments of `BrokerStub` and `FaultProxy`: the type of each, and what its value must be.

It compares no arguments with each other and knows no cluster: the owner of an argument checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar

from fencepost.broker_stub.network.addresses import printable

TEXT_BYTES_MAX: Final = 32767
"""The longest text in a message without a length of more than 16 bits."""
CLOCK_METHODS: Final = ("now_ms", "delay_s", "watch")
SHOWN_MAX: Final = 100
BROKERS_MAX: Final = 1000
"""Each broker listens on a port of its own."""

T = TypeVar("T")


class Argument(NamedTuple):
    """The types of an argument, what the error says it must be, and a check of the value."""

    types: tuple[type, ...]
    must_be: str
    fits: Callable[[Any], bool] = lambda value: True


def _is_clean(text: str | None) -> bool:
    return text is None or text.isprintable()


def _is_id(text: str | None) -> bool:
    return text is None or (text.isprintable() and 0 < len(text.encode()) <= TEXT_BYTES_MAX)


def _is_clock(clock: object) -> bool:
    return clock is None or (not isinstance(clock, type) and all(callable(getattr(clock, name, None)) for name in CLOCK_METHODS))


_HOST: Final = Argument((str, NoneType), "a host name or an address, in printable characters", _is_clean)
_WHOLE: Final = Argument((int,), "a whole number")
_WHOLE_OR_NONE: Final = Argument((int, NoneType), "a whole number, or None for the default")

ARGUMENTS: Final = {
    "advertised_host": _HOST,
    "auto_create_topics": Argument((bool,), "True or False"),
    "brokers": Argument((int,), f"a whole number, at most {BROKERS_MAX}", lambda value: value <= BROKERS_MAX),
    "clock": Argument((object,), "a clock, such as VirtualClock()", _is_clock),
    "cluster_id": Argument((str, NoneType), f"text of 1 to {TEXT_BYTES_MAX} bytes, in printable characters", _is_id),
    "default_partitions": _WHOLE,
    "default_replication_factor": _WHOLE_OR_NONE,
    "emulate": Argument((str,), "the name of a release of Kafka, such as '4.3'"),
    "host": _HOST,
    "journal": Argument((int,), "the number of exchanges to keep, 0 or more", lambda value: value >= 0),
    "name": Argument((str,), "the name of a topic"),
    "partitions": _WHOLE_OR_NONE,
    "port": _WHOLE_OR_NONE,
    "replication_factor": _WHOLE_OR_NONE,
    "seed": _WHOLE,
    "total": _WHOLE,
    "transaction_version": _WHOLE_OR_NONE,
    "upstream_bootstrap": Argument((str,), "HOST:PORT, or several with commas"),
}


def check_arguments(**given: object) -> None:
    """Raises TypeError or ValueError for the first argument that no stub or proxy can have."""
    for name, value in given.items():
        argument = ARGUMENTS[name]
        is_bool_for_a_number = isinstance(value, bool) and int in argument.types
        if not isinstance(value, argument.types) or is_bool_for_a_number:
            raise TypeError(_message(name, value, argument.must_be))
        if not argument.fits(value):
            raise ValueError(_message(name, value, argument.must_be))


def listed(name: str, given: Iterable[T], kind: type[T], example: str) -> list[T]:
    """The elements as a list. Raises TypeError for text, whose elements are letters, and for an element of another type."""
    must_be = f"a list, such as {example}"
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(_message(name, given, must_be))
    found = list(given)
    for each in found:
        if not isinstance(each, kind):
            raise TypeError(_message(name, found, must_be))
    return found


def _message(name: str, value: object, must_be: str) -> str:
    return f"{name}={printable(repr(value), longest=SHOWN_MAX)}: must be {must_be}"
