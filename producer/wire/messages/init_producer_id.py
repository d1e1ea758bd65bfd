"""InitProducerId: a producer's identity."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import i16, i32, i64, ignorable, since


class InitProducerIdRequest(Message):
    """Asks for a producer id and epoch. Version 6 (KIP-939) exists in Kafka but its brokers do not advertise it.

    Without a transactional id the field must be null: the default is the schema's empty string, which brokers refuse.
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
    """The identity, and with a kept transaction the identity that it runs under."""

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
