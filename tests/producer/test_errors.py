"""What a user can be told: a small tree that says what to do next, with everything in it that helps."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from fencepost import producer
from fencepost.producer import (
    BufferFull,
    ConfigError,
    DeliveryError,
    DeliveryFatal,
    DeliveryTimeout,
    Fatal,
    Fenced,
    FencepostError,
    Misuse,
    Persisted,
    ProducerClosed,
    ProducerForked,
    RecordRefused,
    RecordTooLarge,
    Retriable,
    TopicUnavailable,
    UndeliveredRecords,
)
from fencepost.producer.errors import again, with_code
from fencepost.producer.wire import ErrorCode

ABOUT: dict[str, Any] = {"topic": "t", "partition": 3, "persisted": Persisted.MAYBE, "code": 7, "attempts": 4}
DELIVERIES = [DeliveryError, DeliveryTimeout, RecordRefused, DeliveryFatal]
PLAIN = [Misuse, ConfigError, ProducerClosed, ProducerForked, Retriable, Fatal, Fenced, BufferFull, TopicUnavailable, RecordTooLarge]


def pickled(error: Any) -> Any:
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize(
    ("code", "permanent"),
    [(ErrorCode.INVALID_RECORD, True), (ErrorCode.MESSAGE_TOO_LARGE, True), (ErrorCode.INVALID_TXN_STATE, False), (0, True)],
)
def test_a_permanent_refusal(code: int, permanent: bool) -> None:
    """It has its cause in the record; the others in its transaction, or in the sequence. A pickled error says the same."""
    error = RecordRefused("no", **{**ABOUT, "code": code})
    assert (error.permanent, pickled(error).permanent) == (permanent, permanent)


def test_one_root() -> None:
    """Everything raised on purpose is a FencepostError, and every error that the package exports is in the tree."""
    exported = [
        thing
        for thing in (getattr(producer, name) for name in producer.__all__)
        if isinstance(thing, type) and issubclass(thing, BaseException)
    ]
    assert len(exported) >= 17
    assert all(issubclass(error, FencepostError) for error in exported)


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        (BufferFull, (Retriable, TimeoutError)),
        (TopicUnavailable, (Retriable, TimeoutError)),
        (DeliveryTimeout, (DeliveryError, Retriable, TimeoutError)),
        (DeliveryFatal, (DeliveryError, Fatal)),
        (Fenced, (Fatal,)),
        (ConfigError, (Misuse, ValueError)),
        (RecordTooLarge, (Misuse, ValueError)),
        (ProducerClosed, (Misuse,)),
        (ProducerForked, (Misuse,)),
    ],
)
def test_the_tree_says_what_to_do(error: type[Exception], kinds: tuple[type[Exception], ...]) -> None:
    """Retriable: the same call may succeed; Misuse: fix the program; Fatal: a new producer; and Python's own class where there is one."""
    assert all(issubclass(error, kind) for kind in kinds)
    for other in (Retriable, Misuse, Fatal):
        if not any(issubclass(kind, other) for kind in kinds):
            assert not issubclass(error, other)


@pytest.mark.parametrize("kind", PLAIN)
def test_an_error_keeps_the_brokers_code(kind: type[FencepostError]) -> None:
    """It is 0 without one, and stays when the error is raised again, copied or passed to another process."""
    assert kind("because").code == 0
    error = with_code(kind("because"), 53)
    assert [each.code for each in (error, again(error), copy.copy(error), pickled(error))] == [53] * 4
    assert kind("because").code == 0


@pytest.mark.parametrize("kind", DELIVERIES)
def test_a_delivery_error_tells_everything(kind: type[DeliveryError]) -> None:
    """Topic, partition, code, attempts and persisted as attributes and in the message; the code by name."""
    error = kind("because", **ABOUT)
    assert {name: getattr(error, name) for name in ABOUT} == ABOUT
    assert error.reason == "because"
    for word in ("t-3", "because", "REQUEST_TIMED_OUT", "attempts=4", "persisted=MAYBE"):
        assert word in str(error)


@pytest.mark.parametrize("kind", DELIVERIES)
@pytest.mark.parametrize(
    "duplicate", [lambda e: e.again(), copy.copy, lambda e: pickle.loads(pickle.dumps(e))], ids=["again", "copy", "pickle"]
)
def test_a_delivery_error_can_be_copied(kind: type[DeliveryError], duplicate: Any) -> None:
    """A copy, also one that crossed a process boundary, is another instance of the same class with the same content."""
    error = kind("because", **ABOUT)
    other = duplicate(error)
    assert other is not error
    assert type(other) is kind
    assert str(other) == str(error)
    assert {name: getattr(other, name) for name in ABOUT} == ABOUT


def test_undelivered_records_cross_processes() -> None:
    """The count and the failures survive pickling."""
    error = UndeliveredRecords(5, [RecordRefused("because", **ABOUT)])
    other = pickled(error)
    assert (other.count, str(other)) == (5, str(error))
    assert other.failures[0].persisted is Persisted.MAYBE


@pytest.mark.parametrize("kind", PLAIN)
def test_raised_again_it_is_a_new_one(kind: type[FencepostError]) -> None:
    """A producer that refuses every call raises a fresh instance each time: tracebacks do not pile up in one."""
    error = kind("because")
    other = again(error)
    assert other is not error
    assert type(other) is kind
    assert other.args == ("because",)
    assert str(pickled(error)) == "because"


def test_persisted_has_three_answers() -> None:
    """In the log, not in the log, or unknown. There is no fourth value."""
    assert [answer.name for answer in Persisted] == ["NO", "MAYBE", "YES"]


def test_everything_is_exported() -> None:
    """`from fencepost.producer import *` gives every public name, and asking for another one is an AttributeError."""
    names: dict[str, Any] = {}
    exec("from fencepost.producer import *", names)
    assert set(producer.__all__) <= set(names)
    assert set(producer.__all__) <= set(dir(producer))
    with pytest.raises(AttributeError, match="Produzer"):
        producer.Produzer  # noqa: B018
