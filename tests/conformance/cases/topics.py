"""CreateTopics and its refusals."""

from tests.conformance.world import World, case


@case()
def created_topics(w: World) -> None:
    """A topic is created and described in every version."""
    for version in range(2, 8):
        w.create(w.fresh_name(), partitions=2, version=version, label=f"v{version}")


@case()
def defaults(w: World) -> None:
    """-1 asks for the broker's defaults, from version 4 on."""
    for version in (2, 3, 4, 7):
        w.create(w.fresh_name(), partitions=-1, replicas=1, version=version, label=f"v{version} partitions")
        w.create(w.fresh_name(), partitions=1, replicas=-1, version=version, label=f"v{version} replicas")
        w.create(w.fresh_name(), partitions=-1, replicas=-1, version=version, label=f"v{version} both")


@case()
def existing_topic(w: World) -> None:
    """A second topic of the same name is refused."""
    topic = w.topic()
    w.create(topic.name, label="again")
    w.create(topic.name, validate_only=True, label="again, only validated")
    w.create(topic.name, partitions=0, label="again, with a bad count")


@case()
def topic_names(w: World) -> None:
    """Illegal topic names."""
    for name in ("", ".", "..", "a b", "a/b", "ü", "a" * 250):
        w.create(name, label=f"{name[:3]!r} {len(name)}")
    w.create("x" * (249 - len(w.fresh_name())) + w.fresh_name(), label="249 characters")
    w.create("__" + w.fresh_name(), label="two underscores first")


@case()
def colliding_names(w: World) -> None:
    """A dot and an underscore give the same metric name."""
    name = w.fresh_name()
    w.create(name + ".a", label="dot")
    w.create(name + "_a", label="underscore")
    w.create(name + ".a", label="dot again")


@case()
def counts(w: World) -> None:
    """Partitions and replicas out of range."""
    for partitions in (0, -2, -1000):
        w.create(w.fresh_name(), partitions=partitions, label=f"{partitions} partitions")
    for replicas in (0, -2, 2, 32767):
        w.create(w.fresh_name(), replicas=replicas, label=f"{replicas} replicas")
    w.create(w.fresh_name(), partitions=0, replicas=0, label="both zero")


@case()
def too_many_partitions(w: World) -> None:
    """A request may lead to at most 10,000 records of metadata, one for each topic, partition and config.

    Above 10,000 partitions the broker checks nothing else.
    """
    for partitions in (9_999, 10_000):
        w.create(w.fresh_name(), partitions=partitions, validate_only=True, label=f"{partitions:,}")
    w.create(w.fresh_name(), partitions=9_998, config={"retention.ms": "1"}, validate_only=True, label="9,998 and a config")
    w.create(w.fresh_name(), partitions=9_999, config={"retention.ms": "1"}, validate_only=True, label="9,999 and a config")
    w.create("a b", partitions=10_000, validate_only=True, label="10,000 and an illegal name")
    w.create(w.fresh_name(), partitions=10_000, replicas=9, validate_only=True, label="10,000 and too many replicas")
    for count in (4_999, 5_000):
        w.create_many([w.fresh_name(), w.fresh_name()], partitions=count, validate_only=True, label=f"{count:,} twice")
    w.create_many([w.fresh_name(), "a b"], partitions=5_000, validate_only=True, label="5,000 twice, one with an illegal name")
    for version in (2, 7):
        w.create(w.fresh_name(), partitions=10_001, version=version, label=f"v{version} 10,001")
    w.create(w.fresh_name(), partitions=10_001, validate_only=True, label="10,001, only validated")
    w.create("a b", partitions=10_001, label="and an illegal name")
    w.create(w.topic().name, partitions=10_001, replicas=0, label="and a topic that exists")
    w.create_many([w.fresh_name(), w.fresh_name()], partitions=5_001, label="5,001 twice")
    w.create_many([w.fresh_name(), w.fresh_name()], partitions=10_001, label="10,001 twice")
    name = w.fresh_name()
    w.create_many([name, name, w.fresh_name()], partitions=5_001, validate_only=True, label="5,001, one name twice")
    w.create(w.fresh_name(), partitions=2**31 - 1, label="as many as there are numbers")


@case()
def configs(w: World) -> None:
    """Unknown names, and invalid values."""
    for name, value in (
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ""),
        ("no.such.config", "1"),
        ("max.message.bytes", "many"),
        ("max.message.bytes", "-1"),
        ("retention.ms", "-1"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("retention.ms", "+5"),
        ("retention.ms", " 5 "),
        ("retention.ms", "--5"),
        ("retention.ms", "5.0"),
        ("min.insync.replicas", "+1"),
        ("remote.storage.enable", "false"),
        ("remote.storage.enable", "true"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "2"),
        ("segment.bytes", "100"),
        ("segment.bytes", "1048576"),
        ("message.timestamp.type", "createtime"),
        ("message.timestamp.type", "LogAppendTime"),
        ("compression.type", "lz4"),
        ("compression.type", "brotli"),
        ("compression.type", "none"),
        ("message.timestamp.before.max.ms", "-1"),
        ("unclean.leader.election.enable", "maybe"),
        ("unclean.leader.election.enable", "TRUE"),
    ):
        w.create(w.fresh_name(), config={name: value}, label=f"{name}={value}")


@case()
def told_configs(w: World) -> None:
    """From version 5 on the response has every config, its value and its source."""
    chosen = {"retention.ms": "1000", "cleanup.policy": "compact, delete", "preallocate": "TRUE"}
    for version in (5, 7):
        w.created_configs(w.fresh_name(), {}, version=version, label=f"v{version} defaults")
        w.created_configs(w.fresh_name(), chosen, version=version, label=f"v{version} chosen")


@case()
def duplicates_in_one_request(w: World) -> None:
    """A name that comes twice is refused; the others are created."""
    name = w.fresh_name()
    w.create_many([name, w.fresh_name(), name], label="twice and another")


@case()
def assignments(w: World) -> None:
    """A request may place replicas: partitions without gaps, known brokers, none twice."""
    placements: dict[str, dict[int, list[int]]] = {
        "one": {0: [1]},
        "two": {0: [1], 1: [1]},
        "gap": {0: [1], 2: [1]},
        "not from 0": {1: [1]},
        "negative partition": {-1: [1]},
        "unknown broker": {0: [77]},
        "negative broker": {0: [-1]},
        "broker twice": {0: [1, 1]},
        "no broker": {0: []},
    }
    for label, assigned in placements.items():
        w.create(w.fresh_name(), partitions=-1, replicas=-1, assignments=assigned, label=label)
    w.create(w.fresh_name(), partitions=1, replicas=-1, assignments={0: [1]}, label="and a partition count")
    w.create(w.fresh_name(), partitions=-1, replicas=1, assignments={0: [1]}, label="and a replica count")


@case()
def validate_only(w: World) -> None:
    """A request with `validate_only` creates nothing."""
    name = w.fresh_name()
    for version in (2, 5, 7):
        w.create(name, partitions=3, validate_only=True, version=version, label=f"v{version}")
    w.metadata([name], label="is not there")
    w.create(w.fresh_name(), partitions=0, validate_only=True, label="bad count")


@case()
def an_empty_request(w: World) -> None:
    """Without topics the response is empty."""
    w.create_many([], label="none")


@case()
def a_topic_can_be_used_when_it_is_there(w: World) -> None:
    """Soon after the response the topic has a leader, epoch 0, and an empty log."""
    topic = w.topic(partitions=2)
    w.metadata([topic.name], label="metadata")
    w.end_offset(topic)
    w.end_offset(topic, partition=1)


@case(brokers=3, restarts=True)
def what_is_wrong_with_a_placement(w: World) -> None:
    """The message says where the topic cannot be placed, and why. A partition needs a broker that is up."""
    placements: dict[str, list[tuple[int, list[int]]]] = {
        "no broker": [(0, [])],
        "unknown": [(0, [2, 7])],
        "negative": [(0, [-1])],
        "twice": [(0, [2, 1, 2])],
        "uneven": [(0, [1, 2]), (1, [3])],
        "a gap": [(0, [1]), (2, [2])],
        "one partition twice": [(0, [1]), (0, [2])],
        "not from zero": [(1, [1])],
        "unknown and a gap": [(0, [1]), (2, [9])],
    }
    for label, placed in placements.items():
        w.tried(placed=placed, label=label)
    w.tried(placed=[(0, [1])], replicas=1, label="and a replica count")
    w.tried(replicas=4, label="four replicas")
    w.tried(replicas=0, label="no replicas")
    topic = w.topic(replicas=3)
    gone = topic.leaders[0]
    with w.without_the_leader(topic, clean=True):
        w.tried(placed=[(0, [gone])], label="on a broker that is down")
        w.tried(placed=[(0, [gone, gone % 3 + 1])], label="on one that is down and one that is up")
