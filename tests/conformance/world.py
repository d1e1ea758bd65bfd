"""The world of one conformance case: every question that the cases can ask, on one broker or three."""

from __future__ import annotations

from tests.conformance.asks_acls import AclAsks
from tests.conformance.asks_bare import BareAsks
from tests.conformance.asks_cluster import ClusterAsks
from tests.conformance.asks_controller import ControllerAsks
from tests.conformance.asks_fetch import FetchAsks
from tests.conformance.asks_quotas import QuotaAsks
from tests.conformance.asks_replicas import ReplicaAsks
from tests.conformance.asks_shares import ShareAsks
from tests.conformance.asks_txn_ends import TxnEndAsks
from tests.conformance.stage import CASES, SPOKEN, Case, Target, case

__all__ = ["CASES", "SPOKEN", "Case", "Target", "World", "case", "play"]


class World(FetchAsks, ClusterAsks, ControllerAsks, TxnEndAsks, ShareAsks, AclAsks, QuotaAsks, ReplicaAsks, BareAsks):
    """What a case gets."""


def play(case: Case, target: Target) -> dict[str, str]:
    """Run the case on that broker; return the notes, in order."""
    world = World(target)
    try:
        case.play(world)
        return world.notes
    finally:
        world.close()
