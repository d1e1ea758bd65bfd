"""Transactions on a real Kafka, in both transaction versions, read by confluent-kafka's consumer and fenced by its producer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Iterator

import confluent_kafka
import pytest

from fencepost.broker_stub import FaultProxy
from fencepost.producer import Fenced, Persisted, RecordRefused
from fencepost.producer.wire import InitProducerIdRequest, InitProducerIdResponse
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.coordinator.inner_producer import NoTransaction
from fencepost.txn.coordinator.state_machine import State
from fencepost.txn.errors import CommitOutcomeUnknown, DeliveryAborted, MustAbort, TransactionTimeout
from fencepost.txn.group_metadata import GroupMetadata
from tests.conformance.fixtures import ClusterFactory
from tests.conformance.kafka import KafkaCluster
from tests.conformance.raw import RawConnection
from tests.conformance.txn_site import IMPATIENT, PARTITIONS, WAIT_S, Site, new_site, older, site
from tests.waiting import until

__all__ = ["older", "site"]

pytestmark = pytest.mark.timeout(300)


def test_a_commit_is_seen_and_an_abort_is_not(site: Site) -> None:
    """Transactions follow one another through every partition. Consumers read the committed records, and no others."""
    with site.producer() as producer:
        for turn in range(4):
            with producer.transaction(WAIT_S) as tx:
                for row in range(6):
                    tx.send(site.topic, b"%d-%d" % (turn, row), partition=row % PARTITIONS)
        with pytest.raises(ZeroDivisionError), producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"aborted", partition=0).result(WAIT_S)
            tx.send(site.topic, b"aborted, too", partition=1)
            raise ZeroDivisionError
        with producer.transaction(WAIT_S):
            pass
        with producer.transaction(WAIT_S) as tx:
            assert tx.send_many(site.topic, [b"last"] * 3).accepted == 3
    rows = [b"%d-%d" % (turn, row) for turn in range(4) for row in range(6)]
    assert site.committed() == sorted([*rows, b"last", b"last", b"last"])


def test_the_transaction_version_is_the_clusters(site: Site, request: pytest.FixtureRequest) -> None:
    """With version 2 every end brings the next epoch, and the producer adds no partitions. Before, it adds them, and the epoch stays."""
    newer = "tv2" in request.node.name
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        for _ in range(2):
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"row", partition=0)
        said = [(exchange.api, exchange.version) for exchange in proxy.journal.requests()]
        assert producer._manager.identity is not None
        assert producer._manager.identity[1] == (2 if newer else 0)
    apis = [api for api, _ in said]
    assert (Api.ADD_PARTITIONS_TO_TXN in apis) is not newer
    assert {version for api, version in said if api == Api.END_TXN} == ({5} if newer else {4})
    assert all((version >= 12) is newer for api, version in said if api == Api.PRODUCE)


def test_a_second_producer_fences_the_first(site: Site) -> None:
    """The later producer owns the id. The coordinator aborts the open transaction of the first one, whose commit raises Fenced."""
    with site.producer() as old, site.producer() as new:
        tx = old.begin(WAIT_S)
        tx.send(site.topic, b"zombie", partition=0).result(WAIT_S)
        with new.transaction(WAIT_S) as later:
            later.send(site.topic, b"successor", partition=0)
        with pytest.raises(Fenced):
            tx.commit(WAIT_S)
        with pytest.raises(Fenced):
            old.begin(WAIT_S)
    assert site.committed() == [b"successor"]


def test_confluents_producer_fences_ours_and_ours_fences_it(site: Site) -> None:
    """The id belongs to the cluster: each client's producer fences the other's."""
    theirs = confluent_kafka.Producer({"bootstrap.servers": site.bootstrap, "transactional.id": site.name})
    with site.producer() as ours:
        tx = ours.begin(WAIT_S)
        tx.send(site.topic, b"ours", partition=0).result(WAIT_S)
        theirs.init_transactions(WAIT_S)
        theirs.begin_transaction()
        theirs.produce(site.topic, b"theirs", partition=0)
        theirs.flush(WAIT_S)
        with pytest.raises(Fenced):
            tx.commit(WAIT_S)
    with site.producer() as ours:
        ours.init(WAIT_S)
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            theirs.commit_transaction(WAIT_S)
        assert refused.value.args[0].fatal()
        with ours.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"ours again", partition=0)
    assert site.committed() == [b"ours again"]


def test_a_commit_after_an_unobserved_failure_is_refused(site: Site) -> None:
    """The producer refuses the commit although the program looked at no future (aiokafka commits here). The next transaction of the same
    producer works.
    """
    with site.producer(batch_size=0, max_request_size=4_000_000) as producer:
        tx = producer.begin(WAIT_S)
        tx.send(site.topic, b"fine", partition=0)
        tx.send(site.topic, bytes(2_000_000), partition=1)  # about twice max.message.bytes
        tx.send(site.topic, b"fine, too", partition=1)
        with pytest.raises(MustAbort, match="MESSAGE_TOO_LARGE") as refused:
            tx.commit(WAIT_S)
        assert isinstance(refused.value.cause, RecordRefused)
        with pytest.raises(MustAbort):
            tx.send(site.topic, b"too late")
        with pytest.raises(MustAbort):
            tx.commit(WAIT_S)
        tx.abort(WAIT_S)
        with producer.transaction(WAIT_S) as tx:
            for partition in range(PARTITIONS):
                tx.send(site.topic, b"next", partition=partition)
    assert site.committed() == [b"next"] * 3


def test_every_record_failed(site: Site) -> None:
    """No log has a record of the transaction. The producer aborts it all the same, because the coordinator may have begun it."""
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        proxy.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_RECORD)
        with pytest.raises(MustAbort), producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"refused", partition=0)
        (end,) = proxy.journal.requests(Api.END_TXN)
        assert isinstance(end.request, EndTxnRequest)
        assert not end.request.committed
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"next", partition=0)
    assert site.committed() == [b"next"]


@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN])
def test_a_lost_reply_of_each_request(site: Site, api: Api) -> None:
    """The broker carries the request out, and the reply is lost. The producer repeats it and the broker recognises it, in this transaction
    and the next.
    """
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        lost = proxy.faults.on(api).after_append().times(1).disconnect()
        for turn in range(3):
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"%d" % turn, partition=0)
        assert lost.hits == (0 if api is Api.ADD_PARTITIONS_TO_TXN and producer._manager.version2 else 1)
    assert site.committed() == [b"0", b"1", b"2"]


def test_a_commit_that_arrives_once_more_in_the_next_transaction(older: KafkaCluster) -> None:
    """Transaction version 1: the reply to a commit is lost. If the request arrives again in the next transaction, it is refused."""
    site = new_site(older)
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        proxy.faults.on(Api.END_TXN).after_append().times(1).disconnect()
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"first", partition=0)
        tx = producer.begin(WAIT_S)
        tx.send(site.topic, b"second", partition=0).result(WAIT_S)
        first = proxy.journal.requests(Api.END_TXN)[0]
        assert isinstance(first.request, EndTxnRequest)
        host, port = site.bootstrap.split(":")
        with RawConnection((host, int(port))) as connection:
            answer = connection.ask(first.request, first.version)
        assert isinstance(answer, EndTxnResponse)
        assert answer.error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        tx.abort(WAIT_S)
    assert site.committed() == [b"first"]


@pytest.mark.skipif("FENCEPOST_TXN_EPOCHS" not in os.environ, reason="takes half a minute: FENCEPOST_TXN_EPOCHS=1 or make epochs runs it")
@pytest.mark.timeout(900)
def test_epochs_run_out(site: Site) -> None:
    """After epoch 32766 the coordinator assigns another producer id: with version 2 in the response to EndTxn, before in the one to
    InitProducerId.

    All records are committed.
    """
    host, port = site.bootstrap.split(":")
    asked = InitProducerIdRequest(transactional_id=site.name, transaction_timeout_ms=60_000)
    with site.producer() as first:
        first.init(WAIT_S)
    with RawConnection((host, int(port))) as connection:
        for _ in range(32_763):
            answer = connection.ask(asked, 4)
            assert isinstance(answer, InitProducerIdResponse)
            assert answer.error_code == ErrorCode.NONE
    had = []
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        for turn in range(5):
            if not producer._manager.version2:
                proxy.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_RECORD)
                with pytest.raises(MustAbort), producer.transaction(WAIT_S) as tx:
                    tx.send(site.topic, b"broken", partition=0)
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"%d" % turn, partition=0)
                had.append(producer._manager.identity)
    pids, epochs = zip(*[identity for identity in had if identity is not None], strict=True)
    assert 32_766 in epochs
    assert 0 in epochs
    assert len(set(pids)) == 2
    assert site.committed() == [b"%d" % turn for turn in range(5)]


def test_a_commit_whose_outcome_stays_unknown(site: Site) -> None:
    """While no EndTxn is answered, the commit ends at its deadline with CommitOutcomeUnknown, which can be resolved once there are answers.

    Until then an abort and another transaction are refused.
    """
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        tx = producer.begin(WAIT_S)
        tx.send(site.topic, b"doubtful", partition=0).result(WAIT_S)
        lost = proxy.faults.on(Api.END_TXN).after_append().forever().disconnect()
        with pytest.raises(CommitOutcomeUnknown) as unknown:
            while True:
                with contextlib.suppress(TransactionTimeout):  # it was not even asked in that time
                    tx.commit(2.0)
        for call in (tx.abort, producer.begin):
            with pytest.raises(Exception, match="what can be called now: commit"):
                call()
        lost.remove()
        unknown.value.resolve(WAIT_S)
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"next", partition=0)
    assert site.committed() == [b"doubtful", b"next"]


@pytest.mark.parametrize("version", [1, 2])
def test_the_coordinator_gives_a_transaction_up(version: int, request: pytest.FixtureRequest, kafka_cluster: ClusterFactory) -> None:
    """After transaction_timeout_ms no record of it is visible, and the commit and its offsets are refused.

    With version 2 the producer continues after an abort. Before, it is fenced.
    """
    cluster: KafkaCluster = kafka_cluster(config=IMPATIENT) if version == 2 else request.getfixturevalue("older")
    site = new_site(cluster)
    with site.producer(transaction_timeout_ms=1_000) as producer:
        tx = producer.begin(WAIT_S)
        tx.send(site.topic, b"late", partition=0).result(WAIT_S)
        until(lambda: site.end(0), "the coordinator's marker is there", good=lambda end: end == 2, timeout_s=WAIT_S)
        with pytest.raises(MustAbort if version == 2 else Fenced):
            tx.commit(WAIT_S)
        if version == 2:
            tx.abort(WAIT_S)
            tx = producer.begin(WAIT_S)
            tx.send(site.topic, b"late, too", partition=0).result(WAIT_S)
            until(lambda: site.end(0), "the coordinator's marker is there", good=lambda end: end == 4, timeout_s=WAIT_S)
            with pytest.raises(MustAbort, match="INVALID_PRODUCER_EPOCH"):
                tx.send_offsets({(site.topic, 0): 1}, GroupMetadata("readers"))
            tx.abort(WAIT_S)
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"next", partition=0)
    assert site.committed() == ([b"next"] if version == 2 else [])


def test_an_abort_while_a_reply_is_held_back(site: Site) -> None:
    """The abort waits for records in flight, and fails records that were not sent. Neither become visible."""
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap, batch_size=0, max_in_flight=1) as producer:
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"committed", partition=0)
        held = proxy.faults.on(Api.PRODUCE).after_append().hold()
        tx = producer.begin(WAIT_S)
        flying = tx.send(site.topic, b"flying", partition=0)
        queued = tx.send(site.topic, b"queued", partition=0)
        held.wait(1, WAIT_S)
        ending = threading.Thread(target=tx.abort, args=(WAIT_S,))
        ending.start()
        until(lambda: producer._manager.machine.state is State.ABORTING, "the abort begins", timeout_s=WAIT_S)
        held.release()
        ending.join(WAIT_S)
        failure = queued.exception(0)
        assert isinstance(failure, DeliveryAborted)
        assert failure.persisted is Persisted.NO
        assert flying.exception(0) is None
    assert site.committed() == [b"committed"]


def test_a_send_that_goes_on_while_its_transaction_ends(site: Site) -> None:
    """Another thread commits the transaction during a `send_many`. Its rows are in that transaction or refused, and never in the next one.

    The next transaction waits until the call returns.
    """
    begun, ended = threading.Event(), threading.Event()
    refused: list[Exception] = []

    def rows() -> Iterator[bytes]:
        for row in range(20_000):
            if row == 10_000:
                begun.set()
                assert ended.wait(WAIT_S)
            yield b"%05d" % row

    with site.producer() as producer:
        first = producer.begin(WAIT_S)

        def write() -> None:
            try:
                first.send_many(site.topic, rows())
            except NoTransaction as error:
                refused.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        assert begun.wait(WAIT_S)
        first.commit(WAIT_S)
        with pytest.raises(TransactionTimeout, match="has not returned"):
            producer.begin(0.01)
        ended.set()
        second = producer.begin(WAIT_S)
        writer.join(WAIT_S)
        second.send(site.topic, b"second")
        second.abort(WAIT_S)
    (error,) = refused
    accepted = error.sent.accepted  # type: ignore[attr-defined] # what `send_many` raises has it
    assert site.committed() == [b"%05d" % row for row in range(accepted)]
    assert 0 < accepted <= 10_000


@pytest.mark.parametrize("seed", [int(seed) for seed in os.environ.get("FENCEPOST_TXN_SEEDS", "2").split(",")])
def test_connections_that_break_all_the_time(site: Site, seed: int) -> None:
    """Every request of a transaction sometimes loses its connection, before or after it is carried out, and some records are refused.

    Consumers read exactly the records that were reported as committed, and a group has the offsets of the last commit.
    FENCEPOST_TXN_SEEDS=0,1,2 runs others.
    """
    rng = random.Random(seed)
    said: list[bytes] = []
    group, read = GroupMetadata(f"group-{site.name}"), -1001
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap, batch_size=0) as producer:
        asked = (Api.PRODUCE, Api.END_TXN, Api.ADD_PARTITIONS_TO_TXN, Api.INIT_PRODUCER_ID, Api.FIND_COORDINATOR)
        for number, api in enumerate((*asked, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT)):
            proxy.faults.on(api).after_append().probability(0.1, seed + number).disconnect()
            proxy.faults.on(api).before().probability(0.05, seed + number).disconnect()
        proxy.faults.on(Api.PRODUCE).before().probability(0.03, seed).error(ErrorCode.INVALID_RECORD)
        for turn in range(25):
            rows = [b"%d-%d" % (turn, row) for row in range(rng.randrange(12))]
            tx = producer.begin(WAIT_S)
            try:
                for row in rows:
                    tx.send(site.topic, row, partition=rng.randrange(PARTITIONS))
                moves = rng.random() < 0.7
                if moves:
                    tx.send_offsets({(site.topic, 0): turn}, group, WAIT_S)
                if rng.random() < 0.7:
                    tx.commit(WAIT_S)
                    said += rows
                    read = turn if moves else read
                else:
                    tx.abort(WAIT_S)
            except MustAbort:
                tx.abort(WAIT_S)
    assert site.committed() == sorted(said)
    assert said
    assert site.group(group.group_id)[0] == read


def test_run_writes_again_what_had_to_be_aborted(site: Site) -> None:
    """`run` repeats the work in another transaction, if the first one failed for another reason than its records."""
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        failing = proxy.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.TRANSACTION_ABORTABLE)
        attempts = []

        def work(tx: object) -> int:
            attempts.append(tx)
            producer.send(site.topic, b"row", partition=0)
            return len(attempts)

        assert producer.run(work, timeout=WAIT_S) == 2
        assert failing.hits == 1
    assert site.committed() == [b"row"]


def test_asyncio(site: Site) -> None:
    """On an event loop: commit, abort, a cancelled commit whose outcome is reported later, and lost connections."""

    async def story(bootstrap: str, proxy: FaultProxy) -> None:
        settings = {"bootstrap_servers": bootstrap, "transactional_id": site.name, "linger_ms": 0}
        async with AsyncTransactionalProducer(settings) as producer:
            for turn in range(3):
                proxy.faults.on(Api.PRODUCE).after_append().times(1).disconnect()
                async with producer.transaction(WAIT_S) as tx:
                    await asyncio.gather(*[tx.send(site.topic, b"%d-%d" % (turn, row), partition=row % PARTITIONS) for row in range(6)])
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction(WAIT_S) as tx:
                    await (await tx.send(site.topic, b"aborted", partition=0))
                    raise ZeroDivisionError
            held = proxy.faults.on(Api.END_TXN).after_append().hold()
            tx = await producer.begin(WAIT_S)
            await tx.send(site.topic, b"cancelled", partition=0)
            commit = asyncio.create_task(tx.commit(WAIT_S))
            await asyncio.to_thread(held.wait, 1, WAIT_S)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            held.release()
            held.remove()
            await tx.commit(WAIT_S)

    with FaultProxy(site.bootstrap) as proxy:
        asyncio.run(asyncio.wait_for(story(proxy.bootstrap, proxy), WAIT_S))
    rows = [b"%d-%d" % (turn, row) for turn in range(3) for row in range(6)]
    assert site.committed() == sorted([*rows, b"cancelled"])
