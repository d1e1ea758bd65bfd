"""`fencepost groups plan`: what each assignor would do with a group if members came or left. It changes nothing.

It computes with the functions of `broker_stub.groups.assignors`, which give the answers of Kafka's own consumers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from fencepost.cli.error_lines import NO, CommandError
from fencepost.cli.options import ClusterOptions, Json, asks_about_groups
from fencepost.cli.output import say_json
from fencepost.cli.tables import show

if TYPE_CHECKING:
    from fencepost.broker_stub.groups.assignors import Assignor
    from fencepost.broker_stub.groups.assignors.subscriptions import Member, TopicPartition
    from fencepost.cli.groups_asking import Described
    from fencepost.cli.groups_members_file import KnownGroup
    from fencepost.producer.wire.messages.metadata import MetadataResponse
    from fencepost.txn.protocol.cluster_client import ClusterClient

ROUNDS_MAX: Final = 10


class Outcome(NamedTuple):
    """What an assignor makes of a group. `moved`: partitions that change from one remaining member to another. `paused`: partitions that no
    member reads for a moment, though their owner remains: all of them, or with a cooperative assignor those that move. `rounds`: rebalances
    until the assignment stands."""

    assigned: dict[str, list[TopicPartition]]
    moved: list[TopicPartition]
    paused: int
    rounds: int


@asks_about_groups
def plan(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="The group's id; not with --members.")] = None,
    members: Annotated[
        str | None, typer.Option(metavar="FILE", help="A JSON file with members and topics, in place of a group: no cluster is asked.")
    ] = None,
    join: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A member that comes; repeatable.")] = None,
    subscribe: Annotated[
        str | None, typer.Option(metavar="TOPIC,...", help="The topics of the members that come; default: those of the others.")
    ] = None,
    leave: Annotated[
        list[str] | None, typer.Option(metavar="MEMBER", help="A member that leaves: its member id, instance id or client id; repeatable.")
    ] = None,
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Show what each assignor would do if members came or left: which partitions each member has then, and how many move. Exit code 1 if
    there is no such group."""
    if (group is None) is (members is None):
        raise CommandError("give a group's id, or --members FILE")
    client_ids: dict[str, str] = {}
    extra = tuple(subscribe.split(",")) if subscribe else ()
    if members is not None:
        from fencepost.cli.groups_members_file import read_group

        known = read_group(members)
    else:
        assert group is not None
        known, client_ids = cluster.ask(lambda client: _ask(client, group, extra))
    from fencepost.broker_stub.groups.assignors import ASSIGNORS, COOPERATIVE

    gone = [_leaver(each, known.members, client_ids) for each in leave or ()]
    after = [each for each in known.members if each.id not in gone] + [_joiner(each, extra, known) for each in join or ()]
    for topic in extra:
        if not known.partitions.get(topic):
            raise CommandError(f"there is no topic {topic!r}")
    outcomes = {name: _outcome(assignor, after, known, cooperative=name == COOPERATIVE) for name, assignor in ASSIGNORS.items()}
    now = {each.id: each.owned for each in (*known.members, *after)}
    for name, outcome in outcomes.items() if json else ():
        say_json(_as_json(name, outcome, now))
    if not json:
        _show(outcomes, now)


def _outcome(assignor: Assignor, members: Sequence[Member], known: KnownGroup, *, cooperative: bool) -> Outcome:
    owner = {tp: each.id for each in members for tp in each.owned}
    found = assignor(members, known.partitions, known.racks)
    rounds = 1
    while cooperative and found.transferring and rounds < ROUNDS_MAX:
        # The members revoke what they must, and join again with the rest.
        members = [each._replace(owned=tuple(found.partitions[each.id]), generation=each.generation + 1) for each in members]
        found = assignor(members, known.partitions, known.racks)
        rounds += 1
    moved = [tp for each, several in found.partitions.items() for tp in several if owner.get(tp, each) != each]
    return Outcome(found.partitions, moved, paused=len(moved) if cooperative else len(owner), rounds=rounds)


def _as_json(name: str, outcome: Outcome, now: Mapping[str, Sequence[TopicPartition]]) -> dict[str, Any]:
    members = [{"member": each, "now": sorted(now[each]), "then": outcome.assigned.get(each)} for each in now]
    return {
        "assignor": name,
        "moved": len(outcome.moved),
        "paused": outcome.paused,
        "rounds": outcome.rounds,
        "members": members,
    }


def _show(outcomes: Mapping[str, Outcome], now: Mapping[str, Sequence[TopicPartition]]) -> None:
    summary = [
        {
            "assignor": name,
            "moved": len(outcome.moved),
            "paused": outcome.paused,
            "rounds": outcome.rounds,
            "most": max(map(len, outcome.assigned.values()), default=0),
            "least": min(map(len, outcome.assigned.values()), default=0),
        }
        for name, outcome in outcomes.items()
    ]
    show(summary, json=False, columns=("assignor", "moved", "paused", "rounds", "most", "least"))
    rows = [
        {
            "member": each,
            "now": _in_words(now[each]) or None,
            **{name: _in_words(outcome.assigned[each]) if each in outcome.assigned else "left" for name, outcome in outcomes.items()},
        }
        for each in now
    ]
    show(rows, json=False, columns=("member", "now", *outcomes))


def _leaver(named: str, members: Sequence[Member], client_ids: Mapping[str, str]) -> str:
    """The id of the member that leaves. `client_ids`: by member id."""
    for several in (
        [each.id for each in members if each.id == named],
        [each.id for each in members if each.instance_id == named],
        [each.id for each in members if client_ids.get(each.id) == named],
    ):
        if len(several) > 1:
            raise CommandError(f"--leave {named}: {', '.join(several)} all have that client id; give one of their member ids")
        if several:
            return several[0]
    raise CommandError(f"--leave {named}: there is no such member, only {', '.join(each.id for each in members) or 'an empty group'}")


def _joiner(name: str, topics: tuple[str, ...], known: KnownGroup) -> Member:
    from fencepost.broker_stub.groups.assignors.subscriptions import Member

    if any(each.id == name for each in known.members):
        raise CommandError(f"--join {name}: there is such a member already")
    subscriptions = {frozenset(each.topics) for each in known.members}
    if not topics and len(subscriptions) != 1:
        raise CommandError("give --subscribe: " + ("the members subscribe to different topics" if subscriptions else "the group is empty"))
    return Member(name, topics or tuple(sorted(next(iter(subscriptions)))))


# From a cluster


async def _ask(client: ClusterClient, group: str, extra: tuple[str, ...]) -> tuple[KnownGroup, dict[str, str]]:
    """The group as it stands, and its members' client ids."""
    from fencepost.cli.groups_asking import describe_group, partitions_of
    from fencepost.cli.groups_members_file import KnownGroup

    described = await describe_group(client, group)
    if described is None:
        raise CommandError(f"no coordinator knows group {group!r}; `fencepost groups list` shows those that exist", code=NO)
    members = _members(described)
    topics = sorted({topic for each in members for topic in each.topics} | set(extra))
    metadata = await partitions_of(client, topics)
    partitions = {topic.name or "": len(topic.partitions) for topic in metadata.topics}
    return KnownGroup(members, partitions, _racks(metadata)), {each.id: each.client_id for each in described.members}


def _members(described: Described) -> tuple[Member, ...]:
    from fencepost.broker_stub.groups.assignors.subscriptions import Member
    from fencepost.cli.groups_asking import CLASSIC, CONSUMER_PROTOCOL, INACTIVE, STABLE
    from fencepost.txn.protocol.cluster_client import Unanswered

    name = f"group {described.group!r}"
    if described.type != CLASSIC:
        raise CommandError(f"{name} is of type {described.type}: its coordinator assigns the partitions, and no assignor of its members")
    if described.state in INACTIVE:
        return ()
    if described.protocol != CONSUMER_PROTOCOL:
        raise CommandError(f"{name} has the protocol {described.protocol!r}, whose members assign no partitions")
    if described.state != STABLE:
        raise Unanswered(f"{name} is {described.state}: its members have no assignment yet")
    members = []
    for each in described.members:
        if each.subscription is None:
            raise CommandError(f"{name}: member {each.id}: {each.trouble or 'its subscription is not known'}")
        topics, rack = each.subscription.topics, each.subscription.rack
        # All members have the partitions of the group's present generation.
        members.append(Member(each.id, topics, each.partitions, generation=0, instance_id=each.instance_id, rack=rack))
    return tuple(members)


def _racks(metadata: MetadataResponse) -> dict[TopicPartition, frozenset[str]]:
    from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition

    rack_of = {broker.node_id: broker.rack for broker in metadata.brokers if broker.rack}
    return {
        TopicPartition(topic.name or "", each.partition_index): frozenset(rack_of[node] for node in each.replica_nodes if node in rack_of)
        for topic in metadata.topics
        for each in topic.partitions
    }


def _in_words(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, in the form that `--topic` takes: `t:0,1 u:2`."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        numbers[topic].append(partition)
    return " ".join(f"{topic}:{','.join(map(str, sorted(several)))}" for topic, several in sorted(numbers.items()))
