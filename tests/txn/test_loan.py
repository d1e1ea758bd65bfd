"""Loans and accounts as they travel: one line of JSON each, refused where it is something else."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from fencepost.txn.shared.lending import read_written
from fencepost.txn.shared.loan import BadLoan, Loan, Written, check_partitions, read_loan

LOAN = Loan(transactional_id="tx", producer_id=7, producer_epoch=3, transaction_version=2, sequences=(("t", 0, 5), ("u", 1, 0)))
WRITTEN = Written("t", 0, 2, 40, 41, 7)


def test_there_and_back() -> None:
    """What was written down is read as it was, on one line, and both can be pickled."""
    assert Loan.loads(LOAN.dumps()) == read_loan(str(LOAN)) == read_loan(LOAN) == LOAN
    assert Written.loads(WRITTEN.dumps()) == WRITTEN
    assert "\n" not in LOAN.dumps() + WRITTEN.dumps()
    assert pickle.loads(pickle.dumps((LOAN, WRITTEN))) == (LOAN, WRITTEN)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", 'a JSON object with a field "format"'),
        ('{"format":2}', "format 2; this version of fencepost .* reads format 1"),
        ('{"format":true}', "format True"),
        ('{"format":1}', "damaged loan of a transaction: .*transactional_id"),
        (LOAN.dumps().replace('"producer_epoch":3', '"producer_epoch":32768'), "damaged .*32767"),
        (LOAN.dumps().replace('["t",0,5]', '["t",0,-5]'), "damaged .*sequences"),
        (LOAN.dumps().replace('"transaction_version":2', '"transaction_version":3'), "damaged .*transaction_version"),
        (LOAN.dumps().replace('"format":1', '"format":1,"more":1'), "damaged .*more"),
    ],
)
def test_texts_that_are_no_loans(text: str, words: str) -> None:
    """Each is refused with what is wrong with it."""
    with pytest.raises(BadLoan, match=words):
        Loan.loads(text)


def test_a_part_of_a_loan() -> None:
    """Some of its partitions, in the loan's order, under the same identity; what was not lent cannot be part of it."""
    assert LOAN.part([("u", 1)]).sequences == (("u", 1, 0),)
    assert LOAN.part([("u", 1), ("t", 0)]) == LOAN
    with pytest.raises(BadLoan, match="u-2 is not part of the loan of transactional id 'tx'"):
        LOAN.part([("u", 2)])


def test_what_nobody_used() -> None:
    """An account of nothing for each partition that the others leave out, so that it can be lent again from the same sequence."""
    assert LOAN.unused([WRITTEN]) == [Written("u", 1, 0, -1, -1, 0)]
    assert LOAN.unused([]) == [Written("t", 0, 0, -1, -1, 5), Written("u", 1, 0, -1, -1, 0)]


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
def test_partitions_that_cannot_be_lent(given: Any, words: str) -> None:
    """Each is refused with its value."""
    with pytest.raises(BadLoan, match=words):
        check_partitions(given)


def test_accounts_that_cannot_be() -> None:
    """One for each partition, each an account."""
    assert read_written([WRITTEN.dumps()]) == (WRITTEN,)
    with pytest.raises(BadLoan, match="t-0 was written by two borrowers"):
        read_written([WRITTEN, WRITTEN])
    with pytest.raises(BadLoan, match="not int"):
        read_written([7])
    with pytest.raises(BadLoan, match="as a list"):
        read_written(WRITTEN)  # type: ignore[arg-type]
    with pytest.raises(BadLoan, match="a loan is a Loan, or its text, not int"):
        read_loan(7)
