"""AlterClientQuotas and DescribeClientQuotas, and how long quotas throttle a client."""

from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire.messages.alter_quotas import AlterClientQuotasRequest, EntryData, OpData
from fencepost.producer.wire.messages.describe_quotas import ComponentData, DescribeClientQuotasRequest
from tests.conformance.asks_acls import creation
from tests.conformance.asks_quotas import about, entry
from tests.conformance.world import World, case

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"


@case("KIP-546")
def set_described_and_removed(w: World) -> None:
    """Users, client ids, both, defaults. A quota that does not exist is not described."""
    one, two = w.client(1), w.client(2)
    every: dict[str, dict[str, str | None]] = {
        "user": {"user": one},
        "client": {"client-id": one},
        "both": {"user": one, "client-id": two},
        "of any user": {"user": None, "client-id": one},
        "any client of a user": {"user": one, "client-id": None},
        "address": {"ip": "127.0.0.9"},
    }
    for version in (0, 1):
        for label, entity in every.items():
            values = {"connection_creation_rate": 7.0} if "ip" in entity else {PRODUCE: 1000.0, FETCH: 2000.0, REQUEST: 12.5}
            gone: dict[str, float | None] = dict.fromkeys(values)
            w.say(AlterClientQuotasRequest(entries=[entry(entity, values)], validate_only=True), version, label=f"v{version} {label} tried")
            w.say(about(entity), version, label=f"v{version} {label} not set")
            w.limit(entity, values)
            w.say(about(entity), version, label=f"v{version} {label} set")
            w.limit(entity, gone)
            w.say(about(entity), version, label=f"v{version} {label} removed")
    w.say(AlterClientQuotasRequest(entries=[entry({"user": one}, {PRODUCE: None})]), 1, label="removed once more")


@case("KIP-546")
def filters(w: World) -> None:
    """By name, the default, any; strict, and with other entity types."""
    one, two = w.client(1), w.client(2)
    w.limit({"user": one}, {PRODUCE: 1000.0})
    w.limit({"user": one, "client-id": two}, {PRODUCE: 2000.0})
    for strict in (True, False):
        exact = ComponentData(entity_type="user", match_type=0, match=one)
        for label, more in (
            ("the user", []),
            ("and that client", [ComponentData(entity_type="client-id", match_type=0, match=two)]),
            ("and another", [ComponentData(entity_type="client-id", match_type=0, match=one)]),
            ("and the default", [ComponentData(entity_type="client-id", match_type=1, match=None)]),
            ("and any client", [ComponentData(entity_type="client-id", match_type=2, match=None)]),
        ):
            request = DescribeClientQuotasRequest(components=[exact, *more], strict=strict)
            w.say(request, 1, label=f"{label}{', strictly' if strict else ''}")
    wrong = {
        "no kind": [ComponentData(entity_type="", match_type=0, match="x")],
        "another kind": [ComponentData(entity_type="planet", match_type=0, match="x")],
        "twice": [exact, exact],
        "exactly nothing": [ComponentData(entity_type="user", match_type=0, match=None)],
        "a default with a name": [ComponentData(entity_type="user", match_type=1, match="x")],
        "any with a name": [ComponentData(entity_type="user", match_type=2, match="x")],
        "match 9": [ComponentData(entity_type="user", match_type=9, match=None)],
        "user and address": [exact, ComponentData(entity_type="ip", match_type=0, match="127.0.0.1")],
    }
    for label, components in wrong.items():
        w.say(DescribeClientQuotasRequest(components=components), 1, label=label)
    w.limit({"user": one}, {PRODUCE: None})
    w.limit({"user": one, "client-id": two}, {PRODUCE: None})


@case("KIP-546")
def quotas_that_cannot_be(w: World) -> None:
    """Invalid entities, keys and values."""
    name = w.client(1)
    user: dict[str, str | None] = {"user": name}
    wrong = {
        "no entity": entry({}, {PRODUCE: 1.0}),
        "an empty name": entry({"user": ""}, {PRODUCE: 1.0}),
        "another kind": entry({"planet": "earth"}, {PRODUCE: 1.0}),
        "user and address": entry({"user": name, "ip": "127.0.0.1"}, {PRODUCE: 1.0}),
        "another key": entry(user, {"no_such_rate": 1.0}),
        "a key of addresses": entry(user, {"connection_creation_rate": 1.0}),
        "a key of users": entry({"ip": "127.0.0.1"}, {PRODUCE: 1.0}),
        "nothing": entry(user, {PRODUCE: 0.0}),
        "less": entry(user, {PRODUCE: -1.0}),
        "a fraction": entry(user, {PRODUCE: 1.5}),
        "too much": entry(user, {PRODUCE: 1e300}),
        "too many connections": entry({"ip": "127.0.0.1"}, {"connection_creation_rate": 1e10}),
        "a key twice": EntryData(entity=entry(user, {}).entity, ops=[OpData(key=PRODUCE, value=1.0), OpData(key=PRODUCE, value=2.0)]),
        "another key removed": entry(user, {"no_such_rate": None}),
        "no key": entry(user, {}),
    }
    for label, asked in wrong.items():
        w.say(AlterClientQuotasRequest(entries=[asked]), 1, label=label)
    w.say(about(user), 1, label="nothing was set")


@case("KIP-219")
def produced_bytes(w: World) -> None:
    """How long the first request of a client is throttled, by its size. Another client is not throttled. The record is written all the
    same.
    """
    topic = w.topic()
    for number, (bound, size) in enumerate([(1000.0, 100), (1000.0, 9_000), (1000.0, 20_000), (50_000.0, 700_000), (3.0, 77)], start=1):
        w.limit({"client-id": w.client(number)}, {PRODUCE: bound})
        w.throttled_produce(topic, size, client=w.client(number), label=f"{size} bytes at {bound:.0f}")
    w.throttled_produce(topic, 20_000, client=w.client(9), label="another client")
    for number in range(1, 6):
        w.limit({"client-id": w.client(number)}, {PRODUCE: None})


@case()
def whose_quota_counts(w: World) -> None:
    """The most specific quota: for a user with a client id, a user, a client id; then the defaults."""
    topic, size = w.topic(), 20_000
    user = "ANONYMOUS"
    chain: list[tuple[str, dict[str, str | None], float]] = [
        ("client", {"client-id": w.client(1)}, 1800.0),
        ("user", {"user": user}, 1600.0),
        ("user and any client", {"user": user, "client-id": None}, 1400.0),
        ("user and client", {"user": user, "client-id": w.client(2)}, 1200.0),
    ]
    for label, entity, bound in chain:
        w.limit(entity, {PRODUCE: bound})
        w.throttled_produce(topic, size, client=w.client(2 if label == "user and client" else 1), label=label)
    for _, entity, _ in chain:
        w.limit(entity, {PRODUCE: None})


@case("KIP-219")
def fetched_bytes(w: World) -> None:
    """A response that is too large is empty and has a throttle time. Its session continues, or does not begin."""
    topic = w.topic()
    w.throttled_produce(topic, 6_000, client=w.client(9), label="written")
    w.throttled_produce(topic, 6_000, client=w.client(9), label="written again")
    w.limit({"client-id": w.client(1)}, {FETCH: 1000.0})
    w.limit({"client-id": w.client(2)}, {FETCH: 500.0})
    with w.open(client_id=w.client(1)) as connection:
        w.throttled_fetches(connection, topic, session=(0, -1), label="without a session")
    with w.open(client_id=w.client(2)) as connection:
        w.throttled_fetches(connection, topic, session=(0, 0), label="a session that begins")
    for number in (1, 2):
        w.limit({"client-id": w.client(number)}, {FETCH: None})


@case(guarded=True)
def quotas_need_permission(w: World) -> None:
    """DESCRIBE_CONFIGS and ALTER_CONFIGS on the cluster."""
    w.no_acls()
    user: dict[str, str | None] = {"user": w.client(1)}
    for held in (None, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS):
        if held is not None:
            w.permit(creation(held, Resource.CLUSTER))
        word = held.name if held is not None else "nothing"
        w.say(about(user), 1, user="alice", label=f"describe with {word}")
        w.say(AlterClientQuotasRequest(entries=[entry(user, {PRODUCE: None})]), 1, user="alice", label=f"alter with {word}")
    w.no_acls()


@case("KIP-219")
def bounds_that_are_next_to_nothing(w: World) -> None:
    """NaN and numbers close to 0 can be set, and throttle no client. As request quotas they throttle for the length of a window."""
    topic, client = w.topic(), w.client(1)
    for bound in (float("nan"), 1e-300, 5e-324):
        for key in (PRODUCE, FETCH, REQUEST):
            w.limit({"client-id": client}, {key: bound})
            w.throttled_produce(topic, 1000, client=client, label=f"{key} {bound} and a batch")
            with w.open(topic.leaders[0], client_id=client) as connection:
                w.throttled_fetches(connection, topic, session=(0, -1), label=f"{key} {bound} and a fetch")
            w.limit({"client-id": client}, {key: None})


@case("KIP-219")
def longer_than_an_int_has_room_for(w: World) -> None:
    """Java drops the upper half of so many milliseconds. The rest may be below 0, and then throttles no client."""
    topic = w.topic()
    for number, (bound, size_bytes) in enumerate(((1.0, 1_000_000), (1e-6, 1000), (1e-6, 2000), (1e-7, 100)), start=1):
        client = w.client(number)
        w.limit({"client-id": client}, {PRODUCE: bound})
        w.throttled_produce(topic, size_bytes, client=client, label=f"{bound} and {size_bytes} bytes")
