"""Timestamps in seconds are records of 1970, which brokers delete soon. The log says so, once for each topic."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from tests.producer.stub_helpers import quick

SECONDS = 1_800_000_000
WORDS = (
    "topic t: timestamp=1800000000 is 1970-01-21, because timestamps are milliseconds since 1970; as seconds it would be 2027-01-15. "
    "Brokers delete records that are older than the topic's retention.ms: multiply by 1000"
)
CALLS: dict[str, Callable[[Producer, int], object]] = {
    "send": lambda producer, timestamp: producer.send("t", b"v", timestamp=timestamp).result(20),
    "send_many": lambda producer, timestamp: producer.send_many("t", [(None, b"v", None, timestamp)]).result(20),
    "send_arrow": lambda producer, timestamp: producer.send_arrow(
        "t", pa.table({"value": [b"v"], "at": pa.array([timestamp])}), timestamp="at"
    ).result(20),
}


@pytest.mark.parametrize("call", CALLS)
def test_seconds_are_told_once(call: str, caplog: pytest.LogCaptureFixture) -> None:
    """In one line for the topic. The stub deletes such records at once, as Kafka does."""
    with BrokerStub() as stub, quick(stub) as producer:
        for _ in range(3):
            CALLS[call](producer, SECONDS)
        assert caplog.messages == [WORDS]
        assert len(stub.records("t", 0)) == 3
        stub.clean_logs()
        assert stub.records("t", 0) == []


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("timestamp", [0, 5, 999_999_999, 10_000_000_000, 1_700_000_000_000])
def test_other_timestamps_are_not_told(call: str, timestamp: int, caplog: pytest.LogCaptureFixture) -> None:
    """Those of tests, of years after April 1970, and of 2023."""
    with BrokerStub() as stub, quick(stub) as producer:
        CALLS[call](producer, timestamp)
        assert not [each for each in caplog.messages if "timestamp=" in each]
