"""The producer id: asked for once, and after a refusal that may pass again, but not at once."""

from __future__ import annotations

import pytest

from fencepost.producer.core.events import Appended
from fencepost.producer.wire import Api, ErrorCode, InitProducerIdResponse
from tests.producer.core.harness import PID, CoreHarness, Flight


def questions(harness: CoreHarness) -> list[Flight]:
    return [flight for flight in harness.open if flight.api is Api.INIT_PRODUCER_ID]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_SERVER_ERROR], ids=lambda code: code.name)
def test_a_refusal_is_answered_with_patience(code: ErrorCode) -> None:
    """After each refusal the next InitProducerId waits for retry_backoff_ms, also when other events happen in between."""
    harness = CoreHarness(retry_backoff_ms=10.0, retry_backoff_max_ms=10.0)
    harness.auto.discard(Api.INIT_PRODUCER_ID)
    harness.learn()
    (future,) = harness.send(b"x")
    for _ in range(3):
        (question,) = questions(harness)
        harness.reply(question, InitProducerIdResponse(error_code=code))
        harness.happen(Appended())
        assert questions(harness) == []
        harness.advance(20)
    (question,) = questions(harness)
    harness.reply(question, InitProducerIdResponse(producer_id=PID, producer_epoch=0))
    (produce,) = harness.produces()
    harness.ack(produce)
    assert future.exception(0) is None


def test_a_lost_question_is_asked_again_with_patience() -> None:
    """The connection dies under it: the next question waits, too."""
    harness = CoreHarness(retry_backoff_ms=10.0, retry_backoff_max_ms=10.0, nodes=1)
    harness.auto.discard(Api.INIT_PRODUCER_ID)
    harness.learn()
    harness.send(b"x")
    (question,) = questions(harness)
    harness.lose(question.node)
    harness.happen(Appended())
    assert questions(harness) == []
    harness.advance(2_000)
    assert len(questions(harness)) == 1
