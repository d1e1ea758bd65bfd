"""A request from one broker to another whose response gets lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost.broker_stub.cluster.broker_call import TIMEOUT_MS, call_broker
from tests.broker_stub.stub_calls import Inside


@pytest.mark.parametrize("lost", ["the response", "the receiver"])
def test_a_response_that_is_lost_later(lost: str) -> None:
    """The link worked when the request came. The sender waits for request.timeout.ms, and no longer."""
    world = Inside(brokers=2)
    answers: list[str] = []
    respond: list[Callable[[str], None]] = []
    call_broker(world.cluster, 1, 2, respond.append, answers.append, refused="refused", timed_out="late")
    if lost == "the response":
        world.cluster.broker_links.sever(2, 1, one_way=True)
        respond[0]("done")
        world.cluster.broker_links.mend(1, 2)
    else:
        world.cluster.stop_broker(2)
    world.pass_time(TIMEOUT_MS - 1)
    assert answers == []
    world.pass_time(1)
    assert answers == ["late"]


def test_a_response_ends_the_waiting() -> None:
    """Nothing is left of it."""
    world = Inside(brokers=2)
    answers: list[str] = []
    respond: list[Callable[[str], None]] = []
    before = world.cluster.next_deadline()
    call_broker(world.cluster, 1, 2, respond.append, answers.append, refused="refused", timed_out="late")
    respond[0]("done")
    assert world.cluster.next_deadline() == before
    world.pass_time(TIMEOUT_MS)
    assert answers == ["done"]
