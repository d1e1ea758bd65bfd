"""Random requests that are well formed and unusual: repeated names, numbers at their limits, foreign ids.

They use values of earlier responses, to reach more of the code.
"""

from __future__ import annotations

import base64
import json
import random
from collections import defaultdict
from typing import Any
from uuid import UUID

from msgspec.structs import fields

from fencepost.broker_stub.requests.router import route_to, served
from fencepost.producer.wire import ZERO_UUID, Message, WireStruct
from fencepost.producer.wire.records import encode_batch
from fencepost.producer.wire.schema.declarations import Array, Blob, FieldSpec, Kind, Nested, Text, Uuid, describe
from fencepost.producer.wire.schema.fields import RecordsType, Scalar

TOPICS, GROUPS, IDS = ("t", "u"), ("g", "h"), ("x", "y")
NAMES: dict[str, tuple[str, ...]] = {
    "topic": TOPICS,
    "name": (*TOPICS, *TOPICS, "range", "roundrobin", "retention.ms", "min.insync.replicas", "missing", "__consumer_offsets", "a b"),
    "topic_name": TOPICS,
    "resource_name": (*TOPICS, "1", "", "kafka-cluster", "g"),
    "group_id": GROUPS,
    "key": (*GROUPS, *IDS),
    "transactional_id": IDS,
    "v3_and_below_transactional_id": IDS,
    "protocol_type": ("consumer",),
    "server_assignor": ("uniform", "range", "sticky"),
    "subscribed_topic_names": TOPICS,
    "subscribed_topic_regex": ("", ".*", "["),
    "protocol_name": ("range", "roundrobin"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
    "principal": ("User:a", "User:*"),
    "host": ("*", "127.0.0.1"),
    "value": ("1", "compact", "delete"),
}
SANE: dict[str, tuple[int, ...]] = {
    "session_timeout_ms": (10_000, 6_000),
    "rebalance_timeout_ms": (5_000, 60_000),
    "timeout_ms": (1_000,),
    "transaction_timeout_ms": (60_000,),
    "acks": (-1, 1),
    "resource_type": (2, 4),
    "generation_id": (1, 2, -1),
    "member_epoch": (0, 0, 0, 1, 2, -1, -2),
    "generation_id_or_member_epoch": (1, -1),
    "num_partitions": (1, 2, -1),
    "replication_factor": (1, 2, -1),
    "election_type": (0, 1),
    "max_bytes": (1 << 20,),
    "partition_max_bytes": (1 << 20,),
    "fetch_offset": (0, 1),
    "count": (2, 3),
    "config_operation": (0, 1, 2, 3),
}
SMALL = (0, 0, 0, 1, 2, -1)
COUNTS_MAX = 3
UNBOUNDED = 50  # this test sends at most so many partitions in one request

HEARD: tuple[str, ...] = ("member_id", "producer_id", "producer_epoch", "topic_id", "generation_id", "session_id", "leader_epoch")


class OddRequests:
    """Makes requests from a seed. `hear` takes values from responses."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._heard: dict[str, list[Any]] = defaultdict(list)
        self._apis = [route for each in served() if (route := route_to(each.api)) is not None]

    def one(self) -> tuple[Message, int]:
        """A request that its version can carry, and the version."""
        route = self._rng.choice(self._apis)
        version = self._rng.choice(route.versions)
        return self.of(route.request, version), version

    def of(self, cls: type[Message], version: int) -> Message:
        made = self._struct(cls, version)
        assert isinstance(made, Message)
        return made

    def hear(self, answer: object) -> None:
        """Remember the ids in a response, the newest one of each name."""
        if isinstance(answer, WireStruct):
            for field in fields(answer):
                value = getattr(answer, field.name)
                if field.name in HEARD and value is not None:
                    self._heard[field.name] = [*self._heard[field.name][-4:], value]
                self.hear(value)
        elif isinstance(answer, list):
            for each in answer:
                self.hear(each)

    def token(self) -> bytes:
        """Bytes for an authentication."""
        rng = self._rng
        times = [0, -1, 1e308, -1e308, 10**400, 4_000_000_000, 1e15, True, "1", [], None]
        claims: dict[str, Any] = {"sub": rng.choice(["a", "", 5, None]), "iat": rng.choice(times), "exp": rng.choice(times)}
        header = {"alg": rng.choice(["none", "HS256", None])}
        parts = [json.dumps(each) for each in (header, claims)]
        if rng.random() < 0.2:
            deep = rng.choice([10, 1_000, 100_000])
            parts[rng.randrange(2)] = "[" * deep + "]" * deep
        jwt = "".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") + "." for part in parts)
        return rng.choice(
            [
                f"n,,\x01auth=Bearer {jwt}\x01\x01".encode(),
                b"n,,n=a,r=abc",
                b"n,,m=x,n=a,r=abc",
                b"c=biws,r=abc,p=abc",
                b"\0a\0secret",
                b"\0a\0a\0a",
                b"",
            ]
        )

    def _struct(self, struct: type[WireStruct], version: int) -> WireStruct:
        return struct(**{field.name: self._field(field, version) for field in describe(struct) if field.present(version)})

    def _field(self, field: FieldSpec, version: int) -> Any:
        if field.nullable_in(version) and self._rng.random() < 0.1:
            return None
        if field.tag is not None and self._rng.random() < 0.5:
            return field.default
        return self._value(field.kind, field.name, version)

    def _value(self, kind: Kind, name: str, version: int) -> Any:
        rng = self._rng
        if self._heard[name] and rng.random() < 0.7:
            return rng.choice(self._heard[name])
        match kind:
            case Scalar(code="?"):
                return rng.random() < 0.5
            case Scalar():
                return self._number(kind, name)
            case Text():
                return rng.choice(NAMES.get(name, ("", "x", "t"))) if rng.random() < 0.95 else rng.choice(["", "x" * 300, "\0", "ä", "."])
            case RecordsType():
                return self._records()
            case Blob():
                return self.token() if name == "auth_bytes" else rng.choice([b"", b"r", bytes(6), rng.randbytes(12)])
            case Uuid():
                return rng.choice([ZERO_UUID, UUID(int=rng.getrandbits(128))])
            case Nested():
                return self._struct(kind.struct, version)
            case Array():
                made = [self._value(kind.element, name, version) for _ in range(rng.choice([0, 1, 1, 1, 2, COUNTS_MAX]))]
                if made and rng.random() < 0.35:
                    made.insert(rng.randrange(len(made) + 1), rng.choice(made))  # repeat one element
                return made

    def _number(self, kind: Scalar, name: str) -> int:
        rng, bits = self._rng, 8 * kind.size_bytes
        if kind.code in "fd":
            return rng.choice([0, 1, -1, 1000])
        signed = kind.code.islower()
        ends = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if name in SANE and rng.random() < 0.9:
            return rng.choice(SANE[name])
        chosen = rng.choice(SMALL) if rng.random() < 0.9 else rng.choice(ends)
        if name in ("num_partitions", "replication_factor", "count") and chosen > UNBOUNDED:
            return UNBOUNDED
        return max(chosen, ends[0])

    def _records(self) -> bytes:
        rng = self._rng
        heard = self._heard["producer_id"]
        pid = rng.choice(heard) if heard and rng.random() < 0.5 else -1
        if pid < 0:
            return encode_batch([(rng.choice([-1, 0, 1_700_000_000_000]), None, b"v")])
        epochs = self._heard["producer_epoch"] or [0]
        return encode_batch(
            [(1_700_000_000_000, b"k", b"v")],
            producer_id=pid,
            producer_epoch=max(0, rng.choice(epochs)),
            base_sequence=rng.choice([0, 0, 1, 2**31 - 1]),
            transactional=rng.random() < 0.5,
        )
