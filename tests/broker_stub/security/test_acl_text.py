"""ACLs as text: what each says, and what is no ACL."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.security.acl_text import read_acl
from fencepost.broker_stub.security.acls import Acl

READ = {
    "allow alice READ topic=orders": [Acl.allow("alice", "READ", topic="orders")],
    "allow alice read,Write topic=orders": [Acl.allow("alice", "READ", topic="orders"), Acl.allow("alice", "WRITE", topic="orders")],
    "DENY * READ topic=secret-* host=10.0.0.1": [Acl.deny("*", "READ", topic="secret-", prefixed=True, host="10.0.0.1")],
    "allow User:bob ALL group=*": [Acl.allow("bob", "ALL", group="*")],
    "allow alice IDEMPOTENT_WRITE cluster": [Acl.allow("alice", "IDEMPOTENT_WRITE", cluster=True)],
    "allow alice WRITE transactional-id=tx*": [Acl.allow("alice", "WRITE", transactional_id="tx", prefixed=True)],
    "allow 'CN=alice, O=x' READ topic=orders": [Acl.allow("CN=alice, O=x", "READ", topic="orders")],
}


@pytest.mark.parametrize("text", READ)
def test_what_it_says(text: str) -> None:
    """The same as `Acl.allow` and `Acl.deny`, one for each operation."""
    assert read_acl(text) == READ[text]


REFUSED = {
    "": "write allow|deny USER",
    "alice READ topic=orders": "write allow|deny USER",
    "permit alice READ topic=orders": "write allow|deny USER",
    "allow alice READ topic=orders more": "write allow|deny USER",
    "allow alice 'READ topic=orders": "write allow|deny USER",
    "allow alice LOOK topic=orders": "is no operation of an ACL",
    "allow alice READ topics=orders": "an ACL is about one of topic=",
    "allow alice READ topic=": "is no name",
    "allow alice READ topic": "is no name",
    "allow alice READ cluster=x": "there is only one cluster",
    "allow '' READ topic=orders": "needs a principal",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_acl(text: str) -> None:
    """The error repeats the text and says what is wrong."""
    with pytest.raises(ValueError, match="is no ACL") as refused:
        read_acl(text)
    assert repr(text) in str(refused.value)
    assert REFUSED[text] in str(refused.value)
