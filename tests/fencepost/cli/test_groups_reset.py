"""`fencepost groups reset`: the new offset for each option, which partitions, and when it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.fencepost.cli.group_stub import BEGAN_MS, OFFSETS, commit, groups, stub_with_groups
from tests.fencepost.cli.shell import Ran

pytestmark = pytest.mark.timeout(200)

FOURTH = datetime.fromtimestamp(BEGAN_MS / 1000 + 2.5, UTC).isoformat()
"""A moment after the third record and before the fourth."""


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with stub_with_groups() as running:
        yield running


@pytest.fixture
def past(stub: BrokerStub) -> str:
    """The group "past" with its offsets."""
    commit(stub, "past", OFFSETS)
    return "past"


def offsets(ran: Ran) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["offset"] for row in ran.objects}


def committed(stub: BrokerStub, group: str) -> dict[tuple[str, int], int]:
    return offsets(groups(stub, "offsets", group, "--json"))


ALL = tuple(OFFSETS)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--to-earliest",), (0, 0, 0)),
        (("--to-latest",), (10, 10, 5)),
        (("--to-offset", 3), (3, 3, 3)),
        (("--to-datetime", FOURTH), (3, 3, 3)),
        (("--to-datetime", FOURTH.removesuffix("+00:00")), (3, 3, 3)),
        (("--to-datetime", "2222-01-01T00:00:00+05:00"), (10, 10, 5)),
        (("--shift-by", -2), (2, 8, 0)),
        (("--by-duration", "P100000D"), (0, 0, 0)),
        (("--to-datetime", "1969-12-31T23:59:59.999"), (0, 0, 0)),
        (("--by-duration", "PT1H30M5.5S"), (10, 10, 5)),
    ],
)
def test_the_new_offsets(stub: BrokerStub, past: str, options: tuple[object, ...], expected: tuple[int, ...]) -> None:
    """Without --execute they are shown and nothing changes; with it they are committed."""
    command = ("reset", past, *options, "--all-topics", "--json")
    shown = groups(stub, *command)
    assert (shown.code, offsets(shown)) == (0, dict(zip(ALL, expected, strict=True)))
    assert shown.err == "fencepost groups reset: nothing is changed yet: add --execute to commit these offsets\n"
    assert [row["before"] for row in shown.objects] == list(OFFSETS.values())
    assert committed(stub, past) == OFFSETS
    done = groups(stub, *command, "--execute")
    assert (done.code, done.err, done.out) == (0, "", shown.out)
    assert committed(stub, past) == offsets(shown)


def test_offsets_that_the_log_does_not_have(stub: BrokerStub, past: str) -> None:
    """They become the log's first or last offset, and a line says so."""
    ran = groups(stub, "reset", past, "--to-offset", 7, "--all-topics", "--json")
    assert offsets(ran)["u", 0] == 5
    assert ran.err.splitlines()[0] == "fencepost groups reset: u-0 has the offsets 0 to 5, not 7: it is set to 5"
    assert offsets(groups(stub, "reset", past, "--shift-by", -5, "--topic", "u", "--json")) == {("u", 0): 0}


def test_only_some_partitions(stub: BrokerStub, past: str) -> None:
    """Of a topic all partitions, or those that are named. The others keep their offsets."""
    assert offsets(groups(stub, "reset", past, "--to-latest", "--topic", "t", "--json")) == dict.fromkeys(
        (("t", 0), ("t", 1), ("t", 2)), 10
    )
    some = groups(stub, "reset", past, "--to-earliest", "--topic", "t:2", "--topic", "t:0", "--execute", "--json")
    assert offsets(some) == {("t", 0): 0, ("t", 2): 0}
    assert [row["before"] for row in some.objects] == [4, None]
    assert committed(stub, past) == {**OFFSETS, ("t", 0): 0, ("t", 2): 0}


def test_from_a_file(stub: BrokerStub, past: str, tmp_path: Path) -> None:
    """What `offsets --json` printed brings the offsets back; lines as Kafka's tool has them do, too, for one group or for several."""
    file = tmp_path / "offsets"
    file.write_text(groups(stub, "offsets", past, "--json").out)
    groups(stub, "reset", past, "--to-earliest", "--all-topics", "--execute")
    assert groups(stub, "reset", past, "--from-file", file, "--execute").code == 0
    assert {tp: offset for tp, offset in committed(stub, past).items() if tp in OFFSETS} == OFFSETS
    file.write_text("t,0,1\n\nt,1,2\n")
    assert offsets(groups(stub, "reset", past, "--from-file", file, "--json")) == {("t", 0): 1, ("t", 1): 2}
    file.write_text("other,t,0,1\npast,t,1,2\n")
    assert offsets(groups(stub, "reset", past, "--from-file", file, "--json")) == {("t", 1): 2}


def test_a_new_group(stub: BrokerStub) -> None:
    """A group that does not exist is created with the offsets."""
    assert groups(stub, "reset", "new", "--to-latest", "--topic", "u", "--execute").code == 0
    assert committed(stub, "new") == {("u", 0): 5}


def test_an_active_group(stub: BrokerStub) -> None:
    """It is refused, with what to do."""
    ran = groups(stub, "reset", "live", "--to-earliest", "--topic", "t", "--execute")
    assert (ran.code, ran.out) == (2, "")
    assert "group 'live' is active: Stable with 2 members" in ran.err
    assert "Stop them" in ran.err
    assert committed(stub, "live") == {("t", 0): 3}


def test_a_member_that_comes_meanwhile(stub: BrokerStub, past: str) -> None:
    """The coordinator's refusal is a sentence."""
    stub.faults.on(Api.OFFSET_COMMIT).error(ErrorCode.UNKNOWN_MEMBER_ID).times(1)
    ran = groups(stub, "reset", past, "--to-earliest", "--all-topics", "--execute")
    assert ran.code == 2
    assert "group 'past' has members: UNKNOWN_MEMBER_ID" in ran.err


def test_a_shift_happens_once(stub: BrokerStub, past: str) -> None:
    """A reply that is lost is asked for again with the same offsets."""
    fault = stub.faults.on(Api.OFFSET_COMMIT).drop_reply().times(1)
    ran = groups(stub, "reset", past, "--shift-by", -1, "--all-topics", "--execute", "--config", "request_timeout_ms=500")
    assert (ran.code, fault.hits) == (0, 1)
    assert {tp: offset for tp, offset in committed(stub, past).items() if tp in OFFSETS} == {tp: each - 1 for tp, each in OFFSETS.items()}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--all-topics",), "give one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by, --by-duration, --from-file"),
        (("--to-latest", "--shift-by", 0, "--all-topics"), "not --to-latest and --shift-by"),
        (("--to-latest",), "give --topic or --all-topics"),
        (("--to-latest", "--topic", "t", "--all-topics"), "give --topic or --all-topics"),
        (("--from-file", "x", "--topic", "t"), "--from-file names the partitions itself"),
        (("--from-file", "none"), "--from-file none: No such file or directory"),
        (("--from-file", __file__), f"--from-file {__file__}: line 1 is neither [GROUP,]TOPIC,PARTITION,OFFSET nor a JSON object"),
        (("--to-latest", "--topic", "none"), "there is no topic 'none'"),
        (("--to-latest", "--topic", "t:3"), "topic 't' has no partition 3: it has 3"),
        (("--to-latest", "--topic", "t:x"), "--topic 't:x' does not name partitions as NAME:0,1,2"),
        (("--shift-by", 1, "--topic", "t:2"), "t-2 has no committed offset that could be shifted"),
        (("--to-datetime", "noon", "--all-topics"), "--to-datetime 'noon' is no date and time such as 2026-11-28T07:00:00.000"),
        (("--by-duration", "1h", "--all-topics"), "--by-duration '1h' is no duration such as P7D, PT1H30M or PT10S"),
        (("--by-duration", "P", "--all-topics"), "--by-duration 'P' is no duration"),
    ],
)
def test_mistakes(stub: BrokerStub, options: tuple[object, ...], reason: str) -> None:
    """One line with the value, exit code 2, and nothing is set."""
    ran = groups(stub, "reset", "fresh", *options, "--execute")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert reason in ran.err
    assert groups(stub, "offsets", "fresh").code == 1


def test_a_group_without_offsets(stub: BrokerStub) -> None:
    """With --all-topics there is nothing to set."""
    ran = groups(stub, "reset", "fresh", "--to-latest", "--all-topics")
    assert (ran.code, ran.err) == (2, "fencepost groups reset: group 'fresh' has no committed offsets; name the topics with --topic\n")
