"""Random faults for a simulated producer. `checks` holds what must be true under all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.context import CONTROLLER
from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.log.producer_append_info import Origin
from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.wire import Api, ErrorCode, InitProducerIdResponse, Message, ProduceResponse
from fencepost.producer.wire.records import Record, encode_batch
from tests.simulation.callers import Callers
from tests.simulation.world import SESSION_MS, START_MS, STRANGER, World

TOPIC = "t"
TROUBLE_MS = 20_000
QUIET_MS = 200_000
REFUSALS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
AFTERTHOUGHTS = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR)
UNCONFIRMED = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@dataclass
class Sent:
    """What the caller knows about one record."""

    partition: int
    value: bytes
    future: RecordFuture
    at_ms: float


@dataclass
class Chaos:
    """One run. `events` counts its faults. `deleted` keeps the logs of deleted topics, by partition."""

    world: World
    partitions: int
    exactly_once: bool = True
    topic_config: dict[str, str] = field(default_factory=dict)
    first_sequence: int = 0
    first_epoch: int = 0
    recreate: bool = False
    move: bool = False
    isolate: bool = True  # acknowledged with acks=1, it is lost with its leader
    callers: Callers | None = None
    deleted: list[tuple[int, list[tuple[int, bytes]]]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Send under faults, then stop the faults, then check that everything works again."""
        world = self.world
        world.cluster.create_topic(TOPIC, partitions=self.partitions, replication_factor=3, overrides=self.topic_config)
        world.learn(TOPIC)
        self._begin_at()
        self._schedule(self._send_some, 40)
        more = [
            *([(isolate_leader, 4_000), (strand_broker, 4_000)] if self.isolate else []),
            *([(recreate_topic, 6_000)] if self.recreate else []),
            *([(change_limit, 700)] if self.topic_config else []),
            *(MOVES if self.move else []),
            *([(call, 250)] if self.callers else []),
        ]
        for trouble, every_ms in [*TROUBLES, *more]:
            self._schedule(partial(trouble, self), every_ms)
        world.run(world.now + TROUBLE_MS)
        self._heal()
        world.run(world.now + QUIET_MS)
        late = [sent for sent in self.sent if not sent.future.done()]
        assert not late, f"{len(late)} records have no outcome"
        before = len(self.sent)
        for partition in range(self.partitions):
            self._send(partition)
        world.run(world.now + 5_000)
        assert len(self.sent) == before + self.partitions, "after the faults the buffer has no room"
        for sent in self.sent[before:]:
            assert sent.future.done()
            assert sent.future.batch.failure is None, f"after the faults a record failed: {sent.future.batch.failure}"

    def _begin_at(self) -> None:
        """Start close to the end of the sequences or of the epochs. Brokers accept any first sequence of an unknown producer."""
        world = self.world
        if self.first_epoch:
            honest = world.tamper

            def age(response: Message) -> Message:
                if isinstance(response, InitProducerIdResponse) and not response.error_code:
                    world.tamper = honest
                    return replace(response, producer_epoch=self.first_epoch)
                return response

            world.tamper = age
        for queue in world.accumulator.topics[TOPIC].queues:
            window = world.core.produce_requests.sender(queue).window
            window.first_sequence = self.first_sequence

    def _schedule(self, action: Callable[[], None], every_ms: float) -> None:
        world = self.world
        end = world.now + TROUBLE_MS

        def again() -> None:
            if world.now < end:
                action()
                world.at(world.now + world.random.expovariate(1 / every_ms), again)

        world.at(world.now + world.random.expovariate(1 / every_ms), again)

    def _send_some(self) -> None:
        for _ in range(self.world.random.randint(1, 6)):
            self._send(self.world.random.randrange(self.partitions))

    def _send(self, partition: int) -> None:
        value = b"%06d" % len(self.sent) + b"." * self.world.random.choice((0, 10, 300))
        future = self.world.send(TOPIC, partition, value)
        if future is not None:
            self.sent.append(Sent(partition, value, future, self.world.now))
        else:
            self.count("no room")

    def _heal(self) -> None:
        world = self.world
        world.frozen.clear()
        faults: Faults = world.cluster.faults
        faults.clear()
        unstrand(world.cluster)
        for node, broker in world.cluster.brokers.items():
            if not broker.alive:
                world.cluster.start_broker(node)

    def base_sequences(self, partition: int) -> list[int]:
        """The base sequences in the partition's log, in order."""
        return [header.base_sequence for header in self.world.headers(TOPIC, partition)]

    def count(self, what: str, number: int = 1) -> None:
        self.events[what] = self.events.get(what, 0) + number


def cut_connections(chaos: Chaos) -> None:
    chaos.count("connections cut")
    for connection in list(chaos.world.connections.values()):
        if connection.key > 0 and chaos.world.random.random() < 0.5:
            connection.cut(notice_ms=chaos.world.random.choice((0.0, 5.0, 100_000.0)))


def freeze_broker(chaos: Chaos) -> None:
    chaos.count("brokers frozen")
    world = chaos.world
    world.frozen[world.random.choice(list(world.cluster.brokers))] = world.now + world.random.expovariate(1 / 2_000)


def move_leader(chaos: Chaos) -> None:
    partition = chaos.world.cluster.find(TOPIC, chaos.world.random.randrange(chaos.partitions))
    if partition is None:
        return
    try:
        chaos.world.cluster.move_leader(partition)
        chaos.count("leaders moved")
    except ValueError:
        chaos.count("no replica to lead")


def isolate_leader(chaos: Chaos) -> None:
    """Cut a leader off from its followers. Its new records stay above its high watermark, and it reports them.

    After a while one of the followers often becomes leader without these records.
    """
    world, cluster = chaos.world, chaos.world.cluster
    partition = cluster.find(TOPIC, world.random.randrange(chaos.partitions))
    if partition is None or partition.leader < 0 or cluster.severed:
        return
    chaos.count("leaders isolated")
    leader = partition.leader
    others = [node for node in cluster.brokers if node != leader]
    for node in others:
        cluster.broker_links.sever(leader, node)

    def elect() -> None:
        for led in (each for topic in cluster.topics for each in topic.partitions if each.leader == leader):
            had = led.log.log_end_offset
            try:
                cluster.move_leader(led)
                chaos.count("isolated leaders replaced")
            except ValueError:
                chaos.count("no replica to lead")
            chaos.count("records lost with isolated leaders", had - led.log.log_end_offset)

    def mend() -> None:
        for node in others:
            cluster.broker_links.mend(leader, node)

    for_ms = world.random.choice((300, 2_000, 7_000))
    if world.random.random() < 0.8:
        world.at(world.now + for_ms, elect)
    world.at(world.now + for_ms + world.random.choice((0, 5, 500)), mend)


def strand(world: World, draw: random.Random, count: Callable[[str], None]) -> None:
    """Cut a broker off from the controller, both ways or one way, or pause it. It serves clients with old metadata, as the leader that it
    was. After a while it hears of what others have decided."""
    cluster = world.cluster
    if cluster.severed or len(cluster.live) < len(cluster.brokers) or any(broker.paused for broker in cluster.brokers.values()):
        return
    node = draw.choice(list(cluster.brokers))
    how = draw.choice(("cut off from the controller", "without news", "paused"))
    count(f"brokers {how}")
    if how == "paused":
        cluster.pause_broker(node)
        back = partial(cluster.resume_broker, node)
    else:
        cluster.broker_links.sever(CONTROLLER, node, one_way=how == "without news")
        back = partial(cluster.broker_links.mend, CONTROLLER, node)
    for_ms = draw.choice((300, SESSION_MS // 2, 2 * SESSION_MS, 7_000))
    world.at(world.now + for_ms, back)
    if how == "without news":

        def elect() -> None:
            for led in (each for topic in cluster.topics for each in topic.partitions if each.leader == node):
                with suppress(ValueError):
                    cluster.move_leader(led)

        world.at(world.now + draw.choice((5, 200)), elect)


def unstrand(cluster: Cluster) -> None:
    """Mend every link, and let paused brokers go on."""
    for one, other in [*cluster.broker_links.down, *cluster.broker_links.one_way]:
        cluster.broker_links.mend(one, other)
    for node in cluster.brokers:
        cluster.resume_broker(node)


def strand_broker(chaos: Chaos) -> None:
    strand(chaos.world, chaos.world.random, chaos.count)


def restart_broker(chaos: Chaos) -> None:
    world = chaos.world
    node = world.random.choice(list(world.cluster.brokers))
    if not all_work(world.cluster):
        return
    chaos.count("brokers restarted")
    how = world.random.choice(("cleanly", "killed", "without power"))
    if how == "without power" and any(partition.isr == [node] for topic in world.cluster.topics for partition in topic.partitions):
        how = "killed"  # the only replica in sync would lose what was acknowledged, as in Kafka
    world.cluster.stop_broker(node, clean=how == "cleanly", lost_power=how == "without power")
    if how == "without power":
        chaos.count("power lost")
    for connection in list(world.connections.values()):
        if connection.node == node and connection.key > 0:
            connection.cut()
    world.at(world.now + world.random.expovariate(1 / 1_000), partial(start_broker, world, node))


def all_work(cluster: Cluster) -> bool:
    """Whether every broker is up and in touch with the controller."""
    return cluster.live == [*cluster.brokers] and all(cluster.hears(node) for node in cluster.brokers)


def start_broker(world: World, node: int) -> None:
    """Start the broker as soon as it reaches the controller."""
    if world.cluster.controller_link.is_up(node):
        world.cluster.start_broker(node)
    else:
        world.at(world.now + 100, partial(start_broker, world, node))


def restart_all(chaos: Chaos) -> None:
    """Restart every broker cleanly. Afterwards they remember only each producer's newest batch."""
    world = chaos.world
    if not all_work(world.cluster):
        return
    chaos.count("cluster restarted")
    for node in world.cluster.brokers:
        world.cluster.stop_broker(node, clean=True)
    for connection in list(world.connections.values()):
        if connection.key > 0:
            connection.cut()
    for node in world.cluster.brokers:
        world.at(world.now + world.random.uniform(1, 200), partial(start_broker, world, node))


def restart_unanswered(chaos: Chaos) -> None:
    """Drop responses for a while, then restart every broker. What the brokers have forgotten is in their logs."""
    chaos.world.cluster.faults.on(Api.PRODUCE).after_append().drop().times(12)
    chaos.world.at(chaos.world.now + 150, partial(restart_all, chaos))


def recreate_topic(chaos: Chaos) -> None:
    """Delete the topic, and create it again a moment later."""
    world = chaos.world
    topic = world.cluster.topics.named(TOPIC)
    if topic is None:
        return
    chaos.count("topics recreated")
    chaos.deleted += [(partition, world.log(TOPIC, partition)) for partition in range(chaos.partitions)]
    world.cluster.delete_topic(topic)

    def create() -> None:
        world.cluster.create_topic(TOPIC, partitions=chaos.partitions, replication_factor=3)

    world.at(world.now + world.random.choice((0, 50, 700)), create)


def write_as_another(chaos: Chaos) -> None:
    """Another producer writes to the partition, so that offsets have gaps."""
    world = chaos.world
    partition = world.cluster.find(TOPIC, world.random.randrange(chaos.partitions))
    if partition is None or partition.leader < 0 or len(partition.isr) < partition.min_isr:
        return
    if not partition.leading.leads:
        return  # its broker does not know that it leads, and would refuse the record
    chaos.count("records of others")
    blob = encode_batch([Record(0, START_MS + int(world.now), None, STRANGER)])
    partition.leading.append(blob, origin=Origin.CLIENT)
    partition.leading.tell_grown(len(blob))


def change_limit(chaos: Chaos) -> None:
    """Lower and raise the topic's max.message.bytes, also between a request and its retry."""
    topic = chaos.world.cluster.topics.named(TOPIC)
    if topic is None:
        return
    chaos.count("limits changed")
    limit = chaos.world.random.choice(("450", "600", "100000"))
    chaos.world.cluster.configure(topic, {**topic.overrides, "max.message.bytes": limit})


def move_brokers(chaos: Chaos) -> None:
    """Change every broker's address. The bootstrap address always leads to one of them."""
    chaos.count("addresses changed")
    world = chaos.world
    for broker in world.cluster.brokers.values():
        broker.port += 10
    for connection in list(world.connections.values()):
        connection.cut(notice_ms=world.random.choice((0.0, 5.0, 100_000.0)))


def send_back(chaos: Chaos) -> None:
    """Let brokers tell their clients to rebootstrap (KIP-1102)."""
    chaos.count("sent back")
    chaos.world.cluster.faults.on(Api.METADATA).before().error(ErrorCode.REBOOTSTRAP_REQUIRED).times(2)


def refuse(chaos: Chaos) -> None:
    chaos.count("refusals")
    chaos.world.cluster.faults.on(Api.PRODUCE).before().error(chaos.world.random.choice(REFUSALS)).times(chaos.world.random.randint(1, 3))


def lose_replies(chaos: Chaos) -> None:
    chaos.count("replies lost")
    action = chaos.world.cluster.faults.on(Api.PRODUCE).after_append()
    chosen = chaos.world.random.choice((action.drop, action.disconnect))
    chosen().times(chaos.world.random.randint(1, 3))


def doubt_after_append(chaos: Chaos) -> None:
    chaos.count("errors after the append")
    chaos.world.cluster.faults.on(Api.PRODUCE).after_append().error(chaos.world.random.choice(AFTERTHOUGHTS)).times(1)


def unconfirmed(chaos: Chaos) -> None:
    """For a while, replicas do not confirm. Brokers answer appended batches with an error that says so, as Kafka does."""
    chaos.count("appends unconfirmed")
    world = chaos.world
    until = world.now + world.random.choice((10, 1_000, 9_000))
    code = world.random.choice(UNCONFIRMED)

    def tamper(response: Message) -> Message:
        if world.now > until or not isinstance(response, ProduceResponse):
            return response
        return replace(
            response,
            responses=[
                replace(t, partition_responses=[replace(p, error_code=p.error_code or code) for p in t.partition_responses])
                for t in response.responses
            ],
        )

    world.tamper = tamper


def blind(chaos: Chaos) -> None:
    chaos.count("questions refused")
    code = chaos.world.random.choice((ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    chaos.world.cluster.faults.on(Api.DESCRIBE_PRODUCERS).before().error(code).times(2)


def call(chaos: Chaos) -> None:
    assert chaos.callers is not None
    chaos.callers.call(TOPIC)


MOVES = ((move_brokers, 3_000), (send_back, 4_000))
TROUBLES = (
    (cut_connections, 900),
    (freeze_broker, 2_500),
    (move_leader, 1_500),
    (write_as_another, 500),
    (restart_broker, 4_000),
    (restart_all, 7_000),
    (restart_unanswered, 6_000),
    (refuse, 1_500),
    (lose_replies, 1_000),
    (doubt_after_append, 3_000),
    (unconfirmed, 6_000),
    (blind, 8_000),
)
