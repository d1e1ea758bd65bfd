"""DeleteTopics and CreatePartitions, and their refusals."""

from fencepost.producer.wire import ZERO_UUID
from tests.conformance.world import World, case


@case()
def deleted_by_name(w: World) -> None:
    """A topic is deleted and forgotten, in every version."""
    for version in range(1, 6):
        topic = w.topic()
        w.delete_topics(topic.name, version=version, label=f"v{version}")
        w.until_gone(topic)
        w.metadata([topic.name], label=f"v{version} metadata")


@case()
def deleted_by_id(w: World) -> None:
    """Version 6 accepts a name or an id, but not both."""
    one, two = w.topic(), w.topic()
    w.delete_topics_by((one.name, one.id), label="name and id")
    w.delete_topics_by((None, ZERO_UUID), label="neither")
    w.delete_topics_by((None, w.missing_topic().id), label="unknown id")
    w.delete_topics_by((w.missing_topic().name, ZERO_UUID), label="unknown name")
    w.delete_topics_by((one.name, ZERO_UUID), (None, one.id), label="the same topic by name and by id")
    w.delete_topics_by((None, one.id), (None, one.id), label="one id twice")
    w.delete_topics_by((None, one.id), label="by id")
    w.delete_topics_by((two.name, ZERO_UUID), label="by name")
    w.until_gone(one)
    w.until_gone(two)


@case()
def several_deletions(w: World) -> None:
    """One request may delete several topics. A name that comes twice is refused, and deletes nothing."""
    one, two, missing = w.topic(), w.topic(), w.missing_topic()
    for version in (1, 5):
        w.delete_topics(one.name, one.name, version=version, label=f"v{version} twice")
        w.delete_topics(missing.name, version=version, label=f"v{version} unknown")
        w.delete_topics("", version=version, label=f"v{version} empty name")
        w.delete_topics("a b", version=version, label=f"v{version} illegal name")
        w.delete_topics(version=version, label=f"v{version} none")
    w.delete_topics(one.name, missing.name, two.name, label="two and an unknown one")
    w.until_gone(one)


@case()
def made_again_after_deletion(w: World) -> None:
    """A topic of the same name has another id. Requests with the old id are refused."""
    topic = w.topic()
    w.delete_topics(topic.name, label="deleted")
    w.made_again(topic, label="made again")
    w.metadata_by_id(topic, version=12, label="by the old id")


@case()
def partitions_added(w: World) -> None:
    """A topic grows, in every version, and the new partitions can be used."""
    topic = w.topic()
    for version in range(4):
        w.create_partitions((topic.name, version + 2), version=version, label=f"v{version}")
        w.until_partitions(topic, version + 2, label=f"v{version} metadata")
    grown = w.known_topic(topic.name)
    w.end_offset(grown, partition=4)


@case()
def counts_that_do_not_grow(w: World) -> None:
    """The current number of partitions, a smaller one, and zero."""
    topic = w.topic(partitions=3)
    for count in (3, 2, 1, 0, -1):
        w.create_partitions((topic.name, count), label=str(count))
    w.create_partitions((w.missing_topic().name, 2), label="unknown topic")
    w.create_partitions(("", 2), label="empty name")
    w.create_partitions((topic.name, 4), (topic.name, 5), label="twice")
    w.create_partitions(label="none")
    w.until_partitions(topic, 3, label="as many as before")


@case()
def validated_only(w: World) -> None:
    """A request with `validate_only` adds nothing."""
    topic = w.topic()
    w.create_partitions((topic.name, 5), validate_only=True, label="five")
    w.create_partitions((topic.name, 1), validate_only=True, label="one")
    w.until_partitions(topic, 1, label="as many as before")


@case()
def placed_by_hand(w: World) -> None:
    """As many assignments as new partitions, each with the topic's number of known, distinct brokers."""
    topic = w.topic()
    name = topic.name
    w.create_partitions((name, 2), assignments=[], label="none")
    w.create_partitions((name, 2), assignments=[[1], [1]], label="too many")
    w.create_partitions((name, 3), assignments=[[1]], label="too few")
    w.create_partitions((name, 2), assignments=[[]], label="no broker")
    w.create_partitions((name, 2), assignments=[[77]], label="unknown broker")
    w.create_partitions((name, 2), assignments=[[-1]], label="negative broker")
    w.create_partitions((name, 2), assignments=[[1, 1]], label="broker twice")
    w.create_partitions((name, 1), assignments=[], label="no increase")
    w.create_partitions((name, 2), assignments=[[1]], label="one")
    w.until_partitions(topic, 2, label="grown")


@case(brokers=3)
def placed_by_hand_on_three(w: World) -> None:
    """The number of replicas must be the topic's."""
    topic = w.topic(replicas=2)
    w.create_partitions((topic.name, 2), assignments=[[1]], label="one of two")
    w.create_partitions((topic.name, 2), assignments=[[1, 2, 3]], label="three of two")
    w.create_partitions((topic.name, 3), assignments=[[3, 1], [2, 3]], label="two and two")
    w.until_partitions(topic, 3, label="grown")
    w.describe_placement(topic)
