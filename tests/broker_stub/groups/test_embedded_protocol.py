"""The bytes in which members tell each other their subscriptions and assignments."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
from fencepost.broker_stub.groups.state.embedded_protocol import Subscription, Unreadable, read_assignment, read_subscription

V0 = bytes.fromhex("0000 00000002 000161 000162 ffffffff")
V3 = bytes.fromhex("0003 00000001 000161 ffffffff 00000001 000161 00000002 00000000 00000002 00000005 0002 7231")
ASSIGNED = bytes.fromhex("0000 00000001 000161 00000002 00000000 00000002 ffffffff")
OWNED = (TopicPartition("a", 0), TopicPartition("a", 2))


def test_subscriptions() -> None:
    """Version 0 has topics, version 3 also owned partitions, generation and rack; a later version begins as version 3."""
    assert read_subscription(V0) == Subscription(("a", "b"))
    newest = Subscription(("a",), None, OWNED, 5, "r1")
    assert read_subscription(V3) == newest
    assert read_subscription(b"\x00\x09" + V3[2:] + b"more") == newest


def test_assignments() -> None:
    """An assignment has partitions. No bytes are no partitions."""
    assert read_assignment(ASSIGNED) == OWNED
    assert read_assignment(b"") == ()


@pytest.mark.parametrize("data", [V0[:-1], V3[:-3], b"", b"\x00\x00\x7f\xff\xff\xff", bytes.fromhex("0000 00000001 ffff ffffffff")])
def test_other_bytes(data: bytes) -> None:
    """Bytes that end too early, or that have a null for a name, are refused with their number."""
    with pytest.raises(Unreadable, match=rf"^{len(data)} bytes? are no subscription of the protocol 'consumer'"):
        read_subscription(data)


def test_names_that_are_not_utf_8() -> None:
    """They are refused, too."""
    with pytest.raises(Unreadable, match="are no assignment"):
        read_assignment(ASSIGNED.replace(b"a", b"\xff"))
