"""The producer's view of the cluster: it never goes back to older metadata, and notices topics that are created, deleted, recreated and
grown."""

from __future__ import annotations

from uuid import UUID

import pytest

from fencepost.producer.core.cluster.view import OLDER_ANSWERS, ClusterView, Leader
from fencepost.producer.core.events import Change
from fencepost.producer.wire import ErrorCode, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic

ID, OTHER = UUID(int=1), UUID(int=2)


def answer(*leaders: tuple[int, int], topic_id: UUID = ID, code: int = 0, name: str = "t", brokers: int = 3) -> MetadataResponse:
    """Metadata of one topic: (leader, leader epoch) of each partition."""
    partitions = [MetadataResponsePartition(partition_index=p, leader_id=n, leader_epoch=e) for p, (n, e) in enumerate(leaders)]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in range(1, brokers + 1)],
        topics=[MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=partitions)],
    )


def view(*leaders: tuple[int, int]) -> ClusterView:
    made = ClusterView()
    assert made.learn(answer(*leaders), ["t"])[0].change is Change.SEEN
    return made


def test_an_older_leader_epoch_is_ignored() -> None:
    """A broker that lags behind cannot take the producer back to an old leader (KIP-320)."""
    made = view((1, 5), (2, 5))
    assert made.learn(answer((3, 4), (3, 6)), ["t"])[0].change is Change.SAME
    assert made.leader("t", 0) == Leader(1, 5)
    assert made.leader("t", 1) == Leader(3, 6)


def test_the_same_epoch_may_lose_its_leader() -> None:
    """The newest answer of the same epoch counts: a leader can go without a new epoch, and come back."""
    made = view((1, 5))
    made.learn(answer((-1, 5)), ["t"])
    assert made.leader("t", 0) is None
    made.learn(answer((2, 5)), ["t"])
    assert made.leader("t", 0) == Leader(2, 5)


def test_brokers_without_epochs_are_believed() -> None:
    """Metadata before version 7 carries no epochs (-1): the newest answer is taken."""
    made = view((1, -1))
    made.learn(answer((2, -1)), ["t"])
    assert made.leader("t", 0) == Leader(2, -1)
    made = view((1, 5))
    made.learn(answer((2, -1)), ["t"])
    assert made.leader("t", 0) == Leader(2, -1), "also where a newer one has told an epoch before"


def test_another_topic_id_is_another_topic() -> None:
    """After a topic is deleted and created again, the new topic's leaders count, also with lower epochs and with fewer partitions."""
    made = view((1, 9), (2, 9))
    heard = made.learn(answer((3, 0), topic_id=OTHER), ["t"])[0]
    assert (heard.change, heard.partitions) == (Change.RECREATED, 1)
    assert made.leader("t", 0) == Leader(3, 0)
    assert made.leader("t", 1) is None
    assert made.topic_id("t") == OTHER


def test_an_answer_without_ids_recreates_nothing() -> None:
    """Versions below 10 name no topic ids: that alone is no other topic."""
    made = view((1, 5))
    assert made.learn(answer((2, 6), topic_id=UUID(int=0)), ["t"])[0].change is Change.SAME
    assert made.topic_id("t") == ID


NONE = UUID(int=0)


def nameless(*leaders: tuple[int, int]) -> ClusterView:
    """As brokers before Kafka 2.8 tell it."""
    made = ClusterView()
    made.learn(answer(*leaders, topic_id=NONE), ["t"])
    return made


def test_without_ids_a_topic_that_was_away_is_another_one() -> None:
    """Brokers that know no topic ids: a topic that comes back with older epochs, or fewer partitions, is another one of that name."""
    made = nameless((1, 5), (1, 5))
    made.learn(answer(topic_id=NONE, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ["t"])
    assert made.learn(answer((1, 5), (2, 0), topic_id=NONE), ["t"])[0].change is Change.RECREATED
    assert made.leader("t", 1) == Leader(2, 0)
    made.learn(answer(topic_id=NONE, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ["t"])
    heard = made.learn(answer((1, 5), topic_id=NONE), ["t"])[0]
    assert (heard.change, heard.partitions) == (Change.RECREATED, 1)


def test_without_ids_a_topic_that_stays_older_is_another_one() -> None:
    """No response showed that the topic was deleted. The new topic's leaders count when the known leader denies that it leads and no
    response contradicts this any more. A stale broker is not believed, and a leader that does not deny it is kept."""
    made = nameless((1, 5))
    older = answer((2, 0), topic_id=NONE)
    for _ in range(2 * OLDER_ANSWERS):
        assert made.learn(older, ["t"])[0].change is Change.SAME
    for _ in range(2):
        made.deny("t", 0)
        for _ in range(OLDER_ANSWERS - 1):
            assert made.learn(older, ["t"])[0].change is Change.SAME
        assert made.learn(answer((1, 5), topic_id=NONE), ["t"])[0].change is Change.SAME
    made.deny("t", 0)
    changes = [made.learn(older, ["t"])[0].change for _ in range(OLDER_ANSWERS)]
    assert changes == [Change.SAME] * (OLDER_ANSWERS - 1) + [Change.RECREATED]
    assert made.leader("t", 0) == Leader(2, 0)
    made.deny("t", 0)
    assert made.learn(answer((3, 1), topic_id=NONE), ["t"])[0].change is Change.SAME
    assert made.leader("t", 0) == Leader(3, 1)


def test_more_partitions_are_growth() -> None:
    """A grown topic keeps its leaders and gets the new ones."""
    made = view((1, 5))
    heard = made.learn(answer((1, 5), (2, 0)), ["t"])[0]
    assert (heard.change, heard.partitions) == (Change.GROWN, 2)
    assert made.leader("t", 1) == Leader(2, 0)


def test_fewer_partitions_of_the_same_topic_are_an_old_answer() -> None:
    """A topic never shrinks: a broker that does not know of the growth yet takes nothing away."""
    made = view((1, 5), (2, 5))
    assert made.learn(answer((1, 5)), ["t"])[0].partitions == 2
    assert made.leader("t", 1) == Leader(2, 5)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_ID])
def test_a_topic_that_is_not_there_now(code: ErrorCode) -> None:
    """A missing topic is reported with its code. What was known of it stays until newer metadata arrives."""
    made = view((1, 5))
    heard = made.learn(answer(code=code), ["t"])[0]
    assert (heard.change, heard.code) == (Change.MISSING, code)
    assert made.leader("t", 0) == Leader(1, 5)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION, 999])
def test_a_topic_that_is_refused(code: int) -> None:
    """A code that will not go away by itself is a refusal."""
    assert ClusterView().learn(answer(code=code), ["t"])[0].change is Change.REFUSED


def test_a_leader_named_by_a_refusal_must_be_newer() -> None:
    """KIP-951: the leader in an error answer counts only with a newer epoch than the one known."""
    made = view((1, 5))
    assert not made.moved("t", 0, Leader(2, 5))
    assert not made.moved("t", 0, Leader(2, 4))
    assert made.moved("t", 0, Leader(2, 6))
    assert made.leader("t", 0) == Leader(2, 6)
    assert not made.moved("t", 7, Leader(2, 6))
    assert not made.moved("u", 0, Leader(2, 6))


def test_an_answer_without_brokers_keeps_those_known() -> None:
    """A broker that has no list (it is starting) does not make the cluster vanish."""
    made = view((1, 5))
    made.learn(answer((1, 5), brokers=0), ["t"])
    assert sorted(made.brokers) == [1, 2, 3]


@pytest.mark.parametrize("indexes", [[999_999], [0, 2], [0, 0], [-1, 0], [1, 2], []])
def test_partitions_that_cannot_be_all_of_them(indexes: list[int]) -> None:
    """Numbers other than those from 0 on make no topic, however many they would say there are: it counts as one without a leader."""
    partitions = [MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=0) for index in indexes]
    said = MetadataResponse(topics=[MetadataResponseTopic(error_code=0, name="t", topic_id=ID, partitions=partitions)])
    made = ClusterView()
    assert [(heard.change, heard.partitions) for heard in made.learn(said, ["t"])] == [(Change.MISSING, 0)]
    assert not made.topics


def test_partitions_in_any_order() -> None:
    """Brokers need not sort them."""
    partitions = [MetadataResponsePartition(partition_index=index, leader_id=index, leader_epoch=0) for index in (2, 0, 1)]
    said = MetadataResponse(topics=[MetadataResponseTopic(error_code=0, name="t", topic_id=ID, partitions=partitions)])
    made = ClusterView()
    made.learn(said, ["t"])
    assert [made.leader("t", partition) for partition in range(3)] == [Leader(partition, 0) for partition in range(3)]


def test_topics_without_a_question_are_not_kept() -> None:
    """The view does not keep topics that the producer did not ask for, and does not report them."""
    made = ClusterView()
    assert made.learn(answer((1, 0), name="other"), ["t"]) == []
    assert not made.topics


def test_a_leader_with_a_negative_number() -> None:
    """It is none: the numbers below 0 are the producer's own names for its bootstrap addresses."""
    assert view((-2, 5)).leader("t", 0) is None
