"""Transactions that only some configs of brokers make possible. What the answers are word by word is compared with Apache Kafka in
tests/conformance/test_configured.py."""

from __future__ import annotations

from fencepost.broker_stub import Acl
from fencepost.broker_stub.requests.call import Reply
from fencepost.broker_stub.requests.client import Client
from fencepost.broker_stub.transactions.states import State
from fencepost.producer.wire import ErrorCode, InitProducerIdRequest, InitProducerIdResponse, RequestHeader
from tests.broker_stub.transactions.txn_calls import ID, TIMEOUT_MS, Transactions

TWO_PHASE_COMMIT = {"unstable.api.versions.enable": True, "transaction.two.phase.commit.enable": True}
MONTH_MS = 30 * 24 * 3_600_000
LOOKS_EVERY_MS = 10_000


def init(world: Transactions, *, principal: str = "User:ANONYMOUS") -> InitProducerIdResponse:
    """With two-phase commit."""
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1000, enable2_pc=True)
    header = RequestHeader(api_key=request.api, api_version=6, correlation_id=1, client_id="inside")
    replies: list[Reply] = []
    world.dispatcher.handle(world.state_partition.leader, 1, header, request, replies.append, client=Client(principal))
    world.cluster.tick()
    (reply,) = replies
    assert isinstance(reply.response, InitProducerIdResponse)
    return reply.response


def test_no_time_ends_a_transaction_of_two_phases() -> None:
    """It is open for as long as it takes, also for a coordinator that has only read of it; any other is aborted after its timeout."""
    world = Transactions(brokers=3, config=TWO_PHASE_COMMIT)
    given = init(world)
    world.identity = type(world.identity)(given.producer_id, given.producer_epoch)
    assert world.write(0).answer == ErrorCode.NONE
    for _ in range(3):
        world.pass_time(MONTH_MS)
        assert world.state is State.ONGOING
        world.cluster.move_leader(world.state_partition)
        world.cluster.tick()
    assert world.end().answer[0] == ErrorCode.NONE
    world.given()
    assert world.write(0).answer == ErrorCode.NONE
    world.pass_time(TIMEOUT_MS + LOOKS_EVERY_MS)
    assert world.state is State.COMPLETE_ABORT


def test_two_phases_have_to_be_permitted() -> None:
    """WRITE on the transactional id does not do."""
    acls = [Acl.allow("alice", "WRITE", transactional_id=ID)]
    world = Transactions(config=TWO_PHASE_COMMIT, acls=acls)
    assert init(world, principal="User:alice").error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    permitted = Transactions(config=TWO_PHASE_COMMIT, acls=[*acls, Acl.allow("alice", "TWO_PHASE_COMMIT", transactional_id=ID)])
    assert init(permitted, principal="User:alice").error_code == ErrorCode.NONE
