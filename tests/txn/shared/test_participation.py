"""Participations and accounts as they travel: one line of JSON each, refused where it is something else."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from fencepost.txn.shared.participation import BadParticipation, Participation, Written, check_partitions, read_participation
from fencepost.txn.shared.shared_partitions import read_written

PARTICIPATION = Participation(
    transactional_id="tx", producer_id=7, producer_epoch=3, transaction_version=2, sequences=(("t", 0, 5), ("u", 1, 0))
)
WRITTEN = Written("t", 0, 2, 40, 41, 7)


def test_there_and_back() -> None:
    """What was written down is read as it was, on one line, and both can be pickled."""
    assert (
        Participation.loads(PARTICIPATION.dumps())
        == read_participation(str(PARTICIPATION))
        == read_participation(PARTICIPATION)
        == PARTICIPATION
    )
    assert Written.loads(WRITTEN.dumps()) == WRITTEN
    assert "\n" not in PARTICIPATION.dumps() + WRITTEN.dumps()
    assert pickle.loads(pickle.dumps((PARTICIPATION, WRITTEN))) == (PARTICIPATION, WRITTEN)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", 'a JSON object with a field "format"'),
        ('{"format":2}', "format 2; this version of fencepost .* reads format 1"),
        ('{"format":true}', "format True"),
        ('{"format":1}', "damaged participation in a transaction: .*transactional_id"),
        (PARTICIPATION.dumps().replace('"producer_epoch":3', '"producer_epoch":32768'), "damaged .*32767"),
        (PARTICIPATION.dumps().replace('["t",0,5]', '["t",0,-5]'), "damaged .*sequences"),
        (PARTICIPATION.dumps().replace('"transaction_version":2', '"transaction_version":3'), "damaged .*transaction_version"),
        (PARTICIPATION.dumps().replace('"format":1', '"format":1,"more":1'), "damaged .*more"),
    ],
)
def test_texts_that_are_no_participations(text: str, words: str) -> None:
    """Each is refused with what is wrong with it."""
    with pytest.raises(BadParticipation, match=words):
        Participation.loads(text)


def test_a_part_of_a_participation() -> None:
    """Some of its partitions, in the participation's order, under the same identity; what was not shared cannot be part of it."""
    assert PARTICIPATION.part([("u", 1)]).sequences == (("u", 1, 0),)
    assert PARTICIPATION.part([("u", 1), ("t", 0)]) == PARTICIPATION
    with pytest.raises(BadParticipation, match="u-2 is not part of the participation in transactional id 'tx'"):
        PARTICIPATION.part([("u", 2)])


def test_unused_partitions_have_empty_accounts() -> None:
    """An account of nothing for each partition that the others leave out, so that it can be shared again from the same sequence."""
    assert PARTICIPATION.unused([WRITTEN]) == [Written("u", 1, 0, -1, -1, 0)]
    assert PARTICIPATION.unused([]) == [Written("t", 0, 0, -1, -1, 5), Written("u", 1, 0, -1, -1, 0)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (7, "pairs, not int"),
        (["t"], "pairs, not 't'"),
        ([("t", -1)], r"not \('t', -1\)"),
        ([("t", True)], r"not \('t', True\)"),
        ([("", 0)], r"not \('', 0\)"),
        ([], "no partition was named"),
        ([("t", 0), ("t", 0)], "t-0 is named twice"),
    ],
)
def test_partitions_that_cannot_be_shared(given: Any, words: str) -> None:
    """Each is refused with its value."""
    with pytest.raises(BadParticipation, match=words):
        check_partitions(given)


def test_accounts_that_cannot_be() -> None:
    """One for each partition, each an account."""
    assert read_written([WRITTEN.dumps()]) == (WRITTEN,)
    with pytest.raises(BadParticipation, match="t-0 was written by two participants"):
        read_written([WRITTEN, WRITTEN])
    with pytest.raises(BadParticipation, match="not int"):
        read_written([7])
    with pytest.raises(BadParticipation, match="as a list"):
        read_written(WRITTEN)  # type: ignore[arg-type]
    with pytest.raises(BadParticipation, match="a participation is a Participation, or its text, not int"):
        read_participation(7)
