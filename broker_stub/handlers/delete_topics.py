"""DeleteTopics (20), versions 1 to 6.

Deletes topics by name, from version 6 on also by id; a later topic of the same name has another id. The offsets that groups have
committed are deleted with the topic. A topic named twice, by name and id at once, or by neither is INVALID_REQUEST; an unknown one is
UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID. With `delete.topic.enable=false` it deletes nothing (TOPIC_DELETION_DISABLED). Any broker
takes the request. It needs DELETE on the topic or on the cluster. A client that may not DESCRIBE a topic does not learn whether it exists.

Leaves out: quotas, and waiting: a topic is deleted at once, so `timeout_ms` has no effect.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import WORDS, words_for
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.topic_admin import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

STATES_SINCE = 6
DISABLED_SINCE = 3


@handles(DeleteTopicsRequest, range(1, 7), forwarded=True)
def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = request.topics if call.version >= STATES_SINCE else [DeleteTopicState(name=name) for name in request.topic_names]
    if call.cluster.config["delete.topic.enable"].lower() != "true":
        return DeleteTopicsResponse(responses=[_disabled(call, each) for each in asked])
    named = Counter((each.name, each.topic_id) for each in asked)
    results = [_checked(call, each, count) for each, count in zip(named.keys(), named.values(), strict=True)]
    return DeleteTopicsResponse(responses=[_delete(call, each) if isinstance(each, Topic) else each for each in _once(results)])


def _checked(call: Call, asked: tuple[str | None, UUID], count: int) -> Topic | DeletableTopicResult:
    """The topic to delete, or its error."""
    name, topic_id = asked
    if name is None and topic_id == ZERO_UUID:
        return _refused(None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        return _refused(name, topic_id, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if count > 1:
        return _refused(name, topic_id, ErrorCode.INVALID_REQUEST, f"Duplicate topic {'name' if name is not None else 'id'}.")
    topics = call.cluster.topics
    topic = topics.named(name) if name is not None else topics.with_id(topic_id)
    refusal = _permission_refusal(call, name, topic)
    if refusal is not None:
        return refusal
    if topic is not None:
        return topic
    if name is not None:
        return _refused(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return _refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")


def _permission_refusal(call: Call, name: str | None, topic: Topic | None) -> DeletableTopicResult | None:
    """The error for a client that may not delete the topic. None if it may, or if the topic is missing and it may know that."""
    real = topic.name if topic is not None else name
    if (
        real is None
        or call.may(Operation.DELETE, Resource.CLUSTER)
        or (topic is not None and call.may(Operation.DELETE, Resource.TOPIC, real))
    ):
        return None
    described = call.may(Operation.DESCRIBE, Resource.TOPIC, real)
    if topic is None and described:
        return None
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name is not None:
        return _refused(name, ZERO_UUID, code, WORDS[code])
    assert topic is not None
    return _refused(real if described else None, topic.id, code, WORDS[code])


def _once(results: list[Topic | DeletableTopicResult]) -> list[Topic | DeletableTopicResult]:
    """The errors of topics that the request names both by name and by id."""
    twice = {topic for topic, count in Counter(each for each in results if isinstance(each, Topic)).items() if count > 1}
    kept: dict[Topic, DeletableTopicResult] = {
        topic: _refused(topic.name, topic.id, ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
        for topic in twice
    }
    return [each for each in results if not (isinstance(each, Topic) and each in twice)] + list(kept.values())


def _delete(call: Call, topic: Topic) -> DeletableTopicResult:
    code = call.error_for(topic.name, ANY_PARTITION)
    if code:
        return _refused(topic.name, topic.id, code, words_for(code))
    call.cluster.delete_topic(topic)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def _disabled(call: Call, asked: DeleteTopicState) -> DeletableTopicResult:
    code = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
    return _refused(asked.name, asked.topic_id, code, "Topic deletion is disabled.")


def _refused(name: str | None, topic_id: UUID, code: int, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)
