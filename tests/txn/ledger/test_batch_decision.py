"""The decision about a batch for every content of the ledger, compared with the promises one by one."""

from __future__ import annotations

import copy
import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.producer.errors import ConfigError
from fencepost.txn.ledger.batch_decision import POLICIES, TABLE, Decision, Seen, decide, decide_once, describe
from fencepost.txn.ledger.entry import BadLedgerEntry, LedgerEntry
from fencepost.txn.ledger.errors import (
    CheckpointReplaced,
    CheckpointRolledBack,
    FingerprintMissing,
    LedgerBehind,
    LedgerMissing,
    LedgerRefusal,
    OlderVersion,
)

SINK = "orders"

queries = st.sampled_from(["q1", "q2"])
batches = st.integers(min_value=0, max_value=5)
fingerprints = st.sampled_from([None, "f1", "f2"])


def entry_of(query: str | None, batch: int, fingerprint: str | None = None, job: str | None = None) -> LedgerEntry:
    return LedgerEntry(sink=SINK, query=query, batch=batch, fingerprint=fingerprint, rows=7, job=job, at_ms=1_700_000_000_000)


entries = st.none() | st.builds(entry_of, queries, batches, fingerprints)


@given(
    entry=entries,
    query=queries,
    batch=batches,
    fingerprint=fingerprints,
    on_new_checkpoint=st.sampled_from(POLICIES["on_new_checkpoint"]),
    on_missing_ledger=st.sampled_from(POLICIES["on_missing_ledger"]),
)
def test_every_combination(
    entry: LedgerEntry | None, query: str, batch: int, fingerprint: str | None, on_new_checkpoint: str, on_missing_ledger: str
) -> None:
    """A batch is skipped only if the ledger has this very batch. It is written without a choice of the user only if it is the next or the
    first one. Every refusal names sink, batch, query, the entry and a way out."""
    decision: Decision | None = None
    refusal: LedgerRefusal | None = None
    try:
        decision = decide(
            entry,
            SINK,
            query=query,
            batch=batch,
            fingerprint=fingerprint,
            on_new_checkpoint=on_new_checkpoint,
            on_missing_ledger=on_missing_ledger,
        )
    except LedgerRefusal as error:
        refusal = error
    checked = entry is None or entry.fingerprint is None or fingerprint is not None
    same_query = entry is not None and entry.query == query
    agrees = entry is not None and entry.fingerprint in (None, fingerprint)
    new, missing = on_new_checkpoint == "reset", on_missing_ledger == "start"

    skips = entry is not None and checked and same_query and batch == entry.batch and agrees
    follows = batch == 0 if entry is None else checked and same_query and batch > entry.batch
    replaced = entry is not None and checked and (not same_query or (batch == entry.batch and not agrees))
    assert (decision is Decision.SKIP) == skips
    assert (decision is Decision.GO) == (follows or (replaced and new) or (entry is None and batch > 0 and missing))
    assert isinstance(refusal, FingerprintMissing) == (not checked)
    assert isinstance(refusal, CheckpointReplaced) == (replaced and not new)
    assert isinstance(refusal, CheckpointRolledBack) == (entry is not None and checked and same_query and batch < entry.batch)
    assert isinstance(refusal, LedgerMissing) == (entry is None and batch > 0 and not missing)
    if refusal is not None:
        for named in (repr(SINK), f"batch {batch} ", repr(query), describe(entry), "ay out" if not checked else "ays out"):
            assert named in str(refusal)
        assert (refusal.sink, refusal.query, refusal.batch, refusal.entry) == (SINK, query, batch, entry)


def test_a_gap_with_content_is_refused() -> None:
    """If a batch in the gap has read something, the batch is refused, with a way out for the user. The checkpoint is not asked if nothing
    is known, if the batch is the next one, or if it is of another query."""
    asked: list[int] = []

    def read_since(batch: int) -> bool:
        asked.append(batch)
        return True

    entry = entry_of("q1", 3, "f1")
    with pytest.raises(LedgerBehind, match=r"batch 5 .* the ledger has batch 3 .* have read something.*on_gap=\"write\"") as caught:
        decide(entry, SINK, query="q1", batch=5, fingerprint="f2", read_since=read_since)
    assert caught.value.entry == entry
    assert decide(entry, SINK, query="q1", batch=5, fingerprint="f2", read_since=read_since, on_gap="write") is Decision.GO
    assert asked == [3, 3]
    assert decide(entry, SINK, query="q1", batch=4, fingerprint="f2", read_since=read_since) is Decision.GO
    assert decide(entry, SINK, query="q1", batch=5, fingerprint="f2") is Decision.GO
    assert asked == [3, 3]


@given(entry=st.none() | st.builds(entry_of, st.none(), batches, st.none(), st.just("daily")), version=batches)
def test_versions_of_a_job(entry: LedgerEntry | None, version: int) -> None:
    """A version that is committed is a no-op, a newer one is written, and an older one is refused (rule of `write_once`)."""
    if entry is not None and version < entry.batch:
        with pytest.raises(OlderVersion, match=rf"'orders#daily'.*version {version}, .*version {entry.batch} "):
            decide_once(entry, SINK, job="daily", version=version)
    else:
        same = entry is not None and version == entry.batch
        assert decide_once(entry, SINK, job="daily", version=version) is (Decision.SKIP if same else Decision.GO)


@pytest.mark.parametrize(
    ("batch", "on_new_checkpoint", "words"),
    [
        (9, "error", "the batches between were empty, or written elsewhere"),
        (3, "reset", "is written because of on_new_checkpoint='reset'"),
    ],
)
def test_what_is_warned_of(batch: int, on_new_checkpoint: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """A gap is written and a reset is obeyed, and the log says so with what the ledger has; the next batch says nothing."""
    entry = entry_of("q1", 3, "f1")
    with caplog.at_level(logging.WARNING, "fencepost.ledger"):
        assert decide(entry, SINK, query="q1", batch=4, fingerprint="f2") is Decision.GO
        assert caplog.messages == []
        assert decide(entry, SINK, query="q1", batch=batch, fingerprint="f9", on_new_checkpoint=on_new_checkpoint) is Decision.GO
    (said,) = caplog.messages
    assert words in said
    assert describe(entry) in said


def test_no_policy_of_that_name() -> None:
    """A policy that is none is refused with those that are, and so is a sink's name that could be a job's."""
    with pytest.raises(ConfigError, match="on_new_checkpoint='ignore': one of 'error', 'reset'"):
        decide(None, SINK, query="q1", batch=0, fingerprint=None, on_new_checkpoint="ignore")
    with pytest.raises(BadLedgerEntry, match="sink='a#b'"):
        decide(None, "a#b", query="q1", batch=0, fingerprint=None)


def test_refusals_travel() -> None:
    """A refusal that was pickled is the same refusal, with its entry; so is a fresh instance of it."""
    with pytest.raises(CheckpointReplaced) as caught:
        decide(entry_of("q1", 3), SINK, query="q2", batch=0, fingerprint=None)
    for other in (pickle.loads(pickle.dumps(caught.value)), caught.value.again(), copy.copy(caught.value)):
        assert (type(other), str(other), other.entry, other.batch) == (CheckpointReplaced, str(caught.value), entry_of("q1", 3), 0)


def test_the_table_is_whole() -> None:
    """Every case has a row; what is refused has a kind of its own and says why."""
    assert set(TABLE) == set(Seen)
    for row in TABLE.values():
        assert row.decision is not None or (row.kind is not LedgerRefusal and "ay" in row.words)
