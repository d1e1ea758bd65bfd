"""The core's view of its connections: when it opens, closes and reopens one. The test sets the time."""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates, LinkState, Node, Request
from fencepost.producer.core.events import Connect, Disconnect, Features
from fencepost.producer.errors import AuthenticationFailed, NoUsableBroker
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire import Api
from tests.producer.core.harness import VERSIONS, CoreHarness

A, B, C = Address("a", 1), Address("b", 2), Address("c", 3)


def nodes(*bootstrap: Address, draw: float = 0.5, **settings: float) -> ClusterConnectionStates:
    made = Settings(bootstrap_servers=("x:1",), **{"reconnect_backoff_ms": 50.0, "reconnect_backoff_max_ms": 1_000.0, **settings})  # type: ignore[arg-type]
    return ClusterConnectionStates(made, lambda: draw, list(bootstrap) or [A])


def node(of: ClusterConnectionStates, node_id: int) -> Node:
    found = of.get(node_id)
    assert found is not None
    return found


def connect(of: ClusterConnectionStates, one: Node, now: float) -> None:
    """Open a connection to the broker."""
    of.connect(one, now)
    of.connected(one, VERSIONS, now)


def test_a_bootstrap_address_has_no_brokers_id() -> None:
    """Messages call a broker by its id and address, and a bootstrap address a bootstrap server: ids below 0 are no broker's."""
    assert node(nodes(A), -1).name == "bootstrap server at a:1"
    assert Node(3, B).name == "broker 3 at b:2"


def test_reconnects_back_off() -> None:
    """A broker that cannot be reached is tried again after 50, 100, 200 ... ms, at most a second apart; a success starts over."""
    of = nodes(A)
    one = node(of, -1)
    now, waits = 0.0, []
    for _ in range(7):
        assert of.connect(one, now)
        assert of.connect(one, now) == [], "one attempt at a time"
        of.lost(one, "refused", now)
        waits.append(one.retry_at_ms - now)
        assert of.connect(one, one.retry_at_ms - 0.01) == []
        now = one.retry_at_ms
    assert waits == [50, 100, 200, 400, 800, 1000, 1000]
    connect(of, one, now)
    of.lost(one, "cut", now)
    assert one.retry_at_ms - now == 50


REFUSED = AuthenticationFailed("not you")


def test_hope_is_given_up_when_every_broker_was_tried_and_one_says_why() -> None:
    """The producer gives up only if every broker was tried, none is up or being tried, and one gave a reason that a retry does not change.
    The newest attempt of each broker decides, so the producer does not give up for ever."""
    of = nodes(A, B)
    one, other = node(of, -1), node(of, -2)
    assert of.no_usable_broker() is None
    of.connect(one, 0.0)
    of.lost(one, "not you", 0.0, refused=REFUSED)
    assert of.no_usable_broker() is None, "the other was not tried"
    of.connect(other, 0.0)
    assert of.no_usable_broker() is None, "the other is being tried"
    of.lost(other, "nobody there", 0.0)
    hopeless = of.no_usable_broker()
    assert isinstance(hopeless, AuthenticationFailed)
    assert str(hopeless) == "a:1: not you; b:2: nobody there"
    of.connect(one, 1_000.0)
    assert of.no_usable_broker() is None, "it is being tried again"
    of.lost(one, "nobody there either", 1_000.0)
    assert of.no_usable_broker() is None, "that may pass"


def test_a_broker_that_was_there_may_come_back() -> None:
    """A broker whose connection was lost counts as reachable, unless it refused the client."""
    of = nodes(A, B)
    one, other = node(of, -1), node(of, -2)
    for each in (one, other):
        of.connect(each, 0.0)
    of.connected(one, VERSIONS, 0.0)
    of.lost(one, "cut", 0.0)
    of.lost(other, "an HTTP server", 0.0, refused=NoUsableBroker("an HTTP server"))
    assert of.no_usable_broker() is None
    connect(of, one, 1_000.0)
    of.lost(one, "not you any more", 1_000.0, refused=REFUSED)
    assert isinstance(of.no_usable_broker(), AuthenticationFailed)
    connect(of, one, 5_000.0)
    assert of.no_usable_broker() is None
    assert (one.connect_failed, one.refused) == (False, None)


def test_one_broker_under_two_ids_is_named_once() -> None:
    """A broker is known under its bootstrap address and under its id; what is wrong with it is said once. One that has moved is another."""
    of = nodes(A)
    of.learn({7: A})
    for node_id in (-1, 7):
        of.connect(node(of, node_id), 0.0)
        of.lost(node(of, node_id), "not you", 0.0, refused=REFUSED)
    assert str(of.no_usable_broker()) == "a:1: not you"
    of.learn({7: B})
    assert of.no_usable_broker() is None


def test_backoffs_differ_between_producers() -> None:
    """20 % jitter either way, so that a thousand producers do not come back in the same instant."""
    delays = []
    for draw in (0.0, 0.999):
        of = nodes(A, draw=draw)
        of.connect(node(of, -1), 0.0)
        of.lost(node(of, -1), "refused", 0.0)
        delays.append(node(of, -1).retry_at_ms)
    assert [round(delay) for delay in delays] == [40, 60]


def test_an_overdue_request_costs_the_link() -> None:
    """After request_timeout_ms without an answer the producer closes the connection, with the reason. Answers come in order, so none would
    follow.
    """
    of = nodes(A, request_timeout_ms=100.0)
    one = node(of, -1)
    connect(of, one, 0.0)
    of.begin(one, Api.METADATA, 0.0, Request)
    assert of.upkeep(99.0) == []
    assert of.next_deadline(99.0) == 100.0
    (command,) = of.upkeep(100.0)
    assert isinstance(command, Disconnect)
    assert "request_timeout_ms=100" in command.reason


def test_a_broker_that_is_heard_of_again_stays() -> None:
    """Metadata names the broker again before its old connection has ended. The producer does not forget the broker with that connection."""
    of = nodes(A)
    of.learn({1: B})
    one = node(of, 1)
    connect(of, one, 0.0)
    of.start_over("going back")
    of.learn({1: B})
    of.lost(one, "going back", 0.0)
    assert of.get(1) is one


def test_an_idle_link_is_given_up() -> None:
    """A connection without a request for connections_max_idle_ms is closed. A connection with a request on it is not idle."""
    of = nodes(A, connections_max_idle_ms=100.0, request_timeout_ms=1_000.0)
    one = node(of, -1)
    connect(of, one, 0.0)
    request = of.begin(one, Api.METADATA, 50.0, Request)
    assert of.upkeep(160.0) == []
    of.finish(one, request.request_id, 160.0)
    of.mute(one, 200.0)
    assert of.upkeep(200.0) == [], "also where something else has to be looked at before"
    assert of.upkeep(259.0) == []
    (command,) = of.upkeep(260.0)
    assert isinstance(command, Disconnect)
    assert "connections_max_idle_ms=100" in command.reason
    assert of.upkeep(261.0) == [], "once"


def test_bootstrap_addresses_are_tried_in_turn() -> None:
    """While no broker is known, the bootstrap addresses are tried in turn: first one that never failed, then the one whose failure is
    oldest."""
    of = nodes(A, B, C)
    tried = []
    for now in (0.0, 1.0, 2.0):
        chosen, commands = of.pick(now, Api.METADATA)
        assert chosen is None
        (command,) = commands
        assert isinstance(command, Connect)
        tried.append(command.node)
        of.lost(node(of, command.node), "refused", now)
    assert sorted(tried) == [-3, -2, -1]
    assert of.pick(3.0, Api.METADATA) == (None, []), "all of them back off"
    assert of.pick(1_000.0, Api.METADATA)[1]


def test_one_question_opens_one_connection() -> None:
    """While one connection is being made no second is begun for the same question."""
    of = nodes(A, B)
    of.pick(0.0, Api.METADATA)
    assert of.pick(0.0, Api.METADATA) == (None, [])


def test_the_least_busy_broker_is_asked() -> None:
    """A request that any broker can answer goes to the broker with the fewest requests in flight, and to a known broker before a bootstrap
    address."""
    of = nodes(A)
    of.learn({1: B, 2: C})
    for each in (-1, 1, 2):
        connect(of, node(of, each), 0.0)
    of.begin(node(of, 1), Api.PRODUCE, 0.0, Request)
    chosen, commands = of.pick(0.0, Api.METADATA)
    assert (chosen, commands) == (node(of, 2), [])


def test_a_broker_that_does_not_answer_is_asked_last() -> None:
    """A request that any broker can answer goes to a broker that let the last one of its API time out only if there is no other, connected
    or not. The next answer ends that."""
    of = nodes(A)
    of.learn({1: B, 2: C})
    one, two = node(of, 1), node(of, 2)
    connect(of, one, 0.0)
    of.begin(one, Api.METADATA, 0.0, Request)
    assert of.upkeep(one.requests[1].timeout_at_ms)
    of.lost(one, "closed", 60_000.0)
    connect(of, one, 65_000.0)
    connect(of, two, 65_000.0)
    of.begin(two, Api.PRODUCE, 65_000.0, Request)
    assert of.pick(65_000.0, Api.METADATA) == (two, [])
    assert of.pick(65_000.0, Api.INIT_PRODUCER_ID) == (one, [])
    of.lost(two, "closed", 65_000.0)
    assert of.pick(65_000.0, Api.METADATA) == (one, []), "two backs off"
    (command,) = of.pick(70_000.0, Api.METADATA)[1]
    assert isinstance(command, Connect)
    assert command.node == 2
    of.finish(one, of.begin(one, Api.METADATA, 70_000.0, Request).request_id, 70_000.0)
    assert of.pick(70_000.0, Api.METADATA) == (one, [])


def test_a_broker_that_moved_is_found_at_its_new_address() -> None:
    """If Metadata has another address for a broker, the producer closes the connection and connects to the new address without backoff."""
    of = nodes(A)
    of.learn({1: B})
    one = node(of, 1)
    connect(of, one, 0.0)
    (command,) = of.learn({1: C})
    assert isinstance(command, Disconnect)
    of.lost(one, "closed", 0.0)
    one.retry_at_ms = 0.0
    (again,) = of.connect(one, 1.0)
    assert isinstance(again, Connect)
    assert (again.host, again.port) == ("c", 3)


def test_a_broker_that_left_is_forgotten() -> None:
    """A broker that metadata no longer names loses its connection, and is forgotten once it is down; bootstrap addresses stay for ever."""
    of = nodes(A)
    of.learn({1: B, 2: C})
    one = node(of, 1)
    connect(of, one, 0.0)
    assert of.learn({2: C})
    of.lost(one, "closed", 0.0)
    of.learn({2: C})
    assert of.get(1) is None
    assert of.get(-1) is not None


def test_the_longest_throttle_counts() -> None:
    """Of answers that come one after the other a later one does not shorten what an earlier one has asked for, as in Java's client."""
    harness = CoreHarness(nodes=1).introduce()
    harness.send(b"a", b"b")
    one, two = harness.produces()
    harness.reply(one, replace(harness.acknowledgement(one, offset=1), throttle_time_ms=300))
    harness.reply(two, replace(harness.acknowledgement(two, offset=2), throttle_time_ms=1))
    harness.send(b"c")
    harness.advance(290)
    assert harness.produces() == []
    harness.advance(20)
    assert [flight.values for flight in harness.produces()] == [[b"c"]]


def test_a_throttled_broker_is_left_alone() -> None:
    """Nothing is sent to a broker for the throttle_time_ms that it asked for (KIP-219), and right away afterwards."""
    harness = CoreHarness().introduce()
    harness.send(b"x")
    (flight,) = harness.produces()
    harness.reply(flight, replace(harness.acknowledgement(flight), throttle_time_ms=300))
    harness.send(b"y")
    harness.advance(299)
    assert not harness.produces()
    harness.advance(1)
    assert harness.produces()


def test_a_request_timeout_is_one_loss_for_all_on_the_link() -> None:
    """When one request is overdue, all batches on the connection come back, in order, on the next connection."""
    harness = CoreHarness(request_timeout_ms=100.0).introduce()
    harness.send(b"0", b"1", b"2")
    harness.advance(99)
    assert len(harness.produces()) == 3
    assert not harness.disconnects
    harness.advance(100)
    assert len(harness.disconnects) == 1
    assert [flight.values for flight in harness.produces()] == [[b"0"]]


def test_the_newest_levels_of_the_clusters_features_count() -> None:
    """The features with the highest epoch count, from any broker. Without an epoch the last answer counts: a broker that names no level
    takes back what another one named before."""
    of = nodes(A)
    one, first, second = node(of, -1), {"transaction.version": 1}, {"transaction.version": 2}
    told = [(-1, second, second), (-1, {}, {}), (5, first, first), (4, second, first), (-1, second, first), (6, second, second)]
    for epoch, levels, believed in told:
        of.connected(one, VERSIONS, 0.0, features=Features(epoch, levels))
        assert of.features.levels == believed, f"after epoch {epoch}"


def test_versions_are_those_both_sides_speak() -> None:
    """The highest common version is used, and an api that is not common, or only in versions too low for us, is not."""
    one = Node(1, A)
    one.versions = {int(Api.PRODUCE): (3, 9), int(Api.METADATA): (13, 20)}
    assert one.version(Api.PRODUCE, 13) == 9
    assert one.version(Api.PRODUCE, 7) == 7
    assert one.version(Api.PRODUCE, 13, least=9) == 9
    assert one.version(Api.PRODUCE, 13, least=10) is None
    assert one.version(Api.METADATA, 12) is None
    assert one.version(Api.DESCRIBE_PRODUCERS, 0) is None
    assert one.state is LinkState.DOWN
