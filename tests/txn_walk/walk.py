"""One random run: clients, faults, then a quiet time, and the final checks. Seed and kind decide everything.

It knows what clients promise each other, and nothing about a coordinator.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final, NamedTuple

from fencepost.broker_stub.cluster.broker_call import TIMEOUT_MS
from fencepost.producer.wire import Api
from tests.txn_walk.client import Client
from tests.txn_walk.model import Broken, Model, Txn, View
from tests.txn_walk.site import BROKERS, EXPIRES_AFTER_MS, Ask, Reader, Sent, Site
from tests.txn_walk.speech import LOST, OK, REFUSED, Speech, group_of
from tests.txn_walk.trouble import STEPS

STEPS_MIN, STEPS_MAX = 6, 18
TURNS_MAX: Final = 60
MARKER_RETRY_MS: Final = 110
TOO_LATE_MS: Final = 100_000
"""After this time the coordinator has aborted every open transaction."""

EPOCHS_USED_UP: Final = (32_764, 32_765, 32_766)
NAMES: Final = (("a",), ("a", "b"), ("a", "b"), ("a", "a"), ("a", "a", "b"))
"""The transactional ids of the clients."""


class Kind(NamedTuple):
    """The kind of a run."""

    cluster_version: int
    speech: Speech


class Prepared(NamedTuple):
    """A prepared transaction: the holder of its token, and the holder's attempts."""

    client: Client
    txn: Txn
    tried: list[bool]


class Running:
    """A client, and the state of its request."""

    __slots__ = ("answer", "client", "over", "sent", "unheard", "unsent")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.unsent: Ask | None = None
        self.sent: Sent | None = None
        self.answer: Any = LOST
        self.unheard = False
        """The answer will be lost."""
        self.over = False

    def next_ask(self) -> Ask | None:
        """The client's next request; None after its end."""
        ask, self.unsent = self.unsent, None
        if ask is None:
            answer, self.answer = self.answer, LOST
            try:
                ask = self.client.going.send(answer)
            except StopIteration:
                self.over = True
        return ask


class Walk:
    """One run. `rows` counts the rows by which the coordinator decided."""

    def __init__(self, seed: int, kind: Kind, rows: Counter[str] | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.kind = kind
        self.model = Model()
        self.closing = False
        self.site = Site(kind.cluster_version)
        if rows is not None:
            self.site.count_rows(rows)
        self.names = rng.choice(NAMES)
        if rng.random() < 0.4:
            self.site.remember(rng.choice(self.names), rng.choice(EPOCHS_USED_UP))
        self.readers = [Reader(self.site, index) for index in range(len(self.site.data))]
        self.running = [self.newcomer(name) for name in self.names]
        self.frozen: list[Running] = []
        self.zombies: list[Running] = []
        """Were frozen once."""
        self.gone: list[Client] = []
        self.tokens: list[Prepared] = []
        self.held: list[Ask] = []
        """On their way for too long."""
        self.marked_again: set[int] = set()
        """Producer ids that got a marker once more."""
        self._owners: dict[str, Client | None] = {}

    def run(self) -> None:
        """Take every step, then wait, then check."""
        for _ in range(self.rng.randint(STEPS_MIN, STEPS_MAX)):
            self.rng.choice(STEPS)(self)
            self.site.cluster.tick()
        self._quiet()
        self._check()

    # What clients tell

    def prepared(self, client: Client, txn: Txn) -> None:
        """The transaction has written everything, and waits for the holder of its token."""
        self.tokens.append(Prepared(client, txn, []))

    def owner_of(self, transactional_id: str) -> Client | None:
        """The client that registered last. None if that client does not know it."""
        return self._owners.get(transactional_id)

    def seen_init(self, client: Client) -> None:
        """A broker has its InitProducerId."""
        self._owners[client.transactional_id] = client

    # Clients and what they send

    def newcomer(self, transactional_id: str) -> Running:
        """A client that has done nothing yet."""
        return Running(Client(self, transactional_id, self.kind.speech))

    def step(self, running: Running) -> None:
        """A client sends one request, unless it waits for an answer. Sometimes it stops waiting."""
        client, sent = running.client, running.sent
        client.look_at_the_time(self.site.now_ms, EXPIRES_AFTER_MS)
        if sent is not None:
            if sent.answer is not None:
                running.answer = LOST if running.unheard else sent.answer
            elif not sent.lost and (self.closing or self.rng.random() < 0.8):
                return
            running.sent = None
        ask = running.next_ask()
        if ask is not None:
            self._send(running, ask)

    def _send(self, running: Running, ask: Ask) -> None:
        """Send over a network that loses requests and responses, and delays some.

        A client of transaction version 1 is protected from late requests only if its partitions are verified.
        """
        drawn = 1.0 if self.closing else self.rng.random()
        comes_late = ask.request.api == Api.PRODUCE or (running.client.speech.bumps and not running.client.is_careless)
        if drawn < 0.03:
            return
        if drawn < 0.08 and comes_late:
            self.held.append(ask)
            if drawn < 0.05:
                return
        running.unheard = 0.08 < drawn < 0.15
        running.sent = self.site.send(ask, self.rng.choice(BROKERS) if drawn > 0.97 and not self.closing else None)

    def deliver(self, ask: Ask) -> None:
        """Deliver a request whose client does not wait any more."""
        if self.site.send(ask) is not None and ask.request.api == Api.INIT_PRODUCER_ID:
            self._owners[ask.request.transactional_id] = None  # type: ignore[attr-defined]  # its client knows nothing of it

    def finish(self, token: Prepared, *, commit: bool) -> None:
        """End a prepared transaction. The first holder that tries in time must not be refused."""
        client, txn, tried = token
        client.look_at_the_time(self.site.now_ms, EXPIRES_AFTER_MS)
        ask = client.end_request(txn, commit=commit)
        sent = self.site.send(ask)
        if sent is not None and sent.answer is not None and sent.answer.error_code in REFUSED and not tried:
            client.refused(ask, sent.answer.error_code)
        tried.append(commit)

    # The end

    def _quiet(self) -> None:
        """The faults stop. Every client ends what it has begun, and the coordinator aborts the rest."""
        self.closing = True
        rng, site = self.rng, self.site
        if rng.random() < 0.5:
            for ask in self.held:
                self.deliver(ask)
        site.heal()
        site.pass_time(MARKER_RETRY_MS)
        for token in self.tokens:
            if rng.random() < 0.5:
                self.finish(token, commit=rng.random() < 0.7)
        self._settle([each for each in (*self.running, *self.zombies, *self.frozen) if each.client.identity is not None])
        if rng.random() < 0.5:
            self._settle([self.newcomer(name) for name in dict.fromkeys(self.names) if self.model.has_open(name)])
        else:
            site.pass_time(TOO_LATE_MS)
        site.pass_time(MARKER_RETRY_MS)

    def _settle(self, clients: list[Running]) -> None:
        """Let every client come to its end."""
        for turn in range(2 * TURNS_MAX):
            for each in clients:
                if not each.over:
                    self.step(each)
                    self.site.cluster.tick()
            if all(each.over for each in clients):
                return
            if turn == TURNS_MAX:
                self.site.pass_time(TIMEOUT_MS)  # a broker waits for a response that a severed link has lost
            elif turn % 2:
                self.site.pass_time(MARKER_RETRY_MS)
        raise Broken(f"{sum(not each.over for each in clients)} clients wait forever")

    def _check(self) -> None:
        site = self.site
        views: dict[int, View] = {}
        for index, reader in enumerate(self.readers):
            if not site.data[index].log.log_end_offset:
                views[index] = []  # no client has written there
                continue
            began = reader.position > 0
            reader.poll()
            fresh = Reader(site, index) if began else reader
            if began:
                fresh.poll()
            views[index] = fresh.records
            if reader.records != fresh.records:
                raise Broken(f"partition {index}: the first consumer has {reader.records}, a new one reads {fresh.records}")
            if fresh.stable_offset != fresh.high_watermark:
                raise Broken(f"partition {index} is stable up to {fresh.stable_offset} of {fresh.high_watermark}")
        if site.offsets.log.last_stable_offset != site.offsets.log.high_watermark:
            raise Broken("the partition of the groups' offsets still has an open transaction")
        offsets = {}
        for name in self.model.with_offsets():
            found = site.group_offset(group_of(name))
            if found is None or found[0] != OK:
                raise Broken(f"the group of {name!r} has no stable offset: {found}")
            offsets[name] = found[1]
        self.model.check(views, offsets)
