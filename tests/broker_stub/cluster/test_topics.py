"""The names that a topic may have."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.cluster.topics import illegal_name


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a" * 250, "a/b"])
def test_illegal_topic_names(name: str) -> None:
    """Kafka's rules for names, each with a reason."""
    assert illegal_name(name)


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "...", "a" * 249])
def test_legal_topic_names(name: str) -> None:
    """What is not forbidden is allowed."""
    assert illegal_name(name) is None
