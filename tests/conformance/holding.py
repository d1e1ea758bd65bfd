"""Alice sends the same request without any permission, and then with one permission after the other. The cases about permissions use it."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import Message
from fencepost.producer.wire.messages.acls import AclCreation
from tests.conformance.asks_acls import creation
from tests.conformance.stage import Topic
from tests.conformance.world import World

Held = Sequence[AclCreation]
NOTHING: Held = ()


def on_topic(topic: Topic | str, *operations: Operation) -> list[AclCreation]:
    name = topic if isinstance(topic, str) else topic.name
    return [creation(each, Resource.TOPIC, name) for each in operations]


def on_group(group: str, *operations: Operation) -> list[AclCreation]:
    return [creation(each, Resource.GROUP, group) for each in operations]


def on_cluster(*operations: Operation) -> list[AclCreation]:
    return [creation(each, Resource.CLUSTER) for each in operations]


def each_holding(w: World, request: Message, version: int, *held: Held, what: str) -> None:
    """Alice sends the request without a permission, and then with each of these sets."""
    for number, acls in enumerate((NOTHING, *held)):
        if acls:
            w.permit(*acls)
        kinds = {Resource.TOPIC: "topic", Resource.GROUP: "group", Resource.CLUSTER: "cluster", Resource.TRANSACTIONAL_ID: "txn"}
        word = " and ".join(f"{Operation(acl.operation).name} {kinds[Resource(acl.resource_type)]}" for acl in acls)
        w.say(request, version, user="alice", label=f"{what} {number}: {word or 'nothing'}")
        if acls:
            w.forbid_again(*acls)
