"""The part of `BrokerStub` about permissions and quotas.

It changes what the cluster keeps; the authorizer and `client_quota_manager` apply it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from fencepost.broker_stub.arguments import check_arguments, is_number, listed

if TYPE_CHECKING:
    from fencepost.broker_stub.quotas.quotas import Quotas
    from fencepost.broker_stub.security.acls import Acl
    from fencepost.broker_stub.security.authorizer import Authorizer

T = TypeVar("T")


class Restricted(Protocol):
    """What this file needs of the cluster."""

    @property
    def authorizer(self) -> Authorizer | None: ...
    @property
    def quotas(self) -> Quotas: ...


class Restrictions:
    """Mixed into `BrokerStub`."""

    @property
    def cluster(self) -> Restricted:
        raise NotImplementedError

    def _call(self, run: Callable[[], T]) -> T:
        raise NotImplementedError

    def _read(self, run: Callable[[], T]) -> T:
        raise NotImplementedError

    @property
    def acls(self) -> list[Acl]:
        """The ACLs in force, both those of the tester and those of clients."""
        return self._read(lambda: self._authorizer().acls)

    def allow(self, principal: str, *operations: str, host: str = "*", prefixed: bool = False, **resource: str | bool) -> list[Acl]:
        """Permits these operations to a user on `topic=`, `group=`, `transactional_id=` or `cluster=True`. `*` is every resource; with
        `prefixed` the name is the beginning of names. Returns the ACLs, for `revoke`."""
        from fencepost.broker_stub.security.acls import Acl

        return self._add([Acl.allow(principal, each, host=host, prefixed=prefixed, **resource) for each in operations])

    def deny(self, principal: str, *operations: str, host: str = "*", prefixed: bool = False, **resource: str | bool) -> list[Acl]:
        """Denies these operations. A denial overrides every permission."""
        from fencepost.broker_stub.security.acls import Acl

        return self._add([Acl.deny(principal, each, host=host, prefixed=prefixed, **resource) for each in operations])

    def revoke(self, acls: Iterable[Acl]) -> None:
        """Removes these ACLs. Missing ones are ignored."""
        from fencepost.broker_stub.security.acls import EXAMPLE, Acl

        gone = listed("acls", acls, Acl, EXAMPLE)
        self._call(lambda: self._authorizer().remove(gone))

    def _add(self, acls: list[Acl]) -> list[Acl]:
        if not acls:
            raise ValueError("name at least one operation, for example WRITE, or ALL")
        self._call(lambda: self._authorizer().add(acls))
        return acls

    def _authorizer(self) -> Authorizer:
        if self.cluster.authorizer is None:
            raise ValueError("this stub permits everything: create it with BrokerStub(acls=[...]), where acls=[] permits nothing at first")
        return self.cluster.authorizer

    def quota(self, *, user: str | None = None, client_id: str | None = None, **rates: float | None) -> None:
        """Sets `producer_byte_rate`, `consumer_byte_rate` (bytes a second) or `request_percentage` of a user, a client id, or a user with a
        client id. `<default>` stands for all without a quota of their own. None as a rate removes the quota."""
        from fencepost.broker_stub.quotas.quotas import CLIENT_ID, DEFAULT, FETCH, PRODUCE, REQUEST, USER, why_not

        obeyed = (PRODUCE, FETCH, REQUEST)
        unknown = sorted(rates.keys() - set(obeyed))
        if unknown or not rates:
            raise ValueError(f"quotas are {', '.join(obeyed)}, not {', '.join(unknown) or 'nothing'}")
        given: dict[str, object] = dict(rates)
        for key, rate in given.items():
            if rate is not None and (not is_number(rate) or rate != rate):
                raise TypeError(f"{key}={rate!r}: a number, or None to remove the quota")
        check_arguments(**{name: value for name, value in (("user", user), ("client_id", client_id)) if value is not None})
        named = {USER: user, CLIENT_ID: client_id}
        entity = frozenset((kind, None if name == DEFAULT else name) for kind, name in named.items() if name is not None)
        reason = (
            why_not(entity, rates)
            if entity
            else f"a quota needs user=, client_id= or both; {DEFAULT!r} is all without a quota of their own"
        )
        if reason is not None:
            raise ValueError(f"{reason} ({', '.join(f'{key}={value}' for key, value in rates.items())})")
        self._call(lambda: self.cluster.quotas.change(entity, rates))
