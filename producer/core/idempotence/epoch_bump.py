"""The epoch bump of an idempotent producer (KIP-360): one partition begins the next epoch by itself, without a request.

`in_flight_window` decides when (`InFlightWindow.wants_bump`): after a batch has failed, or the broker expects another sequence, and no
batch of the partition may still be in the log. The batches that wait are then stamped again from sequence 0 (`InFlightWindow.bump`). In a
transaction no partition bumps its epoch: the coordinator does (InitProducerId, or the answer to EndTxn).
Source: `TransactionManager.bumpIdempotentProducerEpoch`.
"""

from __future__ import annotations

from fencepost.producer.wire.records import PRODUCER_EPOCH_MAX


def next_epoch(identity: tuple[int, int]) -> tuple[int, int] | None:
    """The producer id with its next epoch; None after the last one: a new producer id is needed."""
    producer_id, epoch = identity
    return (producer_id, epoch + 1) if epoch < PRODUCER_EPOCH_MAX else None
