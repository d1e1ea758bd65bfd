"""The positions of jobs: a compacted topic whose records are committed in the transactions of the jobs.

It is no consumer group's offset with metadata, for these reasons. Kafka deletes the offsets of a group without members after
`offsets.retention.minutes` (seven days), so a job that runs once a month would begin again. Metadata may have
`offset.metadata.max.bytes` (4,096), which the places of fifty files exceed. An offset belongs to a partition, and is deleted with its
topic. Tools that clean up empty groups delete it.

Register the job's transactional id before its position is read: then no earlier run can commit another one. The markers in the log say
what is committed, so a reading waits for no other job's open transaction.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final, SupportsFloat

import msgspec
from msgspec import Struct

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.producer.config.settings import Settings
from fencepost.txn.jobs.entry import BadJobEntry, JobEntry, job_name
from fencepost.txn.keyed_topic.errors import LedgerBusy, LedgerDamaged
from fencepost.txn.keyed_topic.keyed_topic import KeyedTopic
from fencepost.txn.keyed_topic.purpose import Purpose
from fencepost.txn.keyed_topic.scan import Stored
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline
from fencepost.txn.protocol.describe import describe_transaction

TOPIC: Final = "__fencepost_jobs"
ID_PREFIX: Final = "fencepost-job."
"""The beginning of a job's transactional id, unless it has another one."""
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
POSITIONS: Final = Purpose(
    noun="jobs' record of positions",
    owner="job",
    lost="jobs begin again at the start of their sources",
    twice="jobs would begin again at the start of their sources",
    at_stake=(
        "the positions of all jobs that used it are lost, and the next run of each would write everything again. Way out: "
        "`fencepost jobs reset JOB --to POSITION --execute` with a position from a log or a backup; or, if everything may be written "
        "again, run the job once more"
    ),
)


class FoundJob(Struct, frozen=True):
    """What the topic has of a job: the newest committed entry, where it is, and `trouble` if it cannot be read."""

    entry: JobEntry | None
    partition: int
    offset: int
    trouble: str | None = None


class Positions:
    """The positions of one cluster's jobs. Times are seconds; without a `timeout` it is `max_block_ms`. Raises LedgerUnavailable if the
    time passes, LedgerUnusable if the topic cannot keep positions, and LedgerDamaged for an entry that cannot be read."""

    def __init__(self, settings: Settings, topic: str = TOPIC) -> None:
        self.topic: Final = topic
        self._entries: Final = KeyedTopic(settings, topic, POSITIONS)

    def read(self, job: str, timeout: SupportsFloat | None = None) -> JobEntry | None:
        """The job's newest committed entry, or None. The topic is created if it is missing. Register the job's transactional id first.

        Raises LedgerBusy if a transaction with an entry of the job is open nevertheless, because its outcome is not known.
        """
        name = job_name(job)
        stored, doubtful = self._entries.run(timeout, lambda client, deadline: self._entries.read(client, deadline, name))
        if doubtful:
            raise LedgerBusy(
                f"job {job!r}: its newest position, at offset {doubtful[-1].offset} of {self.topic}-{doubtful[-1].partition}, belongs to an"
                " open transaction: another process runs the job under another transactional id, or the transaction hangs: `fencepost txn"
                f" find-hanging --topic {self.topic}` tells"
            )
        found = self._found(job, stored) if stored is not None else None
        if found is not None and found.trouble is not None:
            raise LedgerDamaged(found.trouble)
        return found.entry if found is not None else None

    def list(self, timeout: SupportsFloat | None = None) -> dict[str, FoundJob]:
        """What the topic has of each job, by name; nothing if the topic is missing. It creates no topic, and registers no id."""
        looked = self._entries.run(timeout, self._entries.look)
        found = {name: self._found(name, each.stored) for name, each in looked.items() if each.stored is not None}
        return {name: each for name, each in found.items() if each.entry is not None or each.trouble is not None}

    def row(self, entry: JobEntry) -> tuple[int, bytes, bytes]:
        """Partition, key and value of the entry's record, to be sent in the transaction of the records before its position."""
        return self._entries.partition_of(entry.job), entry.job.encode(), entry.dumps()

    def state(self, transactional_id: str, timeout: SupportsFloat | None = None) -> str | None:
        """The state of the job's transaction if one is open, otherwise None. Between two transactions of a run none is open."""

        async def ask(client: ClusterClient, deadline: Deadline) -> str | None:
            said = await client.again(lambda: describe_transaction(client, transactional_id), deadline)
            return said.transaction_state if said is not None and said.transaction_state in OPEN_STATES else None

        return self._entries.run(timeout, ask)

    def replace(self, job: str, entry: JobEntry | None, transactional_id: str, timeout: SupportsFloat | None = None) -> None:
        """Commit another entry of the job; None: the next run begins at the start. It takes over the job's transactional id, so a run that
        is still alive ends with Fenced, and commits nothing more."""
        value = entry.dumps() if entry is not None else None

        async def write(client: ClusterClient, deadline: Deadline) -> None:
            leaders = await self._entries.ensure(client, deadline)
            home = partition_for_key(job.encode(), len(leaders))
            await self._entries.write(client, deadline, job, value, [home], transactional_id)

        self._entries.run(timeout, write)

    def _found(self, job: str, stored: Stored) -> FoundJob:
        trouble, entry = None, None
        where = f"at offset {stored.offset} of {self.topic}-{stored.partition}"
        if stored.plain:
            trouble = (
                f"all that the topic has of job {job!r}, {where}, was written outside of any transaction: it is not fencepost's and does "
                f"not count. Find out which other client writes into the topic; `fencepost jobs reset {job} --to POSITION --execute` sets "
                "the position"
            )
        elif stored.value is not None:
            try:
                entry = JobEntry.loads(stored.value)
                if entry.job != job:
                    raise BadJobEntry(f"its value is of {entry.job!r}")
            except BadJobEntry as error:
                entry, trouble = None, f"the position of job {job!r} {where} cannot be used: {error}"
        return FoundJob(entry, stored.partition, stored.offset, trouble)


def entry_of(job: str, position: Any, *, source: str, records: int, topic: str | None, transactional_id: str) -> JobEntry:
    """An entry that is written now."""
    return JobEntry(
        job=job,
        position=position,
        source=source,
        records=records,
        topic=topic,
        transactional_id=transactional_id,
        at_ms=int(time.time() * 1000),
    )


def as_json(position: Any) -> Any:
    """The position as the next run will get it. Raises BadJobEntry."""
    try:
        json.dumps(msgspec.to_builtins(position), allow_nan=False)  # msgspec writes null for numbers that JSON does not have
        found = msgspec.json.decode(msgspec.json.encode(position))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadJobEntry(f"position={position!r:.300}: a position must be a value that JSON can hold: {error}") from None
    if found is None:
        raise BadJobEntry("position=None: the source gives it after a record, and it means the start: the next run would send all again")
    return found
