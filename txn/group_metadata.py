"""The member of a consumer group whose offsets a transaction commits (KIP-447), read from what Python's consumers return.

Accepted are confluent-kafka's `consumer_group_metadata()` (bytes in librdkafka's own format), kafka-python's `group_metadata()`, any object
with the same attributes, and `GroupMetadata`. A bare group name is refused, because the group's coordinator could not tell a present member
from one that the group removed. Pass `GroupMetadata("name")` to do without that check. Metadata of a consumer that is not a member is sent
so that the coordinator refuses it.
"""

from __future__ import annotations

import sys
from typing import Final

from msgspec import Struct

from fencepost.producer.foundations.counted import counted

TAG: Final = b"CGMDv2:"
"""The first bytes of librdkafka's format, in the version that is read here."""

INSTEAD: Final = "pass GroupMetadata(group_id, generation_id=..., member_id=..., group_instance_id=...) instead"
I32_MAX: Final = 2_147_483_647
TEXT_BYTES_MAX: Final = 32_767
OF_NO_MEMBER: Final = 0
"""The generation that is sent for a consumer that is not a member. Consumers then say -1, which a coordinator takes as a request not to
check. It takes any other generation for a member's."""


class GroupMetadata(Struct, frozen=True):
    """A consumer group, and the member whose offsets are to be committed.

    `generation_id`, `member_id`, `group_instance_id`: the group's coordinator refuses the offsets unless this is its member in this
    generation. Without them the coordinator does not check, for consumers that assign their partitions themselves.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("group_id", self.group_id), ("member_id", self.member_id), ("group_instance_id", self.group_instance_id)):
            if not isinstance(value, str) and not (name == "group_instance_id" and value is None):
                raise TypeError(f"{name}={value!r}: a str is wanted, not {type(value).__name__}")
            if value is not None:
                check_text(name, value)
        if not self.group_id:
            raise ValueError("group_id='': the consumer has no group whose offsets could be committed")
        generation = self.generation_id
        if isinstance(generation, bool) or not isinstance(generation, int):
            raise TypeError(f"generation_id={generation!r}: an int is wanted, not {type(generation).__name__}")
        if not -1 <= generation <= I32_MAX:
            raise ValueError(f"generation_id={generation}: from -1 (not a member) to {I32_MAX}")
        if generation > 0 and not self.member_id:
            raise ValueError(f"generation_id={generation} and member_id='': a generation is a member's; give both or neither")

    @property
    def named(self) -> bool:
        """Whether the coordinator must check a member, which it cannot before Kafka 2.5 (KIP-447)."""
        return (self.generation_id, self.member_id, self.group_instance_id) != (-1, "", None)


def check_text(name: str, value: str) -> None:
    """Refuse a text that Kafka's protocol cannot carry. Raises ValueError."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}={value!r:.60} cannot be encoded as UTF-8: {error.reason}") from None
    if size > TEXT_BYTES_MAX:
        raise ValueError(f"{name}={value!r:.60}: {size} bytes are too long, at most {TEXT_BYTES_MAX} are possible")


def read_group(group: object) -> GroupMetadata:
    """Read a group's metadata. Raises TypeError or ValueError, which say what to pass."""
    if isinstance(group, GroupMetadata):
        return group
    if isinstance(group, bytes | bytearray | memoryview):
        return read_confluent(bytes(group))
    if isinstance(group, str):
        raise TypeError(
            f"group={group!r}: a name alone does not exclude a member that the group has removed. Pass the consumer's "
            "consumer_group_metadata() (confluent-kafka) or group_metadata() (kafka-python); if the consumer assigns its partitions "
            f"itself, pass GroupMetadata({group!r})"
        )
    for call in ("consumer_group_metadata", "group_metadata"):
        if callable(getattr(group, call, None)):
            raise TypeError(f"group is a {type(group).__name__}: pass what its {call}() returns, asked for before each send_offsets")
    if not hasattr(group, "group_id"):
        raise TypeError(f"group is a {type(group).__name__}, which names no group: {INSTEAD}")
    if group.group_id is None:
        raise ValueError("group_id=None: the consumer has no group whose offsets could be committed")
    generation = getattr(group, "generation_id", None)
    member_id = getattr(group, "member_id", None) or ""
    return GroupMetadata(
        group.group_id,
        OF_NO_MEMBER if not member_id else getattr(group, "generation", -1) if generation is None else generation,
        member_id,
        getattr(group, "group_instance_id", None),
    )


def read_confluent(raw: bytes) -> GroupMetadata:
    """Read librdkafka's format: the tag, the generation (int32 in this machine's byte order), the group and the member id. Then a byte says
    whether the instance id is missing; otherwise the instance id follows. A NUL ends each text."""
    if not raw.startswith(TAG):
        raise ValueError(
            f"group metadata that begins with {raw[: len(TAG)]!r}: what is known of confluent-kafka's consumer_group_metadata() "
            f"begins with {TAG!r}; {INSTEAD}"
        )
    body = raw[len(TAG) :]
    generation = int.from_bytes(body[:4], sys.byteorder, signed=True)
    group_id, ended, rest = body[4:].partition(b"\0")
    member_id, ended_too, rest = rest.partition(b"\0")
    instance, ended_at_last = rest[1:-1], rest[-1:] == b"\0"
    whole = ended and ended_too and (rest == b"\1" or (rest[:1] == b"\0" and len(rest) > 1 and ended_at_last and b"\0" not in instance))
    if not whole:
        raise ValueError(f"group metadata of {counted(len(raw), 'byte')} that ends too early or too late: {raw!r}; {INSTEAD}")
    try:
        return GroupMetadata(
            group_id.decode(), generation if member_id else OF_NO_MEMBER, member_id.decode(), None if rest == b"\1" else instance.decode()
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"group metadata with an id that is no UTF-8 ({error.reason}): {raw!r}; {INSTEAD}") from None
