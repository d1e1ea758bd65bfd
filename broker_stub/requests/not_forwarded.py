"""The response to a request that a broker could not forward to the controller in time: REQUEST_TIMED_OUT in every result, as in Kafka.

Such a response is made from the request alone, because the broker checks nothing that the controller checks.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker_stub.faults.refused_responses import refusal
from fencepost.producer.wire import ErrorCode, Message

MESSAGE: Final = "The request timed out."


def timed_out(request: Message, version: int) -> Message:
    """The response to a request of one of the APIs that brokers forward."""
    code = ErrorCode.REQUEST_TIMED_OUT
    return refusal(request, code, lambda topic, partition: True, lambda topic_id: None, version=version, message=MESSAGE)
