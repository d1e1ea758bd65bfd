"""`Traffic` counts what the brokers' answers prove and nothing else, in the same way wherever the journal is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from fencepost import Producer
from fencepost.broker_stub import BrokerStub, Exchange, FaultProxy, Faults
from fencepost.demo.traffic import Traffic
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from tests.broker_stub.proxy.proxy_site import Site, site
from tests.broker_stub.stub_calls import batch, metadata_request, numbered, produce_request
from tests.bytes_held import bytes_held
from tests.conformance.fixtures import kafka
from tests.conformance.raw import RawConnection, Silent

__all__ = ["kafka", "site"]

pytestmark = pytest.mark.timeout(300)

VERSION = 12


def exchanged(traffic: Traffic, records: bytes, answer: tuple[int, int] | None, *, topic: str = "t", partition: int = 0) -> None:
    """Has the traffic see one batch and the error code and base offset that it was answered with; None for no answer."""
    exchange = Exchange(
        node=1,
        connection_id=1,
        api=Api.PRODUCE,
        version=VERSION,
        correlation_id=1,
        client_id=None,
        request=produce_request(topic, records, partition=partition),
        at_ms=0,
    )
    traffic.asked(exchange)
    if answer is not None:
        code, offset = answer
        said = wire.PartitionProduceResponse(index=partition, error_code=code, base_offset=offset)
        exchange.response = wire.ProduceResponse(responses=[wire.TopicProduceResponse(name=topic, partition_responses=[said])])
        traffic.answered(exchange)


def refused(*answers: tuple[bytes, tuple[int, int] | None]) -> int:
    traffic = Traffic()
    for records, answer in answers:
        exchanged(traffic, records, answer)
    return traffic.duplicates_refused


FIRST, NEXT = numbered(7, 0, 3), numbered(7, 3, 3)
APPENDED = (0, 100)


# -- what is proven --------------------------------------------------------------------------------------------------------


def test_the_same_offset_twice_is_a_duplicate() -> None:
    """Kafka answers a duplicate with the original's offset. Each answer beyond the first counts, also with others in between."""
    assert refused((FIRST, APPENDED), (FIRST, APPENDED)) == 1
    assert refused((FIRST, APPENDED), (NEXT, (0, 103)), (FIRST, APPENDED), (NEXT, (0, 103)), (FIRST, APPENDED)) == 3


def test_a_broker_that_says_so_is_believed() -> None:
    """DUPLICATE_SEQUENCE_NUMBER needs no earlier answer."""
    assert refused((FIRST, (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1))) == 1


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pytest.param((FIRST, None), (FIRST, APPENDED), id="the first answer was not seen"),
        pytest.param((FIRST, (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)), (FIRST, APPENDED), id="refused, then appended"),
        pytest.param((FIRST, (ErrorCode.REQUEST_TIMED_OUT, -1)), (FIRST, (ErrorCode.REQUEST_TIMED_OUT, -1)), id="failed twice"),
        pytest.param((FIRST, APPENDED), (FIRST, (0, 200)), id="appended twice"),
        pytest.param((FIRST, APPENDED), (NEXT, (0, 103)), id="another batch"),
        pytest.param((FIRST, APPENDED), (batch(b"v", b"v", b"v", pid=7, epoch=1, sequence=0), APPENDED), id="another epoch"),
        pytest.param((FIRST, APPENDED), (numbered(8, 0, 3), APPENDED), id="another producer"),
        pytest.param((FIRST, (0, -1)), (FIRST, (0, -1)), id="no offset"),
        pytest.param((batch(b"v"), APPENDED), (batch(b"v"), APPENDED), id="no producer id"),
    ],
)
def test_what_is_not_proven_does_not_count(
    earlier: tuple[bytes, tuple[int, int] | None], later: tuple[bytes, tuple[int, int] | None]
) -> None:
    """Two answers about different batches, or one that may be that of an append, are no refusal."""
    assert refused(earlier, later) == 0


def test_partitions_and_topics_have_their_own_offsets() -> None:
    """A batch with a known sequence and offset is another batch if it is of another partition or topic."""
    traffic = Traffic()
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        exchanged(traffic, FIRST, APPENDED, topic=topic, partition=partition)
    assert traffic.duplicates_refused == 0
    assert traffic.records == 9


def test_a_batch_is_known_as_long_as_a_broker_knows_it() -> None:
    """The fifth batch after it may be on its way before its first answer is missed."""
    traffic = Traffic()
    for number in range(6):
        exchanged(traffic, numbered(7, number), (0, number))
    exchanged(traffic, numbered(7, 0), (0, 0))
    assert traffic.duplicates_refused == 1


def test_other_apis_are_passed_over() -> None:
    """Only Produce has records."""
    traffic = Traffic()
    exchange = Exchange(
        node=1, connection_id=1, api=Api.METADATA, version=VERSION, correlation_id=1, client_id=None, request=metadata_request("t"), at_ms=0
    )
    traffic.asked(exchange)
    exchange.response = wire.MetadataResponse()
    traffic.answered(exchange)
    assert (traffic.records, traffic.duplicates_refused) == (0, 0)


def test_a_long_run_needs_no_more_memory() -> None:
    """Ten thousand batches of one producer leave a few kilobytes."""
    traffic = Traffic()
    numbers = count()
    for sequence in range(10_000):
        exchanged(traffic, numbered(7, next(numbers)), (0, sequence))
    assert traffic.records == 10_000
    assert 1_000 < bytes_held(traffic) < 100_000


# -- where it is counted ---------------------------------------------------------------------------------------------------


def test_brokers_prove_it_through_a_proxy(site: Site) -> None:
    """A batch sent three times, once unheard, is appended once and twice answered as a duplicate, by the stub as by Apache Kafka."""
    traffic = Traffic()
    site.proxy.journal.follow(traffic)
    site.proxy.faults.on(Api.PRODUCE).drop_reply()
    with site.connection(timeout=0.5) as connection, pytest.raises(Silent):
        connection.ask(site.produce(0), VERSION)
    with site.connection() as connection:
        for sequence in (0, 1, 0):
            connection.ask(site.produce(sequence), VERSION)
    assert (traffic.records, traffic.duplicates_refused) == (4, 2)
    assert site.end_offset() == 2


def troubled(make_trouble: Callable[[Faults], object], *, request_timeout_ms: int) -> tuple[Traffic, Traffic, int]:
    """A thousand records by an idempotent producer through a proxy with these faults: what followers counted there and in the stub behind
    it, and how many duplicates the stub refused."""
    before, behind = Traffic(), Traffic()
    with BrokerStub(journal=0) as stub, FaultProxy(stub.bootstrap, journal=0) as proxy:
        stub.create_topic("t", partitions=3)
        stub.journal.follow(behind)
        proxy.journal.follow(before)
        make_trouble(proxy.faults)
        with Producer(
            bootstrap_servers=proxy.bootstrap, batch_size=1000, max_request_size=3000, request_timeout_ms=request_timeout_ms
        ) as producer:
            for number in range(1000):
                producer.send("t", b"value %d" % number, partition=number % 3)
            producer.flush(30)
        assert sum(len(stub.records("t", partition)) for partition in range(3)) == 1000
        return before, behind, stub.stats()["duplicates"]


def test_where_every_answer_is_seen_every_duplicate_is() -> None:
    """Replies that the proxy drops it has seen: what it counts then is what the stub has refused, and both saw the same records."""
    before, behind, duplicates = troubled(lambda faults: faults.on(Api.PRODUCE).drop_reply(), request_timeout_ms=1500)
    assert before.duplicates_refused == duplicates > 0
    assert before.records == behind.records > 1000


def test_where_answers_are_missed_it_counts_no_more_than_there_were() -> None:
    """A cut connection loses answers. The count does not guess them."""
    before, _, duplicates = troubled(lambda faults: faults.on(Api.PRODUCE).reply().disconnect().times(5), request_timeout_ms=300)
    assert 0 < before.duplicates_refused <= duplicates
    assert before.records > 1000


def test_the_stubs_journal_tells_of_what_it_does_not_keep() -> None:
    """A follower of a stub that keeps nothing hears of every batch."""
    traffic = Traffic()
    with BrokerStub(journal=0) as stub, RawConnection(*stub.addresses.values()) as connection:
        stub.journal.follow(traffic)
        stub.create_topic("t")
        for _ in range(2):
            connection.ask(produce_request("t", FIRST), VERSION)
        assert len(stub.journal) == 0
        assert stub.stats()["duplicates"] == 1
    assert (traffic.records, traffic.duplicates_refused) == (6, 1)
