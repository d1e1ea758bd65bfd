"""The stand-ins for librt beside librt itself: the same bytes and numbers, and errors of the same kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import librt.strings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.producer.foundations import plain_byte_writer

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 255)),
    st.tuples(st.just("write"), st.binary(max_size=20) | st.binary(max_size=20).map(bytearray)),
    st.tuples(st.just("truncate"), st.integers(0, 200)),
    st.tuples(st.just("write_i32_le"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("write_i64_le"), st.integers(-(2**63), 2**63 - 1)),
)


def outcome(call: Callable[[], Any]) -> Any:
    """What the call returns, or the type of its error."""
    try:
        return call()
    except (ValueError, IndexError) as error:
        return type(error)


def carry_out(module: Any, steps: list[tuple[str, Any]]) -> list[Any]:
    """The outcome of each step, and then the bytes."""
    writer = module.BytesWriter()
    found = []
    for name, value in steps:
        call = partial(getattr(module, name), writer) if name.startswith("write_") else getattr(writer, name)
        found.append(outcome(partial(call, value)))
    if len(writer):
        writer[len(writer) - 1] = writer[0]
    return [*found, len(writer), bool(writer), writer.getvalue()]


@given(st.lists(STEPS, max_size=30))
def test_the_same_bytes(steps: list[tuple[str, Any]]) -> None:
    """A random sequence of writes, in both."""
    assert carry_out(plain_byte_writer, steps) == carry_out(librt.strings, steps)


@given(st.binary(max_size=20), st.integers(0, 25))
def test_the_same_numbers(data: bytes, index: int) -> None:
    """A number at any place, also where the bytes end before."""
    for name in ("read_i32_le", "read_i64_le"):
        plain, theirs = (partial(getattr(module, name), data, index) for module in (plain_byte_writer, librt.strings))
        assert outcome(plain) == outcome(theirs)


@pytest.mark.parametrize(("name", "number"), [("write_i32_le", 2**31), ("write_i64_le", 2**63), ("write_i64_le", -(2**63) - 1)])
def test_a_number_that_is_too_large(name: str, number: int) -> None:
    """A number that does not fit raises, and nothing is written."""
    for module in (plain_byte_writer, librt.strings):
        writer = module.BytesWriter()
        with pytest.raises(ValueError, match=r"."):
            getattr(module, name)(writer, number)
        assert len(writer) == 0
