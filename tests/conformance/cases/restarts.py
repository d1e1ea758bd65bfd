"""What a broker remembers about producers after a clean restart, and after a kill."""

from tests.conformance.batches import Rec, of, plain
from tests.conformance.world import World, case


def _five(w: World, clean: bool) -> None:
    pid, other, topic = w.pid(), w.pid(), w.topic()
    w.produce(of(other, 3, 40, 2), topic, label="another producer")
    for sequence in range(5):
        w.produce(of(pid, 0, sequence), topic, label=f"send {sequence}")
    w.describe(topic, label="before")
    w.restart(clean=clean)
    w.describe(topic, label="after")
    w.end_offset(topic)
    for sequence in range(5):
        w.produce(of(pid, 0, sequence), topic, label=f"again {sequence}")
    w.produce(of(other, 3, 40, 2), topic, label="the other again")
    w.produce(of(pid, 0, 6), topic, label="gap")
    w.produce(of(pid, 0, 5), topic, label="next")
    w.produce(of(pid, 0, 4), topic, label="the newest from before")
    w.produce(of(other, 2, 0), topic, label="stale epoch of the other")


@case(restarts=True)
def clean_restart(w: World) -> None:
    """A snapshot keeps the newest batch of each producer. Older duplicates are out of order afterwards."""
    _five(w, clean=True)


@case(restarts=True)
def killed(w: World) -> None:
    """After SIGKILL the broker scans the log, and remembers everything in it."""
    _five(w, clean=False)


@case(restarts=True)
def killed_after_a_clean_restart(w: World) -> None:
    """A snapshot and a scan together: the newest batch from the snapshot, and every later one from the log."""
    pid, topic = w.pid(), w.topic()
    for sequence in range(3):
        w.produce(of(pid, 0, sequence), topic, label=f"send {sequence}")
    w.restart(clean=True)
    for sequence in range(3, 5):
        w.produce(of(pid, 0, sequence), topic, label=f"send {sequence}")
    w.restart(clean=False)
    for sequence in range(5):
        w.produce(of(pid, 0, sequence), topic, label=f"again {sequence}")


@case(restarts=True)
def a_restart_keeps_epochs_and_wrapped_sequences(w: World) -> None:
    """Epoch, last sequence and its wrap stay."""
    for clean in (True, False):
        word = "clean" if clean else "killed"
        pid, topic = w.pid(), w.topic()
        w.produce(of(pid, 5, 2147483646, 4), topic, label=f"{word} across the top")
        w.restart(clean=clean)
        w.describe(topic, label=f"{word} after")
        w.produce(of(pid, 5, 2147483646, 4), topic, label=f"{word} duplicate")
        w.produce(of(pid, 4, 0), topic, label=f"{word} stale epoch")
        w.produce(of(pid, 6, 2), topic, label=f"{word} new epoch not from 0")
        w.produce(of(pid, 5, 2), topic, label=f"{word} next")


@case(restarts=True)
def a_restart_keeps_the_records_and_moves_the_leader_epoch(w: World) -> None:
    """Records, offsets and ids stay; the leader epoch rises."""
    topic = w.topic(partitions=2)
    w.produce(plain(Rec(), Rec()), topic, label="two")
    w.metadata([topic.name], label="before")
    for clean in (True, False):
        word = "clean" if clean else "killed"
        w.restart(clean=clean)
        w.metadata([topic.name], label=f"{word} metadata")
        w.fetch(topic, 0, label=f"{word} fetch")
        w.fetch(topic, 2, leader_epoch=0, label=f"{word} fetch with the first leader epoch")
        w.produce(plain(), topic, label=f"{word} one more")
        w.list_offsets(topic, -1, label=f"{word} latest")


@case(restarts=True)
def producer_ids_are_not_reused(w: World) -> None:
    """After a restart InitProducerId assigns other ids."""
    w.init_producer_id(label="before")
    w.restart(clean=True)
    w.init_producer_id(label="after a clean restart")
    w.restart(clean=False)
    w.init_producer_id(label="after a kill")


@case("KIP-227", restarts=True)
def sessions_end_with_the_broker(w: World) -> None:
    """After a restart a fetch session is unknown."""
    topic = w.topic()
    s = w.session()
    s.fetch([(topic, 0, 0)], epoch=0, label="create")
    w.restart(clean=True)
    s.fetch([], epoch=1, label="after")
