"""The demo counts what it claims to count, makes the trouble it claims to make, and fails when it has nothing to show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from fencepost import BrokerStub, Producer
from fencepost.demo import FLIGHTS_TOTAL, Flight, FlightsMissing, Outcome, Report, as_json, as_table, load_flights, problems
from fencepost.demo import flights as flights_module
from fencepost.demo.flights import row_of
from fencepost.demo.readback import Audit, read_back
from fencepost.demo.schedule import Trouble, plan
from tests.conformance.fixtures import kafka
from tests.conformance.kafka import KafkaCluster
from tests.drawn import drawn

__all__ = ["kafka"]

SAMPLE = [Flight(b"N1", b"0,a"), Flight(b"N2", b"1,b"), Flight(None, b"2,c"), Flight(b"N1", b"3,d")]
KEYS = [
    "sent",
    "acknowledged",
    "resent",
    "duplicates_refused",
    "in_log",
    "lost",
    "doubled",
    "out_of_order",
    "replies_dropped",
    "connections_cut",
    "leader_moves",
    "restarts",
]
GOOD = Outcome(
    sent=10,
    acknowledged=10,
    resent=2,
    duplicates_refused=1,
    in_log=10,
    lost=0,
    doubled=0,
    out_of_order=0,
    replies_dropped=1,
    connections_cut=1,
    leader_moves=1,
    restarts=1,
)
DOUBLED = msgspec.structs.replace(GOOD, duplicates_refused=0, in_log=12, doubled=2, out_of_order=1)
WHOLE = drawn(3, of="whole runs of the demo")


def audited(*records: tuple[int, bytes | None, bytes]) -> Audit:
    audit = Audit(SAMPLE)
    for record in records:
        audit.see(*record)
    return audit


def everything(partition: int = 0) -> list[tuple[int, bytes | None, bytes]]:
    return [(partition, flight.key, flight.value) for flight in SAMPLE]


def counts(audit: Audit) -> tuple[int, int, int, int]:
    return audit.in_log, audit.lost, audit.doubled, audit.out_of_order


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "fencepost", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env=environment)


class Silent:
    """An audience that only remembers how far each act came."""

    def __init__(self) -> None:
        self.seen: list[int] = []


# -- counting --------------------------------------------------------------------------------------------------------------


def test_every_record_once_is_nothing_to_complain_of() -> None:
    """The log that holds what was sent counts as such."""
    assert counts(audited(*everything())) == (4, 0, 0, 0)


def test_a_missing_record_is_lost() -> None:
    """A row without a copy counts as lost, also when other rows have copies."""
    assert counts(audited(*everything()[:-1])) == (3, 1, 0, 0)


def test_a_second_copy_is_doubled() -> None:
    """Each copy beyond the first counts, wherever it is."""
    assert counts(audited(*everything(), *everything()[2:3], *everything()[2:3])) == (6, 0, 2, 0)


@pytest.mark.parametrize(
    "damaged",
    [
        (0, b"N1", b"0,A"),
        (0, b"N9", b"0,a"),
        (0, None, b"0,a"),
        (0, b"N1", b"4,a"),
        (0, b"N1", b"a"),
        (0, b"N1", b""),
        (0, b"N1", b"-1,a"),
    ],
)
def test_a_record_that_is_not_as_it_was_sent_is_lost(damaged: tuple[int, bytes | None, bytes]) -> None:
    """Digests are compared, of key and value: a damaged copy is no copy."""
    assert counts(audited(damaged, *everything()[1:])) == (4, 1, 0, 0)


def test_a_null_key_is_not_an_empty_one() -> None:
    """A record that comes back with an empty key instead of none is not the one that was sent."""
    assert counts(audited(*everything()[:2], (0, b"", b"2,c"), *everything()[3:])) == (4, 1, 0, 0)


def test_a_record_behind_a_later_one_of_its_key_is_out_of_order() -> None:
    """Order is counted per key; other keys and records without one do not matter."""
    first, second, third, last = everything()
    assert counts(audited(third, second, first, last)) == (4, 0, 0, 0)
    assert counts(audited(last, second, third, first)) == (4, 0, 0, 1)


def test_a_key_on_two_partitions_is_out_of_order() -> None:
    """Records of one key have no order any more when they are on two partitions."""
    *others, last = everything()
    assert counts(audited(*others, (1, last[1], last[2]))) == (4, 0, 0, 1)


def test_the_consumer_reads_everything_to_the_end() -> None:
    """confluent-kafka gives back each record of each partition once, in order, with null keys as such."""
    with BrokerStub() as stub:
        stub.create_topic("flights", partitions=2)
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            for number in range(1000):
                producer.send("flights", b"%d,x" % number, key=None if number % 2 else b"even", partition=number % 2)
        told: list[int] = []
        seen = list(read_back(stub.bootstrap, "flights", 2, timeout_s=30, advance=told.append))
    assert told[-1] == 1000
    for partition, key in ((0, b"even"), (1, None)):
        mine = [record for record in seen if record.partition == partition]
        assert [row_of(record.value) for record in mine] == list(range(partition, 1000, 2))
        assert {record.key for record in mine} == {key}


# -- flights ---------------------------------------------------------------------------------------------------------------


def test_the_flights_are_all_there() -> None:
    """336,776 flights, 2,512 of them without a tail number and so without a key; each value begins with its row's number."""
    flights = load_flights()
    assert len(flights) == FLIGHTS_TOTAL == 336_776
    assert sum(flight.key is None for flight in flights) == 2_512
    assert all(row_of(flight.value) == row for row, flight in enumerate(flights))
    assert flights[0] == (b"N14228", b"0,2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z")
    assert load_flights(3) == flights[:3]


def test_without_the_flights_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo is an extra. Without it, the error names the extra."""
    monkeypatch.setattr(flights_module, "find_spec", lambda name: None)
    with pytest.raises(FlightsMissing, match=r"extra `demo`, in a checkout with pip install '\.\[demo\]'"):
        load_flights()


# -- the plan --------------------------------------------------------------------------------------------------------------


def test_every_trouble_happens_and_something_follows_the_last() -> None:
    """The plan is in the order of its rows, has every trouble in it, and leaves a tenth of the rows to hit."""
    steps = plan(1000)
    assert [step.row for step in steps] == sorted(step.row for step in steps)
    assert {step.trouble for step in steps} == set(Trouble)
    assert steps[0].row > 0
    assert steps[-1].row <= 900


def test_a_broker_that_goes_comes_back_before_anything_needs_it() -> None:
    """Between a broker's end and its return there is load, but no leader move, which needs it, and no second end."""
    down = False
    for _, trouble in plan(1000):
        if trouble in (Trouble.STOP_BROKER, Trouble.KILL_BROKER, Trouble.MOVE_LEADERS):
            assert not down
        down = trouble in (Trouble.STOP_BROKER, Trouble.KILL_BROKER) or (down and trouble is not Trouble.START_BROKER)
    assert not down


# -- the verdict -----------------------------------------------------------------------------------------------------------


def test_a_good_report_has_no_problems() -> None:
    """Exactly once with idempotence, doubled without, every trouble counted: that is what the demo is to show."""
    assert problems(Report(GOOD, DOUBLED)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lost": 1, "in_log": 9}, "1 record lost by the idempotent producer"),
        ({"doubled": 2, "in_log": 12}, "2 records doubled by the idempotent producer"),
        ({"out_of_order": 1}, "1 record out of order per key by the idempotent producer"),
        ({"acknowledged": 9}, "1 record was not acknowledged to the idempotent producer"),
        ({"resent": 0}, "no records that reached a broker again in the run with idempotence"),
        ({"duplicates_refused": 0}, "no duplicate batches refused by the broker in the run with idempotence"),
        ({"replies_dropped": 0}, "no replies dropped after the append in the run with idempotence"),
        ({"connections_cut": 0}, "no connections cut in the run with idempotence"),
        ({"leader_moves": 0}, "no leader moves in the run with idempotence"),
        ({"restarts": 0}, "no broker restarts in the run with idempotence"),
    ],
)
def test_any_broken_promise_fails_the_demo(changes: dict[str, int], words: str) -> None:
    """Anything lost, doubled or reordered, and any trouble that did not happen, fails the demo."""
    assert problems(Report(msgspec.structs.replace(GOOD, **changes), DOUBLED)) == [words]


def test_a_run_without_idempotence_that_doubles_nothing_is_a_problem() -> None:
    """A demo whose faults double no record shows nothing."""
    assert len(problems(Report(GOOD, GOOD))) == 1


def test_a_run_without_idempotence_has_troubles_and_resends_too() -> None:
    """Both columns need the same faults. Without idempotence no broker refuses a duplicate."""
    idle = msgspec.structs.replace(DOUBLED, resent=0, connections_cut=0)
    assert problems(Report(GOOD, idle)) == [
        "no records that reached a broker again in the run without idempotence",
        "no connections cut in the run without idempotence",
    ]


def test_what_could_not_be_counted_is_neither_zero_nor_a_problem() -> None:
    """A number that could not be counted is n/a in the table and null in JSON, and fails nothing."""
    blind = msgspec.structs.replace(GOOD, leader_moves=None, restarts=None)
    report = Report(blind, msgspec.structs.replace(DOUBLED, leader_moves=None, restarts=None))
    assert problems(report) == []
    assert json.loads(as_json(report))["leader_moves"] is None
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115  # closed below
    console.print(as_table(report))
    console.file.close()
    assert "n/a" in next(line for line in console.export_text().splitlines() if "leader moves" in line)


def test_json_has_the_promised_keys_in_order() -> None:
    """Programs may rely on the keys."""
    printed = json.loads(as_json(Report(GOOD, DOUBLED)))
    assert list(printed) == [*KEYS, "without_idempotence"]
    assert list(printed["without_idempotence"]) == KEYS


# -- the whole of it -------------------------------------------------------------------------------------------------------


@dataclass
class Played:
    """What `fencepost demo --json` said."""

    idempotent: dict[str, int | None]
    without_idempotence: dict[str, int | None]


def played(rows: int, *arguments: str) -> Played:
    ran = demo("--rows", str(rows), "--json", *arguments)
    assert ran.returncode == 0, ran.stderr
    printed = json.loads(ran.stdout)
    return Played(printed, printed.pop("without_idempotence"))


def counted_from_outside(shown: Played) -> None:
    """Everything but what is left alone on a broker that is not the demo's own."""
    for outcome in (shown.idempotent, shown.without_idempotence):
        assert all(outcome[name] for name in ("resent", "replies_dropped", "connections_cut"))
        assert outcome["leader_moves"] is outcome["restarts"] is None
    assert shown.idempotent["duplicates_refused"]
    assert shown.without_idempotence["duplicates_refused"] == 0


def test_the_demo_shows_it_on_the_stub() -> None:
    """A sample of the flights arrives once and in order through lost replies, cut connections, leader moves and restarts; without
    idempotence the same troubles double some."""
    shown = played(3_000)
    ours, other = shown.idempotent, shown.without_idempotence
    assert [ours[name] for name in ("sent", "acknowledged", "in_log", "lost", "doubled", "out_of_order")] == [3_000, 3_000, 3_000, 0, 0, 0]
    for outcome in (ours, other):
        assert all(outcome[name] for name in ("resent", "replies_dropped", "connections_cut", "leader_moves", "restarts"))
    assert ours["duplicates_refused"]
    assert other["duplicates_refused"] == 0
    assert other["doubled"]


@WHOLE
def test_the_demo_prints_a_table(tmp_path: Path) -> None:
    """Without --json there is a table with both runs and a sentence that says what was seen. With --share the idempotent run is left as a
    page, and its path is said."""
    ran = demo("--rows", "2000", "--share", str(tmp_path / "demo.html"))
    assert ran.returncode == 0, ran.stderr
    assert "2,000 flights sent, 2,000 in the log, each once and in order" in ran.stdout
    assert "without idempotence" in ran.stdout
    assert "sending, idempotent" in ran.stderr
    assert f"what happened, as a page: {tmp_path}/demo.html" in ran.stderr
    page = (tmp_path / "demo.html").read_text()
    assert '"kind":"lost reply"' in page
    assert '"what":"leader"' in page
    [shown] = re.findall(r"connections cut +│ +(\d+) │", ran.stdout)
    assert f'"connections_cut":{shown},' in page.replace("}", ",")


@WHOLE
def test_the_demo_goes_through_a_proxy_where_the_broker_is_not_its_own() -> None:
    """With --bootstrap it counts what passes the proxy and what is done there, never more refused duplicates than the brokers refused, and
    says n/a to leader moves and restarts."""
    with BrokerStub(brokers=3) as stub:
        shown = played(3_000, "--bootstrap", stub.bootstrap)
        refused = stub.stats()["duplicates"]
    assert (shown.idempotent["in_log"], shown.idempotent["lost"], shown.idempotent["doubled"]) == (3_000, 0, 0)
    counted_from_outside(shown)
    assert (shown.idempotent["duplicates_refused"] or 0) <= refused


@WHOLE
def test_the_demo_shows_it_on_apache_kafka(kafka: KafkaCluster) -> None:
    """On Apache Kafka, with faults from the proxy, each record is once and in order. The demo counts resent and refused batches as on the
    stub."""
    shown = played(3_000, "--bootstrap", kafka.bootstrap)
    ours = shown.idempotent
    assert [ours[name] for name in ("acknowledged", "in_log", "lost", "doubled", "out_of_order")] == [3_000, 3_000, 0, 0, 0]
    assert shown.without_idempotence["doubled"]
    counted_from_outside(shown)


def test_a_broker_that_is_not_there_is_an_error() -> None:
    """The demo says so in a line and ends with an exit code."""
    ran = demo("--rows", "2000", "--bootstrap", "nowhere")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1].startswith("fencepost demo: 'nowhere' is not HOST:PORT")


def test_too_few_rows_are_refused() -> None:
    """A number that cannot show anything is not silently another one."""
    ran = demo("--rows", "5")
    assert (ran.returncode, ran.stderr) == (2, "fencepost demo: --rows 5 is out of range: give 2000 to 336776\n")
