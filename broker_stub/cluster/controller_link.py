"""What a broker's link to the controller does: heartbeats go to the controller, and what it decides comes from it (KIP-631).

A paused broker sends and receives nothing. On resume it first does its queued work, with the image from before the pause.

A broker that the controller cannot reach keeps its old image of the cluster. It still serves its clients as leader. The controller fences a
broker without heartbeats after broker.session.timeout.ms. The broker leaves every ISR, and other brokers lead. When the link works both
ways again, the broker gets the new image, follows the new leaders, and is no longer fenced.

Over a slow link each image arrives late, and so does what the broker asks of the controller, and the response. Heartbeats are late, but as
frequent as before, so the broker is not fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.cluster.context import CONTROLLER
from fencepost.broker_stub.cluster.history import What
from fencepost.broker_stub.cluster.metadata_image import old_image

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.broker import Broker
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.cluster.metadata_image import MetadataImage, OldImage
    from fencepost.broker_stub.cluster.timers import Timer

FORWARDING_MS: Final = 60_000
"""How long a broker tries to forward a client's request to the controller."""


class ControllerLink:
    """The links of all brokers of a cluster. `create_logs`: creates those of replicas that a broker has not heard of before.
    `links_changed`: lets a broker and its followers fetch anew. `fence_replicas`: no replica of a broker is in sync any more. `report`: a
    broker tells the controller which log directories have failed."""

    def __init__(
        self,
        context: Context,
        *,
        create_logs: Callable[[int], None],
        links_changed: Callable[[int], None],
        fence_replicas: Callable[[int], None],
        report: Callable[[int], None],
    ) -> None:
        self._context = context
        self._create_logs = create_logs
        self._links_changed = links_changed
        self._fence_replicas = fence_replicas
        self._report = report
        self._sessions: dict[int, Timer] = {}  # of the brokers that the controller does not hear from
        self._sending: set[int] = set()  # brokers behind slow links that get an image in the next tick
        self._sent = 0  # images that were sent over slow links
        self._arrived: dict[int, int] = {}  # the newest of them that each broker has
        self._forwarded: list[_Forwarded] = []

    def is_up(self, node: int) -> bool:
        """Whether both ways are up, and the broker goes on."""
        severed = self._context.severed
        paused = self._context.brokers[node].paused
        return (node, CONTROLLER) not in severed and (CONTROLLER, node) not in severed and not paused

    def changed(self, node: int) -> None:
        """A way was severed or mended, or the broker was paused or goes on."""
        broker = self._context.brokers[node]
        if not broker.alive:
            return
        if not self._context.reaches_controller(node):
            self._lose_heartbeats(broker)
        else:
            self._forget_session(node)
        if not self.is_up(node) or self._context.controller_delay_ms(node):
            if self._context.hears(node):
                broker.image = old_image(broker.image)
            self._tell(node)
        elif not self._context.hears(node):
            self._catch_up(broker, self._context.image)
        if self._context.reaches_controller(node):
            self._report(node)
            for each in self._waiting(node):
                self._send(each)

    def image_changed(self) -> None:
        """The controller has decided something. A broker behind a slow link hears of it later."""
        for one, other in map(sorted, self._context.slow):
            if one == CONTROLLER:
                self._tell(other)

    def started(self, node: int) -> None:
        """The broker is up again, and knows everything that was decided until now."""
        if self._context.controller_delay_ms(node):
            self.changed(node)
        self.image_changed()

    def stopped(self, node: int) -> None:
        """The broker is down, and what it was about to forward is lost. It has to reach the controller before it starts again."""
        self._forget_session(node)
        for each in self._waiting(node):
            each.stop()
        broker = self._context.brokers[node]
        broker.fenced = False
        if not self._context.hears(node):
            self._learn(broker, self._context.image)
            for partition in self._context.every_partition():
                partition.tell(node)  # the logs of replicas that have left are deleted
        self.image_changed()

    def is_near(self, node: int) -> bool:
        """Whether what that broker asks arrives at once."""
        return self._context.reaches_controller(node) and not self._context.controller_delay_ms(node)

    def forward(self, node: int, then: Callable[[bool], object]) -> None:
        """Forwards a request to the controller: calls `then` once with whether it arrived in time."""
        waits = _Forwarded(self, node, then)
        self._forwarded.append(waits)
        waits.timer = self._context.timers.at(self._context.now_ms() + FORWARDING_MS, partial(waits.end, got_there=False))
        if self._context.reaches_controller(node):
            self._send(waits)

    def do(self, node: int, run: Callable[[], object]) -> None:
        """Runs the controller's part of a broker's request: at once, or when the request arrives. A late request is dropped."""
        if self.is_near(node):
            run()
        else:
            self.forward(node, lambda got_there: got_there and run())

    def forget(self, waits: _Forwarded) -> None:
        self._forwarded.remove(waits)

    def arrives(self, waits: _Forwarded) -> None:
        """What was sent over a slow link is there, if the link is not severed meanwhile and it still waits."""
        if waits in self._forwarded and self._context.reaches_controller(waits.node):
            waits.end(got_there=True)

    def _waiting(self, node: int) -> list[_Forwarded]:
        return [each for each in self._forwarded if each.node == node]

    def _send(self, waits: _Forwarded) -> None:
        if delay_ms := self._context.controller_delay_ms(waits.node):
            self._context.later(delay_ms, partial(self.arrives, waits))
        else:
            waits.end(got_there=True)

    def _tell(self, node: int) -> None:
        """Sends the image to a broker behind a slow link, once for all that is decided in this tick."""
        if self._context.controller_delay_ms(node) and self.is_up(node) and node not in self._sending:
            self._sending.add(node)
            self._context.soon(partial(self._send_image, node))

    def _send_image(self, node: int) -> None:
        self._sending.discard(node)
        broker = self._context.brokers[node]
        if broker.alive and self.is_up(node) and not self._context.hears(node):
            self._sent += 1
            arrives = partial(self._image_arrives, broker, broker.generation, self._sent, old_image(self._context.image))
            self._context.later_on(node, self._context.controller_delay_ms(node), arrives)

    def _image_arrives(self, broker: Broker, generation: int, number: int, image: OldImage) -> None:
        node = broker.node_id
        if broker.generation != generation or self._context.hears(node) or not self.is_up(node) or number <= self._arrived.get(node, 0):
            return  # it has started again, knows more, or its link is severed
        self._catch_up(broker, image)
        self._arrived[node] = number

    def _lose_heartbeats(self, broker: Broker) -> None:
        if broker.node_id not in self._sessions and not broker.fenced:
            ends_ms = self._context.now_ms() + int(self._context.config["broker.session.timeout.ms"])
            self._sessions[broker.node_id] = self._context.timers.at(ends_ms, partial(self._fence, broker))

    def _forget_session(self, node: int) -> None:
        session = self._sessions.pop(node, None)
        if session is not None:
            session.cancel()

    def _fence(self, broker: Broker) -> None:
        del self._sessions[broker.node_id]
        broker.fenced = True
        self._context.history.broker_changed(broker.node_id, What.FENCED)
        self._fence_replicas(broker.node_id)
        self.image_changed()

    def _catch_up(self, broker: Broker, image: MetadataImage) -> None:
        self._arrived[broker.node_id] = self._sent  # what is still on its way is older
        before = broker.image.live
        self._learn(broker, image)
        was_fenced, broker.fenced = broker.fenced, False
        for topic in image.topics:
            for partition in topic.partitions:
                partition.tell(broker.node_id, image.state(partition))
        if was_fenced:
            self._context.history.broker_changed(broker.node_id, What.UNFENCED)
            for partition in self._context.every_partition():
                partition.welcome(broker.node_id)
            self.image_changed()
        if was_fenced or image is self._context.image or image.live != before:
            self._links_changed(broker.node_id)  # the next fetches bring followers into the ISR

    def _learn(self, broker: Broker, image: MetadataImage) -> None:
        """The broker gets an image: logs of topics that are gone are deleted, and those of new replicas are created."""
        old, broker.image = broker.image, image
        for topic in old.topics:
            if image.topics.with_id(topic.id) is None:
                for partition in topic.partitions:
                    partition.tell(broker.node_id)
        self._create_logs(broker.node_id)


class _Forwarded:
    """A request that waits for the controller."""

    def __init__(self, link: ControllerLink, node: int, then: Callable[[bool], object]) -> None:
        self.timer: Timer | None = None
        self.node = node
        self._link = link
        self._then = then

    def end(self, *, got_there: bool) -> None:
        self.stop()
        self._then(got_there)

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self._link.forget(self)
