"""The producer's errors, as a small tree that says what the caller does next.

`Misuse` is a bug in the calling program, the call of a `Retriable` may succeed later, `Fatal` needs a new producer. Every failed delivery
says through `persisted` whether the record may be in the log. This module decides nothing: `core.error_table` and
`core.idempotence.in_flight_window` choose the error.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Final, TypeVar

from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.printable import printable
from fencepost.producer.wire.codes import ErrorCode, error_name

__all__ = [
    "AuthenticationFailed",
    "BufferFull",
    "ConfigError",
    "DeliveryError",
    "DeliveryFatal",
    "DeliveryTimeout",
    "DeliveryUnknown",
    "Fatal",
    "Fenced",
    "FencepostError",
    "Misuse",
    "NoUsableBroker",
    "Persisted",
    "ProducerClosed",
    "ProducerForked",
    "RecordRefused",
    "RecordTooLarge",
    "Retriable",
    "TopicUnavailable",
    "UndeliveredRecords",
    "UnknownPartition",
    "again",
    "place",
    "plain",
    "with_code",
]


class Persisted(enum.Enum):
    """Whether a record whose delivery failed is in the partition's log.

    `NO`: it is not in the log and never will be. Sending it again cannot duplicate it.
    `MAYBE`: a request with the record was sent, and its result is unknown. Sending it again may duplicate it.
    `YES`: it is in the log of every in-sync replica, but its acknowledgement (acks=all) or its offset did not come in time.
    """

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


E = TypeVar("E", bound="FencepostError")


class FencepostError(Exception):
    """The base class of all errors of this project. Its text may quote a broker, and is one line of printable characters.

    `code`: the broker's error code that is the cause, as in Kafka's Errors; 0 if no broker answered with one.
    """

    code: int = 0

    def __str__(self) -> str:
        return printable(super().__str__())

    def again(self) -> FencepostError:
        """A fresh instance with the same content: raising one instance over and over would grow its traceback without end."""
        return with_code(type(self)(*self.args), self.code)


def again(error: FencepostError) -> FencepostError:
    """`error.again()`."""
    return error.again()


def with_code(error: E, code: int) -> E:
    """The error, which a broker's error code has caused."""
    error.code = code
    return error


def plain(number: float) -> str:
    """A number with all its digits, and without a fraction if it is whole."""
    return str(int(number)) if number == number and abs(number) < 1e18 and number == int(number) else str(number)


def place(topic: str, partition: int) -> str:
    """A record's topic and partition as text. The partition is left out if none was chosen (-1)."""
    return f"{topic}-{partition}" if partition >= 0 else topic


class Misuse(FencepostError):
    """The call is wrong, and the same call fails again: fix the program."""


class ConfigError(Misuse, ValueError):
    """A setting is unknown, out of range or contradicts another one."""


class ProducerClosed(Misuse):
    """The producer is closed: make a new one."""


class ProducerForked(Misuse):
    """The producer was made in a parent process, which owns its sockets and threads: make a new one in this process."""


class Retriable(FencepostError):
    """The call is right, and the same call may succeed later. If it is a DeliveryError too, its `persisted` says whether a second call may
    duplicate the record."""


class Fatal(FencepostError):
    """This producer cannot continue: make a new one. The message says why."""


class Fenced(Fatal):
    """A newer producer took over this one's producer id (PRODUCER_FENCED). INVALID_PRODUCER_EPOCH alone does not end the producer: the
    core recovers with a new epoch, and only records that it cannot recover fail."""


class NoUsableBroker(FencepostError):
    """No broker can be used, and retrying with the same settings cannot help. The message says for each broker what is wrong and
    which setting to check. The record was not accepted. The producer stays usable and tries again at the next call."""


class AuthenticationFailed(NoUsableBroker):
    """No broker can be used, because authentication failed: a broker rejects this client (SASL, client certificate), or this client
    rejects the broker's certificate."""


class BufferFull(Retriable, TimeoutError):
    """`buffer_memory` stayed full for `max_block_ms`; the record was not accepted."""


class TopicUnavailable(Retriable, TimeoutError):
    """No broker told the topic's partitions within `max_block_ms`; the record was not accepted."""


class UnknownPartition(TopicUnavailable):
    """The brokers say that the topic has no such partition; the record was not accepted."""


class RecordTooLarge(Misuse, ValueError):
    """The record exceeds `max_request_size` or `buffer_memory`; it was not accepted."""


class DeliveryError(FencepostError):
    """An accepted record was not acknowledged.

    `topic`, `partition`: the record's; the partition is -1 if none was chosen yet. `code`: the broker's last error code, 0 when there was
    none. `persisted`: see `Persisted`. `attempts`: how many requests contained the record.
    """

    def __init__(self, reason: str, *, topic: str, partition: int, persisted: Persisted, code: int = 0, attempts: int = 0) -> None:
        self.reason: Final = reason
        self.topic: Final = topic
        self.partition: Final = partition
        self.persisted: Final = persisted
        self.code = code
        self.attempts: Final = attempts
        named = f" [{error_name(code)}]" if code else ""
        super().__init__(f"{place(topic, partition)}: {reason}{named}; attempts={attempts}, persisted={persisted.name}")

    def __reduce__(self) -> tuple[object, ...]:
        """Errors are pickled between processes (concurrent.futures, Spark). Exception's own way cannot do it: it passes no keyword
        arguments."""
        make = partial(
            type(self), topic=self.topic, partition=self.partition, persisted=self.persisted, code=self.code, attempts=self.attempts
        )
        return make, (self.reason,)

    def again(self) -> DeliveryError:
        """A fresh instance with the same content, so that records sharing a batch do not share a traceback."""
        return type(self)(
            self.reason, topic=self.topic, partition=self.partition, persisted=self.persisted, code=self.code, attempts=self.attempts
        )


class DeliveryTimeout(DeliveryError, Retriable, TimeoutError):
    """`delivery_timeout_ms` passed before the acknowledgement. When `persisted` is NO, the caller may send the record again. Otherwise
    that may duplicate the record."""


PASSING: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Refusals of a record that have no cause in the record."""


class RecordRefused(DeliveryError):
    """The broker refused the record's batch; `code` names the cause, and most causes refuse it again. With `persisted` MAYBE or YES the
    record may be in the log nevertheless."""

    @property
    def permanent(self) -> bool:
        """Whether the broker refuses the same record again, because of the record itself, its topic or a permission. Otherwise the cause
        was the record's transaction or its place in the sequence: the transaction timed out, or another producer took the transactional id
        over. A new transaction may write the record."""
        return self.code not in PASSING


class DeliveryUnknown(DeliveryError):
    """The record was sent, and the producer cannot find out whether it is in the log. The broker refused nothing."""


class DeliveryFatal(DeliveryError, Fatal):
    """The record failed because its producer failed."""


class UndeliveredRecords(FencepostError):
    """Raised by `flush` and `close`: deliveries failed, and the program read the error of none of them.

    `count`: records; `failures`: one `DeliveryError` for each failed batch, at most 100 of them.
    """

    def __init__(self, count: int, failures: list[DeliveryError]) -> None:
        self.count: Final = count
        self.failures: Final = failures
        first = f"; first: {failures[0]}" if failures else ""
        super().__init__(f"{counted(count, 'record was', 'records were')} not delivered{first}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.count, self.failures)


def bound_to_process(name: str, instead: str) -> TypeError:
    """The error for a program that pickles or copies an object that only works beside its producer."""
    return TypeError(f"{name} cannot be pickled or copied: it belongs to a producer of this process; {instead}")
