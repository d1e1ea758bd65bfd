"""ACLs: which principal may do what to which resources, in Kafka's terms and numbers.

    Acl.allow("alice", "WRITE", topic="orders")
    Acl.deny("*", "READ", topic="secret-", prefixed=True)
    Acl.allow("alice", "IDEMPOTENT_WRITE", cluster=True)

An `Acl` is one entry; `authorizer` combines them. A host is an address or `*`. Leaves out: the address ranges (CIDR) of Kafka 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeVar

from fencepost.broker_stub.arguments import check_arguments
from fencepost.broker_stub.security.operations import CLUSTER_NAME, IMPLIED, Operation, Pattern, Permission, Resource

ANYTHING: Final = "*"  # any principal's name, any host, any resource
USER: Final = "User:"
EXAMPLE: Final = "[Acl.allow('alice', 'WRITE', topic='orders')]"
"""What errors show for a list of ACLs."""


AclRow = tuple[str, int, int, str, int, int, str]
"""An ACL as it is kept: the fields of `Acl` in their order, enums as their numbers."""


@dataclass(frozen=True)
class Acl:
    """One permission, or its denial."""

    principal: str
    operation: Operation
    resource: Resource
    name: str
    pattern: Pattern = Pattern.LITERAL
    permission: Permission = Permission.ALLOW
    host: str = ANYTHING

    @classmethod
    def allow(
        cls, principal: str, operation: str | Operation, *, host: str = ANYTHING, prefixed: bool = False, **resource: str | bool
    ) -> Acl:
        """One resource, as exactly one of topic=, group=, transactional_id= and cluster=True."""
        return _acl(Permission.ALLOW, principal, operation, host=host, prefixed=prefixed, given=resource)

    @classmethod
    def deny(
        cls, principal: str, operation: str | Operation, *, host: str = ANYTHING, prefixed: bool = False, **resource: str | bool
    ) -> Acl:
        """As `allow`, but denies the operation. No other ACL overrides that."""
        return _acl(Permission.DENY, principal, operation, host=host, prefixed=prefixed, given=resource)

    @classmethod
    def of_row(cls, row: AclRow) -> Acl:
        """The ACL of a row in the cluster's state."""
        principal, operation, resource, name, pattern, permission, host = row
        return cls(
            principal,
            numbered(Operation, operation),
            numbered(Resource, resource),
            name,
            numbered(Pattern, pattern),
            numbered(Permission, permission),
            host,
        )

    @property
    def row(self) -> AclRow:
        """The ACL as the cluster's state keeps it."""
        return self.principal, self.operation, self.resource, self.name, self.pattern, self.permission, self.host

    def covers(self, name: str) -> bool:
        """Whether the ACL is about that resource."""
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANYTHING)

    def concerns(self, principal: str, host: str) -> bool:
        """Whether the ACL is about that client."""
        return self.principal in (principal, USER + ANYTHING) and self.host in (host, ANYTHING)

    def decides(self, operation: Operation) -> bool:
        """Whether the ACL is about that operation."""
        if self.operation is Operation.ALL:
            return True
        if self.permission is Permission.ALLOW and operation in IMPLIED:
            return self.operation in IMPLIED[operation]
        return self.operation is operation


@dataclass(frozen=True)
class Filter:
    """Selects ACLs. None, ANY and MATCH (every pattern that covers a name) select all values of a field."""

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def fits(self, acl: Acl) -> bool:
        return (
            self.resource in (Resource.ANY, acl.resource)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._fits_pattern(acl)
        )

    def _fits_pattern(self, acl: Acl) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        return acl.covers(self.name) if self.pattern is Pattern.MATCH else self.name == acl.name


_Number = TypeVar("_Number", bound=IntEnum)

_KINDS: Final = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional_id": Resource.TRANSACTIONAL_ID,
    "cluster": Resource.CLUSTER,
}


def numbered(kind: type[_Number], value: int) -> _Number:
    """The member with that number. An unknown number is UNKNOWN, as in Kafka."""
    try:
        return kind(value)
    except ValueError:
        return kind(0)


def user_principal(name: str) -> str:
    """The principal; `alice` is short for `User:alice`."""
    if not name:
        raise ValueError("an ACL needs a principal: a user's name, a certificate's distinguished name, or *")
    return name if name.startswith(USER) else USER + name


def operation_named(name: str | Operation) -> Operation:
    """The operation, written as `IDEMPOTENT_WRITE`, `IdempotentWrite` or `idempotent write`."""
    if isinstance(name, Operation):
        return name
    check_arguments(operation=name)
    wanted = name.replace("_", "").replace(" ", "").lower()
    found = next((each for each in Operation if each.name.replace("_", "").lower() == wanted), Operation.UNKNOWN)
    if found in (Operation.UNKNOWN, Operation.ANY):
        raise ValueError(f"{name!r} is no operation of an ACL; these are: {', '.join(each.name for each in list(Operation)[2:])}")
    return found


def _acl(
    permission: Permission, principal: str, operation: str | Operation, *, host: str, prefixed: bool, given: dict[str, str | bool]
) -> Acl:
    check_arguments(principal=principal, host=host, prefixed=prefixed)
    if len(given) != 1 or not given.keys() <= _KINDS.keys():
        raise ValueError(f"an ACL is about one of topic=, group=, transactional_id= and cluster=True, not {', '.join(given) or 'nothing'}")
    ((kind, name),) = given.items()
    if kind == "cluster":
        if name is not True or prefixed:
            raise ValueError("there is only one cluster: write cluster=True")
        name = CLUSTER_NAME
    if not isinstance(name, str) or not name:
        raise ValueError(f"{kind}={name!r} is no name; write * for every one")
    return Acl(
        principal=user_principal(principal),
        operation=operation_named(operation),
        resource=_KINDS[kind],
        name=name,
        pattern=Pattern.PREFIXED if prefixed else Pattern.LITERAL,
        permission=permission,
        host=host,
    )
