"""One partition, as the controller knows it: its replicas, its leader and leader epoch, and its in-sync replicas (Kafka's
`PartitionRegistration`, and what its `ReplicationControlManager` decides about it).

Each decision is a new `PartitionState`. It is kept, and then the replica of each broker that hears from the controller learns of it.
What a broker does with it, and all that happens between leader and followers, is in `replica`.

A leader asks for each change of the ISR. A replica that leaves the ISR while this has fewer than min.insync.replicas becomes eligible to
lead (KIP-966). It has every acknowledged record, because the high watermark stands still from then on. A kill ends its eligibility,
because it may have lost records.

A partition without a live replica that is in sync or eligible has no leader. It gets one when the last leader is back and no other
replica is eligible, or by an unclean election: through unclean.leader.election.enable or by an administrator. An unclean election loses
the records that the new leader lacks. Before Kafka 4.1 no replica is ever eligible; the last in-sync replica stays in the ISR instead.

An administrator can give it other replicas. The old ones leave when the new ones are in the ISR (`reassignment`): a leader epoch begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol
from uuid import UUID

from msgspec.structs import replace

from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.replication.partition_state import NO_LEADER, PartitionState, min_isr
from fencepost.broker_stub.replication.reassignment import Assignment, without
from fencepost.broker_stub.replication.replica import Replica, Surroundings


class Controller(Surroundings, Protocol):
    """What a partition needs of its cluster."""

    @property
    def has_eligible(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        ...

    def is_up(self, node: int) -> bool:
        """Whether that broker runs."""
        ...

    @property
    def live(self) -> list[int]:
        """The brokers that are up and that the controller does not fence."""
        ...

    def hears(self, node: int) -> bool:
        """Whether that broker learns at once what the controller decides."""
        ...

    def controller_delay_ms(self, node: int) -> int:
        """How long a message between that broker and the controller takes."""
        ...

    def starts(self, node: int) -> int:
        """How often that broker has started and stopped."""
        ...

    def later(self, delay_ms: int, run: Callable[[], None]) -> None:
        """Runs it after so many milliseconds."""
        ...

    def image_changed(self) -> None:
        """The controller has decided something, of which some brokers hear later."""
        ...

    def save(self, state: PartitionState, before: PartitionState) -> None:
        """Keeps what was decided, before anything follows from it. `before`: what counted until now."""
        ...

    def after_saving(self, run: Callable[[], None]) -> None:
        """Does what follows from that."""
        ...

    def delete_log(self, replica: Replica) -> None:
        """The replica has left."""
        ...


class Partition:
    """One partition of the topic of that name. Only its cluster changes it, and leaders by `alter_isr`.

    `logs`: each replica's, by its broker, in the order in which they are preferred as leaders.
    """

    __slots__ = ("_cluster", "_newest", "_replicas", "index", "state", "topic", "topic_config", "topic_id")

    def __init__(
        self,
        topic: str,
        index: int,
        *,
        topic_id: UUID,
        topic_config: Mapping[str, str],
        logs: Mapping[int, PartitionLog],
        cluster: Controller,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.topic_config = topic_config
        self.index = index
        self.state = PartitionState(topic_id, index, tuple(logs), NO_LEADER, -1, list(logs), [], NO_LEADER)
        self._cluster = cluster
        self._replicas = {node: Replica(self, node, log, cluster) for node, log in logs.items()}
        self._newest = self._replicas[self.replicas[0]]  # the leader's, or without one the last leader's

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def on(self, node: int) -> Replica | None:
        """The replica of that broker."""
        return self._replicas.get(node)

    @property
    def leading(self) -> Replica:
        """The leader's replica; without a leader that of the last one, also of a deleted partition."""
        return self._newest

    @property
    def log(self) -> PartitionLog:
        """The log of `leading`."""
        return self._newest.log

    @property
    def logs(self) -> dict[int, PartitionLog]:
        """Each replica's log, by its broker."""
        return {node: replica.log for node, replica in self._replicas.items()}

    @property
    def cleanable(self) -> list[PartitionLog]:
        """The logs that may be compacted: those that do not move to another log directory."""
        return [replica.log for replica in self._replicas.values() if replica.future is None]

    @property
    def live(self) -> list[int]:
        """The live brokers, without those whose replica is in a log directory that failed."""
        live, offline = self._cluster.live, self.state.offline
        return [node for node in live if node not in offline] if offline else live

    @property
    def replicas(self) -> tuple[int, ...]:
        """Its brokers, in the order in which they are preferred as leaders."""
        return self.state.replicas

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def isr(self) -> list[int]:
        """The in-sync replicas."""
        return self.state.isr

    @property
    def eligible(self) -> list[int]:
        """The replicas that may lead, though they are not in sync."""
        return self.state.eligible

    @property
    def assignment(self) -> Assignment:
        return self.state.assignment

    @property
    def min_isr(self) -> int:
        """How many in-sync replicas a write needs."""
        return min_isr(self.topic_config, len(self.replicas))

    @property
    def elects_unclean(self) -> bool:
        """Whether a replica that is not in sync may become leader without an administrator."""
        return self.topic_config["unclean.leader.election.enable"].lower() == "true"

    def begin(self) -> None:
        """Elects the first leader of a new partition. Its live replicas are the ISR."""
        live = self._cluster.live
        isr = [node for node in self.replicas if node in live] or list(self.replicas[:1])
        leader = next((node for node in isr if node in live), NO_LEADER)
        self._newest = self._replicas[isr[0]]
        self._decide(replace(self.state, isr=isr, leader=leader, leader_epoch=0))

    def resume(self, state: PartitionState) -> None:
        """Goes on after every broker was down (`PartitionState.after_stop`): elects a leader, the same one if it may lead."""
        newest = next((node for node in (state.leader, state.last_leader) if node in self._replicas), self.replicas[0])
        self._newest = self._replicas[newest]
        self.state = replace(
            state,
            offline=(),
            leader_epoch=max(state.leader_epoch, *(replica.log.leader_epoch for replica in self._replicas.values())),
        )
        self.elect(preferred=state.leader)

    def lose(self, node: int) -> None:
        """Notes that a broker went down."""
        replica = self._replicas.get(node)
        if replica is None:
            return
        self.fence(node)
        replica.stop()
        if self.leader != NO_LEADER and self.leader != node:
            self.leading.forget(node)

    def take_offline(self, node: int, stand_in: PartitionLog) -> None:
        """The log directory of that broker's replica failed, as the broker knows. `stand_in`: for its log."""
        self._replicas[node].go_offline(stand_in)

    def lose_directory(self, node: int) -> None:
        """The log directory of that broker's replica failed, as the controller knows."""
        if node in self._replicas and node not in self.state.offline:
            self._fence(node, replace(self.state, offline=(*self.state.offline, node)))

    def fence(self, node: int) -> None:
        """Removes a broker from the ISR, and elects another leader in its place: it went down, or the controller does not hear from it."""
        self._fence(node, self.state)

    def _fence(self, node: int, state: PartitionState) -> None:
        if node in state.isr and (self._cluster.has_eligible or len(state.isr) > 1):
            state = self._in_sync(state, [each for each in state.isr if each != node])
        if state.leader == node:
            state = self._elected(state)
        self._decide(state)
        if self.leader != NO_LEADER:
            self.leading.look_again()
        self._end_reassignment()

    def regain(self, node: int, log: PartitionLog, *, killed: bool = False) -> None:
        """Notes that a broker is back, with the log that it has. Then it fetches from its leader."""
        self._replicas[node].regain(log)
        if node in self.state.offline:
            self._decide(replace(self.state, offline=without(self.state.offline, (node,))))
        if self.leader != NO_LEADER:
            self.leading.forget(node)
        if killed and node in self.eligible:
            self._decide(replace(self.state, eligible=[each for each in self.eligible if each != node]))
        self.welcome(node)

    def welcome(self, node: int) -> None:
        """The broker hears from the controller, and may lead."""
        if self._cluster.hears(node):
            self.tell(node)
        if self.leader == NO_LEADER:
            self.elect()
        self._end_reassignment()

    def tell(self, node: int, state: PartitionState | None = None) -> None:
        """The replica of that broker learns what was decided. `state`: what it hears now, where that is not the newest."""
        replica, state = self._replicas.get(node), state or self.state
        if replica is None or (node in self.replicas and node not in state.replicas):
            return
        if node not in state.replicas:
            del self._replicas[node]
            replica.stop()
            self._cluster.delete_log(replica)
        elif self._cluster.is_up(node):
            replica.hear(state)

    def elect(self, *, preferred: int | None = None, unclean: bool = False) -> None:
        """Elects a leader and begins the next epoch. `unclean`: if no live replica is in sync, another one may lead, also where the topic's
        config forbids it."""
        self._decide(self._elected(self.state, preferred=preferred, unclean=unclean))
        self._end_reassignment()

    def alter_isr(self, node: int, isr: Sequence[int]) -> bool:
        """The leader asks for another ISR (AlterPartition, KIP-497). False: it does not reach the controller or does not know its newest
        decision, a replica that would join is on a broker that is fenced, or the request is still under way."""
        replica = self._replicas.get(node)
        if replica is None or not self._cluster.reaches_controller(node):
            return False
        delay_ms = self._cluster.controller_delay_ms(node)
        if not delay_ms:
            replica.asking = isr  # until it hears of the new ISR, which may first be kept with others
            if self._alter_isr(replica, replica.known, isr):
                return True
            replica.asking = ()
            return False
        if not replica.asking:
            replica.asking = isr
            starts = [self._cluster.starts(each) for each in isr]
            self._cluster.later(delay_ms, partial(self._alter_isr_late, replica, replica.known, isr, starts, delay_ms))
        return False

    def _alter_isr_late(
        self, replica: Replica, known: PartitionState | None, isr: Sequence[int], starts: Sequence[int], delay_ms: int
    ) -> None:
        """The request arrives. The leader hears of the new ISR as of everything that is decided. `starts`: a broker that has started again
        since the request may have less than the leader knew (KIP-903)."""
        if [self._cluster.starts(each) for each in isr] != starts or not self._alter_isr(replica, known, isr):
            self._cluster.later(delay_ms, partial(replica.refused, isr))

    def _alter_isr(self, replica: Replica, known: PartitionState | None, isr: Sequence[int]) -> bool:
        """`known`: what the leader knew when it asked."""
        node, state = replica.node, self.state
        if known is not state or state.leader != node:
            return False
        joins = without(isr, state.isr)
        if without(joins, self.live):
            return False
        self._decide(self._in_sync(state, list(isr)))
        if not self._cluster.hears(node) and not self._cluster.controller_delay_ms(node):
            self._cluster.after_saving(partial(self._respond, replica))
        if joins and self.assignment.is_changing:
            self._cluster.soon(self._end_reassignment)
        return True

    def _respond(self, replica: Replica) -> None:
        """The leader hears of the new ISR by the response to its request."""
        replica.hear(self.state)

    def reassign(self, target: Sequence[int], logs: Mapping[int, PartitionLog]) -> None:
        """Begins a reassignment to these replicas. It replaces one that is in progress. `logs`: of the new replicas, empty. A broker
        that did not hear that its replica had left goes on with the log that it has, as in Kafka."""
        self._replicas.update({node: Replica(self, node, log, self._cluster) for node, log in logs.items()})
        self._assign(self.assignment.towards(target), tuple(self.isr))

    def cancel_reassignment(self) -> bool:
        """The replicas that are being added leave. False: they are the whole ISR, and no other replica may become leader."""
        original, isr = self.assignment.original, without(self.isr, self.assignment.adding)
        if not isr and not self.elects_unclean:
            return False
        self._assign(Assignment(original), isr or original[:1])
        return True

    def delete(self) -> None:
        """Its topic is deleted."""
        self.state = replace(self.state, leader=NO_LEADER, replicas=())
        self._tell_all()

    def delete_old_segments(self) -> int:
        """`Replica.delete_old_segments` of each replica; returns how many the leader's log had."""
        return {node: replica.delete_old_segments() for node, replica in self._replicas.items()}[self._newest.node]

    def shrink_isr(self, *, lag_max_ms: int) -> bool:
        """`Replica.shrink_isr` of each replica that leads."""
        behind = False
        for replica in [*self._replicas.values()]:
            behind = replica.shrink_isr(lag_max_ms=lag_max_ms) or behind
        return behind

    def configure(self, topic_config: Mapping[str, str], config: Callable[[int], LogConfig]) -> None:
        """Sets the topic's configs. The logs obey them from the next batch on. `config`: those of the log on a broker."""
        self.topic_config = topic_config
        self._decide(self._in_sync(self.state, self.isr))
        for replica in self._replicas.values():
            replica.configure(config(replica.node))

    def _decide(self, state: PartitionState) -> None:
        if state == self.state:
            return
        before, self.state = self.state, state
        if state.leader != NO_LEADER:
            self._newest = self._replicas[state.leader]
        elif self._newest.node not in state.replicas:
            self._newest = self._replicas[(*state.isr, *state.replicas)[0]]
        self._cluster.save(state, before)
        self._cluster.after_saving(self._tell_all)

    def _tell_all(self) -> None:
        self._cluster.image_changed()
        for node in [*self._replicas]:
            if self._cluster.hears(node):
                self.tell(node)
            else:
                self._cluster.watch_lag()  # it does not follow a new leader

    def _in_sync(self, state: PartitionState, nodes: list[int]) -> PartitionState:
        """Sets the in-sync replicas. If they are too few, a replica that left, or was eligible, is eligible."""
        before = {*state.isr, *state.eligible} if self._cluster.has_eligible and len(nodes) < self.min_isr else set()
        return replace(state, isr=nodes, eligible=[node for node in state.replicas if node in before and node not in nodes])

    def _elected(self, state: PartitionState, *, preferred: int | None = None, unclean: bool = False) -> PartitionState:
        """The state after an election; the same if nothing changes."""
        live = without(self._cluster.live, state.offline)
        able = [node for node in state.replicas if node in live and node in (state.isr or state.eligible)]
        if not able and not state.isr and not state.eligible and state.last_leader in live:
            able = [state.last_leader]
        if not able and (unclean or self.elects_unclean):
            able = [node for node in state.replicas if node in live][:1]
        if not able and state.leader == NO_LEADER:
            return state
        leader = preferred if preferred is not None and preferred in able else next(iter(able), NO_LEADER)
        isr, eligible = state.isr, state.eligible
        if leader != NO_LEADER and leader not in isr:
            isr, eligible = [leader], [node for node in eligible if node != leader] if leader in eligible else []
        return replace(
            state,
            leader=leader,
            leader_epoch=state.leader_epoch + 1,
            isr=isr,
            eligible=eligible,
            last_leader=state.leader if leader == NO_LEADER and not isr else NO_LEADER,
        )

    def _assign(self, assignment: Assignment, isr: Iterable[int]) -> None:
        """Sets the replicas and the ISR. If replicas leave, a leader epoch begins, with the same leader if it is still in the ISR."""
        gone = without(self.replicas, assignment.replicas)
        last = NO_LEADER if self.state.last_leader in gone else self.state.last_leader
        state = replace(
            self.state,
            replicas=assignment.replicas,
            adding=assignment.adding,
            removing=assignment.removing,
            last_leader=last,
            offline=without(self.state.offline, gone),
        )
        state = self._in_sync(state, list(isr))
        self._decide(self._elected(state, preferred=state.leader) if gone else state)
        self._end_reassignment()

    def _end_reassignment(self) -> None:
        """Ends a reassignment whose replicas are in sync."""
        if self.assignment.ends_with(self.isr):
            self._assign(Assignment(self.assignment.target), without(self.isr, self.assignment.removing))
