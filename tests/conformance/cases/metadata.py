"""Metadata: topics by name and by id, missing ones, and leaders."""

from fencepost.producer import wire
from tests.conformance.world import World, case

ALL = range(14)


@case()
def known_topic(w: World) -> None:
    """A topic with three partitions, in every version."""
    topic = w.topic(partitions=3)
    for version in ALL:
        w.metadata([topic.name], version=version, label=f"v{version}")


@case()
def unknown_topic(w: World) -> None:
    """Without auto-creation an unknown topic is UNKNOWN_TOPIC_OR_PARTITION."""
    for version in range(4, 14):
        w.metadata([w.missing_topic().name], version=version, label=f"v{version}")


@case()
def invalid_names(w: World) -> None:
    """Illegal topic names, with auto-creation and without."""
    for name in ("", ".", "..", "a b", "ü", "a/b", "a" * 249, "a" * 250):
        w.metadata([name], label=f"{name[:3]!r} {len(name)}")
        if len(name) != 249:
            w.metadata([name], auto_create=True, label=f"{name[:3]!r} {len(name)} auto")


@case()
def auto_creation(w: World) -> None:
    """A request creates the topic. The first responses say that it has no leader yet, later ones name it."""
    for version in (0, 1, 4, 12):
        w.metadata_until_created(version)


@case()
def auto_creation_that_comes_to_nothing(w: World) -> None:
    """A name that collides with another topic's is never created, and the response has no reason. Without the flag no topic is created."""
    name = w.fresh_name()
    w.create(name + ".a", label="dot")
    for number in range(3):
        w.metadata([name + "_a"], auto_create=True, label=f"underscore {number}")
    w.metadata([name + "_b"], label="not asked to")
    w.metadata([name + "_b"], label="still not there")


@case()
def internal_names(w: World) -> None:
    """A topic with an internal name is internal before it exists."""
    for version in (4, 9, 12):
        w.metadata(["__share_group_state", "__other"], version=version, label=f"v{version}")


@case()
def topics_by_id(w: World) -> None:
    """From version 12 on a request may name a topic by its id; the response has its name."""
    topic = w.topic()
    for version in (12, 13):
        w.metadata_by_id(topic, version=version, label=f"v{version} known")
        w.metadata_by_id(w.missing_topic(), version=version, label=f"v{version} unknown")
        w.metadata_by_id(w.missing_topic(zero_id=True), version=version, label=f"v{version} zero id and no name")
        w.metadata_by_id(topic, version=version, with_name=True, label=f"v{version} id and name")
    for version in (10, 11):
        w.metadata_by_id(topic, version=version, with_name=True, label=f"v{version} id and name")


@case()
def null_and_empty_lists(w: World) -> None:
    """In version 0 an empty list means all topics. From version 1 on it means none, and null means all."""
    topic = w.topic()
    for version in ALL:
        w.metadata_all(topic, [], version=version, label=f"v{version} empty")
        if version > 0:
            w.metadata_all(topic, None, version=version, label=f"v{version} null")


@case()
def several_topics(w: World) -> None:
    """Known, unknown and invalid topics in one request; one of them twice."""
    first, second, missing = w.topic(), w.topic(partitions=2), w.missing_topic()
    w.metadata([second.name, missing.name, first.name, "a b"], label="mixed")
    w.metadata([first.name, first.name], label="twice")


@case()
def cluster_fields(w: World) -> None:
    """Brokers, cluster id and controller."""
    for version in ALL:
        w.metadata_cluster(version)


@case()
def cluster_fields_of_what_fails_as_a_whole(w: World) -> None:
    """The response has no brokers, no cluster id and no controller."""
    topic = w.topic()
    for version in (10, 11):
        named = wire.MetadataRequestTopic(topic_id=topic.id, name=topic.name)
        w.metadata_cluster(version, topic=named, label=" id and name")
        w.metadata_cluster(version, topic=wire.MetadataRequestTopic(name=None), label=" no name")
    for version in (12, 13):
        w.metadata_cluster(version, topic=wire.MetadataRequestTopic(name=None), label=" no name")


@case()
def authorized_operations(w: World) -> None:
    """Only if the request asks for them."""
    topic = w.topic()
    for version in (7, 8, 10, 11, 13):
        w.metadata_operations(topic, version)
