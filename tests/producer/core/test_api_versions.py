"""The versions that the producer uses: the highest that both sides speak, never one from before format v2, and a clear word where there
is none."""

from __future__ import annotations

import pytest

from fencepost.producer import DeliveryFatal, Fatal, Persisted, Producer
from fencepost.producer.core.events import TopicWanted
from fencepost.producer.wire import Api, ApiVersionsResponse, MetadataResponse, RequestHeader
from fencepost.producer.wire.messages.api_versions import ApiVersion
from tests.producer.core.harness import TOPIC, VERSIONS, CoreHarness
from tests.producer.scripted_broker import FakeBroker, framed
from tests.producer.stub_helpers import QUICK

KAFKA_0_10 = {Api.PRODUCE: (0, 2), Api.FETCH: (0, 3), Api.LIST_OFFSETS: (0, 1), Api.METADATA: (0, 2), Api.API_VERSIONS: (0, 0)}


@pytest.mark.parametrize(("low", "high"), [(low, high) for high in range(16) for low in range(high + 1)])
def test_produce_is_never_sent_in_a_version_of_the_older_formats(low: int, high: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every range that a broker offers, Produce goes out in its highest version from 3 to 13. If there is none, no Produce is sent."""
    monkeypatch.setitem(VERSIONS, Api.PRODUCE, (low, high))
    harness = CoreHarness()
    harness.happen(TopicWanted(TOPIC))
    if harness.dead is None:
        harness.send(b"x")
    both = set(range(low, high + 1)) & set(range(3, 14))
    assert [flight.command.version for flight in harness.produces()] == ([max(both)] if both else [])
    assert (harness.dead is None) is bool(both)


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 2)])
def test_a_broker_from_before_format_v2(low: int, high: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that offers Produce up to version 2 is the end as soon as it says so, with its offer, our need and the Kafka that has it."""
    monkeypatch.setitem(VERSIONS, Api.PRODUCE, (low, high))
    harness = CoreHarness()
    harness.happen(TopicWanted(TOPIC))
    assert harness.dead is not None
    assert type(harness.dead.error) is Fatal
    offer = f"the broker at b:1 offers versions {low} to {high} of Produce"
    said = f"{offer}, and this producer needs 3 to 13: the broker must be Kafka 0.11 or later"
    assert str(harness.dead.error) == said
    assert harness.open == []


@pytest.mark.parametrize(("offer", "said"), [((14, 20), "offers versions 14 to 20 of Produce"), (None, "offers no version of Produce")])
def test_a_leader_that_cannot_be_written_to(offer: tuple[int, int] | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that offers only versions from the future, or no Produce, is the end when a record is for it: the record fails with NO."""
    if offer is None:
        monkeypatch.delitem(VERSIONS, Api.PRODUCE)
    else:
        monkeypatch.setitem(VERSIONS, Api.PRODUCE, offer)
    harness = CoreHarness().learn()
    (future,) = harness.send(b"x")  # which raises once the producer has ended
    failure = future.exception(0)
    assert isinstance(failure, DeliveryFatal)
    assert failure.persisted is Persisted.NO
    assert harness.dead is not None
    assert said in str(harness.dead.error)
    assert "needs 3 to 13" in str(harness.dead.error)
    assert "0.11" not in str(harness.dead.error)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("auto_create", [True, False])
def test_kafka_0_10(idempotent: bool, auto_create: bool) -> None:
    """A broker like Kafka 0.10, on a socket. Every `send` raises the Fatal that names what the broker offers and what the producer needs,
    at once. With all settings, the producer sends it no request but ApiVersions."""

    def answer(header: RequestHeader) -> bytes | None:
        if header.api_key == Api.METADATA:
            return framed(MetadataResponse(), header.api_version, header)
        if header.api_key != Api.API_VERSIONS:
            return None
        keys = [ApiVersion(api_key=int(api), min_version=low, max_version=high) for api, (low, high) in KAFKA_0_10.items()]
        # Such a broker does not name its versions when it refuses ours.
        return framed(ApiVersionsResponse(error_code=35) if header.api_version else ApiVersionsResponse(api_keys=keys), 0, header)

    settings = {**QUICK, "enable_idempotence": idempotent, "allow_auto_create_topics": auto_create}
    with FakeBroker(answer) as fake, Producer(bootstrap_servers=fake.address, **settings) as producer:
        for _ in range(2):
            with pytest.raises(
                Fatal, match=r"offers versions 0 to 2 of Produce, .* needs 3 to 13: the broker must be Kafka 0\.11 or later"
            ) as caught:
                producer.send("t", b"x")
            assert fake.address in str(caught.value)
        assert [(header.api_key, header.api_version) for header in fake.seen] == [(Api.API_VERSIONS, 4), (Api.API_VERSIONS, 0)]


@pytest.mark.parametrize("high", range(4))
def test_a_broker_that_tells_of_topics_in_old_words_only(high: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker offers today's Produce, and Metadata only below version 4. The producer asks nothing that Metadata cannot express, and does
    not end. A call that waits for a topic times out."""
    monkeypatch.setitem(VERSIONS, Api.METADATA, (0, high))
    harness = CoreHarness()
    harness.auto.discard(Api.METADATA)
    harness.happen(TopicWanted(TOPIC))
    harness.advance(5_000)
    assert harness.dead is None
    assert not [flight for flight in harness.open if flight.command.api is Api.METADATA]
