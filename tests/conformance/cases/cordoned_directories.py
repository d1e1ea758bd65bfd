"""Log directories that are cordoned while the brokers run (KIP-1066)."""

from tests.conformance.asks_configs import APPEND, BROKER, DELETE, SET, SUBTRACT
from tests.conformance.batches import Rec, plain
from tests.conformance.world import World, case

CORDONED = "cordoned.log.dirs"
ALL = ""


@case("KIP-1066", restarts=True)
def the_only_directory_is_cordoned(w: World) -> None:
    """The broker keeps its logs. It gets no new ones, named or not, until the directory is free again."""
    me, topic, path = str(w.nodes[0]), w.topic(), w.log_dir()
    w.until_set(BROKER, me, CORDONED, "", label="before")
    w.alter(BROKER, me, [(CORDONED, SET, path)], worded=True, label="cordoned")
    w.until_cordoned(1)
    w.logs({topic.name: [0]}, label="its logs")
    w.tried(label="a topic")
    w.tried(placed=[(0, [w.nodes[0]])], label="a topic that names the broker")
    w.create_partitions((topic.name, 2), label="more partitions")
    w.create_partitions((topic.name, 2), assignments=[[1]], label="more partitions that name the broker")
    w.alter_log_dirs((path, topic.name, 0), label="the log stays")
    w.produce(plain(Rec()), topic, label="a record")
    w.alter(BROKER, me, [(CORDONED, SUBTRACT, path)], worded=True, label="taken out")
    w.until_cordoned()
    w.tried(label="a topic, then")
    w.alter(BROKER, me, [(CORDONED, APPEND, path)], worded=True, label="added")
    w.until_cordoned(1)
    w.alter(BROKER, me, [(CORDONED, DELETE, None)], worded=True, label="deleted")
    w.until_cordoned()
    w.until_set(BROKER, me, CORDONED, "", label="after")


@case("KIP-1066", restarts=True)
def values_of_cordoned_directories(w: World) -> None:
    """`*` is all of them, and stands alone. A list has directories of the broker."""
    me, path = str(w.nodes[0]), w.log_dir()
    for label, value in (("all", "*"), ("twice", f"{path},{path}"), ("with spaces", f" {path} "), ("nothing", ""), ("a comma", ",")):
        w.alter(BROKER, me, [(CORDONED, SET, value)], worded=True, validate_only=True, label=label)
    for label, value in (("all and one", f"*,{path}"), ("another spelling", "./x"), ("unknown", "/nowhere,/elsewhere")):
        for name, brokers in ((me, "one"), (ALL, "every broker")):
            w.alter(BROKER, name, [(CORDONED, SET, value)], worded=label != "all and one", validate_only=True, label=f"{label}, {brokers}")
    w.alter(BROKER, me, [(CORDONED, SET, "*")], worded=True, label="all are cordoned")
    w.until_cordoned(1)
    w.until_set(BROKER, me, CORDONED, "*", label="described")
    w.tried(label="a topic")
    w.alter(BROKER, me, [(CORDONED, APPEND, path)], label="one more")
    w.alter(BROKER, me, [(CORDONED, DELETE, None)], worded=True, label="deleted")
    w.until_cordoned()
    w.tried(label="a topic, then")


@case("KIP-1066", brokers=3, restarts=True)
def a_broker_without_a_free_directory(w: World) -> None:
    """Others get the replicas, while they are enough. A reassignment that names the broker is not stopped."""
    topic = w.placed_topic(2, 3)
    w.alter(BROKER, str(w.nodes[0]), [(CORDONED, SET, w.log_dir())], worded=True, label="cordoned")
    w.until_cordoned(1)
    for replicas in (1, 2, 3):
        w.tried(replicas=replicas, label=f"{replicas} replicas")
    w.tried(placed=[(0, [w.nodes[0]])], label="one that is named")
    w.tried(placed=[(0, [w.nodes[1], w.nodes[0]])], label="two that are named")
    w.reassign({topic.name: {0: [2, 1]}}, label="reassigned")
    w.until_moved(topic, 2, 1)
    w.place(topic, label="moved")
    w.alter(BROKER, str(w.nodes[0]), [(CORDONED, DELETE, None)], label="free again")  # Other cases use these brokers.
    w.until_cordoned()


@case("KIP-455", restarts=True)
def limits_of_moves(w: World) -> None:
    """The rates that kafka-reassign-partitions sets: what they may be, and how they are described before, while and after they are set."""
    me = str(w.nodes[0])
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second")
    for name in rates:
        w.describe_configs(BROKER, me, keys=[name], synonyms=True, label=f"{name} before")
        for value in ("0", "-1", "1.5", "many", "", str(2**63 - 1), str(2**63)):
            w.alter(BROKER, me, [(name, SET, value)], validate_only=True, worded=True, label=f"{name}={value}")
        w.alter(BROKER, me, [(name, APPEND, "5")], validate_only=True, worded=True, label=f"{name} appended")
        w.alter(BROKER, ALL, [(name, SET, "4000")], worded=True, label=f"{name} of all")
        w.until_set(BROKER, ALL, name, "4000", label=f"{name} of all is set")
        w.alter(BROKER, me, [(name, SET, "3000")], worded=True, label=f"{name} of one")
        w.until_set(BROKER, me, name, "3000", label=f"{name} of one is set")
        w.alter(BROKER, me, [(name, DELETE, None)], worded=True, label=f"{name} of one is deleted")
        w.until_set(BROKER, me, name, "4000", label=f"{name} of all counts")
        w.alter(BROKER, ALL, [(name, DELETE, None)], worded=True, label=f"{name} of all is deleted")
        w.until_set(BROKER, ALL, name, None, label=f"{name} after")
