"""What happens to the core, and what it wants done: past-tense events in, imperative commands out.

Both are plain data, so that the engine, the simulator and a test drive the same core. Times are milliseconds of whichever clock the
driver has.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.errors import DeliveryError, FencepostError, NoUsableBroker
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.records.compression import Codec


class Features(Struct, frozen=True):
    """The levels of what the whole cluster runs (KIP-584), and when it was agreed on: the highest epoch is the newest."""

    epoch: int
    levels: dict[str, int]


NO_FEATURES: Final = Features(-1, {})

NEVER: Final = float("inf")
"""The time of what nothing is due for."""


class Change(enum.Enum):
    """What an answer changed about a topic."""

    SEEN = "seen for the first time"
    GROWN = "more partitions"
    RECREATED = "deleted and created again"
    MISSING = "does not exist, or not any more"
    REFUSED = "an error that will not go away by itself"
    SAME = "nothing but leaders"
    UNHEARD = "there is nobody who could be asked"


class Heard(Struct, frozen=True):
    """One topic's news. `code`: the topic's error code, 0 when it is fine."""

    topic: str
    change: Change
    partitions: int
    code: int = 0


class Appended(Struct, frozen=True):
    """Callers began new batches, asked for a flush or are waiting for room."""


class TopicWanted(Struct, frozen=True):
    """Somebody wants to send to a topic that is not known, or not to have so many partitions, and waits that long for it (None:
    max_block_ms)."""

    topic: str
    wait_ms: float | None = None
    partitions: int = 1


class SendingAllowed(Struct, frozen=True):
    """The transaction lets something through that it held back before."""


class Called(Struct, frozen=True):
    """A caller wants something of a transaction; the core only passes it on."""

    call: Any


class Ticked(Struct, frozen=True):
    """Time passed."""


class Connected(Struct, frozen=True):
    """A link is up and the broker has said what it speaks. `versions`: api -> (min, max) that it offers. `features`: what the cluster has
    finalized."""

    node: int
    versions: dict[int, tuple[int, int]]
    features: Features = NO_FEATURES


class LinkLost(Struct, frozen=True):
    """A link is gone, or could not be made; every request on it is unanswered. `refused`: it would come to the same end if it were made
    again with the same settings. That is one broker's word, and no reason to end the producer: a password may be set right, or another
    broker may know better."""

    node: int
    reason: str
    refused: NoUsableBroker | None = None


class Replied(Struct, frozen=True):
    """A request was answered."""

    node: int
    request_id: int
    response: Message


class Written(Struct, frozen=True):
    """A request that gets no answer (acks=0) was handed to the socket."""

    node: int
    request_id: int


class Packed(Struct, frozen=True):
    """A batch's records were packed, as `Pack` wanted."""

    batch: Batch
    payload: bytes


Event = Appended | TopicWanted | SendingAllowed | Called | Ticked | Connected | LinkLost | Replied | Written | Packed


class Connect(Struct, frozen=True):
    """Make a link to a node; answer with Connected or LinkLost."""

    node: int
    host: str
    port: int


class Disconnect(Struct, frozen=True):
    """Give a link up; answer with LinkLost."""

    node: int
    reason: str


class Send(Struct, frozen=True):
    """Write a request to a node's link; answer with Replied, or with Written when it gets no answer."""

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
    """Pack a batch's records without holding anybody up; answer with Packed. Nothing is appended to it any more."""

    batch: Batch
    codec: Codec
    level: int | None


class Announce(Struct, frozen=True):
    """Tell callers what was heard of a topic. `available`: partitions with a leader. `failure`: why nothing can be heard. `short`: there
    are fewer partitions than somebody waits for, who had come before this was asked. `creatable`: brokers are asked to make a topic of that
    name where there is none."""

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
    """The producer cannot go on."""

    error: FencepostError


Command = Connect | Disconnect | Send | Settle | Pack | Announce | Return | Die
