"""A transactional id was unused for longer than transactional.id.expiration.ms.

Its coordinator has forgotten it. The producer goes on, unless another producer has registered the id since.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.transactions.states import State
from fencepost.producer.errors import Fenced
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import MustAbort, ParticipationEnded
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.shared.participant import Participant
from fencepost.txn.transaction import Transaction
from tests.producer.stub_helpers import values
from tests.txn.stub_helpers import LIMIT_S, SETTINGS
from tests.waiting import until

DAY_MS: Final = 86_400_000
BOTH = pytest.mark.parametrize("version", [1, 2])


@contextlib.contextmanager
def forgotten(version: int) -> Iterator[tuple[BrokerStub, TransactionalProducer]]:
    """A producer that has committed a transaction, and then nothing for days."""
    config = {"transactional.id.expiration.ms": DAY_MS, "log.retention.ms": -1}
    with BrokerStub(transaction_version=version, clock=VirtualClock(), config=config) as stub:
        stub.create_topic("t", partitions=1)
        with producer_of(stub) as producer:
            with producer.transaction(LIMIT_S) as tx:
                tx.send("t", b"first")
            until(lambda: state_of(stub) is State.COMPLETE_COMMIT, "the coordinator has completed what it has answered")
            stub.advance(3 * DAY_MS)
            yield stub, producer


def state_of(stub: BrokerStub) -> State:
    [known] = [known for shard in stub.services.transactions.shards_of(1) for known in shard.ids.values()]
    return known.txn.state


def producer_of(stub: BrokerStub) -> TransactionalProducer:
    return TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap)


def send(tx: Transaction) -> None:
    tx.send("t", b"late")
    tx.commit(LIMIT_S)


def send_offsets(tx: Transaction) -> None:
    tx.send_offsets({("t", 0): 1}, GroupMetadata("readers"), LIMIT_S)
    tx.commit(LIMIT_S)


WAYS: Final[tuple[Callable[[Transaction], None], ...]] = (send, send_offsets)


def code_of(error: MustAbort) -> int:
    return error.code


@BOTH
@pytest.mark.parametrize("way", WAYS)
def test_an_expired_id_without_a_new_producer(version: int, way: Callable[[Transaction], None]) -> None:
    """The next transaction has to be aborted, and the error says why. The one after it commits, under another producer id. No error says
    that the producer was fenced."""
    with forgotten(version) as (stub, producer):
        before = producer._manager.identity
        tx = producer.begin(LIMIT_S)
        with pytest.raises(MustAbort, match="expired") as spoilt:
            way(tx)
        assert code_of(spoilt.value) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        tx.abort(LIMIT_S)
        with producer.transaction(LIMIT_S) as tx:
            tx.send("t", b"second")
        assert before is not None
        assert producer._manager.identity is not None
        assert producer._manager.identity[0] != before[0]
        assert values(stub, "t") == [b"first", b"second"]


@BOTH
def test_run_writes_the_transaction_again(version: int) -> None:
    """`run` writes it again by itself."""
    with forgotten(version) as (stub, producer):
        producer.run(lambda tx: tx.send("t", b"second"), timeout=LIMIT_S)
        assert values(stub, "t") == [b"first", b"second"]


@BOTH
def test_a_participation_of_it(version: int) -> None:
    """With version 1 it cannot be shared; with version 2 what is shared is over, as its participant is told. Either way its owner goes on
    after an abort."""
    with forgotten(version) as (stub, producer), Participant(bootstrap_servers=stub.bootstrap, linger_ms=0) as participant:
        tx = producer.begin(LIMIT_S)
        if version < 2:
            with pytest.raises(MustAbort, match="expired"):
                tx.share([("t", 0)], LIMIT_S)
        else:
            participant.begin(tx.share([("t", 0)], LIMIT_S), LIMIT_S)
            participant.send("t", b"late", partition=0)
            with pytest.raises(ParticipationEnded):
                participant.finish(LIMIT_S)
            participant.abandon(LIMIT_S)
        tx.abort(LIMIT_S)
        with producer.transaction(LIMIT_S) as tx:
            participant.begin(tx.share([("t", 0)], LIMIT_S), LIMIT_S)
            participant.send("t", b"second", partition=0)
            tx.returned(participant.finish(LIMIT_S))
        assert values(stub, "t") == [b"first", b"second"]


@BOTH
def test_an_expired_id_with_a_new_producer_is_fenced(version: int) -> None:
    """The producer names its old identity when it registers again, and is fenced. The later producer goes on."""
    with forgotten(version) as (stub, producer), producer_of(stub) as other:
        with other.transaction(LIMIT_S) as tx:
            tx.send("t", b"other")
        tx = producer.begin(LIMIT_S)
        tx.send("t", b"late")
        with pytest.raises(MustAbort):
            tx.commit(LIMIT_S)
        tx.abort(LIMIT_S)
        with pytest.raises(Fenced):
            producer.begin(LIMIT_S)
        with other.transaction(LIMIT_S) as tx:
            tx.send("t", b"goes on")
        assert values(stub, "t") == [b"first", b"other", b"goes on"]
