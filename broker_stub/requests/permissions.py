"""The permissions that a request needs, and the errors for missing ones: one table, and one place that asks the authorizer.

A handler declares its needs (`@handles(..., topic=Operation.WRITE)`). `call.error_for`, `call.error` and `group_error` then check them.
A check that needs more than the name of a resource calls `call.may`. Without an authorizer everything is permitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fencepost.broker_stub.security.operations import CLUSTER_NAME, SUPPORTED, Operation, Resource
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.security.authorizer import Authorizer

REFUSALS: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

WORDS: Final[dict[int, str]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
INJECTED: Final = "Injected fault."


class Needs(NamedTuple):
    """The operation that an API needs on each topic, on each group, and on the cluster."""

    topic: Operation | None = None
    group: Operation | None = None
    cluster: Operation | None = None


class Asker(NamedTuple):
    """A client, and the authorizer of the cluster. None: everything is permitted."""

    authorizer: Authorizer | None
    principal: str
    host: str
    supported: Mapping[Resource, Sequence[Operation]] = SUPPORTED

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        if self.authorizer is None:
            return True
        return self.authorizer.allows(self.principal, self.host, operation, resource, name)

    def may_any(self, operation: Operation, resource: Resource) -> bool:
        """Whether the client may do that to some resource of that type."""
        return self.authorizer is None or self.authorizer.allows_any(self.principal, self.host, operation, resource)

    def refusal(self, operation: Operation | None, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The code for a missing permission; 0 if the client has it."""
        if operation is None or self.authorizer is None or self.may(operation, resource, name):
            return ErrorCode.NONE
        return REFUSALS[resource]

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The operations that the client may do to the resource, one bit each."""
        return sum(1 << each for each in self.supported[resource] if self.may(each, resource, name))


def words_for(code: int) -> str:
    """The error message for the code of a fault or of a missing permission."""
    return WORDS.get(code, INJECTED)
