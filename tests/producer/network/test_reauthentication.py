"""Sessions that end (KIP-368): the producer renews them on their own connection while it sends records, and no record is delayed or
lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.producer import AuthenticationFailed, Producer, RecordFuture
from fencepost.producer.network.connection import Connection
from fencepost.producer.wire import Api
from tests.credentials import MECHANISMS, USERS, jwt, ours
from tests.producer.pki import Pki, pki, tls
from tests.producer.stub_helpers import QUICK, until, values

__all__ = ["pki"]

SESSION_MS = 1300
"""Short, and long enough for a broker that takes one renewal a second to take these."""

LONG_MS = 60_000
"""So long that no machine is too busy for the renewal that a test brings forward (`renew_soon`)."""

SASL: dict[str, Any] = {**QUICK, "security_protocol": "SASL_PLAINTEXT"}


def brief(session_ms: int = SESSION_MS, **more: Any) -> BrokerStub:
    """A stub with such sessions, and a topic."""
    stub = BrokerStub(sasl=Sasl(dict(USERS), MECHANISMS, session_lifetime_ms=session_ms), journal=100_000, **more)
    stub.create_topic("t")
    return stub


def renew_soon(producer: Producer) -> Connection:
    """The connection to the one broker, whose session is renewed as if it ended in a moment: no sooner than a broker permits."""
    connection = producer._sender.engine._connections[1]
    connection._renew_at = time.monotonic() + 1.1
    return connection


def handshakes(stub: BrokerStub) -> int:
    return len(stub.journal.requests(Api.SASL_HANDSHAKE))


def renewals(stub: BrokerStub) -> int:
    """How often the connection that lasted best was authenticated again. On a machine that is busy with other things one may be late."""
    logins = Counter(exchange.connection_id for exchange in stub.journal.requests(Api.SASL_HANDSHAKE))
    return max(logins.values(), default=1) - 1


def send_until(producer: Producer, done: Callable[[], object], futures: list[RecordFuture] | None = None) -> list[RecordFuture]:
    """Sends a record after the other, twenty of them unanswered at most, until it is done. All that were sent."""
    futures = futures if futures is not None else []
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline, f"{len(futures)} records"
        futures.append(producer.send("t", b"%d" % len(futures)))
        if len(futures) > 20:
            until(lambda: done() or futures[-20].done(), "an old record is acknowledged")
    return futures


def check(stub: BrokerStub, futures: list[RecordFuture]) -> None:
    """All of them are there, once, in order."""
    assert [future.result(20).offset for future in futures] == list(range(len(futures)))
    assert values(stub, "t") == [b"%d" % number for number in range(len(futures))]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_long_send_runs_through_several_sessions(pki: Pki, mechanism: str) -> None:
    """Records go on over the same connection through two renewals: none is lost, doubled or out of order."""
    # Batches that wait a little: the sessions take their time, and so many records need not be sent meanwhile.
    settings = {**QUICK, **pki.trust, "linger_ms": 20, "security_protocol": "SASL_SSL", **ours(mechanism)}
    with brief(tls=tls(pki.server)) as stub, Producer(bootstrap_servers=stub.bootstrap, **settings) as producer:
        check(stub, send_until(producer, lambda: renewals(stub) >= 2))


def test_nothing_else_is_sent_while_a_session_is_renewed() -> None:
    """From its handshake to its last answer a renewal has the connection for itself; what callers send meanwhile waits for it, and goes
    out in its order."""
    with brief(LONG_MS) as stub, Producer(bootstrap_servers=stub.bootstrap, **SASL, **ours("SCRAM-SHA-256")) as producer:
        futures = send_until(producer, lambda: stub.end_offset("t", 0), [])
        connection = renew_soon(producer)
        held = stub.faults.on(Api.SASL_AUTHENTICATE).hold()
        send_until(producer, lambda: held.hits, futures)
        frames = stub.stats()["frames"]
        futures += [producer.send("t", b"%d" % number) for number in range(len(futures), len(futures) + 50)]
        until(lambda: connection._held, "something waits for the renewal")
        assert stub.stats()["frames"] == frames
        assert not futures[-1].done()
        held.remove()
        held.release()
        check(stub, futures)
        for one in {exchange.connection_id for exchange in stub.journal.requests()}:
            asked = [exchange.api for exchange in stub.journal.requests() if exchange.connection_id == one]
            for place, api in enumerate(asked):
                if api == Api.SASL_HANDSHAKE:
                    assert asked[place + 1 : place + 3] == [Api.SASL_AUTHENTICATE] * 2


def test_requests_that_are_on_their_way_are_answered_first() -> None:
    """A renewal waits for no other request. Earlier requests are answered before it, as in Kafka, and their responses count."""
    with brief(LONG_MS) as stub, Producer(bootstrap_servers=stub.bootstrap, **SASL, **ours("PLAIN")) as producer:
        futures = send_until(producer, lambda: stub.end_offset("t", 0), [])
        until(lambda: all(future.done() for future in futures), "all of them")
        connection = renew_soon(producer)
        held = stub.faults.on(Api.PRODUCE).reply().hold()
        futures.append(producer.send("t", b"%d" % len(futures)))
        held.wait(1, 20)
        futures.append(producer.send("t", b"%d" % len(futures)))
        until(lambda: stub.end_offset("t", 0) == len(futures), "the one behind it is there")
        # Nothing is sent until it is due, and then something: the renewal begins behind two answers that have not come.
        until(lambda: time.monotonic() > connection._renew_at, "the session's time")
        futures.append(producer.send("t", b"%d" % len(futures)))
        until(lambda: connection._held, "it waits for the renewal")
        held.remove()
        held.release()
        check(stub, futures)


@pytest.mark.parametrize("what", ["cut", "silent", "refused"])
def test_a_renewal_that_fails_costs_its_connection_and_no_record(what: str) -> None:
    """Cut in the middle, never answered, or refused because of another password: the next connection is authenticated anew, as soon as
    the broker lets it, and every record is there once."""
    settings = {**SASL, "socket_connection_setup_timeout_ms": 1000, **ours("PLAIN")}
    with brief() as stub, Producer(bootstrap_servers=stub.bootstrap, **settings) as producer:
        futures = send_until(producer, lambda: stub.end_offset("t", 0), [])
        sasl = stub.acceptor.sasl
        assert sasl is not None
        if what == "refused":
            sasl.users["alice"] = "another"
            node = producer._sender.engine.core.nodes.get(1)
            assert node is not None
            send_until(producer, lambda: node.refused is not None, futures)
            assert "the broker refused user 'alice'" in node.last_failure
            sasl.users.update(USERS)
        else:
            rule = stub.faults.on(Api.SASL_AUTHENTICATE)
            fault = rule.disconnect() if what == "cut" else rule.drop_reply()
            send_until(producer, lambda: fault.hits, futures)
        futures += [producer.send("t", b"%d" % number) for number in range(len(futures), len(futures) + 50)]
        check(stub, futures)


def test_an_idle_connection_is_left_alone() -> None:
    """Nothing is renewed for its own sake: the first request after the session's end is, and it is not lost by that."""
    with brief() as stub, Producer(bootstrap_servers=stub.bootstrap, **SASL, **ours("PLAIN")) as producer:
        futures = [producer.send("t", b"0")]
        futures[0].result(20)
        before = handshakes(stub)
        connection = producer._sender.engine._connections[1]
        until(lambda: time.monotonic() > connection._renew_at + 0.4, "the session's end")
        assert handshakes(stub) == before
        futures.append(producer.send("t", b"1"))
        check(stub, futures)
        assert handshakes(stub) == before + 1
        assert stub.stats()["connections"] == 2


def test_a_session_ends_with_its_token() -> None:
    """A broker that limits nothing else lets a session live as long as its token; the next one is asked for before it ends."""
    numbers = count()

    def provider() -> str:
        return jwt(life_s=1.3, number=next(numbers))

    settings = {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}
    with (
        BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"]), journal=100_000) as stub,
        Producer(bootstrap_servers=stub.bootstrap, **settings) as producer,
    ):
        check(stub, send_until(producer, lambda: renewals(stub) >= 2))
    assert next(numbers) >= 3


def test_a_token_that_a_broker_refused_is_not_offered_again() -> None:
    """Its provider said that it lives on, but the issuer has taken it back. The next attempt asks for another one."""
    given = iter([jwt(life_s=-20), jwt(), jwt()])
    settings = {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: (next(given), time.time() + 3_600)}
    with (
        BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"])) as stub,
        Producer(bootstrap_servers=stub.bootstrap, **settings) as producer,
    ):
        with pytest.raises(AuthenticationFailed, match="refused the OAUTHBEARER token"):
            producer.send("t", b"0")
        assert producer.send("t", b"1").result(20).offset == 0


def test_a_session_without_an_end_is_not_renewed() -> None:
    """Without a lifetime there is one authentication per connection."""
    with BrokerStub(sasl=USERS) as stub, Producer(bootstrap_servers=stub.bootstrap, **SASL, **ours("PLAIN")) as producer:
        for number in range(20):
            assert producer.send("t", b"x").result(20).offset == number
        assert handshakes(stub) == stub.stats()["connections"] == 2


def test_records_without_an_answer_wait_for_a_renewal_too() -> None:
    """acks=0: they are done when the socket has them, which is after the renewal, and all of them arrive. Here a renewal that is late
    would lose some, so it gets more time."""
    with brief(4_000) as stub, Producer(bootstrap_servers=stub.bootstrap, acks=0, **SASL, **ours("PLAIN")) as producer:
        futures = send_until(producer, lambda: renewals(stub) >= 1)
        until(lambda: stub.end_offset("t", 0), "all of them", good=lambda found: found == len(futures))
        assert values(stub, "t") == [b"%d" % number for number in range(len(futures))]


def test_what_is_sent_after_a_renewal_does_not_overtake_what_waited_for_it() -> None:
    """acks=0: the first request that waited is done when it is written, and lets more be sent, while others wait still. A single thread's
    records arrive in its order."""
    settings = {**SASL, "acks": 0, "enable_idempotence": False, "batch_size": 0, "max_in_flight_requests_per_connection": 5}
    with brief(LONG_MS) as stub, Producer(bootstrap_servers=stub.bootstrap, **settings, **ours("PLAIN")) as producer:
        futures = send_until(producer, lambda: stub.end_offset("t", 0), [])
        connection = renew_soon(producer)
        held = stub.faults.on(Api.SASL_AUTHENTICATE).hold()
        send_until(producer, lambda: held.hits, futures)
        futures += [producer.send("t", b"%d" % number) for number in range(len(futures), len(futures) + 50)]
        until(lambda: len(connection._held or ()) > 1, "requests wait for the renewal")
        held.remove()
        until(lambda: stub.end_offset("t", 0), "all of them", good=lambda found: found == len(futures))
        assert values(stub, "t") == [b"%d" % number for number in range(len(futures))]
