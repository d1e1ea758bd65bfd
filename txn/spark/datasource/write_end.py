"""The end of a write of `format("fencepost")`, on the driver's host, in a process that has only the token of the beginning.

It commits only after each claimed partition is known to belong to a task whose account Spark delivered. A failed commit is followed by an
abort, which never raises and cannot undo a commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.producer.errors import FencepostError
from fencepost.txn.recovery.resume import Resumed, resume
from fencepost.txn.spark.datasource.write_begin import Begun, SharedTransaction, begin
from fencepost.txn.spark.datasource.write_options import SinkOptions
from fencepost.txn.spark.datasource.write_task import Told
from fencepost.txn.spark.errors import AttemptConflict, BatchUnknown
from fencepost.txn.spark.guards.kafka_claims import winners_of
from fencepost.txn.spark.rows.task_summary import BAD, Summary
from fencepost.txn.spark.sink.batch_job import JobVersion
from fencepost.txn.spark.sink.checkpoint import newest_batch
from fencepost.txn.spark.sink.dead_letters import OPTIONS, await_dead_letters, is_too_much, refuse, send_dead_letters
from fencepost.txn.spark.sink.sink_session import SinkSession
from fencepost.txn.spark.sink.write_job import check
from fencepost.txn.spark.sink.write_plan import ledger_partition
from fencepost.txn.spark.sink.write_task import make_participant

log = logging.getLogger("fencepost.spark")

ABORT_S = 10.0


def commit(options: SinkOptions, messages: Sequence[Told | None], *, begun: Begun | None = None, batch: int | None = None) -> None:
    """Commit what was begun. `begun`: the beginning, if it is known without messages. `batch`: Spark's batch id of a query."""
    told = [each for each in messages if each is not None]
    if len(told) != len(messages):
        raise AttemptConflict(f"{len(messages) - len(told)} of {len(messages)} Spark tasks have not said what they wrote")
    if begun is None:
        # Without tasks there is no message with the beginning; a new beginning aborts it.
        begun = told[0].begun if told else begin(options)
    if batch is not None and begun.identity.batch != batch:
        raise BatchUnknown(f"Spark commits batch {batch}, and what was begun is {begun.identity.full_name}")
    if any(each.begun.stamp != begun.stamp for each in told):
        raise AttemptConflict("the Spark tasks of this batch wrote into different transactions")
    shared = begun.shared
    if shared is None:
        log.info("sink %s: %s is in the ledger: nothing is written", options.settings.sink_id, begun.identity.full_name)
        return
    summaries = [summary for each in told for summary in each.summaries]
    written = check(summaries)
    _agree(shared, told, options.settings.timeout_s)
    bad = [each for each in summaries if each.kind == BAD]
    if is_too_much(bad, options.settings):
        raise refuse(bad, options.settings, begun.identity.batch, called=OPTIONS)
    _record(options, begun, shared, written, bad)
    status = _resumed(options, shared).commit(options.settings.timeout_s)
    log.info("sink %s: %s: %s", options.settings.sink_id, begun.identity.full_name, status.why)


def abort(options: SinkOptions, messages: Sequence[Told | None], *, begun: Begun | None = None, batch: int | None = None) -> None:
    """Abort what was begun; the arguments are those of `commit`. It never raises: the next beginning, or the transaction timeout, aborts
    what stays open."""
    try:
        begun = begun or next((each.begun for each in messages if each is not None), None)
        if begun is not None:
            if begun.shared is not None:
                _resumed(options, begun.shared).abort(ABORT_S)
        elif options.checkpoint is not None:
            _abort_unheard(options, options.checkpoint, batch)
    except Exception as error:  # noqa: BLE001  # Spark has its reason for the abort, which this must not hide
        log.warning("sink %s: not aborted: %s", options.settings.sink_id, error)


def _abort_unheard(options: SinkOptions, checkpoint: str, batch: int | None) -> None:
    """No task has sent the beginning. The ledger has its first record, unless another driver has the sink by now; then that driver is left
    alone."""
    sink_session = SinkSession(options.settings, options.kafka, timeout_s=ABORT_S)
    opened = sink_session.ledger.standing(sink_session.key, sink_session.timeout_s).open
    identity = newest_batch(checkpoint)
    if opened is None or (opened.query, opened.batch) != (identity.query, identity.batch if batch is None else batch):
        log.info("sink %s: no transaction of %s is open", sink_session.key, identity.full_name)
        return
    try:
        sink_session.take_over()
    finally:
        sink_session.close()


def _agree(shared: SharedTransaction, told: Sequence[Told], timeout_s: float) -> None:
    """Check that each claimed partition belongs to an attempt whose account was delivered. Raises AttemptConflict."""
    registry = winners_of(shared.claim_client, shared.places, timeout_s)
    delivered = {number: _attempt(each) for each in told for number in each.claimed}
    for number in sorted(registry.keys() | delivered.keys()):
        if registry.get(number) != delivered.get(number):
            topic, partition = shared.routes.partition(number)
            raise AttemptConflict(
                f"{topic}-{partition} belongs to task attempt {registry.get(number)}, and Spark delivered attempt {delivered.get(number)}"
            )


def _attempt(told: Told) -> int:
    return told.summaries[-1].attempt_id


def _record(options: SinkOptions, begun: Begun, shared: SharedTransaction, written: Sequence[Summary], bad: Sequence[Summary]) -> None:
    """Write the batch's ledger entry again, now with its rows, and the bad rows, if they have a topic."""
    lasting = not (isinstance(begun.identity, JobVersion) and options.job is None)
    if not lasting and not bad:
        return
    topic, partition = shared.record
    dead_letter_sequences = [each for each in shared.participation.sequences if each[0] == options.settings.dead_letters]
    participant = make_participant(options.kafka)
    try:
        # The beginning has written one record there.
        participant.begin(replace(shared.participation, sequences=((topic, partition, 1), *dead_letter_sequences)))
        if bad and options.settings.dead_letters is not None:
            largest = min(participant.record_limit[0], shared.limits.bytes_max(options.settings.dead_letters))
            sent = send_dead_letters(
                bad,
                options.settings.dead_letters,
                participant,
                sink=options.settings.sink_id,
                batch=begun.identity.batch,
                largest=largest,
            )
            await_dead_letters(sent, options.settings.dead_letters, options.settings.timeout_s)
        if lasting:
            partitions = tuple(map(ledger_partition, written))
            rows = sum(each.records for each in written)
            entry = begun.identity.entry(options.settings.sink_id, rows, partitions, int(time.time() * 1000), shared.token.transactional_id)
            participant.send(topic, entry.dumps(), key=entry.key.encode(), partition=partition)
        participant.finish(options.settings.timeout_s)
    except FencepostError:
        participant.abandon(ABORT_S)
        raise
    finally:
        participant.close(ABORT_S)


def _resumed(options: SinkOptions, shared: SharedTransaction) -> Resumed:
    return resume(shared.token, **options.kafka.resolve())
