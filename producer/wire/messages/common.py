"""Structs that several messages carry."""

from __future__ import annotations

from fencepost.producer.wire.schema.fields import WireStruct, i32


class LeaderIdAndEpoch(WireStruct):
    """Who leads a partition, as far as the answering broker knows (KIP-951)."""

    leader_id: i32 = -1
    leader_epoch: i32 = -1


class NodeEndpoint(WireStruct):
    """Where a leader named in the same response is reached (KIP-951)."""

    node_id: i32 = 0
    host: str = ""
    port: i32 = 0
    rack: str | None = None
