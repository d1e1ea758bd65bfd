"""Questions about permissions: ACLs that are created, described and deleted, and any request as any user, with its whole answer in short
form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

from fencepost.broker_stub.security.operations import CLUSTER_NAME, Operation, Pattern, Permission, Resource
from fencepost.producer import wire
from fencepost.producer.wire import WireStruct, error_name
from fencepost.producer.wire.messages import configs, group_admin
from fencepost.producer.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tests.conformance.raw import Closed, Silent
from tests.conformance.stage import READY_TIMEOUT_S, SUPER_USER, Stage
from tests.waiting import until

# Fields that differ between two brokers, or belong to another area.
_PASSED_OVER = frozenset(
    (
        "brokers",
        "cluster_id",
        "controller_id",
        "throttle_time_ms",
        "node_endpoints",
        "session_id",
        "configs",
        "producer_id",
        "partitions_max",
    )
)
ALICE = "User:alice"
_NO_COORDINATOR = wire.ErrorCode.COORDINATOR_NOT_AVAILABLE

F = TypeVar("F", DescribeAclsRequest, DeleteAclsFilter)


def creation(
    operation: int,
    resource: int,
    name: str = CLUSTER_NAME,
    *,
    pattern: int = Pattern.LITERAL,
    principal: str = ALICE,
    host: str = "*",
    permission: int = Permission.ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


class AclAsks(Stage):
    """A part of the world of a case."""

    @contextmanager
    def as_user(self, user: str) -> Iterator[None]:
        """Send every request in the block as that user."""
        before, self.user = self.user, user
        try:
            yield
        finally:
            self.user = before

    def no_acls(self) -> None:
        """Delete the ACLs that the case before created."""
        self.ask(DeleteAclsRequest(filters=[_any(DeleteAclsFilter)]), 3, DeleteAclsResponse)
        until(self._count, "the end of all ACLs", good=lambda count: count == 0, timeout_s=READY_TIMEOUT_S)

    def permit(self, *acls: AclCreation) -> None:
        """Create these ACLs, and wait until the broker applies them."""
        before = self._count()
        answer = self.ask(CreateAclsRequest(creations=list(acls)), 3, CreateAclsResponse)
        assert [each.error_code for each in answer.results] == [0] * len(acls), answer
        until(self._count, "the new ACLs", good=lambda count: count == before + len(acls), timeout_s=READY_TIMEOUT_S)

    def until_permitted(self, count: int) -> None:
        """Wait until there are so many ACLs."""
        until(self._count, f"{count} ACLs", good=lambda there: there == count, timeout_s=READY_TIMEOUT_S)

    def forbid_again(self, *acls: AclCreation) -> None:
        """Delete these ACLs, and wait until the broker applies that."""
        before = self._count()
        filters = [
            DeleteAclsFilter(
                resource_type_filter=acl.resource_type,
                resource_name_filter=acl.resource_name,
                pattern_type_filter=acl.resource_pattern_type,
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in acls
        ]
        self.ask(DeleteAclsRequest(filters=filters), 3, DeleteAclsResponse)
        until(self._count, "the end of the ACLs", good=lambda count: count == before - len(acls), timeout_s=READY_TIMEOUT_S)

    def create_acls(self, *acls: AclCreation, label: str, version: int = 3) -> None:
        self.say(CreateAclsRequest(creations=list(acls)), version, label=label)

    def describe_acls(self, wanted: dict[str, int | str | None] | None = None, *, label: str, version: int = 3) -> None:
        """Describe ACLs; only the given filters are set."""
        self.say(_any(DescribeAclsRequest, **(wanted or {})), version, label=label)

    def delete_acls(self, *filters: dict[str, int | str | None], label: str, version: int = 3) -> None:
        self.say(DeleteAclsRequest(filters=[_any(DeleteAclsFilter, **each) for each in filters]), version, label=label)

    def say(self, request: wire.Message, version: int, *, label: str, user: str | None = None) -> None:
        """Send a request, and note everything in the response that differs from its default."""
        with self.as_user(user if user is not None else self.user):
            try:
                self.note(label, self._shown(self.ask(request, version, wire.RESPONSES[request.api])) or "nothing wrong")
            except Closed:
                self.note(label, "closed")
            except Silent:
                self.note(label, "silent")

    def told_default(self, request: configs.DescribeConfigsRequest, *, label: str) -> None:
        """What version 0 says about each config."""
        answer = self.ask(request, 0, configs.DescribeConfigsResponse)
        told = [f"{each.name}={each.value} default={each.is_default} read-only={each.read_only}" for each in answer.results[0].configs]
        self.note(label, f"{error_name(answer.results[0].error_code)} {told}")

    def say_into_the_dark(self, request: wire.Message, version: int, *, label: str, user: str) -> None:
        """Send a request that is never answered, and note whether the connection ends."""
        with self.as_user(user), self.open() as connection:
            connection.send(request, version)
            self.note(label, "closed" if connection.is_closed(within=2) else "open")

    def found_as(self, user: str, keys: list[str], kind: int, version: int, *, label: str) -> None:
        """The coordinators that the user may find."""
        request = wire.FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)
        with self.as_user(user):
            answer = until(
                lambda: self.ask(request, version, wire.FindCoordinatorResponse),
                "coordinators",
                good=lambda answer: _NO_COORDINATOR not in [each.error_code for each in answer.coordinators],
                timeout_s=READY_TIMEOUT_S,
            )
        self.note(label, ", ".join(error_name(each.error_code) for each in answer.coordinators))

    def listed_as(self, user: str, request: group_admin.ListGroupsRequest, group: str, *, label: str) -> None:
        """Whether the user sees the group in the list."""
        with self.as_user(user):
            answer = self.ask(request, 5, group_admin.ListGroupsResponse)
        listed = group in [each.group_id for each in answer.groups]
        self.note(label, f"{error_name(answer.error_code)} {'listed' if listed else 'not listed'}")

    def metadata_as(self, user: str, topic: str, *, label: str) -> None:
        """Whether the user sees the topic in Metadata."""
        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        with self.as_user(user):
            (found,) = self.ask(request, 12, wire.MetadataResponse).topics
        self.note(label, error_name(found.error_code))

    def _count(self) -> int:
        with self.as_user(SUPER_USER):
            answer = self.ask(_any(DescribeAclsRequest), 3, DescribeAclsResponse)
        return sum(len(each.acls) for each in answer.resources)

    def _shown(self, value: object) -> str:
        """The fields of a struct or a list that differ from their defaults. Lists of structs are sorted, because brokers shuffle some."""
        if isinstance(value, WireStruct):
            fresh = type(value)()
            said = []
            for name in value.__struct_fields__:
                each = getattr(value, name)
                if name not in _PASSED_OVER and each != getattr(fresh, name):
                    said.append(f"{name}={error_name(each) if name.endswith('error_code') else self._shown(each)}")
            return " ".join(said) if isinstance(value, wire.Message) else f"({' '.join(said)})"
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return f"[{', '.join(sorted(map(self._shown, value)))}]"
        if isinstance(value, UUID):
            return "an id"
        return self._in_general(value) if isinstance(value, str) else repr(value)

    def _in_general(self, text: str) -> str:
        """The text without the run's own names, and without the addresses that Kafka prints of its objects."""
        text = re.sub(r"^Request .* (needs|is not authorized)", r"Request ... \1", text)
        return repr(text.replace(f"-{self._run}-", "-"))


def _any(kind: type[F], **wanted: int | str | None) -> F:
    anything: dict[str, int | str | None] = {
        "resource_type_filter": Resource.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": Pattern.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
    return kind(**{**anything, **wanted})  # type: ignore[arg-type]  # by name
