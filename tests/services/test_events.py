"""The service without transactions: what a client was told is in the log, and what was only accepted is there when it has ended."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.services.serving import needs, serving

UVICORN = ("uvicorn", "events_fastapi:app", "--port", "PORT", "--timeout-graceful-shutdown", "30")
PARALLEL = 100

pytestmark = [pytest.mark.timeout(240), pytest.mark.skipif(sys.platform == "win32", reason="the servers need fork and signals")]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic("orders", partitions=2)
        stub.create_topic("clicks")
        yield stub


def test_requests_in_parallel(stub: BrokerStub, tmp_path: Path) -> None:
    """Each is told the place of its own record, also where a connection breaks after the write."""
    needs("fastapi", "uvicorn")
    broken = stub.faults.on(Api.PRODUCE).after_append().disconnect().times(2)
    with serving(stub.bootstrap, tmp_path, *UVICORN) as service:
        answers = service.place(range(PARALLEL))
        assert [answer.status for answer in answers] == [200] * PARALLEL, answers
    assert broken.hits == 2
    logs = [stub.records("orders", partition) for partition in range(2)]
    places = [(answer.body["partition"], answer.body["offset"]) for answer in answers]
    assert [logs[partition][offset].value for partition, offset in places] == [b"order %d" % number for number in range(PARALLEL)]
    assert sum(map(len, logs)) == PARALLEL


def test_what_was_accepted_is_delivered_at_the_end(stub: BrokerStub, tmp_path: Path) -> None:
    """A client that does not wait for the acknowledgement gets 202. SIGTERM ends the service, and loses nothing."""
    needs("fastapi", "uvicorn")
    with serving(stub.bootstrap, tmp_path, *UVICORN) as service, ThreadPoolExecutor(20) as threads:
        slow = stub.faults.on(Api.PRODUCE).before().delay(500).times(3)
        answers = list(threads.map(lambda number: service.ask("POST", f"/clicks/{number}"), range(20)))
        assert {answer.status for answer in answers} == {202}
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(30) in (0, -signal.SIGTERM)
    assert slow.hits
    assert {record.value for record in stub.records("clicks", 0)} == {b"click %d" % number for number in range(20)}


def test_what_a_failure_tells(tmp_path: Path) -> None:
    """422: the record is refused. 503: it is not in the log. 500: it may be there, and the client must not send it again unasked."""
    needs("fastapi", "uvicorn")
    with BrokerStub(brokers=2) as stub:
        stub.create_topic("orders", partitions=2)
        with serving(stub.bootstrap, tmp_path, *UVICORN) as service:
            stub.faults.on(Api.PRODUCE).error(ErrorCode.INVALID_RECORD)
            assert service.place([1])[0].status == 422
            # Each takes ten seconds: at the same time, with a broker each.
            places = stub.leader("orders", 0), stub.leader("orders", 1)
            assert places[0] != places[1]
            busy = stub.faults.on(Api.PRODUCE).where(node=places[0]).error(ErrorCode.NOT_ENOUGH_REPLICAS).forever()
            silent = stub.faults.on(Api.PRODUCE).where(node=places[1]).after_append().drop().forever()
            refused, unknown = service.place([2, 3])
            assert (refused.status, "NOT_ENOUGH_REPLICAS" in refused.body["error"]) == (503, True)
            assert (unknown.status, "persisted=MAYBE" in unknown.body["error"]) == (500, True)
            busy.remove()
            silent.remove()
            assert service.place([4])[0].status == 200
