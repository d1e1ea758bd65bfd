"""What the five requests to the share coordinator have in common: they name share partitions, and have a result for each.

Only brokers send them, so they need CLUSTER_ACTION. Without it, each partition has that error. Otherwise a request without a group,
without topics or with a topic without partitions has an empty response, as in Kafka. A partition that is named twice has one result, the
last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import Answer, ShareShard, Then
from fencepost.broker_stub.share_partitions.states import NO_OFFSET
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_state import PartitionResult, TopicResult

if TYPE_CHECKING:
    from fencepost.broker_stub.requests.call import Call

P = TypeVar("P")

COORDINATOR_WORDS: Final[dict[int, str]] = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
}

Do = Callable[[ShareShard, Key, Any, Then], None]
"""Does what one partition of the request says."""
ThenEach = Callable[[list[tuple[UUID, list[tuple[int, Answer]]]]], None]
"""Gets the answers, by topic and partition."""


def ask_each(call: Call, group_id: str, topics: Sequence[Any], do: Do, then: ThenEach, *, verb: str) -> None:
    """`verb`: for the message of an error."""
    refusal = call.error
    if refusal:
        refused = Answer(refusal, WORDS.get(refusal))
        then([(topic.topic_id, [(each.partition, refused) for each in topic.partitions]) for topic in topics])
        return
    if not topics or not group_id or any(not topic.partitions for topic in topics):
        then([])
        return
    wanted = [(topic.topic_id, each) for topic in topics for each in topic.partitions]
    found: dict[int, Answer] = {}

    def answered(place: int, answer: Answer) -> None:
        found[place] = _with_words(answer, verb)
        if len(found) == len(wanted):
            answers: dict[UUID, dict[int, Answer]] = {}
            for at, (topic_id, each) in enumerate(wanted):
                answers.setdefault(topic_id, {})[each.partition] = found[at]
            then([(topic_id, list(each.items())) for topic_id, each in answers.items()])

    for place, (topic_id, each) in enumerate(wanted):
        _ask(call, Key(group_id, topic_id, each.partition), each, do, partial(answered, place))


def _ask(call: Call, key: Key, asked: object, do: Do, then: Then) -> None:
    topic = call.cluster.topic_name(key.topic_id)
    code = call.fault_for(topic, key.partition) if topic is not None else ErrorCode.NONE
    if code:
        then(Answer(code, WORDS.get(code)))
        return
    shard, code = call.persister.coordinators.shard_for(key, call.broker.node_id)
    if shard is None:
        then(Answer(code))
    else:
        do(shard, key, asked, then)


def _with_words(answer: Answer, verb: str) -> Answer:
    """The coordinator's errors have Kafka's message."""
    words = COORDINATOR_WORDS.get(ErrorCode(answer.code))
    if words is None or answer.message is not None:
        return answer
    return answer._replace(message=f"Unable to {verb}: {words}")


def results(answers: list[tuple[UUID, list[tuple[int, Answer]]]]) -> list[TopicResult]:
    """The results of a request that changes something."""
    return [
        TopicResult(
            topic_id=topic_id,
            partitions=[PartitionResult(partition=index, error_code=answer.code, error_message=answer.message) for index, answer in each],
        )
        for topic_id, each in answers
    ]


def start_offset(answer: Answer) -> int:
    return answer.found.start_offset if not answer.code else NO_OFFSET
