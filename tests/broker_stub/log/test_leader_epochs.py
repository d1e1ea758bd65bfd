"""The leader epoch cache, against reference examples."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.log.leader_epochs import LeaderEpochs


def cache(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


FULL = ((0, 0), (3, 127), (5, 200))


@pytest.mark.parametrize(
    ("entries", "epoch", "answer"),
    [
        (FULL, 5, (5, 250)),
        (FULL, 3, (3, 200)),
        (FULL, 4, (3, 200)),
        (FULL, 2, (0, 127)),
        (FULL, 0, (0, 127)),
        (FULL, 6, (-1, -1)),
        (FULL, -1, (-1, -1)),
        (FULL[1:], 1, (1, 127)),
        ((), 0, (-1, -1)),
        ((), -1, (-1, -1)),
        # Fast fail-overs, as KIP-279 tells them.
        (((0, 0), (2, 10)), 1, (0, 10)),
        (((0, 0), (1, 15), (2, 18), (4, 22)), 3, (2, 22)),
        (((0, 0), (3, 20)), 2, (0, 20)),
        (((0, 0), (1, 15), (2, 18), (4, 22)), 0, (0, 15)),
    ],
)
def test_where_an_epoch_ended(entries: tuple[tuple[int, int], ...], epoch: int, answer: tuple[int, int]) -> None:
    """endOffsetFor, with the log at 250: the greatest epoch not above the one asked for, and where it ended."""
    assert cache(*entries).end_offset_for(epoch, 250) == answer


@pytest.mark.parametrize(
    ("epoch", "start", "kept"),
    [
        (6, 250, FULL),
        (5, 250, None),  # no news
        (5, 190, FULL[:2]),
        (4, 250, FULL[:2]),
        (6, 127, FULL[:1]),
        (6, 100, FULL[:1]),
        (0, 0, ()),
        (7, 0, ()),
    ],
)
def test_an_entry_drops_what_it_contradicts(epoch: int, start: int, kept: tuple[tuple[int, int], ...] | None) -> None:
    """Epochs and starts both rise: later epochs and later starts than the new entry's go."""
    epochs = cache(*FULL)
    epochs.assign(epoch, start)
    assert epochs.entries == (list(FULL) if kept is None else [*kept, (epoch, start)])


@pytest.mark.parametrize(("offset", "kept"), [(0, 0), (1, 1), (127, 1), (128, 2), (200, 2), (201, 3)])
def test_truncation_from_the_end(offset: int, kept: int) -> None:
    """Epochs that start at the new end or later are gone."""
    epochs = cache(*FULL)
    epochs.truncate_from_end(offset)
    assert epochs.entries == list(FULL[:kept])


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(0, FULL), (1, ((0, 1), *FULL[1:])), (127, FULL[1:]), (150, ((3, 150), FULL[2])), (200, FULL[2:]), (900, ((5, 900),))],
)
def test_truncation_from_the_start(offset: int, entries: tuple[tuple[int, int], ...]) -> None:
    """The epoch that holds the new start begins there, those before it are gone."""
    epochs = cache(*FULL)
    epochs.truncate_from_start(offset)
    assert epochs.entries == list(entries)


def test_the_start_before_the_first_entry_changes_nothing() -> None:
    """There is nothing before the first entry to drop."""
    epochs = cache(*FULL[1:])
    epochs.truncate_from_start(5)
    assert epochs.entries == list(FULL[1:])


def test_which_epoch_wrote_an_offset() -> None:
    """An offset belongs to the last epoch that started at or before it."""
    assert [cache(*FULL[1:]).epoch_at(offset) for offset in (126, 127, 199, 200, 999)] == [-1, 3, 3, 5, 5]
