"""An entry of the ledger as a record: what is written is read again, and everything else is refused."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.producer.foundations.version import VERSION
from fencepost.txn.keyed_topic.scan import OPENED_BYTES_MAX
from fencepost.txn.ledger.entry import FORMAT, VALUE_BYTES_MAX, BadLedgerEntry, LedgerEntry, LedgerPartition, ledger_key

names = st.text(st.characters(codec="utf-8", exclude_characters="#"), min_size=1, max_size=20)
counts = st.integers(min_value=0, max_value=(1 << 63) - 1)
partitions = st.builds(LedgerPartition, names, st.integers(min_value=0, max_value=(1 << 31) - 1), counts, st.none() | counts)

FIELDS: dict[str, Any] = {
    "format": FORMAT,
    "sink": "s",
    "query": "q",
    "batch": 7,
    "fingerprint": "f",
    "rows": 2,
    "partitions": [["t", 0, 2, 41]],
    "job": None,
    "at_ms": 1_700_000_000_000,
    "library": VERSION,
    "transactional_id": "fencepost.s",
}


@given(
    entry=st.builds(
        LedgerEntry,
        sink=names,
        query=st.none() | names,
        batch=counts,
        fingerprint=st.none() | names,
        rows=counts,
        partitions=st.lists(partitions, max_size=3).map(tuple),
        job=st.none() | names,
        at_ms=st.integers(min_value=0, max_value=253_402_300_799_999),
        transactional_id=st.none() | names,
    )
)
def test_written_and_read(entry: LedgerEntry) -> None:
    """Every entry that can be written is read unchanged. Its key tells a sink from a job of this sink."""
    assert LedgerEntry.loads(entry.dumps()) == entry
    assert entry.key.split("#", 1) == [entry.sink, *([entry.job] if entry.job is not None else [])]


def test_its_text() -> None:
    """The format that other programs may read, field by field."""
    entry = LedgerEntry(
        sink="s",
        query="q",
        batch=7,
        fingerprint="f",
        rows=2,
        partitions=(LedgerPartition("t", 0, 2, 41),),
        at_ms=1_700_000_000_000,
        transactional_id="fencepost.s",
    )
    assert msgspec.json.decode(entry.dumps()) == FIELDS


def test_the_format_of_before() -> None:
    """An entry without its transactional id is read, with None."""
    older = {name: value for name, value in FIELDS.items() if name != "transactional_id"}
    entry = LedgerEntry.loads(msgspec.json.encode({**older, "format": 1}))
    assert (entry.batch, entry.transactional_id) == (7, None)
    assert LedgerEntry.loads(entry.dumps()) == entry


def test_an_entry_that_readers_would_pass_over_is_not_written() -> None:
    """What a batch of the ledger may take is bounded, and so is an entry."""
    partitions = tuple(LedgerPartition("t" * 200, number, 1, 1 << 60) for number in range(20_000))
    entry = LedgerEntry(sink="s", query="q", batch=0, fingerprint=None, rows=0, partitions=partitions, at_ms=0)
    with pytest.raises(BadLedgerEntry, match=f"for 20000 partitions: at most {VALUE_BYTES_MAX} are read"):
        entry.dumps()
    assert VALUE_BYTES_MAX * 2 < OPENED_BYTES_MAX


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", 'is a JSON object with a field "format"'),
        (b"{}", 'is a JSON object with a field "format"'),
        (
            msgspec.json.encode({**FIELDS, "format": 3}),
            r"an entry of a ledger of format 3; this version of fencepost \(.*\) reads format 1 and 2",
        ),
        (msgspec.json.encode({**FIELDS, "format": True}), "of format True"),
        (msgspec.json.encode({**FIELDS, "batch": -1}), r"damaged entry of a ledger: Expected `int` >= 0 - at `\$.batch`"),
        (msgspec.json.encode({**FIELDS, "more": 1}), "damaged entry of a ledger: Object contains unknown field `more`"),
        (msgspec.json.encode({**FIELDS, "partitions": [["t", 0]]}), "damaged"),
        (msgspec.json.encode({**FIELDS, "sink": "a#b"}), "sink='a#b'"),
    ],
)
def test_what_is_no_entry(value: bytes, words: str) -> None:
    """Damaged values, and those of another format, are refused with what is wrong."""
    with pytest.raises(BadLedgerEntry, match=words):
        LedgerEntry.loads(value)


def test_what_could_not_be_read_again_is_not_written() -> None:
    """An entry that no reader would take is refused before it is sent."""
    with pytest.raises(BadLedgerEntry, match=r"at `\$.rows`"):
        LedgerEntry(sink="s", query="q", batch=0, fingerprint=None, rows=-1, at_ms=0).dumps()


@pytest.mark.parametrize(
    ("sink", "job", "words"),
    [
        ("", None, "sink=''"),
        ("a#b", None, "sink='a#b': a text that is not empty and has no '#'"),
        ("a", "", "job=''"),
        ("a" * 999, "bc", "with its job 1002 characters, at most 1000"),
        ("\ud800", None, "a text that UTF-8 can hold"),
        (7, None, "sink=7"),
    ],
)
def test_names_that_are_none(sink: Any, job: str | None, words: str) -> None:
    """A name that could be mistaken for another, or that no record can hold, is refused by its value."""
    with pytest.raises(BadLedgerEntry, match=re.escape(words)):
        ledger_key(sink, job)
