"""The programs of docs/pipelines.md: the loop gives each input one output, through an abort and a rebalance; dead letters come again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from fencepost import Api, BrokerStub, ErrorCode, Pipeline, PoisonMessage, Producer
from fencepost.txn.pipeline.settings import PipelineSettings
from tests.pages import page_text, programs
from tests.reading import read_values
from tests.waiting import until

PAGE = page_text("pipelines.md")
INPUTS = 2_000
SESSION_MS = 2_000
"""The group waits so long for the member that was told that it is unknown, and joins again as another one."""
TIMEOUT_S = 100


class Stopped(Exception):
    """Ends the program's endless loop."""


@pytest.mark.timeout(TIMEOUT_S)
def test_the_loop_reads_again_after_an_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second transaction must be aborted, and another member comes and goes. Each input has one output."""
    (program,) = [each for each in programs(PAGE) if "send_offsets" in each]
    with BrokerStub(config={"group.min.session.timeout.ms": SESSION_MS}) as stub:
        stub.create_topic("orders", partitions=3)
        stub.create_topic("invoices", partitions=1)
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            producer.send_many("orders", [b"%d" % number for number in range(INPUTS)])
        refused = stub.faults.on(Api.TXN_OFFSET_COMMIT).on_call(2).error(ErrorCode.ILLEGAL_GENERATION)
        stub.faults.on(Api.HEARTBEAT).on_call(2).error(ErrorCode.UNKNOWN_MEMBER_ID)

        class Stopping(Consumer):
            """Ends the program once every input has an output."""

            def __init__(self, settings: dict[str, Any]) -> None:
                super().__init__({**settings, "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20})

            def consume(self, *arguments: Any, **named: Any) -> Any:
                if len(stub.records("invoices", 0)) >= INPUTS:
                    raise Stopped
                return super().consume(*arguments, **named)

        monkeypatch.setattr("confluent_kafka.Consumer", Stopping)
        names: dict[str, Any] = {}
        with pytest.raises(Stopped):
            exec(program.replace("localhost:9092", stub.bootstrap), names)
        names["consumer"].close()
        assert refused.hits == 1
        assert sorted(read_values(stub.bootstrap, "invoices")) == sorted(b"invoice for %d" % number for number in range(INPUTS))


@pytest.mark.timeout(TIMEOUT_S)
def test_dead_letters_are_sent_again() -> None:
    """Each once, with its own key and headers, to the topic that it came from. A second run sends nothing; one that was cut stops it."""
    (program,) = [each for each in programs(PAGE) if "dead-again" in each]
    with BrokerStub() as stub:
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            for number in range(5):
                producer.send("orders", b"%d" % number, key=b"k%d" % number, headers=[("from", b"shop")])
        with Pipeline(
            bootstrap_servers=stub.bootstrap, source="orders", group="billing", sink="invoices", transform=not_yet, dead_letters="dead"
        ) as pipeline:
            pipeline.run_until_idle(timeout=TIMEOUT_S)
        assert [record.value for record in stub.records("dead", 0)] == [b"3", b"4"]
        for _ in range(2):
            exec(program.replace("localhost:9092", stub.bootstrap), {})
        again = stub.records("orders", 0)[5:]
        assert [(each.key, each.value, list(each.headers)) for each in again] == [
            (b"k3", b"3", [("from", b"shop")]),
            (b"k4", b"4", [("from", b"shop")]),
        ]
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            producer.send("dead", b"the beginning", headers=[("fencepost.cut", b"True"), ("fencepost.topic", b"orders")])
        with pytest.raises(PoisonMessage, match="the value was cut"):
            exec(program.replace("localhost:9092", stub.bootstrap), {})


@pytest.mark.timeout(TIMEOUT_S)
def test_the_process_ends_at_sigterm(tmp_path: Path) -> None:
    """It has committed what it processed, and ends without an error."""
    (program,) = [each for each in programs(PAGE) if "SIGTERM" in each]
    with BrokerStub() as stub:
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            producer.send("orders", b"order 1", key=b"k")
        stub.create_topic("invoices")
        process = subprocess.Popen([sys.executable, "-c", program.replace("localhost:9092", stub.bootstrap)], cwd=tmp_path)
        try:
            until(lambda: stub.records("invoices", 0), "it has written", timeout_s=TIMEOUT_S)
            process.terminate()
            assert process.wait(timeout=TIMEOUT_S) == 0
        finally:
            process.kill()
            process.wait(timeout=TIMEOUT_S)
        assert [(each.key, each.value) for each in stub.records("invoices", 0)] == [(b"k", b"invoice for order 1")]
        assert committed(stub, "billing") == 1


def committed(stub: BrokerStub, group: str) -> int:
    """The group's offset in the only partition of the orders."""
    consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": group})
    try:
        (place,) = consumer.committed([TopicPartition("orders", 0)], timeout=TIMEOUT_S)
        return int(place.offset)
    finally:
        consumer.close()


def not_yet(message: Message) -> bytes | None:
    """A function that cannot do the newest messages."""
    value = message.value() or b""
    if value in (b"3", b"4"):
        raise ValueError(value)
    return value


def test_every_setting_is_on_the_page() -> None:
    """The table of settings names every setting, with its default."""
    for name in PipelineSettings.__struct_fields__:
        assert f"`{name}`" in PAGE, name
    for name, default in (("batch_size", "10,000, 100"), ("attempts", "3"), ("transaction_timeout_ms", "30,000"), ("aborts_max", "10")):
        assert re.search(rf"`{name}`[^|]*\| {default} \|", PAGE), name
