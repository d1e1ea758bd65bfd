"""Ends a prepared transaction from any process, with its token alone.

Before it sends EndTxn, and before each repeat, it asks the coordinator whether this very transaction is open. With transaction version 1 an
EndTxn for a finished transaction would end the next one under the same identity (FLINK-8132). EndTxn has the token's identity, and the
transaction version in which the transaction was written (FLINK-40689). A refusal, or an identity that belongs to another producer now, says
nothing about the outcome. Only the coordinator's state and the markers in the logs do; without them the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from msgspec.structs import replace

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import FencepostError, with_code
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.end_txn import EndTxnResponse
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort, TransactionAborted, TransactionCommitted, TransactionTimeout
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered
from fencepost.txn.protocol.describe import describe_transaction
from fencepost.txn.protocol.error_table import OTHERWISE, Step, judge, refusal
from fencepost.txn.protocol.requests import END_VERSIONS, end_request
from fencepost.txn.recovery.marker_search import look_for_markers
from fencepost.txn.recovery.outcome import Outcome, PreparedStatus, conclude, read_coordinator
from fencepost.txn.recovery.prepared_here import OUTSTANDING
from fencepost.txn.recovery.token import BadToken, PreparedTransaction

NOTHING: Final = PreparedStatus(Outcome.NOTHING_WRITTEN, "the transaction wrote nothing, so there is nothing to end")
OVER: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The answers to EndTxn for a transaction that is no longer open; the code does not say how it ended."""


async def run(token: PreparedTransaction, settings: Settings, timeout_s: float, *, committed: bool | None = None) -> PreparedStatus:
    """Commit the transaction, abort it, or (None) find out its outcome, within so many seconds."""
    async with ClusterClient(settings) as client:
        call = Resumption(token, client, Deadline(timeout_s), committed=committed)
        try:
            async with asyncio.timeout(timeout_s):
                status = await call.run()
        except (TransactionAborted, TransactionCommitted):
            OUTSTANDING.discard(token)
            raise
        except (TimeoutError, Unanswered):
            status = call.late()
        except FencepostError as error:
            call.refused(error)
            raise
    if status.outcome in (Outcome.COMMITTED, Outcome.ABORTED):
        OUTSTANDING.discard(token)
    return status


async def resolve(token: PreparedTransaction, settings: Settings, timeout_s: float, *, committed: bool) -> None:
    """Return if the transaction is committed, and raise TransactionAborted if it is aborted. `committed`: the end that the caller wanted.
    Resolving continues with it, so it never turns a wanted abort into a commit."""
    try:
        status = await run(token, settings, timeout_s, committed=committed)
    except TransactionCommitted:
        return
    if status.outcome is Outcome.ABORTED:
        raise TransactionAborted(f"the prepared transaction has been aborted: {status.why}")


class Resumption:
    """One call about one token."""

    def __init__(self, token: PreparedTransaction, client: ClusterClient, deadline: Deadline, *, committed: bool | None) -> None:
        self._token = token
        self._client = client
        self._deadline = deadline
        self._wanted = committed
        self._asked = False
        self._doubtful = False
        self._seen: PreparedStatus | None = None

    async def run(self) -> PreparedStatus:
        """The outcome, or the error that it differs from the wanted one."""
        if not self._token.wrote:
            return NOTHING
        await self._client.again(self._check_cluster, self._deadline)
        if self._wanted is None:
            return await self._find_out()
        attempt = 0
        while True:
            try:
                done = await self._attempt(committed=self._wanted)
                if done is not None:
                    return done
                status = await self._find_out()
                if status.outcome is not Outcome.OPEN:
                    return _said(status, committed=self._wanted)
                self._deadline.trouble = status.why
            except Unanswered as error:
                self._deadline.trouble = str(error)
            await self._client.pause(attempt, self._deadline)
            attempt += 1

    def late(self) -> PreparedStatus:
        """The time passed: return what is known by then, or raise what is not."""
        if self._wanted is None and self._seen is not None:
            return self._seen
        what = "status" if self._wanted is None else "commit" if self._wanted else "abort"
        if self._seen is not None:
            raise CommitOutcomeUnknown(f"{what}: the outcome of the prepared transaction is not known yet: {self._seen.why}")
        if self._asked:
            asked = "commit" if self._wanted else "abort"
            raise CommitOutcomeUnknown(f"the coordinator was asked to {asked} and has not answered yet ({self._deadline.trouble})")
        left = "the outcome was not found" if self._wanted is None else "nothing was asked of the coordinator"
        raise TransactionTimeout(f"{what}: the time passed, and {left}: {self._deadline.trouble}")

    def refused(self, error: FencepostError) -> None:
        """The call cannot continue. Raises CommitOutcomeUnknown if the coordinator may have carried out the request."""
        if self._doubtful and not isinstance(error, CommitOutcomeUnknown):
            asked = "commit" if self._wanted else "abort"
            raise CommitOutcomeUnknown(f"the coordinator was asked to {asked}, and may have done so; then: {error}") from error

    async def _attempt(self, *, committed: bool) -> PreparedStatus | None:
        """Ask for the end if the transaction is open. None if it is over, or may be, and its outcome must be found out."""
        token = self._token
        state = await describe_transaction(self._client, self._token.transactional_id)
        said = read_coordinator(token, state) if state is not None else None
        if said is not Outcome.OPEN:
            return None
        self._asked = True
        request = end_request(token.transactional_id, token.identity, committed=committed)
        before, self._doubtful = self._doubtful, True
        answer: EndTxnResponse = await self._client.ask_coordinator(
            token.transactional_id, request, END_VERSIONS[token.transaction_version >= 2]
        )
        code = answer.error_code
        row = judge(Api.END_TXN, code)
        # As in the producer's own process: a coordinator that could not write the end in time, or lost its role, may have it in its log.
        self._doubtful = before or row.step in (Step.RETRY, Step.LOOKUP) or row is OTHERWISE[Api.END_TXN]
        if code in OVER:
            return None
        match row.step:
            case Step.DONE:
                how = "committed" if committed else "aborted"
                return PreparedStatus(Outcome.COMMITTED if committed else Outcome.ABORTED, f"the coordinator has {how} it now")
            case Step.SPOIL:
                raise MustAbort(refusal(Api.END_TXN, code, row), code=code)
            case Step.FATAL:
                raise with_code(row.kind(refusal(Api.END_TXN, code, row)), code)
            case Step.LOOKUP:
                self._client.forget(token.transactional_id)
        raise Unanswered(refusal(Api.END_TXN, code, row))

    async def _find_out(self) -> PreparedStatus:
        """Ask the coordinator and read the logs, repeatedly while that may show more."""
        attempt = 0
        while True:
            try:
                state = await describe_transaction(self._client, self._token.transactional_id)
                said = read_coordinator(self._token, state) if state is not None else None
                found = await look_for_markers(self._client, self._token) if said is not Outcome.OPEN else []
            except Unanswered as error:
                self._deadline.trouble = str(error)
            else:
                status = conclude(self._token, state, found, int(time.time() * 1000))
                if status.outcome is not Outcome.UNKNOWN or all(each.lost for each in found):
                    return status
                self._seen = status
                self._deadline.trouble = status.why
            await self._client.pause(attempt, self._deadline)
            attempt += 1

    async def _check_cluster(self) -> None:
        answer = await self._client.metadata()
        ours, theirs = self._token.cluster_id, answer.cluster_id
        if ours is not None and theirs is not None and ours != theirs:
            raise BadToken(f"the token is of a transaction in cluster {ours!r}, and bootstrap_servers lead to cluster {theirs!r}")


def _said(status: PreparedStatus, *, committed: bool) -> PreparedStatus:
    """The outcome that was found, for a caller that wanted this one."""
    match status.outcome:
        case Outcome.COMMITTED if not committed:
            raise TransactionCommitted(f"the prepared transaction has been committed: {status.why}")
        case Outcome.ABORTED if committed:
            raise TransactionAborted(f"the prepared transaction has been aborted: {status.why}")
        case Outcome.UNKNOWN:
            raise CommitOutcomeUnknown(f"the outcome of the prepared transaction can no longer be found out: {status.why}")
    return replace(status, already=True)
