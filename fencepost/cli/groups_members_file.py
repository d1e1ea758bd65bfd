"""A group in a file, for `fencepost groups plan --members`: its members and topics, without a cluster.

    {"topics": {"t": 3, "u": [["rack-a"], ["rack-b"]]},
     "members": [{"id": "a", "subscribed": ["t"], "owned": {"t": [0, 1]}}]}

A topic has a number of partitions, or for each partition the racks of its replicas.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from fencepost.broker_stub.groups.assignors.subscriptions import Member, TopicPartition
from fencepost.cli.error_lines import CommandError

SIZE_MAX = 64 << 20
PARTITIONS_MAX = 1_000_000


class KnownGroup(NamedTuple):
    """What a plan is made from."""

    members: tuple[Member, ...]
    partitions: dict[str, int]
    racks: dict[TopicPartition, frozenset[str]]


class MemberInFile(msgspec.Struct, forbid_unknown_fields=True):
    """A member. `generation`: that of its partitions, if the members' differ."""

    id: str
    subscribed: list[str]
    owned: dict[str, list[int]] = {}
    instance_id: str | None = None
    generation: int = 0
    rack: str | None = None


class GroupInFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    topics: dict[str, int | list[list[str]]]
    members: list[MemberInFile]


def read_group(path: str) -> KnownGroup:
    try:
        with Path(path).open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise CommandError(f"--members {path}: {error.strerror or error}") from None
    if len(data) > SIZE_MAX:
        raise CommandError(f"--members {path} is larger than {SIZE_MAX >> 20} MiB")
    try:
        found = msgspec.json.decode(data, type=GroupInFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(f"--members {path}: {error}") from None
    twice = next((each for each, count in Counter(each.id for each in found.members).items() if count > 1), None)
    if twice is not None:
        raise CommandError(f"--members {path}: member {twice!r} is there twice")
    partitions = {name: each if isinstance(each, int) else len(each) for name, each in found.topics.items()}
    if not all(each >= 0 for each in partitions.values()) or sum(partitions.values()) > PARTITIONS_MAX:
        raise CommandError(f"--members {path}: the topics have fewer than 0 or more than {PARTITIONS_MAX:,} partitions")
    racks = {
        TopicPartition(name, number): frozenset(named)
        for name, each in found.topics.items()
        if not isinstance(each, int)
        for number, named in enumerate(each)
    }
    return KnownGroup(tuple(map(_member, found.members)), partitions, racks)


def _member(said: MemberInFile) -> Member:
    owned = tuple(TopicPartition(topic, number) for topic, numbers in said.owned.items() for number in numbers)
    topics = tuple(dict.fromkeys(said.subscribed))
    return Member(said.id, topics, owned, generation=said.generation, instance_id=said.instance_id, rack=said.rack)
