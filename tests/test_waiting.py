"""The tests' own waiting ends with the answer, with an error, or at its deadline."""

from __future__ import annotations

import time

import pytest

from tests.waiting import despite, until


def test_the_first_good_answer_is_returned() -> None:
    """The question is repeated until the answer is good, and not once more."""
    answers = iter([0, 1, 2, 3])
    assert until(lambda: next(answers), "a number", good=lambda number: number == 2) == 2
    assert next(answers) == 3


def test_a_deadline_says_what_was_waited_for_and_what_there_was() -> None:
    """Without a good answer the wait ends soon after its deadline. The error names what was waited for, and the last answer."""
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"three brokers: not within 0\.05 s, but \[1\]"):
        until(lambda: [1], "three brokers", good=lambda found: len(found) == 3, timeout_s=0.05)
    assert 0.05 <= time.monotonic() - begun < 5


def test_an_error_ends_the_waiting() -> None:
    """An exception of the question ends the wait at once."""
    with pytest.raises(ZeroDivisionError):
        until(lambda: 1 // 0, "nothing")


def test_one_kind_of_error_is_outlasted() -> None:
    """`despite` waits for the call to succeed. Another error ends the wait. At the deadline the error itself is raised."""
    outcomes = iter([BlockingIOError, BlockingIOError, None, OSError])

    def call() -> str:
        outcome = next(outcomes, BlockingIOError)
        if outcome is not None:
            raise outcome
        return "done"

    assert despite(BlockingIOError, call) == "done"
    with pytest.raises(OSError) as other:
        despite(BlockingIOError, call)
    assert other.type is OSError
    with pytest.raises(BlockingIOError):
        despite(BlockingIOError, call, timeout_s=0.05)
