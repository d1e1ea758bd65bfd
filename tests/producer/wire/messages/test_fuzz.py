"""Damaged frames: the decoder reads a message or raises Malformed, quickly and with little memory.

hypothesis draws the instances and the seed of the damage, so the output of a failing example contains everything that it needs.
"""

import random
import time
import tracemalloc
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fencepost.producer.wire import (
    Api,
    Malformed,
    Message,
    decode,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from tests.drawn import drawn
from tests.producer.wire.damage import damage
from tests.producer.wire.effort import drawing
from tests.producer.wire.instances import EVERY, EVERY_ID, messages

CHANGES_PER_MESSAGE = 12
TRUNCATIONS_MAX = 200

# What a decoded message may take. Many tiny structs are the worst: three bytes of the frame can become a struct with an empty list in it.
BYTES_PER_FRAME_BYTE_MAX = 64
BYTES_MORE_MAX = 64 * 1024

DECODE_CPU_S_MAX = 1.0

seeds = st.integers(0, (1 << 32) - 1)
quickly = drawing(4)


@pytest.fixture
def traced_memory() -> Iterator[None]:
    """Count allocations. That makes everything a few times slower."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@drawn(16)
@pytest.mark.parametrize(("cls", "version"), EVERY, ids=EVERY_ID)
def test_truncated_messages_are_refused(cls: type[Message], version: int) -> None:
    """No prefix of a message is a message. Each raises Malformed with API, version and an offset within the data."""

    @quickly
    @given(messages(cls, version), seeds)
    def truncate(message: Message, seed: int) -> None:
        data = encode(message, version)
        lengths = random.Random(seed).sample(range(len(data)), min(len(data), TRUNCATIONS_MAX))
        for length in lengths:
            with pytest.raises(Malformed) as caught:
                decode(cls, version, data[:length])
            _check_place(caught.value, cls, version, length)

    truncate()


@drawn(16)
@pytest.mark.parametrize(("cls", "version"), EVERY, ids=EVERY_ID)
def test_changed_messages_are_refused_or_other_messages(cls: type[Message], version: int, traced_memory: None) -> None:
    """Changed, lost or added bytes give another message, which can be encoded again, or Malformed. They never cause a hang or a huge
    allocation.
    """

    @quickly
    @given(messages(cls, version), seeds)
    def change(message: Message, seed: int) -> None:
        data = encode(message, version)
        assert decode(cls, version, data) == message
        rng = random.Random(seed)
        for _ in range(CHANGES_PER_MESSAGE):
            damaged = damage(data, rng)
            memory_max = BYTES_PER_FRAME_BYTE_MAX * len(damaged) + BYTES_MORE_MAX
            for attempt in range(3):  # other threads may take memory meanwhile; what decoding takes is the same each time
                tracemalloc.reset_peak()
                memory_before, _ = tracemalloc.get_traced_memory()
                cpu_before = time.thread_time()
                other = None
                try:
                    other = decode(cls, version, damaged)
                except Malformed as error:
                    _check_place(error, cls, version, len(damaged))
                assert time.thread_time() - cpu_before < DECODE_CPU_S_MAX
                _, peak = tracemalloc.get_traced_memory()
                if peak - memory_before < memory_max:
                    break
                assert attempt < 2, f"{peak - memory_before} bytes of memory for {len(damaged)} bytes"
            if other is not None:
                again = encode(other, version)
                assert encode(decode(cls, version, again), version) == again  # As bytes, since a NaN does not equal itself.

    change()


@drawn(16)
@pytest.mark.parametrize(("cls", "version"), EVERY, ids=EVERY_ID)
def test_changed_frames_raise_nothing_but_malformed(cls: type[Message], version: int) -> None:
    """A changed, longer or shorter frame, with its header, is another frame or Malformed. A changed byte of the header may name another API
    or version."""

    @quickly
    @given(messages(cls, version), seeds)
    def change(message: Message, seed: int) -> None:
        if cls.is_request:
            parts = encode_request(message, version, correlation_id=7, client_id="fencepost")
        else:
            parts = encode_response(message, version, correlation_id=7)
        frame = b"".join(parts)[4:]
        rng = random.Random(seed)
        for _ in range(CHANGES_PER_MESSAGE):
            # Most damage goes to the header: the bodies have their own test.
            damaged = damage(frame[:24], rng) + frame[24:] if rng.random() < 0.7 else frame[: rng.randrange(len(frame))]
            try:
                if cls.is_request:
                    decode_request(damaged)
                else:
                    decode_response(damaged, cls.api, version)
            except Malformed as error:
                _check_offset(error, len(damaged))

    change()


@pytest.mark.parametrize("size", [0, 1, 3, 17, 400])
def test_noise_raises_nothing_but_malformed(size: int) -> None:
    """Random bytes raise Malformed in every version of every message, or happen to be a message."""
    rng = random.Random(size)
    for cls, version in EVERY:
        for _ in range(20):
            noise = rng.randbytes(size)
            try:
                decode(cls, version, noise)
            except Malformed as error:
                _check_place(error, cls, version, size)


def _check_place(error: Malformed, cls: type[Message], version: int, size: int) -> None:
    """The error names the message and the offset."""
    assert error.api is Api(cls.api)
    assert error.version == version
    _check_offset(error, size)
    assert error.reason


def _check_offset(error: Malformed, size: int) -> None:
    """The offset is within the data."""
    assert 0 <= error.offset <= size
