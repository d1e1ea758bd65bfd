"""Reading ranges of the stub's partitions: what is committed, what is gone, leaders that move, and every wait with an end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.producer import Producer
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.reading import Isolation, Limits, LogReader, OffsetsGone, PartitionGone, ReadTimeout
from fencepost.txn.reading.limits import EARLIEST, LATEST

TOPIC = "flights"
WAIT_S = 30.0


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3, seed=1) as stub:
        stub.create_topic(TOPIC, partitions=2)
        yield stub


def reader(stub: BrokerStub, isolation: Isolation = Isolation.READ_COMMITTED, *, request_timeout_ms: int = 700, **limits: Any) -> LogReader:
    settings = read_settings({"bootstrap_servers": stub.bootstrap, "retry_backoff_ms": 1, "request_timeout_ms": request_timeout_ms})
    return LogReader(settings, isolation=isolation, limits=Limits(**{"timeout_ms": 20_000, "fetch_max_wait_ms": 50, **limits}))


def write(stub: BrokerStub, values: list[bytes], partition: int = 0) -> None:
    with Producer(bootstrap_servers=stub.bootstrap, batch_size=300) as producer:
        for value in values:
            producer.send(TOPIC, value, partition=partition)
        producer.flush(WAIT_S)


def values(log: LogReader, start: int, until: int, partition: int = 0) -> list[bytes]:
    return [value for batch in log.read(TOPIC, partition, start, until) for value in batch.column("value").to_pylist()]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_a_range_is_read_whole_and_nothing_beside_it(stub: BrokerStub) -> None:
    """In many answers and pieces: each record once, in order, from the first offset to before the last."""
    write(stub, numbered(500))
    with reader(stub, fetch_bytes=200, rows=7) as log:
        assert log.partitions([TOPIC]) == [(TOPIC, 0), (TOPIC, 1)]
        assert log.offsets({(TOPIC, 0): EARLIEST, (TOPIC, 1): LATEST}) == {(TOPIC, 0): 0, (TOPIC, 1): 0}
        assert log.offsets({(TOPIC, 0): LATEST}) == {(TOPIC, 0): 500}
        assert values(log, 13, 487) == numbered(500)[13:487]
        assert values(log, 7, 7) == []


def test_committed_readers_see_what_is_committed_and_others_all(stub: BrokerStub) -> None:
    """Transactions committed, aborted and open, and records in none, between one another."""
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="one") as producer:
        with producer.transaction(WAIT_S) as tx:
            tx.send(TOPIC, b"committed", partition=0)
        write(stub, [b"plain"])
        with pytest.raises(KeyError), producer.transaction(WAIT_S) as tx:
            tx.send(TOPIC, b"aborted", partition=0).result(WAIT_S)
            raise KeyError
        with producer.transaction(WAIT_S) as tx:
            tx.send(TOPIC, b"later", partition=0)
        opened = producer.begin(WAIT_S)
        opened.send(TOPIC, b"open", partition=0).result(WAIT_S)
        with reader(stub) as log, reader(stub, Isolation.READ_UNCOMMITTED) as raw:
            (lso,) = log.offsets({(TOPIC, 0): LATEST}).values()
            (end,) = raw.offsets({(TOPIC, 0): LATEST}).values()
            assert (lso, end) == (7, 8)
            assert values(log, 0, 7) == [b"committed", b"plain", b"later"]
            assert values(raw, 0, 8) == [b"committed", b"plain", b"aborted", b"later", b"open"]
        opened.abort(WAIT_S)


def test_offsets_by_time(stub: BrokerStub) -> None:
    """The first record that is not older; None where all are."""
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for n in range(5):
            producer.send(TOPIC, b"", partition=0, timestamp=1_000 * n + 1_000)
        producer.flush(WAIT_S)
    with reader(stub) as log:
        assert [log.offsets({(TOPIC, 0): ms})[TOPIC, 0] for ms in (0, 1_000, 2_500, 5_000, 5_001)] == [0, 0, 2, 4, None]


def test_what_is_gone_is_said(stub: BrokerStub) -> None:
    """An offset outside of the log gives an error with the log's range. A topic and a partition that do not exist give an error, too."""
    write(stub, numbered(3))
    with reader(stub) as log:
        with pytest.raises(OffsetsGone) as gone:
            values(log, 10, 20)
        assert (gone.value.offset, gone.value.earliest, gone.value.latest) == (10, 0, 3)
        with pytest.raises(PartitionGone, match="nothing"):
            log.partitions(["nothing"])
        with pytest.raises(PartitionGone, match="partition 9"):
            values(log, 0, 1, partition=9)
        assert log.topics_like("fl.*|x") == [TOPIC]
        assert log.topics_like("fl") == []


def test_a_wait_for_what_never_comes_ends(stub: BrokerStub) -> None:
    """With the reason, after `timeout_ms`: records that were promised and are not there, brokers that are not there."""
    write(stub, numbered(3))
    with reader(stub, timeout_ms=2_000, request_timeout_ms=20_000) as log, pytest.raises(ReadTimeout, match="ends at offset 3"):
        values(log, 0, 4)
    for node in (1, 2, 3):
        stub.stop_broker(node)
    with reader(stub, timeout_ms=200) as log, pytest.raises(ReadTimeout):
        values(log, 0, 3)


def test_leaders_that_move_and_replies_that_are_lost_cost_no_record(stub: BrokerStub) -> None:
    """No record is lost or read twice while leaders move and replies are lost."""
    write(stub, numbered(300))
    stub.faults.on(Api.FETCH).drop_reply()
    stub.faults.on(Api.FETCH).error(ErrorCode.NOT_LEADER_OR_FOLLOWER).times(2)
    found: list[bytes] = []
    with reader(stub, fetch_bytes=300, rows=1) as log:
        for count, batch in enumerate(log.read(TOPIC, 0, 0, 300)):
            found += batch.column("value").to_pylist()
            if count < 3:
                stub.move_leader(TOPIC, 0)
    assert count > 3
    assert found == numbered(300)


def test_a_reader_that_stops_in_the_middle_leaves_nothing_behind(stub: BrokerStub) -> None:
    """The answer that is on its way is let go; the next range is read as any other. Closed twice is closed."""
    write(stub, numbered(300))
    with reader(stub, fetch_bytes=500, rows=1) as log:
        rows = log.read(TOPIC, 0, 0, 300)
        next(rows)
        rows.close()  # type: ignore[attr-defined]  # it is a generator
        assert values(log, 290, 300) == numbered(300)[290:]
        rows = log.read(TOPIC, 0, 0, 300)
        next(rows)
    log.close()


def test_two_threads_close_it_at_once(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call may come when the reader's thread has closed its loop, and has not ended yet."""
    log = reader(stub)
    loop = log._thread._loop
    close = loop.close
    closed, go_on = threading.Event(), threading.Event()

    def close_slowly() -> None:
        close()
        closed.set()
        go_on.wait(WAIT_S)

    monkeypatch.setattr(loop, "close", close_slowly)
    first = threading.Thread(target=log.close)
    first.start()
    assert closed.wait(WAIT_S)
    threading.Timer(0.1, go_on.set).start()
    log.close()
    first.join()
    assert not log._thread.alive


def test_a_closed_reader_says_so(stub: BrokerStub) -> None:
    """Every call of it."""
    log = reader(stub)
    log.close()
    for call in (lambda: log.partitions([TOPIC]), lambda: log.offsets({(TOPIC, 0): LATEST}), lambda: values(log, 0, 1)):
        with pytest.raises(RuntimeError, match="the reader was closed"):
            call()


def test_a_batch_of_very_many_records_is_taken_in_shares(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may have very many records in few bytes. The reader's memory does not grow with them: it returns the batch in pieces, each
    record once and in order, for every range."""
    monkeypatch.setattr("fencepost.txn.reading.reader.SHARE_ROWS", 100)
    with Producer(bootstrap_servers=stub.bootstrap, linger_ms=1000) as producer:
        producer.send_many(TOPIC, [(None, each) for each in numbered(1000)], partition=0).result(WAIT_S)
    with reader(stub, rows=1) as log:
        pieces = list(log.read(TOPIC, 0, 0, 1000))
        assert max(piece.num_rows for piece in pieces) <= 100
        assert [value for piece in pieces for value in piece.column("value").to_pylist()] == numbered(1000)
        assert values(log, 150, 777) == numbered(1000)[150:777]
    monkeypatch.setattr("fencepost.txn.reading.reader.SHARES_MAX", 3)
    with reader(stub, rows=1) as log:
        assert [piece.num_rows for piece in log.read(TOPIC, 0, 0, 1000)] == [334, 334, 332]
