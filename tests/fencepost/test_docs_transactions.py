"""The program of docs/transactions.md that reads, processes and writes gives each input one output, also after an aborted transaction."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost import Api, BrokerStub, ErrorCode, Producer
from tests.pages import page_text, programs

PAGE = page_text("transactions.md")
INPUTS = 20
TIMEOUT_S = 60


class Stopped(Exception):
    """Ends the program's endless loop."""


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("committed_before", [0, 5], ids=["without a committed offset", "behind committed offsets"])
def test_the_program_reads_again_after_an_abort(committed_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first transaction must be aborted. The program seeks back to the committed offsets, and each input has one output."""
    (program,) = [each for each in programs(PAGE) if "send_offsets" in each]
    assert 'BOOTSTRAP = "localhost:9092"' in program
    with BrokerStub() as stub:
        stub.create_topic("orders")
        stub.create_topic("invoices")
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            for number in range(INPUTS):
                producer.send("orders", b"%d" % number)
        if committed_before:
            _commit(stub.bootstrap, committed_before)
        refused = stub.faults.on(Api.PRODUCE).where(topic="invoices").error(ErrorCode.INVALID_RECORD)

        class Stopping(Consumer):
            """Ends the program once every input has an output."""

            def consume(self, *arguments: Any, **named: Any) -> Any:
                if len(stub.records("invoices", 0)) >= INPUTS - committed_before:
                    raise Stopped
                return super().consume(*arguments, **named)

        monkeypatch.setattr("confluent_kafka.Consumer", Stopping)
        names: dict[str, Any] = {}
        with pytest.raises(Stopped):
            exec(program.replace("localhost:9092", stub.bootstrap), names)
        names["consumer"].close()
        assert refused.hits == 1
        assert [record.value for record in stub.records("invoices", 0)] == [
            b"invoice for %d" % number for number in range(committed_before, INPUTS)
        ]


def _commit(bootstrap: str, offset: int) -> None:
    """The group has committed this offset of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()
