"""InitProducerId: a producer gets its producer id and epoch."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import i16, i32, i64, ignorable, since


class InitProducerIdRequest(Message):
    """A producer asks a broker, or with a transactional id its coordinator, for a producer id and epoch.

    Kafka has version 6 (KIP-939), but its brokers do not advertise it. Without a transactional id, set the field to null: the schema's
    default is the empty string, which brokers refuse.
    """

    api = Api.INIT_PRODUCER_ID
    versions = range(7)
    flexible = 2
    is_request = True

    transactional_id: str | None = ""
    transaction_timeout_ms: i32 = 0
    producer_id: Annotated[i64, since(3)] = -1
    producer_epoch: Annotated[i16, since(3)] = -1
    enable2_pc: Annotated[bool, since(6)] = False
    keep_prepared_txn: Annotated[bool, since(6)] = False


class InitProducerIdResponse(Message):
    """The broker answers with the producer id and epoch. If the request kept a prepared transaction, `ongoing_txn_*` are that
    transaction's.
    """

    api = Api.INIT_PRODUCER_ID
    versions = range(7)
    flexible = 2
    is_request = False

    throttle_time_ms: Annotated[i32, ignorable] = 0
    error_code: i16 = 0
    producer_id: i64 = -1
    producer_epoch: i16 = 0
    ongoing_txn_producer_id: Annotated[i64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[i16, since(6)] = -1
