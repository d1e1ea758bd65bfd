"""Structs that several messages carry."""

from __future__ import annotations

from fencepost.producer.wire.schema.fields import WireStruct, i32


class LeaderIdAndEpoch(WireStruct):
    """The leader of a partition, as the broker that responds knows it (KIP-951)."""

    leader_id: i32 = -1
    leader_epoch: i32 = -1


class NodeEndpoint(WireStruct):
    """The address of a leader that the same response names (KIP-951)."""

    node_id: i32 = 0
    host: str = ""
    port: i32 = 0
    rack: str | None = None
