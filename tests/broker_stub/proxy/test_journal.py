"""The proxy's journal: the brokers' requests and responses, also with faults, on the stub and on Apache Kafka."""

from __future__ import annotations

import secrets
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, Exchange
from fencepost.broker_stub.journal.exchange import Heard
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.journal.memory import RECORDS_BYTES_MAX
from fencepost.broker_stub.proxy import messages as proxy_messages
from fencepost.broker_stub.proxy.journal import note_answer
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.records import BATCH_OVERHEAD, read_header, read_records
from tests.broker_stub.proxy.proxy_site import Site, create, site
from tests.broker_stub.stub_calls import batch, fetch_request, metadata_request, numbered, only, produce_request
from tests.conformance import batches
from tests.conformance.asks_log import produce_request as produce_many
from tests.conformance.fixtures import kafka
from tests.conformance.raw import Closed, RawConnection, Silent
from tests.conformance.stage import Topic
from tests.waiting import until

__all__ = ["kafka", "site"]

pytestmark = pytest.mark.timeout(300)

VERSION = 12


class Seen:
    """A follower that remembers everything."""

    def __init__(self) -> None:
        self.questions: list[Exchange] = []
        self.answers: list[Exchange] = []

    def asked(self, exchange: Exchange) -> None:
        self.questions.append(exchange)

    def answered(self, exchange: Exchange) -> None:
        self.answers.append(exchange)


def produced(proxy: FaultProxy) -> list[Exchange]:
    return proxy.journal.requests(Api.PRODUCE)


def verdict(exchange: Exchange) -> tuple[Heard | None, int, int]:
    """What the client heard, and the code and offset that the broker gave to the one partition."""
    assert exchange.response is not None
    answer = only(exchange.response)
    return exchange.heard, answer.error_code, answer.base_offset


# -- what an exchange says -------------------------------------------------------------------------------------------------


def test_an_exchange_is_kept_with_its_answer(site: Site) -> None:
    """The journal has the client, request, version, connection and broker of an exchange, and its response."""
    with site.connection() as connection, site.connection() as other:
        connection.ask(metadata_request(site.topic.name), VERSION)
        connection.ask(site.produce(0), VERSION)
        other.ask(metadata_request(site.topic.name), VERSION)
    (exchange,) = produced(site.proxy)
    assert (exchange.node, exchange.api, exchange.version) == (min(site.proxy.addresses), Api.PRODUCE, VERSION)
    assert (exchange.client_id, exchange.correlation_id) == (connection.client_id, 2)
    assert verdict(exchange) == (Heard.ALL, 0, 0)
    request: Any = exchange.request
    assert read_header(request.topic_data[0].partition_data[0].records).producer_id == 4711
    mine, others = site.proxy.journal.requests(Api.METADATA)
    assert mine.connection_id == exchange.connection_id != others.connection_id
    assert mine.at_ms <= exchange.at_ms <= others.at_ms
    assert exchange.at_ms == pytest.approx(batches.now_ms(), abs=60_000)


def test_brokers_are_where_they_say_they_are(site: Site) -> None:
    """The client is shown the proxy's address; the journal has the broker's."""
    with site.connection() as connection:
        shown: Any = connection.ask(metadata_request(site.topic.name), VERSION)
    (exchange,) = site.proxy.journal.requests(Api.METADATA)
    given: Any = exchange.response
    assert exchange.heard is Heard.ALL
    assert [f"{each.host}:{each.port}" for each in given.brokers] == [site.upstream]
    assert (shown.brokers[0].host, shown.brokers[0].port) in site.proxy.addresses.values()


# -- what faults make of it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "outcome", "heard"),
    [
        pytest.param(lambda rule: rule.drop_reply(), Silent, Heard.NOTHING, id="reply dropped"),
        pytest.param(lambda rule: rule.reply().drop(), Silent, Heard.NOTHING, id="reply dropped late"),
        pytest.param(lambda rule: rule.after_append().disconnect(), Closed, Heard.NOTHING, id="cut"),
        pytest.param(lambda rule: rule.reply().disconnect(), Closed, Heard.NOTHING, id="cut in the reply"),
        pytest.param(lambda rule: rule.after_append().error(ErrorCode.REQUEST_TIMED_OUT), None, Heard.CHANGED, id="error"),
        pytest.param(lambda rule: rule.reply().throttle(1), None, Heard.CHANGED, id="throttled"),
        pytest.param(lambda rule: rule.reply().delay(1), None, Heard.ALL, id="delayed"),
    ],
)
def test_the_journal_has_the_brokers_response_beside_the_clients(
    site: Site, fault: Callable[[object], object], outcome: type[Exception] | None, heard: Heard
) -> None:
    """A batch that was appended is answered so in the journal, with its offset, and beside it stands what the client was sent of that."""
    fault(site.proxy.faults.on(Api.PRODUCE))
    with site.connection(timeout=0.5 if outcome is Silent else 30) as connection:
        if outcome is None:
            connection.ask(site.produce(0), VERSION)
        else:
            with pytest.raises(outcome):
                connection.ask(site.produce(0), VERSION)
    until(lambda: any(each.response for each in produced(site.proxy)), "the broker has answered, perhaps after the client gave up")
    (exchange,) = produced(site.proxy)
    assert verdict(exchange) == (heard, 0, 0)


def test_later_answers_on_a_silent_connection_are_still_the_brokers(site: Site) -> None:
    """After a dropped reply the client hears nothing more, while the brokers go on answering."""
    site.proxy.faults.on(Api.PRODUCE).drop_reply()
    with site.connection() as connection:
        for sequence in range(3):
            connection.send(site.produce(sequence), VERSION)
        until(lambda: len(produced(site.proxy)) == 3 and all(each.response for each in produced(site.proxy)), "every Produce is answered")
    assert [verdict(each) for each in produced(site.proxy)] == [(Heard.NOTHING, 0, offset) for offset in range(3)]


def test_what_was_kept_from_the_broker_was_not_said_to_it(site: Site) -> None:
    """A request that a fault drops, cuts or refuses before the broker is in no exchange with the broker."""
    rule = site.proxy.faults.on(Api.PRODUCE).before().error(ErrorCode.NOT_ENOUGH_REPLICAS)
    with site.connection() as connection:
        assert only(connection.ask(site.produce(0), VERSION)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    rule.remove()
    site.proxy.faults.on(Api.PRODUCE).before().disconnect()
    with site.connection() as connection, pytest.raises(Closed):
        connection.ask(site.produce(0), VERSION)
    assert produced(site.proxy) == []
    assert site.end_offset() == 0


def test_a_request_that_was_refused_in_part_is_what_was_left_of_it(site: Site) -> None:
    """The broker was asked about one topic of two, and that is what the journal says; the client heard something else."""
    other = f"other-{secrets.token_hex(4)}"
    create(site.upstream, other)
    site.proxy.faults.on(Api.PRODUCE).where(topic=other).before().error(ErrorCode.NOT_ENOUGH_REPLICAS)
    data = batches.plain().encode()
    with site.connection() as connection:
        connection.ask(produce_many([(Topic(other, wire.ZERO_UUID), 0, data), (site.topic, 0, data)], VERSION), VERSION)
    (exchange,) = produced(site.proxy)
    request: Any = exchange.request
    assert [topic.name for topic in request.topic_data] == [site.topic.name]
    assert verdict(exchange) == (Heard.CHANGED, 0, 0)


def test_a_request_that_was_doubled_is_two(site: Site) -> None:
    """The broker was asked twice and answered twice; the client heard the first answer."""
    site.proxy.faults.on(Api.PRODUCE).before().duplicate()
    with site.connection() as connection:
        connection.ask(site.produce(0), VERSION)
        until(lambda: all(each.response for each in produced(site.proxy)), "every Produce is answered")
    assert [verdict(each) for each in produced(site.proxy)] == [(Heard.ALL, 0, 0), (Heard.NOTHING, 0, 0)]
    assert site.end_offset() == 1


def test_where_no_answer_came_there_is_none(site: Site) -> None:
    """acks 0 asks for no answer, and has none."""
    with site.connection() as connection:
        connection.send(site.produce(0, acks=0), VERSION)
        connection.ask(wire.ApiVersionsRequest(), 0)
    (exchange,) = produced(site.proxy)
    assert (exchange.response, exchange.heard) == (None, Heard.NOTHING)


def test_a_connection_that_ends_before_the_answer_leaves_it_open() -> None:
    """The batch is in the log and the broker never said so: the journal does not know either."""
    with BrokerStub() as stub, FaultProxy(stub.bootstrap) as proxy:
        stub.create_topic("t")
        held = stub.faults.on(Api.PRODUCE).after_append().hold()
        with RawConnection(*proxy.addresses.values()) as connection:
            connection.send(produce_request("t", numbered(7, 0)), VERSION)
            held.wait(1, 20)
            proxy.cut_connections()
            assert connection.is_closed()
        held.release()
        until(lambda: proxy.stats()["open"] == 0, "every connection is closed")
        assert len(stub.records("t", 0)) == 1
        (exchange,) = produced(proxy)
        assert (exchange.response, exchange.heard) == (None, Heard.NOTHING)


# -- what it costs ---------------------------------------------------------------------------------------------------------


def test_the_oldest_go_first() -> None:
    """No more exchanges are kept than was asked for, and they stay when the proxy has ended."""
    with BrokerStub() as stub, FaultProxy(stub.bootstrap, journal=3) as proxy:
        with RawConnection(*proxy.addresses.values()) as connection:
            for number in range(5):
                connection.ask(metadata_request(f"t{number}"), VERSION)
        kept: list[Any] = [each.request for each in proxy.journal.requests()]
        assert [request.topics[0].name for request in kept] == ["t2", "t3", "t4"]
    assert len(proxy.journal) == 3


def test_without_a_journal_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests and answers that pass as they are pass unread; with a journal each of them is read once."""
    read: list[str] = []

    def spied(name: str) -> Callable[..., object]:
        original = getattr(proxy_messages, name)

        def spy(*args: object, **more: object) -> object:
            read.append(name)
            return original(*args, **more)

        return spy

    for name in ("decode", "decode_response"):
        monkeypatch.setattr(proxy_messages, name, spied(name))
    for journal, expected in ((0, 0), (1000, 4)):
        read.clear()
        with BrokerStub() as stub, FaultProxy(stub.bootstrap, journal=journal) as proxy:
            stub.create_topic("t")
            with RawConnection(*proxy.addresses.values()) as connection:
                connection.ask(produce_request("t", numbered(7, 0)), 9)
                connection.ask(fetch_request("t"), VERSION)
            assert len(proxy.journal) == expected / 2
        assert len(read) == expected


def test_large_records_leave_only_their_header() -> None:
    """Of a large batch producer, sequence and count can still be read; a small one is whole; a fetched one is cut as well."""
    with BrokerStub() as stub, FaultProxy(stub.bootstrap) as proxy:
        stub.create_topic("t")
        with RawConnection(*proxy.addresses.values()) as connection:
            connection.ask(produce_request("t", batch(b"x" * 100_000, pid=7, epoch=3, sequence=0)), VERSION)
            connection.ask(produce_request("t", batch(b"small")), VERSION)
            assert len(only(connection.ask(fetch_request("t"), VERSION)).records) > 100_000
        large, small = [each.request.topic_data[0].partition_data[0].records for each in produced(proxy)]  # type: ignore[attr-defined]
        header = read_header(large)
        assert (type(large), len(large)) == (bytes, BATCH_OVERHEAD)
        assert (header.producer_id, header.producer_epoch, header.base_sequence, header.records_count) == (7, 3, 0, 1)
        assert read_records(small)[0].value == b"small"
        (fetched,) = proxy.journal.requests(Api.FETCH)
        assert fetched.response is not None
        assert len(only(fetched.response).records) <= RECORDS_BYTES_MAX


def test_large_requests_are_not_kept_in_memory() -> None:
    """Forty requests of one megabyte cost the journal kilobytes."""
    records = batch(b"x" * 1_000_000)
    with BrokerStub(journal=0) as stub, FaultProxy(stub.bootstrap) as proxy, RawConnection(*proxy.addresses.values()) as connection:
        tracemalloc.start()
        try:
            for _ in range(40):
                connection.ask(produce_request("nowhere", records), VERSION)
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(produced(proxy)) == 40
    assert kept < 5_000_000


def test_a_follower_sees_what_is_not_kept(site: Site) -> None:
    """A follower of the journal gets every exchange, and its response as soon as there is one, also if the journal keeps none."""
    with FaultProxy(site.upstream, journal=0) as proxy:
        seen = Seen()
        proxy.journal.follow(seen)
        proxy.faults.on(Api.PRODUCE).drop_reply().on_call(3)
        with RawConnection(min(proxy.addresses.items())[1]) as connection:
            connection.ask(site.produce(0), VERSION)
            connection.send(site.produce(1, acks=0), VERSION)
            connection.timeout = 0.5
            with pytest.raises(Silent):
                connection.ask(site.produce(2), VERSION)
        assert len(proxy.journal) == 0
    assert [each.correlation_id for each in seen.questions] == [1, 2, 3]
    assert [(each.correlation_id, *verdict(each)) for each in seen.answers] == [(1, Heard.ALL, 0, 0), (3, Heard.NOTHING, 0, 2)]


# -- what cannot be read ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_read_passes_and_is_not_in_it(site: Site) -> None:
    """A version of the future and a damaged body are the broker's to answer; the journal does not have them."""
    with site.connection() as connection:
        connection.send_frame(bytes.fromhex("0012 0063 00000009 0001 63 00"))
        assert connection.receive_frame().hex().startswith("000000090023")
        connection.send_frame(bytes.fromhex("0000 000c 00000001 0001 63 00 ff"))
        assert connection.is_closed()
    assert len(site.proxy.journal) == 0


def test_versions_that_the_broker_does_not_know_are_answered_in_version_0() -> None:
    """KIP-511: the answer to an unknown version of ApiVersions is read as what it is."""
    asked = Exchange(
        node=1,
        connection_id=1,
        api=Api.API_VERSIONS,
        version=4,
        correlation_id=9,
        client_id=None,
        request=wire.ApiVersionsRequest(),
        at_ms=0,
    )
    note_answer(Journal(1), asked, bytes.fromhex("00000009 0023 00000001 0012 0000 0004"), at_ms=5)
    answer: Any = asked.response
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.max_version) for each in answer.api_keys] == [(Api.API_VERSIONS, 4)]
    assert asked.ended_ms == 5
