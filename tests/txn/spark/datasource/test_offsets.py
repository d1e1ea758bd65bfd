"""Offsets as JSON, the shares of a limited trigger and the tasks of a range, as Spark's Kafka source has them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from fencepost.txn.spark.datasource.offsets import Range, as_json, from_json, limited, read_assignment, read_numbers, split

PLACES = st.tuples(st.sampled_from("abc"), st.integers(0, 12))
OFFSETS = st.dictionaries(PLACES, st.integers(0, 1 << 40), max_size=8)


@given(OFFSETS)
def test_offsets_survive_a_checkpoint_in_one_order(offsets: dict[tuple[str, int], int]) -> None:
    """The text of the offsets does not depend on the order in which they were found, because Spark compares texts."""
    text = json.dumps(as_json(offsets))
    assert from_json(json.loads(text)) == offsets
    assert json.dumps(as_json(dict(reversed(offsets.items())))) == text


def test_they_are_written_as_sparks_own_source_writes_them() -> None:
    """Offsets have the JSON form of Spark's own source, and the options take that form."""
    assert json.dumps(as_json({("t", 10): 5, ("t", 2): 23}), separators=(",", ":")) == '{"t":{"2":23,"10":5}}'
    assert read_numbers("startingOffsets", '{"t":{"0":23,"1":-2}}', least=-2) == {("t", 0): 23, ("t", 1): -2}
    assert read_assignment("assign", '{"b":[1,0],"a":[3]}') == (("a", 3), ("b", 0), ("b", 1))


@given(st.dictionaries(PLACES, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1), st.integers(1, 500))
def test_a_limited_trigger_goes_on_everywhere_and_ends(backlog: dict[tuple[str, int], tuple[int, int]], most: int) -> None:
    """Each partition with a backlog advances, none passes its end, and the sum is the limit, up to rounding."""
    start = {place: begin for place, (begin, _) in backlog.items()}
    end = {place: begin + size for place, (begin, size) in backlog.items()}
    found = limited(start, end, most)
    assert all(start[place] < found[place] <= end[place] for place in backlog if end[place] > start[place])
    assert sum(found[place] - start[place] for place in found) <= most + len(found)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(-5, 1000)), max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 300),
)
def test_the_tasks_of_ranges_cover_them_exactly(sizes: list[tuple[int, int]], parts: int | None, most: int | None) -> None:
    """In order, without gap or overlap, and none too large; ranges without anything have no task."""
    ranges = [Range("t", number, start, start + size) for number, (start, size) in enumerate(sizes)]
    found = split(ranges, parts_min=parts, records_max=most)
    assert all(each.size > 0 and (most is None or each.size <= most) for each in found)
    for whole in ranges:
        own = [each for each in found if each.partition == whole.partition]
        marks = [own[0].start, *(each.until for each in own)] if own else [whole.start]
        assert all(each.start == mark for each, mark in zip(own, marks, strict=False))
        assert (marks[0], marks[-1]) == (whole.start, max(whole.start, whole.until))


def test_a_large_partition_is_cut_and_small_ones_are_not() -> None:
    """About as many tasks as were asked for."""
    ranges = [Range("t", 0, 0, 1000), Range("t", 1, 0, 10)]
    assert len(split(ranges, parts_min=4, records_max=None)) == 4
    assert [each.partition for each in split(ranges, parts_min=4, records_max=None)] == [0, 0, 0, 1]
