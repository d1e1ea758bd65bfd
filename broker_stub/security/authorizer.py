"""What the ACLs together permit: Kafka's StandardAuthorizer.

A denial overrides every permission. Without both the answer is no, unless no ACL is about the resource at all and
`allow.everyone.if.no.acl.found` is true. Super users may do everything. `permissions` says which request needs what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fencepost.broker_stub.security.acls import ANYTHING, Acl, Filter, user_principal
from fencepost.broker_stub.security.operations import Operation, Pattern, Permission, Resource

SOME_NAME = "hardcode"  # Kafka tries one made-up name before it looks through the ACLs of a type


class Authorizer:
    """The ACLs of a cluster, in the order of their creation, without duplicates. `keep`: called with all of them before a change counts."""

    def __init__(self, acls: Iterable[Acl] = (), *, super_users: Iterable[str] = (), allow_everyone: bool = False) -> None:
        self.super_users = frozenset(map(user_principal, super_users))
        self.allow_everyone = allow_everyone
        self.keep: Callable[[Iterable[Acl]], object] = lambda _: None
        self._acls: dict[Acl, None] = {}
        self.add(acls)

    @property
    def acls(self) -> list[Acl]:
        return list(self._acls)

    def add(self, acls: Iterable[Acl]) -> None:
        self._set({**self._acls, **dict.fromkeys(acls)})

    def matching(self, wanted: Filter) -> list[Acl]:
        return [acl for acl in self._acls if wanted.fits(acl)]

    def remove(self, acls: Iterable[Acl]) -> None:
        gone = {*acls}
        self._set({acl: None for acl in self._acls if acl not in gone})

    def _set(self, acls: dict[Acl, None]) -> None:
        if acls.keys() != self._acls.keys():
            self.keep(acls)
        self._acls = acls

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether that client may do that to that one resource."""
        if principal in self.super_users:
            return True
        about = [acl for acl in self._acls if acl.resource is resource and acl.covers(name)]
        if not about:
            return self.allow_everyone
        decisive = {acl.permission for acl in about if acl.concerns(principal, host) and acl.decides(operation)}
        return Permission.ALLOW in decisive and Permission.DENY not in decisive

    def allows_any(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether that client may do that to some resource of that type (KIP-679)."""
        if self.allows(principal, host, operation, resource, SOME_NAME):
            return True
        # As in Kafka, operations that imply this one are not considered.
        named = (operation, Operation.ALL)
        mine = [acl for acl in self._acls if acl.resource is resource and acl.operation in named and acl.concerns(principal, host)]
        denials = [acl for acl in mine if acl.permission is Permission.DENY]
        return not any(_of_everything(denial) for denial in denials) and any(
            _of_everything(acl) or not any(_overrules(denial, acl) for denial in denials)
            for acl in mine
            if acl.permission is Permission.ALLOW
        )


def _of_everything(acl: Acl) -> bool:
    return acl.pattern is Pattern.LITERAL and acl.name == ANYTHING


def _overrules(denial: Acl, permission: Acl) -> bool:
    """Whether denials cover everything that is permitted there."""
    if denial.pattern is Pattern.PREFIXED:
        return permission.name.startswith(denial.name)
    return permission.pattern is Pattern.LITERAL and permission.name == denial.name
