"""How a broker asks the share coordinator: links, faults and retries (Kafka's DefaultStatePersister).

A coordinator that is not there yet is asked again, some times. The response comes in the same moment where nothing is in the way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from fencepost.broker_stub.cluster.broker_call import call_broker
from fencepost.broker_stub.cluster.broker_requests import Asked, BrokerRequest
from fencepost.broker_stub.cluster.topics import SHARE_STATE_TOPIC
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.share_partitions.coordinator.coordinators import ShareCoordinators
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import Answer, ShareShard, Then
from fencepost.broker_stub.share_partitions.states import StateBatch
from fencepost.producer.wire import Api, ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.cluster import Cluster

ATTEMPTS_MAX: Final = 5
BACKOFF_MS: Final = 1000
_RETRIED: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
)

Do = Callable[[ShareShard, Then], None]


class _Question(NamedTuple):
    """A request of one broker about one share partition."""

    node: int
    api: Api
    key: Key
    do: Do


class Persister:
    """The requests of all brokers."""

    def __init__(self, cluster: Cluster, coordinators: ShareCoordinators) -> None:
        self._cluster = cluster
        self.coordinators = coordinators

    def initialize(self, node: int, key: Key, *, state_epoch: int, start_offset: int, then: Then) -> None:
        def do(shard: ShareShard, then: Then) -> None:
            shard.initialize(key, state_epoch, start_offset, then)

        self._ask(_Question(node, Api.INITIALIZE_SHARE_GROUP_STATE, key, do), then)

    def read(self, node: int, key: Key, *, leader_epoch: int, then: Then) -> None:
        self._ask(_Question(node, Api.READ_SHARE_GROUP_STATE, key, lambda shard, then: shard.read(key, leader_epoch, then)), then)

    def write(
        self,
        node: int,
        key: Key,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        done_count: int,
        batches: tuple[StateBatch, ...],
        then: Then,
    ) -> None:
        def do(shard: ShareShard, then: Then) -> None:
            shard.write(key, state_epoch, leader_epoch, start_offset, done_count, batches, then)

        self._ask(_Question(node, Api.WRITE_SHARE_GROUP_STATE, key, do), then)

    def summary(self, node: int, key: Key, *, then: Then) -> None:
        self._ask(_Question(node, Api.READ_SHARE_GROUP_STATE_SUMMARY, key, lambda shard, then: shard.summary(key, then)), then)

    def delete(self, node: int, key: Key, *, then: Then) -> None:
        self._ask(_Question(node, Api.DELETE_SHARE_GROUP_STATE, key, lambda shard, then: shard.delete(key, then)), then)

    def _ask(self, question: _Question, then: Then, attempt: int = 1) -> None:
        cluster, node = self._cluster, question.node

        def answered(answer: Answer) -> None:
            if answer.code in _RETRIED and attempt < ATTEMPTS_MAX:
                again = partial(self._ask, question, then, attempt + 1)
                cluster.later_on(node, BACKOFF_MS << (attempt - 1), again)
            else:
                then(answer)

        if cluster.brokers[node].image.topics.named(SHARE_STATE_TOPIC) is None:
            cluster.controller_link.do(node, lambda: cluster.internal_topic(SHARE_STATE_TOPIC))
        leader = self.coordinators.leader_of(question.key, node)
        if leader == NO_LEADER:
            answered(Answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available."))
            return
        lost = Answer(ErrorCode.NETWORK_EXCEPTION)
        call_broker(cluster, node, leader, partial(self._arrive, question, leader), answered, refused=lost, timed_out=lost)

    def _arrive(self, question: _Question, leader: int, respond: Then) -> None:
        """The request is at the coordinator."""
        answers: list[Answer] = []

        def do(done: Callable[[int], None]) -> None:
            def decided(answer: Answer) -> None:
                answers.append(answer)
                done(answer.code)

            shard, code = self.coordinators.shard_for(question.key, leader)
            if shard is None:
                decided(Answer(code))
            else:
                question.do(shard, decided)

        def reply(code: int) -> None:
            respond(answers[-1] if answers and answers[-1].code == code else Answer(code))

        key = question.key
        topic = self._cluster.topic_name(key.topic_id) or ""
        asked = Asked(question.api, leader, f"broker-{question.node}", (topic, key.partition), group_id=key.group_id)
        BrokerRequest(self._cluster, asked, do, reply).start()
