"""The core's events and commands: events say what happened, commands say what the engine must do.

Both are plain data, so the engine, the simulator and tests can all drive the core. Times are milliseconds of the driver's clock.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.errors import DeliveryError, FencepostError, NoUsableBroker
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message


class Features(Struct, frozen=True):
    """The finalized feature levels of the cluster, and their epoch (KIP-584). The highest epoch is the newest."""

    epoch: int
    levels: dict[str, int]


NO_FEATURES: Final = Features(-1, {})

NEVER: Final = float("inf")
"""The deadline of a part of the core in which nothing is due."""


class Change(enum.Enum):
    """What a metadata response changed about a topic."""

    SEEN = "seen for the first time"
    GROWN = "more partitions"
    RECREATED = "deleted and created again"
    MISSING = "does not exist, or no broker can describe it now"
    REFUSED = "an error that will not go away by itself"
    SAME = "nothing but leaders"
    UNHEARD = "no broker can be asked"


class Heard(Struct, frozen=True):
    """One topic's news. `code`: the topic's error code, 0 when it is fine."""

    topic: str
    change: Change
    partitions: int
    code: int = 0


class Appended(Struct, frozen=True):
    """Callers began new batches, called flush or wait for room."""


class TopicWanted(Struct, frozen=True):
    """A caller waits for a topic that is not known, or not known to have so many partitions, for at most `wait_ms` (None:
    max_block_ms)."""

    topic: str
    wait_ms: float | None = None
    partitions: int = 1


class SendingAllowed(Struct, frozen=True):
    """The transaction now allows sending that it did not allow before."""


class Called(Struct, frozen=True):
    """A caller's call of a transaction; the core only passes it on."""

    call: Any


class Ticked(Struct, frozen=True):
    """Time passed."""


class Connected(Struct, frozen=True):
    """A connection is ready, and the broker answered ApiVersions. `versions`: api -> (min, max). `features`: the cluster's finalized
    features."""

    node: int
    versions: dict[int, tuple[int, int]]
    features: Features = NO_FEATURES


class ConnectionLost(Struct, frozen=True):
    """A connection was lost, or could not be made; its requests get no response. `refused`: why retrying with the same settings cannot
    help. It does not end the producer: it concerns one broker, and a password may be corrected at the broker."""

    node: int
    reason: str
    refused: NoUsableBroker | None = None


class Replied(Struct, frozen=True):
    """A request was answered."""

    node: int
    request_id: int
    response: Message


class Written(Struct, frozen=True):
    """A request that gets no response (acks=0) was written to the socket."""

    node: int
    request_id: int


class Packed(Struct, frozen=True):
    """The records of a batch were compressed, in reply to `Pack`."""

    batch: Batch
    payload: bytes


Event = Appended | TopicWanted | SendingAllowed | Called | Ticked | Connected | ConnectionLost | Replied | Written | Packed


class Connect(Struct, frozen=True):
    """Connect to a node; the engine replies with Connected or ConnectionLost."""

    node: int
    host: str
    port: int


class Disconnect(Struct, frozen=True):
    """Close a connection; the engine replies with ConnectionLost."""

    node: int
    reason: str


class Send(Struct, frozen=True):
    """Write a request to a node; the engine replies with Replied, or with Written if the request gets no response."""

    node: int
    request_id: int
    api: Api
    version: int
    message: Message
    answered: bool = True


class Settle(Struct, frozen=True):
    """Publish a batch's outcome."""

    batch: Batch
    base_offset: int = -1
    log_append_time: int = -1
    failure: DeliveryError | None = None


class Pack(Struct, frozen=True):
    """Compress a batch's records without blocking the loop; the engine replies with Packed. The batch is sealed."""

    batch: Batch
    codec: Codec
    level: int | None


class Announce(Struct, frozen=True):
    """Tell callers the news of a topic. `available`: partitions with a leader. `failure`: why no broker can be asked. `short`: a caller
    waits for a partition that this response lacks, and the request was sent after the caller began to wait. `creatable`: whether the
    producer asks brokers to create the topic if it does not exist."""

    heard: Heard
    available: tuple[int, ...] = ()
    failure: NoUsableBroker | None = None
    short: bool = False
    creatable: bool = True


class Return(Struct, frozen=True):
    """A call has its outcome: run `call.finish(error)`."""

    call: Any
    error: FencepostError | None = None


class Die(Struct, frozen=True):
    """The producer cannot continue."""

    error: FencepostError


Command = Connect | Disconnect | Send | Settle | Pack | Announce | Return | Die
