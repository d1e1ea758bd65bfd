"""What coordinators write into `__transaction_state`, in Kafka's own format: keys and values that begin with a version.

No record has the epoch before the current one, so a coordinator that has read its log does not know that epoch.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Annotated, Final, TypeVar

from fencepost.broker_stub.transactions.states import State, Txn, by_topic
from fencepost.producer.wire.schema.compiler import decoder_of, encoder_of
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, i64, since, tag

_VERSION: Final = Layout(">h")
TXN_KEY_VERSION: Final = 0
TXN_VALUE_FLEXIBLE: Final = 1


class TransactionLogKey(WireStruct):
    """The key of a record: its transactional id."""

    transactional_id: str = ""


class PartitionsSchema(WireStruct):
    """The partitions of one topic."""

    topic: str = ""
    partition_ids: list[i32] = []


class TransactionLogValue(WireStruct):
    """The values of one transactional id. Version 1 is flexible and has tags; transaction version 0 writes version 0."""

    producer_id: i64 = 0
    previous_producer_id: Annotated[i64, since(1), tag(0)] = -1
    next_producer_id: Annotated[i64, since(1), tag(1)] = -1
    producer_epoch: i16 = 0
    next_producer_epoch: Annotated[i16, since(1), tag(3)] = -1
    transaction_timeout_ms: i32 = 0
    transaction_status: i8 = 0
    transaction_partitions: list[PartitionsSchema] | None = []
    transaction_last_update_timestamp_ms: i64 = 0
    transaction_start_timestamp_ms: i64 = 0
    client_transaction_version: Annotated[i16, since(1), tag(2)] = 0


S = TypeVar("S", bound=WireStruct)


def txn_key(transactional_id: str) -> bytes:
    return _written(TransactionLogKey(transactional_id=transactional_id), TXN_KEY_VERSION)


def txn_value(txn: Txn, *, flexible: bool) -> bytes:
    """The value of a record. `flexible`: False for transaction version 0."""
    named = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic(txn.partitions).items()]
    value = TransactionLogValue(
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.state,
        transaction_partitions=named if txn.state is not State.EMPTY else None,
        transaction_last_update_timestamp_ms=txn.updated_ms,
        transaction_start_timestamp_ms=txn.start_ms,
        previous_producer_id=txn.previous_producer_id if flexible else -1,
        next_producer_id=txn.next_producer_id if flexible else -1,
        client_transaction_version=txn.client_version if flexible else 0,
    )
    return _written(value, TXN_VALUE_FLEXIBLE if flexible else 0)


def read_txn(key: bytes, value: bytes | None) -> tuple[str, Txn | None]:
    """The transactional id of a record, and its values. None: the id has expired."""
    name = _read(TransactionLogKey, key)[0].transactional_id
    if value is None:
        return name, None
    read, _ = _read(TransactionLogValue, value)
    return name, Txn(
        producer_id=read.producer_id,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=State(read.transaction_status),
        partitions=frozenset((each.topic, index) for each in read.transaction_partitions or () for index in each.partition_ids),
        start_ms=read.transaction_start_timestamp_ms,
        updated_ms=read.transaction_last_update_timestamp_ms,
        client_version=read.client_transaction_version,
    )


def _written(struct: WireStruct, version: int) -> bytes:
    flexible = isinstance(struct, TransactionLogValue) and version >= TXN_VALUE_FLEXIBLE
    parts: list[bytes | bytearray | memoryview] = []
    parts.append(encoder_of(type(struct), version, flexible=flexible)(struct, bytearray(_VERSION.pack(version)), parts))
    return b"".join(parts)


def _read(struct: type[S], data: bytes) -> tuple[S, int]:
    (version,) = _VERSION.unpack_from(data)
    flexible = struct is TransactionLogValue and version >= TXN_VALUE_FLEXIBLE
    found: S = decoder_of(struct, version, flexible=flexible, api=None)(data, _VERSION.size, len(data))
    return found, version
