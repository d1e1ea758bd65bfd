"""What a topic's error code in an answer to Metadata means for a caller that waits for the topic."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import NoUsableBroker, RecordRefused, TopicUnavailable, topics
from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import Shared
from fencepost.producer.core.error_classes import KINDS, RETRIABLE_KINDS
from fencepost.producer.core.error_table import ErrorAction, judge
from fencepost.producer.core.events import Announce, Change, Heard
from fencepost.producer.wire import Api, ErrorCode
from tests.later import jumping, limit_passes
from tests.producer.stub_helpers import quick

RETRIABLE = {
    *(code for code, kind in KINDS.items() if kind in RETRIABLE_KINDS),
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
SHOWN = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


@pytest.mark.parametrize("code", sorted(RETRIABLE), ids=lambda code: ErrorCode(code).name)
def test_the_producer_asks_again_after_a_retriable_code(code: int) -> None:
    """For each code that Kafka calls retriable, and for UNKNOWN_SERVER_ERROR, the producer asks for the metadata again."""
    assert judge(Api.METADATA, code).action is ErrorAction.REFRESH


@pytest.mark.parametrize("code", SHOWN, ids=lambda code: code.name)
def test_send_to_a_new_topic_waits_while_the_code_is_retriable(code: ErrorCode) -> None:
    """send to a new topic waits while the brokers answer with a retriable code, and then delivers the record."""
    with BrokerStub() as stub, quick(stub) as producer:
        fault = stub.faults.on(Api.METADATA).where(topic="t").before().times(3).error(code)
        assert producer.send("t", b"x").result(20).offset == 0
        assert fault.hits == 3


@pytest.mark.parametrize("code", SHOWN, ids=lambda code: code.name)
def test_the_wait_ends_with_max_block_ms_and_names_the_code(code: ErrorCode) -> None:
    """If the code stays, send raises TopicUnavailable after max_block_ms, which names the code and its reason."""
    with jumping() as jump, BrokerStub() as stub, quick(stub, max_block_ms=60_000) as producer:
        fault = stub.faults.on(Api.METADATA).where(topic="t").before().forever().error(code)
        late = limit_passes(jump, 60_000, producer, lambda: producer.send("t", b"x"), lambda: fault.hits >= 2)
    assert isinstance(late, TopicUnavailable)
    assert re.search(rf"'t' did not become available within max_block_ms=60000: .*{code.name}: [a-z]", str(late))


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION], ids=lambda code: code.name)
def test_a_record_without_a_partition_is_named_by_its_topic(code: ErrorCode) -> None:
    """The error of a topic that brokers refuse names the topic alone if the record has no partition, and nothing calls the code unknown."""
    with BrokerStub() as stub, quick(stub) as producer:
        stub.faults.on(Api.METADATA).where(topic="secret").before().forever().error(code)
        with pytest.raises(RecordRefused, match=rf"^secret: .*\[{code.name}\]") as refused:
            producer.send("secret", b"x")
        assert "does not know" not in str(refused.value)
        with pytest.raises(RecordRefused, match=r"^secret-3: "):
            producer.send("secret", b"x", partition=3)


def test_only_a_call_that_waits_for_long_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log warns of a missing topic if a call has waited for two seconds. An earlier attempt that ended does not count, and neither does
    metadata that no call waits for."""
    now = [100.0]
    monkeypatch.setattr(topics, "time", SimpleNamespace(monotonic=lambda: now[0]))
    accumulator = Accumulator(batch_size=0, buffer_memory=1 << 20, clock=lambda: 0.0, shared=Shared(patience_s=1.0))
    names = topics.Topics(accumulator, partial(TopicQueues, draw=lambda: 0, round_robin=False), 60_000.0)
    missing = Announce(Heard("lines", Change.MISSING, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def warnings() -> int:
        return sum("a call still waits for topic 'lines'" in record.getMessage() for record in caplog.records)

    with names.waiting("lines"):
        names.announce(missing)
    now[0] += 60
    names.announce(missing)
    now[0] += 60
    names.announce(missing)
    with names.waiting("lines"):
        names.announce(missing)
        now[0] += 1.9
        names.announce(missing)
        assert warnings() == 0
        now[0] += 0.2
        names.announce(missing)
        names.announce(missing)
        assert warnings() == 1


def test_what_is_remembered_of_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer whose topics' names come from data keeps the newest failures, refusals and warnings of brokers, and those of topics for
    which a call waits."""
    now = [100.0]
    monkeypatch.setattr(topics, "time", SimpleNamespace(monotonic=lambda: now[0]))
    accumulator = Accumulator(batch_size=0, buffer_memory=1 << 20, clock=lambda: 0.0, shared=Shared(patience_s=1.0))
    names = topics.Topics(accumulator, partial(TopicQueues, draw=lambda: 0, round_robin=False), 60_000.0)
    failure = NoUsableBroker("no broker told")
    with names.waiting("first"):
        for topic in ("first", *(f"t{number}" for number in range(3 * topics.REMEMBERED))):
            with names.waiting(topic):
                names.announce(Announce(Heard(topic, Change.MISSING, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
                now[0] += topics.SAY_MISSING_S
                names.announce(Announce(Heard(topic, Change.MISSING, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
            names.announce(Announce(Heard(topic, Change.REFUSED, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
            names.announce(Announce(Heard(topic, Change.MISSING, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), failure=failure))
        kept = (names._missing, names._refused, names._unheard, names._warned, names._missing_since)
        assert [len(each) <= topics.REMEMBERED for each in kept] == [True] * len(kept)
        with pytest.raises(RecordRefused):
            names.look("first", -1)
        del names._refused["first"]
        with pytest.raises(NoUsableBroker, match="no broker told"):
            names.look("first", -1)
