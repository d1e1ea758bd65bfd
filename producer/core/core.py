"""The core's state machine: events and the time in, commands out.

All of it runs on the thread of the engine's loop. Callers' threads only append to the accumulator and post events. After every event the
whole machine advances once. So work that can proceed never waits, in any order of events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates
from fencepost.producer.core.cluster.metadata_updater import MetadataUpdater
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import (
    NEVER,
    Announce,
    Appended,
    Called,
    Change,
    Command,
    Connected,
    ConnectionLost,
    Die,
    Event,
    Packed,
    Replied,
    Return,
    SendingAllowed,
    Settle,
    Ticked,
    TopicWanted,
    Written,
)
from fencepost.producer.core.idempotence.producer_id_manager import ProducerIdManager
from fencepost.producer.core.idempotence.transaction_hooks import NoTransactionHooks, ProducerIdSource, TransactionHooks, Transactions
from fencepost.producer.core.metrics import Metrics
from fencepost.producer.core.produce_requests import ProduceRequests
from fencepost.producer.core.produce_responses import ProduceResponses
from fencepost.producer.core.stalled_partitions import NO_LEADER, StalledPartitions
from fencepost.producer.core.standstill import Standstill
from fencepost.producer.errors import FencepostError
from fencepost.producer.foundations.address import Address
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire import DescribeProducersResponse, FetchResponse, MetadataResponse, ProduceResponse
from fencepost.producer.wire.codes import Api


class Core:
    """See the module. `draw`: uniform in [0, 1), the only source of randomness. `pack_aside_bytes`: from this size on, the engine packs
    batches (`Pack`); None for never. `transactions`: instead of the hooks, for a producer with only transactional records."""

    def __init__(
        self,
        settings: Settings,
        accumulator: Accumulator,
        *,
        bootstrap: list[Address],
        draw: Callable[[], float],
        hooks: TransactionHooks | None = None,
        transactions: Transactions | None = None,
        pack_aside_bytes: int | None = None,
    ) -> None:
        self._accumulator = accumulator
        self.metrics = Metrics()
        self.view = ClusterView()
        self.nodes = ClusterConnectionStates(settings, draw, bootstrap)
        self.metadata_updater = MetadataUpdater(settings, self.nodes, self.view, draw)
        self.transactions = transactions
        if transactions is not None:
            transactions.attach(settings, nodes=self.nodes, view=self.view, draw=draw)
        self.producer_id_manager: ProducerIdSource = transactions or ProducerIdManager(settings, self.nodes, draw)
        hooks = transactions or hooks or NoTransactionHooks()
        self._standstill = Standstill()
        self.produce_requests = ProduceRequests(
            settings,
            accumulator,
            nodes=self.nodes,
            view=self.view,
            metadata_updater=self.metadata_updater,
            producer_id_manager=self.producer_id_manager,
            hooks=hooks,
            metrics=self.metrics,
            standstill=self._standstill,
            pack_aside_bytes=pack_aside_bytes,
        )
        self._stalled_partitions = StalledPartitions()
        self.metadata_updater.busy = self.produce_requests.busy
        self.metadata_updater.may_create = hooks.may_create
        self.produce_responses = ProduceResponses(
            settings,
            self.produce_requests.ready_partitions,
            nodes=self.nodes,
            view=self.view,
            metadata_updater=self.metadata_updater,
            hooks=hooks,
            draw=draw,
            metrics=self.metrics,
            stalled_partitions=self._stalled_partitions,
        )
        self.nodes.waits = self._waits
        self.dead: FencepostError | None = None
        self._advances = (self.produce_requests.advance, self.producer_id_manager.advance, self.metadata_updater.advance, self.nodes.upkeep)
        self._deadlines = (
            self.produce_requests.next_deadline,
            self.producer_id_manager.next_deadline,
            self.metadata_updater.next_deadline,
            self.nodes.next_deadline,
        )
        self._max_block_ms = settings.max_block_ms

    def handle(self, event: Event, now_ms: float) -> list[Command]:
        """Process one event, then do everything that can be done now."""
        commands: list[Command] = []
        late_ms = self._standstill.over(now_ms)
        if late_ms:
            self.nodes.stood_still(late_ms, now_ms)
            self._stalled_partitions.stood_still(late_ms, now_ms)
        _ON[type(event)](self, event, now_ms, commands)
        if self.dead is not None:
            return commands
        for advance in self._advances:
            if death_in(commands) is not None:
                break  # A batch that is sent now would fail with `persisted` MAYBE.
            commands += advance(now_ms)
        return self._until_death(commands)

    def next_wake_ms(self, now_ms: float) -> float:
        """The latest time for the next Ticked; infinity if only another event can change anything."""
        wake_ms = min([deadline(now_ms) for deadline in self._deadlines]) if self.dead is None else NEVER
        self._standstill.due_ms = max(now_ms, wake_ms)
        return wake_ms

    def abandon(self, error: FencepostError) -> list[Command]:
        """End the core: fail every record without an outcome."""
        self.dead = error
        commands = self.produce_requests.fail_all(error)
        return [*commands, *self.transactions.abandon(error)] if self.transactions is not None else commands

    def _waits(self) -> str:
        """What waits for a broker, for a warning; empty if that is no topic and no record."""
        topics = self.metadata_updater.wanted()
        records = self._accumulator.unacknowledged()
        return ", ".join(
            [
                *([f"a call waits for {counted(len(topics), 'topic')} ({', '.join(topics)})"] if topics else []),
                *([f"{counted(records, 'record waits', 'records wait')} for an acknowledgement"] if records else []),
            ]
        )

    def _on_appended(self, event: Appended, now_ms: float, commands: list[Command]) -> None:
        return None

    def _on_sending_allowed(self, event: SendingAllowed, now_ms: float, commands: list[Command]) -> None:
        self.produce_requests.ready_partitions.stir()

    def _on_called(self, event: Called, now_ms: float, commands: list[Command]) -> None:
        assert self.transactions is not None
        commands += self.transactions.called(event.call, now_ms)

    def _on_packed(self, event: Packed, now_ms: float, commands: list[Command]) -> None:
        self.produce_requests.packed(event.batch, event.payload)

    def _on_ticked(self, event: Ticked, now_ms: float, commands: list[Command]) -> None:
        return None

    def _on_topic_wanted(self, event: TopicWanted, now_ms: float, commands: list[Command]) -> None:
        wait_ms = event.wait_ms if event.wait_ms is not None else self._max_block_ms
        self.metadata_updater.want(event.topic, until_ms=now_ms + wait_ms, partitions=event.partitions)

    def _on_connected(self, event: Connected, now_ms: float, commands: list[Command]) -> None:
        node = self.nodes.get(event.node)
        if node is not None:
            self.metrics.connections_made += 1
            commands += self.nodes.connected(node, event.versions, now_ms, features=event.features)
            self.produce_requests.ready_partitions.stir()

    def _on_connection_lost(self, event: ConnectionLost, now_ms: float, commands: list[Command]) -> None:
        node = self.nodes.get(event.node)
        if node is None:
            return
        self.produce_requests.ready_partitions.stir()
        for request in self.nodes.lost(node, event.reason, now_ms, refused=event.refused):
            if request.api is Api.METADATA:
                self.metadata_updater.lost(now_ms)
            elif request.api in (Api.PRODUCE, Api.DESCRIBE_PRODUCERS, Api.FETCH):
                self.produce_responses.lost(request, now_ms, f"{node.name}: {event.reason}")
            else:
                self.producer_id_manager.lost(request, now_ms)
        if node.node_id >= 0:
            self.metadata_updater.refresh()
        failure = self.nodes.no_usable_broker()
        if failure is not None:
            commands += self.metadata_updater.no_usable_broker(failure)
            if self.transactions is not None:
                commands += self.transactions.no_usable_broker(failure)

    def _on_written(self, event: Written, now_ms: float, commands: list[Command]) -> None:
        node = self.nodes.get(event.node)
        request = self.nodes.finish(node, event.request_id, now_ms) if node is not None else None
        if request is not None:
            self.produce_responses.written(request)

    def _on_replied(self, event: Replied, now_ms: float, commands: list[Command]) -> None:
        node = self.nodes.get(event.node)
        request = self.nodes.finish(node, event.request_id, now_ms) if node is not None else None
        if node is None or request is None:
            return
        throttle_ms = getattr(event.response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.nodes.mute(node, now_ms + throttle_ms)
        produce = request.api is Api.PRODUCE
        self.metrics.answered(node.node_id, now_ms - request.begun_ms, now_ms, produce=produce, throttle_ms=throttle_ms)
        match event.response:
            case ProduceResponse() as answer:
                commands += self.produce_responses.produced(request, answer, now_ms)
            case MetadataResponse() as answer:
                self.produce_requests.ready_partitions.stir()
                instead = self.metadata_updater.believes(node, answer, now_ms)
                if instead is not None:
                    commands += instead
                    return
                if self.metadata_updater.cluster_changed(answer):
                    self.produce_requests.cluster_changed()
                    self.producer_id_manager.forget()
                self.metrics.metadata_at_ms = now_ms
                news = self.metadata_updater.answered(request, answer, now_ms)
                for command in news:
                    if isinstance(command, Announce) and command.heard.change in (Change.RECREATED, Change.SEEN):
                        self.produce_requests.recreated(command.heard.topic)
                commands += news
                for sender in self.produce_requests.ready_partitions.active:
                    if self.view.leader(sender.topic, sender.partition) is None and not sender.idle:
                        self._stalled_partitions.note(sender, NO_LEADER, now_ms)
            case DescribeProducersResponse() as answer:
                self.produce_responses.described(request, answer, now_ms)
            case FetchResponse() as answer:
                self.produce_responses.looked_up(request, answer, now_ms)
            case answer:
                self.produce_requests.ready_partitions.stir()
                commands += self.producer_id_manager.answered(request, answer, now_ms)

    def _until_death(self, commands: list[Command]) -> list[Command]:
        """Without a fatal error, the commands as they are. A fatal error ends the core: it sends nothing more, and every record fails."""
        death = death_in(commands)
        if death is None:
            return commands
        return [death, *(command for command in commands if isinstance(command, Settle | Return)), *self.abandon(death.error)]


def death_in(commands: list[Command]) -> Die | None:
    """The first command that ends the producer; None without one."""
    for command in commands:
        if type(command) is Die:
            return command
    return None


# Not singledispatchmethod: it makes a new function for every call.
_ON: Final[dict[type[Any], Callable[..., None]]] = {
    Appended: Core._on_appended,
    SendingAllowed: Core._on_sending_allowed,
    Called: Core._on_called,
    Packed: Core._on_packed,
    Ticked: Core._on_ticked,
    TopicWanted: Core._on_topic_wanted,
    Connected: Core._on_connected,
    ConnectionLost: Core._on_connection_lost,
    Written: Core._on_written,
    Replied: Core._on_replied,
}
