"""Failures on executors that would come again: the batch fails at once with what the executor said, and is not written again in vain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import (
    AuthenticationFailed,
    ConfigError,
    DeliveryTimeout,
    FencepostError,
    Misuse,
    Persisted,
    ProducerClosed,
    RecordRefused,
)
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.errors import MustAbort, NotPermitted, ParticipationEnded
from fencepost.txn.shared.shared_identity import NotShared
from fencepost.txn.spark.errors import BadRows
from fencepost.txn.spark.sink.permanent_errors import cause_of, heard, last_words
from tests.txn.spark.site import TOPIC, Site

SASL = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
KEYED = {"key": "value"}


def misspelt_there() -> dict[str, Any]:
    """Settings that are good on the driver, and unknown on executors."""
    return {} if TaskContext.get() is None else {"sasl.pasword": "hush-hush"}


def stale_there() -> dict[str, Any]:
    """An executor that has another password than the driver."""
    return {"sasl.username": "ann", "sasl.password": "secret" if TaskContext.get() is None else "wrong"}


class Unreadable:
    """A pickle of things that this version does not know."""

    dumps = staticmethod(lambda _: b"of another version")


@pytest.fixture
def guarded(spark: SparkSession, tmp_path: Path) -> Iterator[Site]:
    """Brokers that require authentication."""
    with BrokerStub(sasl={"ann": "secret"}) as stub:
        site = Site(spark, stub, tmp_path)
        try:
            yield site
        finally:
            site.close()


@pytest.mark.usefixtures("by_value")
@pytest.mark.parametrize("guard", ["turns", "kafka-claims"])
def test_a_setting_that_is_wrong_on_executors(site: Site, guard: str) -> None:
    """ConfigError, as the executor has it, and the batch is not written again."""
    writer = site.by_hand(guard=guard, secrets=misspelt_there)
    with pytest.raises(ConfigError, match=r"'kafka\.sasl\.pasword'.*\(executor ") as caught:
        writer(site.rows(*"ab", **KEYED), site.offsets(0))
    assert "hush-hush" not in str(caught.value)
    assert caught.value.__cause__ is not None  # what Spark raised
    assert (writer.metrics["reruns"], writer.metrics["ledger"]) == (0, "aborted")


@pytest.mark.usefixtures("by_value")
def test_an_executor_that_cannot_log_in(guarded: Site) -> None:
    """AuthenticationFailed, with the user and the settings, and the batch is not written again."""
    writer = guarded.by_hand(guard="turns", secrets=stale_there, **SASL)
    with pytest.raises(AuthenticationFailed, match=r"refused user 'ann'.*check sasl_username and sasl_password"):
        writer(guarded.rows(*"ab", **KEYED), guarded.offsets(0))
    assert writer.metrics["reruns"] == 0


@pytest.mark.parametrize(("guard", "kind"), [("turns", NotPermitted), ("driver", MustAbort)])
def test_a_permission_that_is_missing(site: Site, guard: str, kind: type[FencepostError]) -> None:
    """A retry without WRITE on the topic would fail again."""
    site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    writer = site.by_hand(guard=guard)
    with pytest.raises(kind, match="TOPIC_AUTHORIZATION_FAILED"):
        writer(site.rows(*"ab", **KEYED), site.offsets(0))
    assert writer.metrics["reruns"] == 0


def test_another_version_on_an_executor(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that was pickled by another version of fencepost writes nothing, and says which versions there are; once, and before anything
    else of it is read, which may have other fields there."""
    monkeypatch.setattr("fencepost.txn.spark.sink.write_task.VERSION", "0.0.1")
    monkeypatch.setattr("fencepost.txn.spark.sink.write_task.cloudpickle", Unreadable)
    writer = site.by_hand(guard="turns")
    with pytest.raises(Misuse, match=r"the driver has fencepost 0\.0\.1, and the executor .* has \d.*: install the same on both"):
        writer(site.rows("1", **KEYED), site.offsets(0))
    assert writer.metrics["reruns"] == 0
    assert site.committed() == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConfigError("linger_ms='x'"), ConfigError),
        (NotShared("t-1 is not part of the participation"), Misuse),
        (AuthenticationFailed("b:9092: refused\nwith a second line"), AuthenticationFailed),
        (RecordRefused("no", topic="t", partition=1, persisted=Persisted.NO, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), NotPermitted),
        (RecordRefused("no", topic="t", partition=1, persisted=Persisted.NO, code=ErrorCode.INVALID_RECORD), BadRows),
        (RecordRefused("no", topic="t", partition=1, persisted=Persisted.NO, code=ErrorCode.INVALID_TXN_STATE), None),
        (DeliveryTimeout("late", topic="t", partition=1, persisted=Persisted.MAYBE), None),
        (ParticipationEnded("over", topic="t", partition=1, persisted=Persisted.NO, code=ErrorCode.INVALID_PRODUCER_EPOCH), None),
        (ProducerClosed("the participant's sender has ended"), None),
        (ValueError("of somebody else"), None),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_what_is_told_of_an_error(error: Exception, kind: type[FencepostError] | None) -> None:
    """The class and all words come out of Spark's text around them; what may go well another time is left as it is."""
    with pytest.raises(Exception) as caught, last_words():  # which it is is what is asked
        raise error
    around = f"Job aborted.\nTraceback (most recent call last):\ntxn.spark.X: {caught.value}\n\tat java.lang.Thread.run(Thread.java:840)"
    told = heard(around)
    if kind is None:
        assert caught.value is error
        assert told is None
    else:
        assert type(told) is kind
        assert str(told).startswith(str(error))
        assert "java" not in str(told)


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("ModuleNotFoundError: No module named 'fencepost'", True),
        ("ModuleNotFoundError: No module named 'txn'", False),
        ("ModuleNotFoundError: No module named 'librt.strings'", True),
        ("ImportError: cannot import name 'Encoder' from 'msgspec' (unknown location)", True),
        ("AttributeError: Can't get attribute 'unpacked' on <module 'fencepost.txn.spark.sink.write_task' from '/x/task.py'>", True),
        ("AttributeError: Can't get attribute 'f' on <module '__main__' from 'app.py'>", False),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11.", True),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 15.0.0 must be installed; however, it was not found.", True),
        ('java.io.IOException: Cannot run program "python3": error=2, No such file or directory', True),
        ('java.io.IOException: Cannot run program "convert": error=2, No such file or directory', False),
        ("ModuleNotFoundError: No module named 'txnlike'", False),
        ("ModuleNotFoundError: No module named 'my_udfs'", False),
    ],
)
def test_executors_without_fencepost(text: str, *, absent: bool) -> None:
    """What Python says there becomes what is to be done; a module of the user's is none of ours."""
    told = heard(f"Job aborted due to stage failure:\nTraceback\n{text}\n\tat java")
    assert (told is not None) is absent
    if told is not None:
        assert text.split("IOException: ")[-1] in str(told)
        assert "PYSPARK_PYTHON or spark.pyspark.python names" in str(told)
        assert "install fencepost[spark] for the Python of every executor" in str(told)


PYTHON = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "f.py", line 1, in f
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "g.py", line 2, in g
    raise ValueError(
ValueError: rows are odd
and a second line

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PYTHON, "ValueError: rows are odd"),
        (
            "An error occurred while calling o1.collectToPython.\n: org.apache.X: of a barrier\norg.apache.PythonException:" + PYTHON[80:],
            "ValueError: rows are odd",
        ),
        ("An error occurred while calling o1.collectToPython.\n: org.apache.X: no slots\n\tat java", "org.apache.X: no slots"),
        ("[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==\n1/0\n\tat org.apache", "[DIVIDE_BY_ZERO] Division by zero."),
        ("task 0 left before it was done", "task 0 left before it was done"),
        ("", "FencepostError"),
        ("x" * 5000, "x" * 1000 + "..."),
    ],
)
def test_a_cause_in_one_line(text: str, cause: str) -> None:
    """What failed, and not where in Spark's or Python's stack."""
    assert cause_of(FencepostError(text)) == cause
