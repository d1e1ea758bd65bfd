"""A long send through a broker that is killed or restarted many times, each time with unacknowledged batches in its log.

Before each kill a relay drops the responses to one partition's Produce requests, until the leader's file has as many unacknowledged batches
as the producer may have in flight. The campaign notes what the files held, and what became of each such batch.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from fencepost.broker_stub.faults.rules import Fault
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer import Producer
from fencepost.producer.wire.codes import Api, ErrorCode
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.disk import BatchOnDisk, PartitionFile
from tests.conformance.survival.ledger import Account, Ledger
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.tap import BatchName, Tap
from tests.waiting import until

WINDOW = 5
STEP_TIMEOUT_S = 180.0
LEAVE_TIMEOUT_S = 3 * STEP_TIMEOUT_S
POLL_S = 0.01
STEADY_POLLS = 20
CORNER_TRIES = 40
CORNER_TIMEOUT_S = 10.0


class Stop(enum.Enum):
    """How the broker goes down."""

    KILL = "SIGKILL"
    RESTART = "restart"


class Incident(Struct, kw_only=True):
    """One kill or restart, and what followed. The counts are of the unacknowledged batches in the leader's file at that moment."""

    number: int
    stop: Stop
    node: int
    partition: int
    sent: int
    acked: int
    sequences: list[int]
    elsewhere: int  # unacknowledged batches in the topic's other partitions
    out_of_order: int  # answered OUT_OF_ORDER_SEQUENCE_NUMBER afterwards
    duplicates: int  # answered as a duplicate afterwards
    resolved: int  # acknowledged although every answer was that refusal: the producer asked, and found them in the log
    resent: int  # requests that sent these batches again
    down_s: float  # from the kill until the broker serves again, or until now if other brokers serve
    healed_s: float  # from then until the last of these batches is acknowledged

    def row(self) -> str:
        sequences = " ".join(str(each) for each in self.sequences)
        return (
            f"{self.number:>3} {self.stop.value:<8} {self.node:>4} {self.partition:>4} {self.sent:>9,} {self.acked:>9,}  "
            f"{len(self.sequences)} ({sequences}) {self.elsewhere:>4} {self.out_of_order:>6} {self.resolved:>8} {self.duplicates:>6} "
            f"{self.resent:>6} {self.down_s:>6.1f} {self.healed_s:>6.1f}"
        )


HEADING = (
    "  # stop     node part      sent     acked  unacknowledged in the file (base sequences); elsewhere; "
    "then: refused with 45, resolved, duplicates, resent, seconds down, seconds to heal"
)


class Outcome(Struct, kw_only=True):
    """The result of a whole campaign."""

    incidents: list[Incident]
    ledger: Ledger
    account: Account
    tap: Tap
    took_s: float

    def total(self, field: str) -> int:
        return sum(int(getattr(incident, field)) for incident in self.incidents)

    def report(self) -> str:
        """The table, its sums, and the verdict."""
        codes = ", ".join(f"{count:,} {name}" for name, count in self.tap.codes.most_common())
        return "\n".join(
            [
                HEADING,
                *(incident.row() for incident in self.incidents),
                f"unacknowledged then: {sum(len(i.sequences) for i in self.incidents)} batches, elsewhere {self.total('elsewhere')}; "
                f"refused with 45: {self.total('out_of_order')}, resolved by asking: {self.total('resolved')}, "
                f"duplicates: {self.total('duplicates')}, resent: {self.total('resent')}",
                f"Produce: {self.tap.sent:,} batches, {self.tap.resent:,} sent again; answers: {codes}; "
                f"DescribeProducers asked {self.tap.questions:,} times; highest epoch {self.tap.highest_epoch}",
                self.account.verdict(),
                f"took {self.took_s:.0f} s",
            ]
        )


class Campaign:
    """One topic, one producer behind a proxy, one sending thread. `say` gets one line per incident."""

    def __init__(self, cluster: KafkaCluster, topic: str, *, partitions: int, rows: int, seed: int, say: Callable[[str], object]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._admin = Admin(cluster.bootstrap)
        self._replicas = min(3, len(cluster.brokers))
        self._say = say
        self._trouble: list[BaseException] = []
        self._tap: Tap | None = None
        self._allowed = 0  # rows that may be sent so far
        self._more = threading.Condition()
        self.ledger = Ledger(rows, seed=seed)

    def run(self, stops: Sequence[Stop], **settings: Any) -> Outcome:
        """Send everything, with the incidents spread evenly over it. Then read it all back."""
        self._admin.create(self._topic, partitions=self._partitions, replicas=self._replicas)
        begun = time.monotonic()
        self._say(HEADING)
        with FaultProxy(self._cluster.bootstrap) as proxy, Producer(bootstrap_servers=proxy.bootstrap, **settings) as producer:
            tap = self._tap = Tap(producer)
            sender = threading.Thread(target=self._send, args=(producer,), name="survival-sender")
            sender.start()
            try:
                incidents = [self._strike(number, stop, len(stops), proxy, tap) for number, stop in enumerate(stops, start=1)]
                self._await("end of the sending", lambda: not sender.is_alive())
            finally:
                self._allow(rows=self.ledger.rows)
                sender.join(STEP_TIMEOUT_S)
            self._check()
            producer.flush(STEP_TIMEOUT_S)
        account = Account(self.ledger)
        for message in read_topic(self._cluster.bootstrap, self._topic):
            account.take_message(message)
        return Outcome(incidents=incidents, ledger=self.ledger, account=account, tap=tap, took_s=time.monotonic() - begun)

    def _send(self, producer: Producer) -> None:
        try:
            for row in range(self.ledger.rows):
                if row >= self._allowed:
                    self._wait_for_leave(row)
                self.ledger.send(producer, self._topic, row)
        except BaseException as error:
            self._trouble.append(error)
            raise

    def _allow(self, *, rows: int) -> None:
        """Let the sending thread continue up to this row. Otherwise brokers that fail over would finish everything before the next
        incident.
        """
        with self._more:
            self._allowed = rows
            self._more.notify_all()

    def _wait_for_leave(self, row: int) -> None:
        with self._more:
            if not self._more.wait_for(lambda: row < self._allowed, LEAVE_TIMEOUT_S):
                raise TimeoutError(f"row {row} was not allowed within {LEAVE_TIMEOUT_S:.0f} s")

    # -- one stop ----------------------------------------------------------------------------------------------------

    def _strike(self, number: int, stop: Stop, of: int, proxy: FaultProxy, tap: Tap) -> Incident:
        ledger = self.ledger
        due = ledger.rows * number // (of + 1)
        self._allow(rows=ledger.rows * (number + 1) // (of + 1))
        self._await(f"{due} acknowledged records", lambda: ledger.acked >= due)
        partition = number % self._partitions
        node, fault = self._corner(partition, proxy)
        files = {each: file for each, file in self._files(node).items() if self._leader(each) == node}
        held = self._held(files)
        answered = {name: len(tap.answers[name]) for name in _names(held)}
        sent, acked = ledger.sent, ledger.acked
        struck = time.monotonic()
        if stop is Stop.KILL:
            self._cluster.kill_broker(node)
            assert self._held(files) == held, "the unacknowledged batches in the file changed during the kill"
        else:
            self._cluster.stop_broker(node)
        assert acked < ledger.rows, "every row was acknowledged before the broker stopped, so this was not in the middle of the send"
        fault.remove()
        if len(self._cluster.brokers) == 1:
            self._cluster.start_broker(node)
        serving = time.monotonic()
        doomed = [(files[each], batch) for each, batches in held.items() for batch in batches]
        rows = [_row(record.value) for file, batch in doomed for record in file.records(batch)]
        self._await("their acknowledgements", lambda: not any(ledger.unanswered(row) for row in rows))
        healed = time.monotonic()
        if not self._cluster.brokers[node].alive:
            self._cluster.start_broker(node)
        self._await("all replicas in sync", lambda: all(isr == self._replicas for _, isr in self._admin.in_sync(self._topic).values()))
        # Without idempotence batches have no sequence, so single batches cannot be followed.
        after = {name: [code for code in tap.answers[name][count:] if code >= 0] for name, count in answered.items() if name[1] >= 0}
        refused = [codes for codes in after.values() if ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER in codes]
        incident = Incident(
            number=number,
            stop=stop,
            node=node,
            partition=partition,
            sent=sent,
            acked=acked,
            sequences=[batch.header.base_sequence for batch in held[partition]],
            elsewhere=sum(len(batches) for each, batches in held.items() if each != partition),
            out_of_order=len(refused),
            duplicates=sum(0 in codes for codes in after.values()),
            resolved=sum(0 not in codes for codes in after.values()),
            resent=sum(len(codes) for codes in after.values()),
            down_s=serving - struck,
            healed_s=healed - serving,
        )
        self._say(incident.row())
        return incident

    def _corner(self, partition: int, proxy: FaultProxy) -> tuple[int, Fault]:
        """Drop the partition's acknowledgements until its leader holds a full window of unacknowledged batches.

        The window may not fill: a connection carries five requests, and some may have left without a batch of this partition. Then the
        connections are cut, everything is sent again, and the next try begins.
        """
        for _ in range(CORNER_TRIES):
            node = self._leader(partition)
            file = self._files(node)[partition]
            fault = proxy.faults.on(Api.PRODUCE).where(topic=self._topic, partition=partition, node=node).reply().drop().forever()
            deadline = time.monotonic() + CORNER_TIMEOUT_S
            steady = 0
            while time.monotonic() < deadline:
                self._check()
                # Responses that left before the fault began may still arrive.
                cornered = fault.hits > 0 and len(self._unanswered(file)) == WINDOW
                steady = steady + 1 if cornered else 0
                if steady >= STEADY_POLLS and self._leader(partition) == node:
                    return node, fault
                time.sleep(POLL_S)
            fault.remove()
            proxy.cut_connections()
            self._await_progress()
        raise TimeoutError(f"the window of partition {partition} did not fill in {CORNER_TRIES} tries")

    def _files(self, node: int) -> dict[int, PartitionFile]:
        return {each: PartitionFile(self._cluster, node, self._topic, each) for each in range(self._partitions)}

    def _held(self, files: dict[int, PartitionFile]) -> dict[int, list[BatchOnDisk]]:
        return {partition: self._unanswered(file) for partition, file in files.items()}

    def _leader(self, partition: int) -> int:
        self._await("a leader", lambda: self._admin.in_sync(self._topic)[partition][0] >= 0)
        return self._admin.in_sync(self._topic)[partition][0]

    def _unanswered(self, file: PartitionFile) -> list[BatchOnDisk]:
        """The newest batches in the file, at most a window of them, for whose records the caller has no outcome."""
        newest = file.refresh()[-WINDOW:]
        return [batch for batch in newest if all(self.ledger.unanswered(_row(record.value)) for record in file.records(batch))]

    def _await(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait until the condition is true. Raises the sending thread's error, or TimeoutError."""

        def checked() -> bool:
            self._check()
            return ready()

        try:
            until(checked, what, timeout_s=STEP_TIMEOUT_S)
        except TimeoutError as late:
            late.add_note(f"sent {self.ledger.sent}, acknowledged {self.ledger.acked}, failed {self.ledger.failed}; {self._state()}")
            raise

    def _await_progress(self) -> None:
        before = self.ledger.acked
        self._await("progress after the connections were cut", lambda: self.ledger.acked > before)

    def _state(self) -> str:
        return "" if self._tap is None else self._tap.state()

    def _check(self) -> None:
        if self._trouble:
            raise AssertionError(f"the sending thread failed; {self._state()}") from self._trouble[0]


def _names(held: dict[int, list[BatchOnDisk]]) -> list[BatchName]:
    return [(partition, *batch.identity) for partition, batches in held.items() for batch in batches]


def _row(value: bytes | None) -> int:
    assert value is not None
    return int(value[:10])
