"""The arguments of the public methods, of the control's bodies and of fault rules: the type of each, and what its value must be.

It compares no arguments with each other and knows no cluster: the owner of an argument checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from threading import TIMEOUT_MAX
from types import NoneType
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

from fencepost.broker_stub.network.addresses import printable

TEXT_BYTES_MAX: Final = 32767
"""The longest text in a message without a length of more than 16 bits."""
CLOCK_METHODS: Final = ("now_ms", "delay_s", "watch")
SHOWN_MAX: Final = 100
BROKERS_MAX: Final = 1000
"""Each broker listens on a port of its own."""
LOG_DIRS_MAX: Final = 100
INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
AHEAD_MS_MAX: Final = 100 * 365 * 24 * 3600 * 1000
"""How far ahead of the stub's clock, or behind it, a broker's own may be: a hundred years."""
OFTEN_MAX: Final = 1 << 53
"""The largest count of a fault rule: JSON's readers take larger numbers for others."""

T = TypeVar("T")


class Argument(NamedTuple):
    """The types of an argument, what the error says it must be, and a check of the value."""

    types: tuple[type, ...]
    must_be: str
    fits: Callable[[Any], bool] = lambda value: True


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number. True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number. True and False are none."""
    return is_whole(value) or isinstance(value, float)


def _is_clean(text: str | None) -> bool:
    return text is None or text.isprintable()


def _is_id(text: str | None) -> bool:
    return text is None or (text.isprintable() and 0 < len(text.encode()) <= TEXT_BYTES_MAX)


def _is_path(path: str | PathLike[str] | None) -> bool:
    return path is None or (str(path) != "" and "\0" not in str(path))


def _is_clock(clock: object) -> bool:
    return clock is None or (not isinstance(clock, type) and all(callable(getattr(clock, name, None)) for name in CLOCK_METHODS))


_HOST: Final = Argument((str, NoneType), "a host name or an address, in printable characters", _is_clean)
_WHOLE: Final = Argument((int,), "a whole number")
_WHOLE_OR_NONE: Final = Argument((int, NoneType), "a whole number, or None for the default")
_BOOL: Final = Argument((bool,), "True or False")
_BROKER: Final = Argument((int,), "a whole number, a broker's")
_END: Final = Argument(
    (int, str), 'a whole number, a broker\'s, or "controller"', lambda value: not isinstance(value, str) or value == "controller"
)
_COUNT: Final = Argument((int,), f"a whole number from 1 to {OFTEN_MAX}", lambda value: 1 <= value <= OFTEN_MAX)
_TOPIC: Final = Argument((str,), "the name of a topic")

ARGUMENTS: Final = {
    "ahead_ms": Argument(
        (int,), f"whole milliseconds from -{AHEAD_MS_MAX} to {AHEAD_MS_MAX}, a hundred years", lambda value: abs(value) <= AHEAD_MS_MAX
    ),
    "advertised_host": _HOST,
    "auto_create_topics": _BOOL,
    "leader_epochs": _BOOL,
    "brokers": Argument((int,), f"a whole number, at most {BROKERS_MAX}", lambda value: value <= BROKERS_MAX),
    "clean": _BOOL,
    "client_id": Argument((str,), "a client id, which is text"),
    "clock": Argument((object,), "a clock, such as VirtualClock()", _is_clock),
    "cluster_id": Argument((str, NoneType), f"text of 1 to {TEXT_BYTES_MAX} bytes, in printable characters", _is_id),
    "code": Argument(
        (int,),
        "an error code, such as ErrorCode.NOT_COORDINATOR, or its number from -32768 to 32767, but not NONE (0), which is no error",
        lambda value: value and -(1 << 15) <= value < 1 << 15,
    ),
    "default_partitions": _WHOLE_OR_NONE,
    "default_replication_factor": _WHOLE_OR_NONE,
    "data_dir": Argument((str, PathLike, NoneType), "the path of a directory, without a null character", _is_path),
    "emulate": Argument((str,), "the name of a release of Kafka, such as '4.3'"),
    "fault": Argument((str, NoneType), "'full' or 'failed'", lambda value: value in (None, "full", "failed")),
    "group": Argument((str,), "the id of a group"),
    "hits": Argument((int,), "a whole number, 0 or more", lambda value: value >= 0),
    "host": _HOST,
    "journal": Argument((int,), "the number of exchanges to keep, 0 or more", lambda value: value >= 0),
    "log_dir": Argument(
        (int, NoneType), "the number of a log directory, from 1 on, or None for all", lambda value: value is None or value >= 1
    ),
    "log_dirs": Argument((int,), f"a whole number from 1 to {LOG_DIRS_MAX}", lambda value: 1 <= value <= LOG_DIRS_MAX),
    "ms": Argument((int,), "whole milliseconds"),
    "name": _TOPIC,
    "node": _BROKER,
    "on_call": _COUNT,
    "one": _END,
    "one_way": Argument((bool,), "True or False"),
    "offset": Argument((int,), f"a whole number from 0 to {LONG_MAX}", lambda value: 0 <= value <= LONG_MAX),
    "operation": Argument((str,), "the name of an operation, such as WRITE"),
    "other": _END,
    "partition": Argument((int,), f"a whole number from 0 to {INT_MAX}", lambda value: 0 <= value <= INT_MAX),
    "partitions": _WHOLE_OR_NONE,
    "port": _WHOLE_OR_NONE,
    "prefixed": _BOOL,
    "principal": Argument((str,), "the name of a user"),
    "probability": Argument((int, float), "a number from 0 to 1", lambda value: 0 <= value <= 1),
    "replication_factor": _WHOLE_OR_NONE,
    "seed": _WHOLE,
    "session_lifetime_ms": Argument(
        (int,), f"whole milliseconds from 0, which is no end, to {LONG_MAX}", lambda value: 0 <= value <= LONG_MAX
    ),
    "start_ms": Argument((int,), f"whole milliseconds since 1970, from 0 to {LONG_MAX}", lambda value: 0 <= value <= LONG_MAX),
    "telemetry": _BOOL,
    "timeout": Argument((int, float), "a number of seconds, 0 or more", lambda value: 0 <= value <= TIMEOUT_MAX),
    "times": _COUNT,
    "to": _BROKER,
    "topic": _TOPIC,
    "total": _WHOLE,
    "transaction_version": _WHOLE_OR_NONE,
    "txn": Argument((str,), "a transactional id, which is text"),
    "user": Argument((str,), "the name of a user"),
    "upstream_bootstrap": Argument((str,), "HOST:PORT, or several with commas"),
}


def check_arguments(**given: object) -> None:
    """Raises TypeError for the first argument of another type, and ValueError for one whose value is impossible."""
    for name, value in given.items():
        argument = ARGUMENTS[name]
        is_bool_for_a_number = isinstance(value, bool) and int in argument.types
        if not isinstance(value, argument.types) or is_bool_for_a_number:
            raise TypeError(_message(name, value, argument.must_be))
        if not argument.fits(value):
            raise ValueError(_message(name, value, argument.must_be))


def check_delay(ms: int) -> None:
    """Raises TypeError for what is no whole number, and ValueError for what is no delay."""
    check_arguments(ms=ms)
    if not 0 <= ms <= INT_MAX:
        raise ValueError(f"ms={printable(repr(ms), longest=SHOWN_MAX)}: 0 or more, at most {INT_MAX}")


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
