"""Groups of the consumer protocol (KIP-848): joining, rebalances, static members, subscriptions, assignors, and refusals."""

from typing import Any

from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages import consumer_group_admin, consumer_groups
from tests.conformance.holding import each_holding, on_group, on_topic
from tests.conformance.world import World, case


@case("KIP-848")
def the_first_member(w: World) -> None:
    """It joins, has everything at once, heartbeats and leaves, in both versions. In version 0 it may join without an id."""
    topic = w.topic(partitions=3)
    for version in (0, 1):
        first = w.consumer(w.group(), "m1", topic, version=version)
        first.join(label=f"v{version} joins")
        first.beat(label=f"v{version} lives")
        first.confirm(label=f"v{version} says what it owns")
        first.confirm(rebalance_timeout_ms=1000, subscribed_topic_names=[topic.name], label=f"v{version} says everything")
        first.beat(subscribed_topic_names=[topic.name], label=f"v{version} says what it subscribes to")
        first.beat(rack_id="r", label=f"v{version} tells its rack")
        w.describe_consumers(first.group, version=version, label=f"v{version} described")
        first.leave(label=f"v{version} leaves")
        first.beat(label=f"v{version} has left")
        w.describe_consumers(first.group, version=version, label=f"v{version} described again")
    nameless = w.consumer(w.group(), "", topic, version=0)
    nameless.join(label="without an id")
    nameless.beat(label="lives with its id")


@case("KIP-848")
def a_second_member(w: World) -> None:
    """It waits for what the first one gives up, and that one is told once what it may keep."""
    topic, group = w.topic(partitions=4), w.group()
    first, second = w.consumer(group, "m1", topic), w.consumer(group, "m2", topic)
    first.join(label="first joins")
    second.join(label="second joins")
    w.describe_consumers(group, label="first knows nothing")
    second.confirm(label="second waits")
    first.beat(label="first says nothing of what it owns")
    w.describe_consumers(group, label="first has to give up")
    first.beat(label="first says nothing again")
    second.confirm(label="second still waits")
    first.confirm(label="first has given up")
    w.describe_consumers(group, label="no member has it")
    second.confirm(label="second gets it")
    first.confirm(label="first goes on")
    w.describe_consumers(group, label="stable")


@case("KIP-848")
def a_third_member_comes_while_others_move(w: World) -> None:
    """The target changes before the members have reached the last one."""
    topic, group = w.topic(partitions=6), w.group()
    first, second, third = (w.consumer(group, name, topic) for name in ("m1", "m2", "m3"))
    first.join(label="first joins")
    second.join(label="second joins")
    first.beat(label="first is told")
    third.join(label="third joins")
    first.confirm(label="first confirms")
    second.confirm(label="second")
    third.confirm(label="third")
    w.share_out(first, second, third)
    w.note_shares(first, second, third, label="in the end")
    second.leave(label="second leaves")
    w.describe_consumers(group, label="assigning")
    third.confirm(label="third then")
    first.confirm(label="first then")
    w.share_out(first, third)
    w.note_shares(first, third, label="after that")


@case("KIP-848")
def fenced(w: World) -> None:
    """Epochs that are too old or too new; the previous one; joining again; members that are unknown."""
    topic, group = w.topic(partitions=4), w.group()
    first, second = w.consumers(group, topic, "m1", "m2")
    for epoch in (first.epoch + 1, first.epoch - 1, first.epoch - 2):
        first.beat(member_epoch=epoch, label=f"epoch {epoch - first.epoch:+d}, owning nothing known")
        first.confirm(member_epoch=epoch, label=f"epoch {epoch - first.epoch:+d}, owning what it has")
        first.beat(member_epoch=epoch, topic_partitions=second.owning(), label=f"epoch {epoch - first.epoch:+d}, owning what it has not")
        first.beat(member_epoch=epoch, topic_partitions=[], label=f"epoch {epoch - first.epoch:+d}, owning nothing")
    first.join(label="joins again")
    stranger = w.consumer(group, "x", topic)
    stranger.beat(member_epoch=1, label="a stranger")
    stranger.leave(label="a stranger leaves")
    unknown = w.consumer(w.group(), "x", topic)
    unknown.beat(member_epoch=1, label="an unknown group")
    unknown.leave(label="leaves an unknown group")


@case("KIP-848")
def refused(w: World) -> None:
    """Requests that say too little or too much, in both versions."""
    topic, group = w.topic(), w.group()
    for version in (0, 1):
        member = w.consumer(group, "m1", topic, version=version)
        wrong: dict[str, dict[str, Any]] = {
            "no group": {"group_id": ""},
            "no instance": {"instance_id": ""},
            "blank instance": {"instance_id": " "},
            "no rack": {"rack_id": ""},
            "no timeout": {"rebalance_timeout_ms": -1},
            "partitions unknown": {"topic_partitions": None},
            "partitions owned": {"topic_partitions": [consumer_groups.TopicPartitions(topic_id=topic.id, partitions=[0])]},
            "no subscription": {"subscribed_topic_names": None},
            "another assignor": {"server_assignor": "sticky"},
            "epoch -2": {"member_epoch": -2},
            "epoch -3": {"member_epoch": -3},
            "no id, epoch 1": {"member_id": "", "member_epoch": 1},
            "no id, epoch -1": {"member_id": "", "member_epoch": -1},
            "no id, epoch -2": {"member_id": "", "member_epoch": -2, "instance_id": "i"},
            "epoch 1": {"member_epoch": 1},
            "epoch -1": {"member_epoch": -1},
        }
        for what, fields in wrong.items():
            member.join(label=f"v{version} {what}", **fields)
    w.consumer(group, "", topic).join(label="v1 no id")
    w.describe_consumers(group, label="then there is no group")


@case("KIP-848")
def regular_expressions_that_are_refused(w: World) -> None:
    """By RE2, which Kafka uses."""
    group = w.group()
    for regex in ("[a", "(a", "a)", "*", "a**", "a\\", "a(?=b)", "(a)\\1", "(?P<n>a"):
        w.consumer(group, "m1", regex=regex).join(label=regex)


@case("KIP-345", "KIP-848")
def static_members(w: World) -> None:
    """One that leaves for a while keeps its partitions, and comes back under another id without a rebalance."""
    topic, group = w.topic(partitions=4), w.group()
    first, second = w.consumer(group, "m1", topic, instance="i1"), w.consumer(group, "m2", topic)
    first.join(label="first joins")
    second.join(label="second joins")
    w.share_out(first, second)
    other = w.consumer(group, "m3", topic, instance="i1")
    other.join(label="another with its instance id")
    other.beat(member_epoch=first.epoch, label="another's heartbeat")
    other.leave(label="another leaves")
    other.leave(for_a_while=True, label="another leaves for a while")
    w.consumer(group, "m1", topic, instance="i9").beat(member_epoch=1, label="an unknown instance")
    w.consumer(group, "m1", topic, instance="i9").leave(label="an unknown instance leaves")
    first.leave(for_a_while=True, label="first leaves for a while")
    first.beat(label="first's old epoch")
    w.describe_consumers(group, label="while it is away")
    second.confirm(label="second goes on")
    other.join(label="another takes its place")
    first.beat(label="first is fenced")
    w.describe_consumers(group, label="with the other")
    second.confirm(label="second still goes on")
    other.leave(label="the other leaves")
    second.confirm(label="second has everything")


@case("KIP-848")
def the_uniform_assignor(w: World) -> None:
    """Partitions of one topic, while members come and go. Ids decide which member has more."""
    topic = w.topic(partitions=7)
    for number, names in enumerate((("m1", "m2", "m3"), ("zebra", "ant", "b"), ("first", "second", "third", "fourth"))):
        members = w.consumers(w.group(), topic, *names)
        w.note_shares(*members, label=f"{number}: all")
        members[0].leave()
        w.share_out(*members[1:])
        w.note_shares(*members[1:], label=f"{number}: without the first")


@case("KIP-848")
def the_range_assignor(w: World) -> None:
    """Members in the order of their ids, static ones first."""
    topic, other = w.topic(partitions=5), w.topic(partitions=4)
    group = w.group()
    members = [w.consumer(group, name, topic, other, assignor="range") for name in ("m2", "m1")]
    members.append(w.consumer(group, "m3", topic, other, instance="z"))
    for member in members:
        member.join()
        w.share_out(*members[: members.index(member) + 1])
    w.note_shares(*members, label="all")
    w.describe_consumers(group, label="described")


@case("KIP-848")
def different_subscriptions(w: World) -> None:
    """Each partition goes to a member that subscribes to its topic, with each assignor."""
    first, second = w.topic(partitions=3), w.topic(partitions=4)
    for assignor in ("uniform", "range"):
        group = w.group()
        members = [
            w.consumer(group, "m1", first, assignor=assignor),
            w.consumer(group, "m2", first, second, assignor=assignor),
            w.consumer(group, "m3", second, assignor=assignor),
        ]
        for member in members:
            member.join()
            w.share_out(*members[: members.index(member) + 1])
        w.note_shares(*members, label=assignor)


@case("KIP-848")
def a_subscription_that_changes(w: World) -> None:
    """The member gives up the topic; a topic that does not exist is nothing; without topics it owns nothing."""
    first, second, missing = w.topic(partitions=2), w.topic(partitions=2), w.missing_topic()
    member = w.consumer(w.group(), "m1", first)
    member.join(label="joins")
    member.beat(subscribed_topic_names=[second.name], label="wants another")
    member.confirm(label="has given up")
    member.confirm(label="goes on")
    member.confirm(subscribed_topic_names=[missing.name], label="wants one that is missing")
    member.confirm(label="owns nothing")
    member.confirm(subscribed_topic_names=[], label="wants nothing")
    member.confirm(subscribed_topic_names=[first.name, first.name], label="wants one twice")


@case("KIP-848")
def topics_that_change(w: World) -> None:
    """A topic that grows, and one that is deleted."""
    topic, gone = w.topic(partitions=1), w.topic(partitions=1)
    member = w.consumer(w.group(), "m1", topic, gone)
    member.join(label="joins")
    w.create_partitions((topic.name, 3), label="grows")
    w.until_partitions(topic, 3, label="grown")
    w.until_owned(member, 4)
    w.note_shares(member, label="has more")
    w.delete_topics(gone.name, label="deletes")
    w.until_gone(gone)
    w.until_owned(member, 3)
    w.share_out(member)
    w.note_shares(member, label="in the end")


@case("KIP-848")
def regular_expressions(w: World) -> None:
    """They are resolved after the request; the topics come with a later heartbeat."""
    first, second, group = w.topic(partitions=2), w.topic(partitions=1), w.group()
    prefix = first.name.rpartition("-")[0]
    member = w.consumer(group, "m1", regex=f"{prefix}.*")
    member.join(label="joins")
    w.until_owned(member, 3)
    w.note_shares(member, label="has both")
    w.describe_consumers(group, label="described")
    other = w.consumer(group, "m2", regex=f"{prefix}.*")
    other.join(label="another joins with the same")
    w.share_out(member, other)
    w.note_counts(member, other, label="both")
    member.confirm(subscribed_topic_regex="", subscribed_topic_names=[second.name])
    w.share_out(member, other)
    w.note_counts(member, other, label="with a name")
    other.leave(label="the other leaves")
    w.share_out(member)
    w.note_shares(member, label="alone")
    w.describe_consumers(group, label="described again")


@case("KIP-848")
def listed(w: World) -> None:
    """With their type and state, and by filters. DescribeGroups does not know them."""
    topic, stable, empty, reconciling = w.topic(partitions=2), w.group(), w.group(), w.group()
    w.consumers(stable, topic, "m1")
    (gone,) = w.consumers(empty, topic, "m1")
    gone.leave()
    w.consumers(reconciling, topic, "m1")
    w.consumer(reconciling, "m2", topic).join()
    for version in (3, 4, 5):
        w.list_groups(version=version, label=f"v{version}")
    for states in (["Stable"], ["empty"], ["Reconciling"], ["Assigning"]):
        w.list_groups(states=states, label=f"states {states}")
    for types in (["consumer"], ["Consumer"], ["classic"], ["classic", "consumer"]):
        w.list_groups(types=types, label=f"types {types}")
    for version in (5, 6):
        w.describe_groups(stable, version=version, label=f"DescribeGroups v{version}")


@case("KIP-848")
def described(w: World) -> None:
    """With operations, missing groups, classic ones, and no name."""
    topic, group, classic, unknown = w.topic(), w.group(), w.group(), w.group()
    w.consumers(group, topic, "m1")
    w.stable(classic)
    w.describe_consumers(group, classic, unknown, "", label="four")
    w.describe_consumers(group, unknown, operations=True, label="operations")
    w.describe_consumers(label="none")


@case("KIP-848")
def deleted(w: World) -> None:
    """Only without members."""
    topic, group = w.topic(), w.group()
    (member,) = w.consumers(group, topic, "m1")
    w.delete_groups(group, label="with a member")
    member.leave()
    w.delete_groups(group, label="without")
    w.delete_groups(group, label="again")
    w.describe_consumers(group, label="described")


@case("KIP-848")
def beside_the_classic_protocol(w: World) -> None:
    """A group without members takes the other protocol. Requests of the classic protocol do not know members of the new one."""
    topic, group = w.topic(), w.group()
    (classic,) = w.stable(group)
    w.commit(group, {topic: {0: 5}}, member=classic, label="a classic member commits")
    classic.leave(label="and leaves")
    member = w.consumer(group, "m1", topic)
    member.join(label="a new one joins")
    w.committed(group, {topic: [0]}, label="the offset is there")
    stranger = w.member(group)
    stranger.heartbeat(member_id="m1", generation=member.epoch, label="a classic heartbeat")
    stranger.sync(member_id="m1", generation=member.epoch, protocol=("consumer", "range"), label="a classic sync")
    stranger.leave(("x", None), label="a classic leave of a stranger")
    stranger.leave(("m1", None), label="a classic leave of the member")
    member.beat(label="it is gone")
    stranger.join(label="a classic one joins")
    stranger.join(label="with its id")
    w.list_groups(label="listed")
    w.committed(group, {topic: [0]}, label="the offset is still there")


@case("KIP-848", brokers=3)
def asked_of_another_broker(w: World) -> None:
    """NOT_COORDINATOR."""
    topic, group = w.topic(), w.group()
    another = w.another_broker(group)
    for version in (0, 1):
        w.consumer(group, "m1", topic, version=version, node=another).join(label=f"heartbeat v{version}")
        w.describe_consumers(group, version=version, node=another, label=f"describe v{version}")


@case("KIP-848", guarded=True)
def permissions(w: World) -> None:
    """READ on the group and DESCRIBE on the topics to join; DESCRIBE on both to describe."""
    w.no_acls()
    topic, group = w.topic(), w.group()
    for version in (0, 1):
        join = consumer_groups.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m1", rebalance_timeout_ms=-1, subscribed_topic_names=[topic.name], topic_partitions=[]
        )
        read, describe = on_group(group, Operation.READ), on_group(group, Operation.DESCRIBE)
        on_it = on_topic(topic, Operation.DESCRIBE)
        each_holding(w, join, version, describe, read, [*read, *on_it], what=f"join v{version}")
    w.consumer(group, "m1", topic).join()
    for version in (0, 1):
        asked = consumer_group_admin.ConsumerGroupDescribeRequest(group_ids=[group, f"{group}x"])
        each_holding(w, asked, version, describe, what=f"describe v{version}")
