"""What a user can be told, as a small tree that says what to do next.

`Misuse` is a bug in the calling program, `Retriable` may be tried again as it is, `Fatal` needs a new producer. Every failed delivery
says through `persisted` whether the record may be in the log. Nothing here decides anything: `verdict` and `window` do.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Final

from fencepost.producer.foundations.printable import printable
from fencepost.producer.wire.codes import error_name

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
    "again",
    "plain",
]


class Persisted(enum.Enum):
    """Whether a record whose delivery failed is in the partition's log.

    `NO`: it is not there and never will be; sending it again cannot double it.
    `MAYBE`: a request that carried it was sent and its fate is unknown; sending it again may double it.
    `YES`: it is in the log of every in-sync replica, but its own acknowledgement (acks=all) or its offset did not come in time.
    """

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


class FencepostError(Exception):
    """The root of everything raised on purpose. Its text may quote strangers, and is one line of printable characters."""

    def __str__(self) -> str:
        return printable(super().__str__())

    def again(self) -> FencepostError:
        """A fresh instance with the same content: raising one instance over and over would grow its traceback without end."""
        return type(self)(*self.args)


def again(error: FencepostError) -> FencepostError:
    """`error.again()`."""
    return error.again()


def plain(number: float) -> str:
    """A number with all its digits, and without a fraction that it does not have."""
    return str(int(number)) if number == number and abs(number) < 1e18 and number == int(number) else str(number)


class Misuse(FencepostError):
    """The call is wrong and would be wrong again: fix the program."""


class ConfigError(Misuse, ValueError):
    """A setting is unknown, out of range or contradicts another one."""


class ProducerClosed(Misuse):
    """The producer has been closed; a new one is needed."""


class ProducerForked(Misuse):
    """The producer was made in a parent process; its sockets and threads are not this process's."""


class Retriable(FencepostError):
    """Nothing is wrong with the call; the same call may succeed later."""


class Fatal(FencepostError):
    """This producer cannot go on; the cause is in the message."""


class Fenced(Fatal):
    """A newer producer took over this one's identity (PRODUCER_FENCED). INVALID_PRODUCER_EPOCH alone is no such end: it heals, and what
    cannot be healed fails by itself."""


class NoUsableBroker(FencepostError):
    """None of the brokers can be used, and trying again with the same settings comes to the same end: the message says for each what was
    found and which setting it speaks of. The record was not accepted. The producer lives and tries anew at the next call."""


class AuthenticationFailed(NoUsableBroker):
    """The same, because a broker does not take this client for whom it says it is (SASL, client certificate), or cannot show that it is
    the broker it should be (its certificate)."""


class BufferFull(Retriable, TimeoutError):
    """`buffer_memory` stayed full for `max_block_ms`; the record was not accepted."""


class TopicUnavailable(Retriable, TimeoutError):
    """The topic's partitions did not become known within `max_block_ms`, or the brokers say that there is no such partition; the record was
    not accepted."""


class RecordTooLarge(Misuse, ValueError):
    """The record exceeds `max_request_size` or `buffer_memory`; it was not accepted."""


class DeliveryError(FencepostError):
    """An accepted record was not acknowledged.

    `topic`, `partition`: where it was bound for. `code`: the broker's last error code, 0 when there was none. `persisted`: see `Persisted`.
    `attempts`: requests that carried it.
    """

    def __init__(self, reason: str, *, topic: str, partition: int, persisted: Persisted, code: int = 0, attempts: int = 0) -> None:
        self.reason: Final = reason
        self.topic: Final = topic
        self.partition: Final = partition
        self.persisted: Final = persisted
        self.code: Final = code
        self.attempts: Final = attempts
        named = f" [{error_name(code)}]" if code else ""
        super().__init__(f"{topic}-{partition}: {reason}{named}; attempts={attempts}, persisted={persisted.name}")

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes (concurrent.futures, Spark), although their arguments have names."""
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
    """`delivery_timeout_ms` passed first. Retry freely when `persisted` is NO; otherwise a retry may double the record."""


class RecordRefused(DeliveryError):
    """The broker refused the record's batch for a reason that another attempt would not change."""


class DeliveryUnknown(DeliveryError):
    """The record was sent, and nobody can tell any more whether it is in the log; the broker refused nothing."""


class DeliveryFatal(DeliveryError, Fatal):
    """The record failed together with its producer."""


class UndeliveredRecords(FencepostError):
    """Raised by `flush` and `close`: deliveries failed that nobody had looked at.

    `count`: records; `failures`: one `DeliveryError` a failed batch, at most 100 of them.
    """

    def __init__(self, count: int, failures: list[DeliveryError]) -> None:
        self.count: Final = count
        self.failures: Final = failures
        first = f"; first: {failures[0]}" if failures else ""
        super().__init__(f"{count} records were not delivered{first}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.count, self.failures)
