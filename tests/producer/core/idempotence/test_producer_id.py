"""The producer id: asked for once, and after a refusal that may pass again, but not at once."""

from __future__ import annotations

import pytest

from fencepost.producer.core.events import Appended
from fencepost.producer.wire import Api, ErrorCode, InitProducerIdResponse
from tests.producer.core.harness import PID, Desk, Flight


def questions(desk: Desk) -> list[Flight]:
    return [flight for flight in desk.open if flight.api is Api.INIT_PRODUCER_ID]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_SERVER_ERROR], ids=lambda code: code.name)
def test_a_refusal_is_answered_with_patience(code: ErrorCode) -> None:
    """Each time it is refused the next question waits for retry_backoff_ms, whatever else happens meanwhile."""
    desk = Desk(retry_backoff_ms=10.0, retry_backoff_max_ms=10.0)
    desk.auto.discard(Api.INIT_PRODUCER_ID)
    desk.learn()
    (future,) = desk.send(b"x")
    for _ in range(3):
        (question,) = questions(desk)
        desk.reply(question, InitProducerIdResponse(error_code=code))
        desk.happen(Appended())
        assert questions(desk) == []
        desk.advance(20)
    (question,) = questions(desk)
    desk.reply(question, InitProducerIdResponse(producer_id=PID, producer_epoch=0))
    (produce,) = desk.produces()
    desk.ack(produce)
    assert future.exception(0) is None


def test_a_lost_question_is_asked_again_with_patience() -> None:
    """The link dies under it: the next question waits, too."""
    desk = Desk(retry_backoff_ms=10.0, retry_backoff_max_ms=10.0, nodes=1)
    desk.auto.discard(Api.INIT_PRODUCER_ID)
    desk.learn()
    desk.send(b"x")
    (question,) = questions(desk)
    desk.lose(question.node)
    desk.happen(Appended())
    assert questions(desk) == []
    desk.advance(2_000)
    assert len(questions(desk)) == 1
