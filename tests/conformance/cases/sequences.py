"""A partition's answers to batches with a producer id: rows D1, D4, D7 to D10 of the append decision."""

from tests.conformance.batches import LZ4, Batch, Rec, of
from tests.conformance.world import World, case

TOP = 2**31 - 1


@case("D8")
def unknown_pid_is_accepted_at_any_sequence(w: World) -> None:
    """An unknown producer id may start at any sequence."""
    for sequence in (0, 1, 17, TOP):
        w.produce(of(w.pid(), 0, sequence, 3), w.topic(), label=f"sequence {sequence}")


@case("D8")
def unknown_pid_is_accepted_at_any_epoch_and_sequence(w: World) -> None:
    """The leader accepts the first epoch that it sees."""
    for epoch, sequence in ((5, 0), (5, 3), (32767, 9)):
        w.produce(of(w.pid(), epoch, sequence), w.topic(), label=f"epoch {epoch} sequence {sequence}")


@case("D8", "D9")
def numbers_nobody_handed_out(w: World) -> None:
    """A producer id with epoch -1 or lower."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, -1, 5), topic, label="epoch -1 sequence 5")
    w.produce(of(pid, -1, 6), topic, label="epoch -1 sequence 6")
    w.produce(of(pid, -1, 9), topic, label="epoch -1 sequence 9")
    w.produce(of(pid, -2, 0), topic, label="epoch -2 sequence 0")
    w.produce(of(pid, 0, 0), topic, label="epoch 0 sequence 0")
    w.produce(of(-2, 0, 0), topic, label="pid -2")
    w.describe(topic)


@case("D8", "D9", "D1", "D10")
def wrap_around(w: World) -> None:
    """Sequences run modulo 2^31, and the window is the five newest batches."""
    pid, topic = w.pid(), w.topic()
    for step, sequence, count in (
        ("1", 2147483640, 5),
        ("2", 2147483645, 5),
        ("3", 2, 3),
        ("4 duplicate of 2", 2147483645, 5),
        ("5 same start, other end", 2147483645, 3),
        ("6 tail of 3", 4, 1),
        ("7 gap", 6, 1),
        ("8a", 5, 1),
        ("8b", 6, 1),
        ("8c", 7, 1),
        ("8d", 8, 1),
        ("9 fell out of the window", 2147483645, 5),
        ("10 still in the window", 2, 3),
    ):
        w.produce(of(pid, 0, sequence, count), topic, label=step)
    w.describe(topic)


@case("D9", "D1")
def wrap_with_the_batch_ending_at_the_top(w: World) -> None:
    """After 2^31-1 only 0 is in order."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, TOP - 1, 2), topic, label="up to the top")
    w.produce(of(pid, 0, 1, 1), topic, label="1 is a gap")
    w.produce(of(pid, 0, TOP, 1), topic, label="the top again")
    w.produce(of(pid, 0, 0, 1), topic, label="0 follows")
    w.produce(of(pid, 0, TOP - 1, 2), topic, label="duplicate of the first")
    w.describe(topic)


@case("D1")
def wrap_inside_the_duplicate(w: World) -> None:
    """The leader recognises a batch that crosses 2^31 by its first and its last sequence."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, TOP, 2), topic, label="crosses the top")
    w.produce(of(pid, 0, TOP, 2), topic, label="again")
    w.produce(of(pid, 0, TOP, 1), topic, label="only its head")
    w.produce(of(pid, 0, 0, 1), topic, label="only its tail")
    w.produce(of(pid, 0, 1, 1), topic, label="1 follows")


@case("D7", "D8", "D4")
def epochs(w: World) -> None:
    """A new epoch starts at 0. An old one is refused, even for a batch that was accepted before."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 3, 0, 2), topic, label="epoch 3 from 0")
    w.produce(of(pid, 3, 2, 2), topic, label="epoch 3 goes on")
    w.produce(of(pid, 4, 4, 1), topic, label="epoch 4 from 4")
    w.produce(of(pid, 4, 0, 1), topic, label="epoch 4 from 0")
    w.produce(of(pid, 3, 4, 1), topic, label="epoch 3 goes on too late")
    w.produce(of(pid, 3, 2, 2), topic, label="duplicate of epoch 3")
    w.describe(topic)


@case("D7", "D8")
def a_new_epoch_may_skip_some(w: World) -> None:
    """Any higher epoch is new. A refused one changes nothing."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0, 3), topic, label="epoch 0")
    w.produce(of(pid, 9, 3, 1), topic, label="epoch 9 not from 0")
    w.produce(of(pid, 0, 3, 1), topic, label="epoch 0 still good")
    w.produce(of(pid, 9, 0, 1), topic, label="epoch 9 from 0")
    w.produce(of(pid, 8, 0, 1), topic, label="epoch 8 is old now")
    w.produce(of(pid, 32767, 0, 1), topic, label="epoch 32767")
    w.describe(topic)


@case("D7", "D1")
def a_new_epoch_forgets_the_old_batches(w: World) -> None:
    """After the bump the same sequences are new batches, not duplicates."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0, 2), topic, label="epoch 0")
    w.produce(of(pid, 1, 0, 2), topic, label="epoch 1, same sequences")
    w.produce(of(pid, 1, 0, 2), topic, label="again")
    w.produce(of(pid, 1, 2, 1), topic, label="goes on")


@case("D4")
def stale_epoch(w: World) -> None:
    """An older epoch is refused with every sequence."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 2, 0), topic, label="epoch 2")
    for sequence in (0, 1, 7):
        w.produce(of(pid, 1, sequence), topic, label=f"epoch 1 sequence {sequence}")
    w.produce(of(pid, 2, 1), topic, label="epoch 2 goes on")


@case("D1")
def each_of_the_last_five_is_a_duplicate(w: World) -> None:
    """The broker remembers five batches of any size. Each duplicate gets the original offset."""
    pid, topic = w.pid(), w.topic()
    starts, sequence = [], 0
    for count in (2, 1, 3, 1, 2):
        w.produce(of(pid, 0, sequence, count), topic, label=f"send {sequence}+{count}")
        starts.append((sequence, count))
        sequence += count
    for first, count in starts:
        w.produce(of(pid, 0, first, count), topic, label=f"again {first}+{count}")
    w.produce(of(pid, 0, sequence), topic, label="next")
    w.end_offset(topic)


@case("D1", "D10")
def the_sixth_oldest_is_out_of_order(w: World) -> None:
    """A batch that has left the window is out of order, not a duplicate."""
    pid, topic = w.pid(), w.topic()
    for sequence in range(6):
        w.produce(of(pid, 0, sequence), topic, label=f"send {sequence}")
    for sequence in range(6):
        w.produce(of(pid, 0, sequence), topic, label=f"again {sequence}")


@case("D1")
def a_duplicate_does_not_refresh_the_window(w: World) -> None:
    """A resend of the oldest batch does not keep it in the window."""
    pid, topic = w.pid(), w.topic()
    for sequence in range(5):
        w.produce(of(pid, 0, sequence), topic, label=f"send {sequence}")
    w.produce(of(pid, 0, 0), topic, label="0 again")
    w.produce(of(pid, 0, 5), topic, label="send 5")
    w.produce(of(pid, 0, 0), topic, label="0 once more")


@case("D10")
def partial_overlaps(w: World) -> None:
    """The leader does not recognise a resend that was split, merged or shifted."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0, 4), topic, label="0..3")
    w.produce(of(pid, 0, 4, 4), topic, label="4..7")
    for first, count in ((0, 2), (2, 2), (0, 8), (2, 4), (4, 5), (6, 4), (3, 1), (7, 1)):
        w.produce(of(pid, 0, first, count), topic, label=f"{first}..{first + count - 1}")
    w.produce(of(pid, 0, 8), topic, label="8")


@case("D10")
def gaps(w: World) -> None:
    """A gap is refused and changes nothing. After it is filled, later batches are accepted."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0, 2), topic, label="0..1")
    w.produce(of(pid, 0, 3), topic, label="3")
    w.produce(of(pid, 0, TOP), topic, label="the top")
    w.produce(of(pid, 0, 2), topic, label="2")
    w.produce(of(pid, 0, 3), topic, label="3 again")
    w.end_offset(topic)


@case("D10", "D1")
def starting_over_in_the_same_epoch(w: World) -> None:
    """Sequence 0 again without a new epoch: a duplicate if it matches a remembered batch, otherwise refused."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0, 2), topic, label="0..1")
    w.produce(of(pid, 0, 0, 1), topic, label="0")
    w.produce(of(pid, 0, 0, 2), topic, label="0..1 again")
    w.produce(of(pid, 0, 0, 3), topic, label="0..2")


@case("D1")
def a_duplicate_is_told_by_its_sequences_alone(w: World) -> None:
    """Other bytes, another codec, other timestamps: still a duplicate. The log keeps the first batch."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0, 2), topic, label="first")
    w.produce(Batch(records=[Rec(value=b"other"), Rec(key=None)], pid=pid, epoch=0, sequence=0), topic, label="other records")
    w.produce(w.compressed(LZ4, of(pid, 0, 0, 2)), topic, label="compressed")
    w.produce(of(pid, 0, 0, 2), topic, acks=1, label="acks 1")
    w.end_offset(topic)


@case("D1")
def a_duplicate_answers_the_cached_timestamp(w: World) -> None:
    """The answer to a duplicate names the batch's largest timestamp, where the first answer named none."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0), topic, label="first")
    w.produce(of(pid, 0, 0), topic, label="duplicate")
    stamped = w.topic(config={"message.timestamp.type": "LogAppendTime"})
    w.produce(of(pid, 0, 0), stamped, label="LogAppendTime first")
    w.produce(of(pid, 0, 0), stamped, label="LogAppendTime duplicate")


@case("D1", "D4", "D10")
def every_version_answers_alike(w: World) -> None:
    """Duplicates, gaps and stale epochs have the same codes in every version of Produce."""
    for version in range(3, 14):
        pid, topic = w.pid(), w.topic()
        w.produce(of(pid, 1, 0), topic, version=version, label=f"v{version} first")
        w.produce(of(pid, 1, 0), topic, version=version, label=f"v{version} duplicate")
        w.produce(of(pid, 1, 5), topic, version=version, label=f"v{version} gap")
        w.produce(of(pid, 0, 1), topic, version=version, label=f"v{version} stale")


@case("D9")
def partitions_are_independent(w: World) -> None:
    """Sequences and epochs of one partition do not affect another one."""
    pid, topic = w.pid(), w.topic(partitions=2)
    w.produce(of(pid, 0, 0, 3), topic, label="p0 0..2")
    w.produce(of(pid, 0, 100), topic, partition=1, label="p1 100")
    w.produce(of(pid, 0, 3), topic, label="p0 3")
    w.produce(of(pid, 0, 101), topic, partition=1, label="p1 101")
    w.produce(of(pid, 1, 0), topic, label="p0 new epoch")
    w.produce(of(pid, 0, 102), topic, partition=1, label="p1 old epoch goes on")
    w.produce(of(pid, 0, 4), topic, label="p0 old epoch")


@case("D9")
def producers_are_independent(w: World) -> None:
    """Two producers on one partition, and batches without a producer between them."""
    first, second, topic = w.pid(), w.pid(), w.topic()
    w.produce(of(first, 0, 0), topic, label="first 0")
    w.produce(of(second, 7, 50), topic, label="second 50")
    w.produce(Batch(), topic, label="no producer")
    w.produce(of(first, 0, 1), topic, label="first 1")
    w.produce(of(second, 7, 51), topic, label="second 51")
    w.produce(of(second, 7, 50), topic, label="second 50 again")
    w.describe(topic)


@case("D9")
def large_batches_step_by_their_last_offset_delta(w: World) -> None:
    """The next sequence is one above the last record's."""
    pid, topic = w.pid(), w.topic()
    w.produce(of(pid, 0, 0, 1000), topic, label="0..999")
    w.produce(of(pid, 0, 999), topic, label="999")
    w.produce(of(pid, 0, 1000), topic, label="1000")
    w.produce(of(pid, 0, 0, 1000), topic, label="0..999 again")
    w.end_offset(topic)


@case("D1", "D9")
def pipelined_on_one_connection(w: World) -> None:
    """Five requests in flight on one connection are appended and answered in order."""
    pid, topic = w.pid(), w.topic()
    w.produce_pipelined([of(pid, 0, sequence) for sequence in range(5)], topic, label="five")
    w.produce_pipelined([of(pid, 0, sequence) for sequence in (5, 7, 6, 5, 7)], topic, label="out of order")


@case()
def describe_producers(w: World) -> None:
    """DescribeProducers first returns no producer, then the last sequence and epoch of each."""
    pid, topic = w.pid(), w.topic(partitions=2)
    w.describe(topic, label="before")
    w.produce(of(pid, 2, 5, 3), topic, label="send")
    w.describe(topic, label="after")
    w.produce(of(pid, 3, 0), topic, label="new epoch")
    w.describe(topic, label="after the new epoch")
    w.describe(topic, partition=1, label="the other partition")
    w.produce(of(pid, 3, TOP), topic, label="refused")
    w.describe(topic, label="after a refusal")


@case()
def describe_producers_of_nothing(w: World) -> None:
    """Unknown topics and partitions have an error code. A batch without a producer id leaves no entry."""
    topic = w.topic()
    w.describe(topic, partition=7, label="unknown partition")
    w.describe(topic, partition=-1, label="negative partition")
    w.describe(w.missing_topic(), label="unknown topic")
    w.produce(Batch(), topic, label="no producer")
    w.describe(topic, label="nobody")
