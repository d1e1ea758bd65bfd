"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from fencepost.producer import UndeliveredRecords
from fencepost.producer.foundations.counted import counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 records were"), (1, "1 record was"), (2, "2 records were")])
def test_a_number_and_its_noun_agree(number: int, said: str) -> None:
    """Only 1 takes the singular; an error of the producer uses it."""
    assert counted(number, "record was", "records were") == said
    assert str(UndeliveredRecords(number, [])) == f"{said} not delivered"


@pytest.mark.parametrize(("number", "said"), [(0, "0 records"), (1, "1 record"), (1_000, "1,000 records")])
def test_most_nouns_take_an_s(number: int, said: str) -> None:
    """The number may have a format of its own."""
    assert counted(number, "record", spec=",") == said
