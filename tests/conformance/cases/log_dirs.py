"""DescribeLogDirs and AlterReplicaLogDirs of brokers with one directory."""

from tests.conformance.batches import Rec, plain
from tests.conformance.world import World, case


@case()
def sizes_of_logs(w: World) -> None:
    """Of some partitions and of all, in every version. Unknown ones are left out, and named twice is once."""
    topic, other = w.topic(partitions=2), w.topic()
    missing = w.missing_topic().name
    w.logs({topic.name: [0, 1]}, label="empty")
    w.produce(plain(Rec(), Rec()), topic, label="two")
    for version in range(1, 6):
        w.logs({topic.name: [0, 1], other.name: [0]}, version=version, label=f"v{version}")
        w.logs({}, version=version, label=f"v{version} none")
        w.logs(None, version=version, label=f"v{version} all")
    w.logs({topic.name: [1, 7, -1], missing: [0]}, label="unknown")
    w.logs({topic.name: [0, 0]}, label="twice")


@case(brokers=3)
def replicas_of_each_broker(w: World) -> None:
    """A broker describes its own replicas, and moves no others."""
    topic = w.placed_topic(1, 2)
    w.produce(plain(), topic, label="one")
    w.until_in_sync(topic)
    for broker in (1, 2, 3):
        w.logs({topic.name: [0]}, broker=broker, label=f"of broker {broker}")
        w.alter_log_dirs((w.log_dir(broker), topic.name, 0), broker=broker, label=f"moved at broker {broker}")


@case()
def the_only_directory(w: World) -> None:
    """A log is there already. Another path is not found, before anything else is looked at but the length of the name."""
    topic, missing, path = w.topic(), w.missing_topic().name, w.log_dir()
    longest = "x" * (255 - 2 - 40)
    for version in (1, 2):
        for name, where in (("its own", path), ("another", "/nowhere"), ("an empty one", ""), ("another spelling", f"{path}/")):
            w.alter_log_dirs(
                (where, topic.name, 0), (where, topic.name, 7), (where, missing, 0), version=version, label=f"v{version} {name}"
            )
    w.alter_log_dirs((path, topic.name, 0), ("/nowhere", topic.name, 0), label="two paths")
    w.alter_log_dirs(("/nowhere", topic.name, 0), (path, topic.name, 0), label="two paths the other way round")
    for name in (longest, f"{longest}x"):
        w.alter_log_dirs((path, name, 0), label=f"a name of {len(name)} characters")
        w.alter_log_dirs(("/nowhere", name, 0), label=f"a name of {len(name)} characters elsewhere")
    w.alter_log_dirs(label="nothing")
