"""The rows of the stub's table that decide about the markers of coordinators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from fencepost.broker_stub.log import producer_state_manager
from fencepost.broker_stub.log.producer_append_info import Candidate, Origin, ProducerEntry, Verdict, admit


@contextmanager
def markers_counted(rows: Counter[str]) -> Iterator[None]:
    """Counts the rows that decide about markers. Two rows decide about each written marker."""

    def counting(entry: ProducerEntry, batch: Candidate, *, origin: Origin) -> Verdict:
        verdict = admit(entry, batch, origin=origin)
        if batch.marker is not None and origin is Origin.COORDINATOR:
            rows.update(filter(None, (verdict.row, getattr(verdict, "through", ""))))
        return verdict

    with patch.object(producer_state_manager, "admit", counting):
        yield
