"""AlterPartitionReassignments and ListPartitionReassignments: which replicas a partition has afterwards, which leads, and when."""

from tests.conformance.batches import Rec, plain
from tests.conformance.stage import Topic
from tests.conformance.world import World, case


@case()
def nothing_is_on_the_move(w: World) -> None:
    """No reassignments: of all topics, of some, of unknown ones."""
    topic = w.topic()
    w.reassignments(None, label="all")
    w.reassignments({topic.name: [0]}, label="one")
    w.reassignments({w.missing_topic().name: [0]}, label="unknown")
    w.reassignments({}, label="none")


@case()
def what_is_refused(w: World) -> None:
    """Unknown topics, partitions and brokers, no brokers, one twice, and nothing to cancel. Others in the same request are served."""
    topic, missing = w.topic(), w.missing_topic().name
    for version in range(2):
        for what, to in (
            ("no broker", []),
            ("twice", [1, 1]),
            ("unknown", [1, 9]),
            ("negative", [-1]),
            ("cancel", None),
            ("the same", [1]),
        ):
            w.reassign({topic.name: {0: to}}, version=version, label=f"v{version} {what}")
        w.reassign({topic.name: {0: [1], 1: [1], -1: None}, missing: {0: [1], 1: None}}, version=version, label=f"v{version} several")
        w.reassign({}, version=version, label=f"v{version} nothing")
        w.reassign({topic.name: {}}, version=version, label=f"v{version} no partition")


@case(brokers=3)
def moves(w: World) -> None:
    """Other replicas, another order, more and fewer. The records are where the replicas are."""
    for version in range(2):
        topic = w.placed_topic(1)
        w.produce(plain(Rec(), Rec()), topic, label=f"v{version} two")
        for to in ((2, 3), (3, 2), (3, 2, 1), (1, 2, 3), (1, 2), (1, 3), (1,), (1, 2, 3), (2, 3), (1,)):
            word = f"v{version} from {w.look_up(topic.name).partitions[0].replica_nodes} to {to}"
            w.reassign({topic.name: {0: to}}, version=version, label=word)
            w.until_moved(topic, *to)
            w.place(topic, label=f"{word}, place")
        w.until_logs_at(topic, 1)
        for broker in (1, 2, 3):
            w.logs({topic.name: [0]}, broker=broker, label=f"v{version} logs of {broker}")


@case(brokers=3)
def the_number_of_replicas(w: World) -> None:
    """A client may forbid another number."""
    topic = w.placed_topic(1, 2)
    for to in ((1,), (1, 2, 3), (2, 1), (2, 3)):
        w.reassign({topic.name: {0: to}}, factor_may_change=False, label=f"to {to}")
    w.until_moved(topic, 2, 3)
    w.place(topic, label="place")
    w.reassign({}, factor_may_change=False, label="nothing")


def _without_broker_3(w: World) -> Topic:
    """Stops it. Returns a topic with replicas on all three."""
    kept = w.placed_topic(1, 2, 3)
    w.until_in_sync(kept)
    w.target.stop(w.nodes[2], clean=True)
    w.until_isr(kept, 1, 2)
    return kept


def _begin(w: World, what: str, topic: Topic, *brokers: int) -> None:
    w.reassign({topic.name: {0: brokers}}, label=f"{what}, begins")
    w.reassignments({topic.name: [0, 1]}, label=f"{what}, listed")
    w.until_begun(topic)
    w.place(topic, label=f"{what}, place")


@case(brokers=3, restarts=True)
def a_broker_is_down(w: World) -> None:
    """It keeps the reassignment in progress, which can be cancelled, replaced, and ends when the broker is back."""
    one, two, three, four = (w.placed_topic(1) for _ in range(4))
    _without_broker_3(w)
    _begin(w, "waits", one, 3)
    _begin(w, "is cancelled", two, 3)
    _begin(w, "is replaced", three, 3)
    w.reassign({four.name: {0: (2, 3)}}, label="is cancelled in part, begins")
    w.until_isr(four, 1, 2)
    w.place(four, label="is cancelled in part, place")
    w.reassignments({topic.name: [0] for topic in (one, two, three, four)}, label="all of them")
    steps: dict[str, tuple[Topic, tuple[int, ...] | None]] = {
        "is cancelled": (two, None),
        "is replaced": (three, (2,)),
        "is cancelled in part": (four, None),
    }
    for what, (topic, to) in steps.items():
        w.reassign({topic.name: {0: to}}, label=f"{what}, then")
        w.until_moved(topic, *(to or (1,)))
        w.place(topic, label=f"{what}, place then")
        w.reassign({topic.name: {0: None}}, label=f"{what}, cancelled again")
    w.target.start(w.nodes[2])
    w.until_moved(one, 3)
    w.place(one, label="waits, place at the end")


@case(brokers=3, restarts=True)
def fewer_replicas(w: World) -> None:
    """If the number falls, every replica that stays must be in sync before one leaves."""
    kept = _without_broker_3(w)
    _begin(w, "fewer", kept, 1, 3)
    w.target.start(w.nodes[2])
    w.until_moved(kept, 1, 3)
    w.place(kept, label="at the end")


@case(brokers=3, restarts=True)
def back_to_the_replicas_of_before(w: World) -> None:
    """A replica that one reassignment adds and the next one removes keeps that in progress until it is cancelled."""
    topics = {"back": w.placed_topic(1, 2), "back in another order": w.placed_topic(2, 1)}
    _without_broker_3(w)
    for what, topic in topics.items():
        _begin(w, what, topic, *((1, 3) if what == "back" else (3, 1)))
        w.reassign({topic.name: {0: (1, 2)}}, label=f"{what}, then")
        w.reassignments({topic.name: [0]}, label=f"{what}, listed then")
        w.until_begun(topic)
        w.place(topic, label=f"{what}, place then")
    w.target.start(w.nodes[2])
    for what, topic in topics.items():
        w.until_isr(topic, 1, 2, 3)
        w.reassignments({topic.name: [0]}, label=f"{what}, listed at the end")
        w.place(topic, label=f"{what}, place at the end")
        w.reassign({topic.name: {0: None}}, label=f"{what}, cancelled at the end")
        w.until_moved(topic, 1, 2)
        w.place(topic, label=f"{what}, place after that")


@case(brokers=3, restarts=True)
def the_number_that_is_aimed_for(w: World) -> None:
    """While a reassignment is in progress, its number of replicas is the one that must not change."""
    topic = w.placed_topic(1)
    kept = _without_broker_3(w)
    w.reassign({topic.name: {0: (2, 3)}}, label="begins")
    for to in ((1,), (1, 2, 3), (3, 1), (1, 2)):
        w.reassign({topic.name: {0: to}}, factor_may_change=False, label=f"to {to}")
        w.reassignments({topic.name: [0]}, label=f"to {to}, listed")
    w.target.start(w.nodes[2])
    w.until_in_sync(kept)
