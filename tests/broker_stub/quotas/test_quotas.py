"""Quotas on the stub: Kafka's arithmetic, connections that are muted by the stub's clock, and clients that notice. First answers are
compared with Apache Kafka's in tests/conformance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.quotas.client_quota_manager import ClientQuotaManager
from fencepost.broker_stub.quotas.quotas import Entity, Limit, Quotas, why_not
from fencepost.broker_stub.quotas.rate import Rate
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.socket_server.acceptor import Acceptor
from fencepost.producer import Producer
from fencepost.producer.wire import Api, Buffer, Message, decode_response, encode_request
from tests.broker_stub.stub_calls import TIMESTAMP_MS, Talker, batch, fetch_request, metadata_request, produce_request

WINDOWS, WINDOW_MS = 11, 1000
DEADLINE_S = 20.0


def rate() -> Rate:
    return Rate(windows=WINDOWS, window_ms=WINDOW_MS)


def test_a_rate_that_begins_counts_ten_windows() -> None:
    """The first value is spread over all windows but one: ten times the bound for a second is still within it."""
    fresh = rate()
    fresh.record(10_000, 0)
    assert (fresh.per_second(0), fresh.throttle_ms(1000, 0)) == (1000, 0)
    fresh.record(1, 0)
    assert fresh.throttle_ms(1000, 0) == 1
    fresh.record(9_999, 0)
    assert fresh.throttle_ms(1000, 0) == 10_000


def test_a_rate_falls_as_time_passes() -> None:
    """What was used counts until eleven windows have passed without anything, less and less from the tenth on; then nothing is left."""
    one = rate()
    one.record(25_000, 5)
    falling = [one.per_second(5 + now_ms) for now_ms in (0, 9_000, 10_000, 10_500, 10_999, 11_000)]
    assert falling == [2500, 2500, 2500, pytest.approx(25_000 / 10.5), pytest.approx(25_000 / 10.999), 0]
    assert one.throttle_ms(1000, 11_005) == 0


@pytest.mark.parametrize("before", [0, 5, WINDOWS, 3 * WINDOWS + 1])
def test_a_window_counts_from_its_last_value(before: int) -> None:
    """What came early in a window counts as long as what came late in it, also when windows before it have been used again."""
    one = rate()
    for number in range(before):
        one.record(1, number * WINDOW_MS)
    begun_ms = before * WINDOW_MS
    one.record(10_000, begun_ms)
    one.record(10_000, begun_ms + 900)
    assert one.per_second(begun_ms + 900 + 10_999) == pytest.approx(20_000 / 11.899)
    assert one.per_second(begun_ms + 900 + 11_000) == 0


def test_a_window_that_was_reset_counts_until_its_turn() -> None:
    """Kafka keeps one window more than it counts. A window that was reset begins at that time, and the next new window replaces it."""
    one = rate()
    for now_ms in range(0, 11_001, WINDOW_MS):
        one.record(1, now_ms)
    assert one.elapsed_ms(11_900) == 11_900 - WINDOW_MS  # the window of 0 begins at 11_900
    one.record(1, 22_850)
    assert one.elapsed_ms(22_850) == (WINDOWS - 1) * WINDOW_MS  # without that window nothing began before 22_850
    one.record(1, 23_850)
    assert one.elapsed_ms(23_850) == (WINDOWS - 1) * WINDOW_MS


def test_a_rate_over_one_window_that_begins_lasts_a_millisecond() -> None:
    """No time has passed and no window is missing: Kafka divides by one millisecond."""
    one = Rate(windows=1, window_ms=1000)
    one.record(10, 0)
    assert (one.elapsed_ms(0), one.per_second(0), one.throttle_ms(5_000, 0)) == (1, 10_000, 1)


@pytest.mark.parametrize(("bound", "ms"), [(2e-12, 5 * 10**18), (8e-13, 2**63 - 1), (1e-300, 2**63 - 1), (5e-324, 2**63 - 1)])
def test_no_pause_is_longer_than_java_counts(bound: float, ms: int) -> None:
    """A long of milliseconds is the most."""
    one = rate()
    one.record(10_000, 0)
    assert one.throttle_ms(bound, 0) == pytest.approx(ms, rel=1e-9)
    assert one.throttle_ms(bound, 0) < 2**63


def test_a_steady_rate_is_what_it_is() -> None:
    """A hundred a tenth of a second are a thousand a second, and stay so over many windows."""
    steady = rate()
    for now_ms in range(0, 60_000, 100):
        steady.record(100, now_ms)
    assert steady.per_second(60_000) == pytest.approx(1000, rel=0.12)


class Muted:
    """A connection without a socket, and what came back on it."""

    def __init__(self, **quotas: float) -> None:
        self.clock = VirtualClock(TIMESTAMP_MS)
        self.cluster = Cluster(self.clock)
        self.cluster.create_topic("t", partitions=1, replication_factor=1)
        self.cluster.quotas.change(frozenset({("client-id", "me")}), quotas)
        self.connection = Acceptor(Dispatcher(Services(self.cluster, Journal(1000)))).connect(1, self)
        self._answers: list[bytes] = []
        self._sent: list[tuple[Api, int]] = []

    def write(self, parts: list[Buffer]) -> None:
        self._answers.append(b"".join(parts)[4:])

    def cut(self, *, flush: bool) -> None:
        raise AssertionError("the connection was cut")

    def pause(self, paused: bool) -> None:
        """This connection never has too much to send."""

    def send(self, request: Any, version: int, *, client_id: str = "me") -> int:
        frame = b"".join(encode_request(request, version, correlation_id=7, client_id=client_id))[4:]
        self._sent.append((request.api, version))
        self.connection.receive(frame)
        return len(frame)

    def heard(self) -> list[Any]:
        """The answers so far."""
        return [decode_response(answer, *sent)[1] for answer, sent in zip(self._answers, self._sent, strict=False)]

    @property
    def end_offset(self) -> int:
        partition = self.cluster.find("t", 0)
        assert partition is not None
        return partition.log.log_end_offset

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        self.cluster.tick()


def test_a_connection_is_muted_as_long_as_it_was_told() -> None:
    """The answer comes at once and says for how long; the next request is looked at then, not a millisecond sooner."""
    muted = Muted(producer_byte_rate=1000)
    size = muted.send(produce_request("t", batch(bytes(20_000))), 9)
    (first,) = muted.heard()
    assert first.responses[0].partition_responses[0].error_code == 0
    assert first.throttle_time_ms == round((size / 10 - 1000) / 1000 * 10_000)
    muted.send(metadata_request("t"), 12)
    muted.advance(first.throttle_time_ms - 1)
    assert len(muted.heard()) == 1
    muted.advance(1)
    assert len(muted.heard()) == 2
    assert muted.heard()[1].throttle_time_ms == 0


def test_without_acks_the_connection_is_muted_without_a_word() -> None:
    """acks=0 has no answer to say it in."""
    muted = Muted(producer_byte_rate=1000)
    muted.send(produce_request("t", batch(bytes(20_000)), acks=0), 9)
    muted._sent.clear()
    muted.send(metadata_request("t"), 12)
    assert muted.heard() == []
    muted.advance(60_000)
    assert len(muted.heard()) == 1


@pytest.mark.parametrize(("acks", "reset", "appended"), [(0, False, 6), (0, True, 6), (-1, False, 3), (-1, True, 2)])
def test_what_a_muted_client_sent_before_it_closed(acks: int, reset: bool, appended: int) -> None:
    """Kafka processes it, one request after each pause, until a response cannot be sent. After a close the client's system takes one more
    response, after a reset none. The numbers are those of Apache Kafka 4.3."""
    muted = Muted(producer_byte_rate=1000)
    for _ in range(6):
        muted.send(produce_request("t", batch(bytes(12_000)), acks=acks), 9)
    muted.connection.lost(reset=reset)
    assert muted.end_offset == 1
    muted.advance(5_000)
    assert muted.end_offset == 2
    for _ in range(10):
        muted.advance(60_000)
    assert muted.end_offset == appended
    assert muted.cluster.brokers[1].connections == set()


def test_a_stopped_broker_drops_what_a_muted_client_sent() -> None:
    """Whether or not the client has closed its connection."""
    muted = Muted(producer_byte_rate=1000)
    for _ in range(2):
        muted.send(produce_request("t", batch(bytes(12_000)), acks=0), 9)
    muted.connection.lost()
    muted.cluster.stop_broker(1)
    muted.cluster.start_broker(1)
    muted.advance(60_000)
    assert muted.end_offset == 1


def test_a_fetch_comes_again() -> None:
    """What is too much is left out, and is not charged: after the pause the same Fetch gets it. More than the quota lets through at once is
    never read."""
    muted = Muted(consumer_byte_rate=1000)
    for _ in range(30):
        muted.send(produce_request("t", batch(bytes(900))), 9, client_id="somebody else")
    muted._answers.clear()
    muted._sent.clear()
    got, quiet_ms = 0, 0
    for _ in range(20):
        if got == 30:
            break
        muted.send(fetch_request("t", got), 12)
        answer = muted.heard()[-1]
        records = len(answer.responses[0].partitions[0].records) if answer.responses else 0
        assert records <= 10_000
        assert (records == 0) is (answer.throttle_time_ms > 0)
        got += records // len(batch(bytes(900)))
        quiet_ms += answer.throttle_time_ms
        muted.advance(answer.throttle_time_ms)
    assert got == 30
    assert quiet_ms > 0


def test_requests_are_charged_a_thousandth_of_a_second_each() -> None:
    """Kafka charges the time of its threads; the stub takes 1 ms for each request, so that one percent are ten requests a second."""
    muted = Muted(request_percentage=1)
    throttled = []
    for _ in range(130):
        muted.send(metadata_request("t"), 12)
        throttled.append(muted.heard()[-1].throttle_time_ms)
        if throttled[-1]:
            break
    assert len(throttled) == 101
    assert 0 < throttled[-1] <= 1000


def test_the_clients_of_a_user_share_its_quota() -> None:
    """A user's clients use up one quota, two client ids have one each."""
    muted = Muted(producer_byte_rate=1000)
    muted.cluster.quotas.change(frozenset({("client-id", "me")}), {"producer_byte_rate": None})
    assert not muted.cluster.quotas
    muted.cluster.quotas.change(frozenset({("user", "ANONYMOUS")}), {"producer_byte_rate": 1000})
    muted.send(produce_request("t", batch(bytes(6_000))), 9, client_id="one")
    muted.send(produce_request("t", batch(bytes(6_000))), 9, client_id="two")
    assert [answer.throttle_time_ms > 0 for answer in muted.heard()] == [False, True]
    apart = Muted(producer_byte_rate=1000)
    apart.cluster.quotas.change(frozenset({("client-id", None)}), {"producer_byte_rate": 1000})
    apart.send(produce_request("t", batch(bytes(6_000))), 9, client_id="one")
    apart.send(produce_request("t", batch(bytes(6_000))), 9, client_id="two")
    assert [answer.throttle_time_ms for answer in apart.heard()] == [0, 0]


ORDER: list[tuple[dict[str, str | None], tuple[str, str]]] = [
    ({"user": "u", "client-id": "c"}, ("u", "c")),
    ({"user": "u", "client-id": None}, ("u", "c")),
    ({"user": "u"}, ("u", "")),
    ({"user": None, "client-id": "c"}, ("u", "c")),
    ({"user": None, "client-id": None}, ("u", "c")),
    ({"user": None}, ("u", "")),
    ({"client-id": "c"}, ("", "c")),
    ({"client-id": None}, ("", "c")),
]
"""Kafka's order of the quotas, and the clients that share each."""


@pytest.mark.parametrize("number", range(len(ORDER)))
def test_the_most_particular_quota_counts(number: int) -> None:
    """Each of the eight kinds counts before those after it, and only for its clients. All clients of one user share it, or all of one
    client id, or one client id of one user."""
    quotas = Quotas()
    for bound, (entity, _) in enumerate(ORDER[number:], start=number + 1):
        quotas.change(frozenset(entity.items()), {"producer_byte_rate": bound})
    # What is about others, or about something else, changes nothing.
    quotas.change(frozenset({("user", "other")}), {"producer_byte_rate": 100})
    quotas.change(frozenset({("user", "u"), ("client-id", "other")}), {"producer_byte_rate": 100})
    quotas.change(frozenset({("user", "u"), ("client-id", "c")}), {"consumer_byte_rate": 100})
    assert quotas.limit("producer_byte_rate", "u", "c") == Limit(number + 1, ORDER[number][1])
    assert quotas.limit("request_percentage", "u", "c") is None


@pytest.mark.parametrize(
    ("entity", "together"),
    [
        ({"user": "ANONYMOUS"}, True),
        ({"user": None}, True),
        ({"user": None, "client-id": None}, False),
        ({"user": "ANONYMOUS", "client-id": None}, False),
        ({"client-id": None}, False),
    ],
)
def test_which_clients_use_up_one_quota(entity: dict[str, str | None], together: bool) -> None:
    """Two clients of one user: a user's quota is theirs together, one that names client ids, or any of them, is each one's own."""
    muted = Muted(consumer_byte_rate=1 << 30)
    muted.cluster.quotas.change(frozenset(entity.items()), {"producer_byte_rate": 1000})
    for name in ("one", "two"):
        muted.send(produce_request("t", batch(bytes(6_000))), 9, client_id=name)
    assert [answer.throttle_time_ms > 0 for answer in muted.heard()] == [False, together]


def test_what_a_tester_says() -> None:
    """Users, client ids and everybody; None takes it away; an administrator sees it, a restart forgets what was used."""
    with BrokerStub() as stub, Talker(stub, client_id="shop") as talker:
        stub.create_topic("t")
        stub.quota(client_id="shop", producer_byte_rate=1000)
        stub.quota(user="<default>", request_percentage=50.5)
        stub.quota(user="alice", client_id="<default>", consumer_byte_rate=5)
        kept = {tuple(sorted(entity, key=str)): dict(values) for entity, values in stub.cluster.quotas.entries.items()}
        assert kept == {
            (("client-id", "shop"),): {"producer_byte_rate": 1000},
            (("user", None),): {"request_percentage": 50.5},
            (("client-id", None), ("user", "alice")): {"consumer_byte_rate": 5},
        }
        assert talker.ask(produce_request("t", batch(bytes(10_500))), 9).throttle_time_ms > 0  # type: ignore[attr-defined]
        stub.quota(client_id="shop", producer_byte_rate=None)
        stub.quota(user="<default>", request_percentage=None)
        stub.quota(user="alice", client_id="<default>", consumer_byte_rate=None)
        assert not stub.cluster.quotas
        stub.quota(client_id="shop", producer_byte_rate=1000)
        stub.restart_broker(1)
        with Talker(stub, client_id="shop") as again:
            assert again.ask(produce_request("t", batch()), 9).throttle_time_ms == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user": "alice"}, "quotas are producer_byte_rate, .* not nothing"),
        ({"user": "alice", "byte_rate": 1}, "not byte_rate"),
        ({"user": "alice", "controller_mutation_rate": 1}, "not controller_mutation_rate"),
        ({"producer_byte_rate": 1}, "a quota needs user="),
        ({"user": "", "producer_byte_rate": 1}, "Empty user"),
        ({"user": "alice", "producer_byte_rate": 0}, r"must be greater than 0 \(producer_byte_rate=0\)"),
        ({"client_id": "x", "consumer_byte_rate": 1.5}, "fractional"),
    ],
)
def test_quotas_that_are_none_are_refused(given: dict[str, Any], said: str) -> None:
    """With the value and what it can be."""
    with pytest.raises(ValueError, match=said):
        BrokerStub().quota(**given)


@pytest.fixture
def throttled() -> Iterator[BrokerStub]:
    """A client without a quota of its own may write 400,000 bytes a second, ten seconds' worth at once. The clock stands still, so the last
    record is too much, also on a slow machine."""
    with BrokerStub(clock=now()) as stub:
        stub.create_topic("t")
        stub.quota(client_id="<default>", producer_byte_rate=400_000)
        yield stub


SIZE, COUNT = 420_000, 10


def now() -> VirtualClock:
    return VirtualClock(int(time.time() * 1000))


def check(stub: BrokerStub, client_id: str) -> None:
    """Everything is there, once, and the client was told to wait."""
    assert [len(record.value or b"") for record in stub.records("t", 0)] == [SIZE] * COUNT
    answers: list[Any] = [exchange.response for exchange in stub.journal.requests(Api.PRODUCE, client_id=client_id)]
    assert sum(answer.throttle_time_ms for answer in answers if answer is not None) > 0


def test_the_smallest_and_the_largest_quota() -> None:
    """Kafka takes quotas from 1 up to what its long, or its int for connections, can hold."""
    user: Entity = frozenset({("user", "alice")})
    address: Entity = frozenset({("ip", "10.0.0.1")})
    assert [why_not(user, {"producer_byte_rate": value}) for value in (1, 2**63 - 1)] == [None, None]
    assert [why_not(address, {"connection_creation_rate": value}) for value in (1, 2**31 - 1)] == [None, None]
    assert why_not(user, {"producer_byte_rate": 2**63}) == "Proposed value for producer_byte_rate is too large for a LONG."
    assert why_not(address, {"connection_creation_rate": 2**31}) == "Proposed value for connection_creation_rate is too large for an INT."
    assert why_not(frozenset({("tier", "gold")}), {}) == "Unhandled client quota entity type: tier"


def test_our_producer_is_throttled(throttled: BrokerStub) -> None:
    """Everything arrives, once, though it takes longer."""
    with Producer(bootstrap_servers=throttled.bootstrap, client_id="ours", max_request_size=1_000_000) as producer:
        futures = [producer.send("t", bytes(SIZE)) for _ in range(COUNT)]
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(COUNT))
    check(throttled, "ours")


def test_confluent_is_throttled(throttled: BrokerStub) -> None:
    """librdkafka says so in its callback."""
    heard: list[Any] = []
    client = ConfluentProducer(
        {"bootstrap.servers": throttled.bootstrap, "client.id": "theirs", "throttle_cb": heard.append, "batch.num.messages": 1}
    )
    for _ in range(COUNT):
        client.produce("t", bytes(SIZE))
    assert client.flush(DEADLINE_S) == 0
    check(throttled, "theirs")
    deadline = time.monotonic() + DEADLINE_S
    while not heard and time.monotonic() < deadline:
        client.poll(0.1)
    assert max(event.throttle_time for event in heard) > 0


def test_kafka_python_is_throttled(throttled: BrokerStub) -> None:
    """It waits, and says for how long on the average."""
    client = KafkaProducer(bootstrap_servers=throttled.bootstrap, client_id="theirs", max_request_size=1_000_000, batch_size=1)
    try:
        futures = [client.send("t", bytes(SIZE)) for _ in range(COUNT)]
        assert [future.get(DEADLINE_S).offset for future in futures] == list(range(COUNT))
    finally:
        client.close(DEADLINE_S)
    check(throttled, "theirs")


def test_aiokafka_is_throttled(throttled: BrokerStub) -> None:
    """It does not wait of its own, and is muted all the same."""

    async def run() -> list[int]:
        client = AIOKafkaProducer(bootstrap_servers=throttled.bootstrap, client_id="theirs", max_request_size=1_000_000)
        await client.start()
        try:
            sent = [await client.send("t", bytes(SIZE), partition=0) for _ in range(COUNT)]
            return [each.offset for each in await asyncio.wait_for(asyncio.gather(*sent), DEADLINE_S)]
        finally:
            await client.stop()

    assert asyncio.run(run()) == list(range(COUNT))
    check(throttled, "theirs")


def test_a_throttled_consumer_gets_everything() -> None:
    """librdkafka's consumer comes again for what a Fetch left out."""
    with BrokerStub(config={"quota.window.num": "2"}, clock=now()) as stub:
        stub.create_topic("t")
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            for _ in range(COUNT):
                producer.send("t", bytes(50_000)).result(DEADLINE_S)
        stub.quota(client_id="reader", consumer_byte_rate=260_000)
        consumer = Consumer({"bootstrap.servers": stub.bootstrap, "client.id": "reader", "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        got, deadline = 0, time.monotonic() + DEADLINE_S
        while got < COUNT and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            got += message is not None and message.error() is None
            if message is None:
                stub.advance(500)
        consumer.close()
        assert got == COUNT
        answers: list[Any] = [exchange.response for exchange in stub.journal.requests(Api.FETCH, client_id="reader")]
        assert any(answer.throttle_time_ms for answer in answers if answer is not None)


@pytest.mark.parametrize("bound", [float("nan"), 1e-300, 5e-324, 1e-7, 1.0])
@pytest.mark.parametrize("key", ["producer_byte_rate", "consumer_byte_rate", "request_percentage"])
def test_no_bound_ends_a_connection(key: str, bound: float) -> None:
    """Numbers that Kafka takes for a quota, NaN and next to nothing among them, mute a client at most: it is answered, always."""
    muted = Muted(**{key: bound})
    asked = [(metadata_request("t"), 12), (produce_request("t", batch(bytes(900_000))), 9), (fetch_request("t"), 12)]
    for request, version in asked * 3:
        muted.send(request, version)
        muted.advance(10**9)  # two weeks: a client that is muted for longer is heard when it speaks again
    muted.advance(2**31)
    assert len(muted.heard()) == len(asked) * 3


@pytest.mark.parametrize("rate", [float("nan"), True, "a"])
def test_a_rate_is_a_number(rate: Any) -> None:
    """NaN would throttle nothing."""
    with BrokerStub() as stub, pytest.raises(TypeError, match=r"producer_byte_rate=.*: a number, or None"):
        stub.quota(client_id="x", producer_byte_rate=rate)


def test_the_use_of_a_client_that_is_gone_is_forgotten() -> None:
    """After an hour, as in Kafka. Without that every client id that was ever used stays."""
    now = [TIMESTAMP_MS]
    quotas = Quotas()
    quotas.change(frozenset({("client-id", None)}), {"producer_byte_rate": 1e9})
    manager = ClientQuotaManager(quotas, now_ms=lambda: now[0], end_session=lambda _: None, windows=WINDOWS, window_ms=WINDOW_MS)

    def produce(client_id: str) -> None:
        manager.charge(Used(produce_request("t", batch(b"v")), client_id), None)

    produce("gone")
    produce("stays")
    now[0] += 3_600_000
    produce("stays")
    assert len(manager._rates) == 2
    now[0] += 30_000
    produce("new")
    assert sorted(client_id for _, (_, client_id) in manager._rates) == ["new", "stays"]


class Used(NamedTuple):
    """A request to charge."""

    request: Message
    client_id: str | None
    version: int = 9
    size_bytes: int = 100
    principal: str = "User:alice"
