"""The two clocks."""

from typing import Any

import pytest

from fencepost.broker_stub.cluster.clock import RealClock, VirtualClock


def test_a_virtual_clock_moves_only_by_advance() -> None:
    """Nothing but advance moves it; it tells its watchers and refuses to go back."""
    clock = VirtualClock(1000)
    seen: list[int] = []
    unwatch = clock.watch(lambda: seen.append(clock.now_ms()))
    assert clock.now_ms() == clock.now_ms() == 1000
    assert clock.advance(250) == 1250
    assert seen == [1250]
    with pytest.raises(ValueError):
        clock.advance(-1)
    unwatch()
    clock.advance(1)
    assert seen == [1250]


def test_only_advance_brings_a_virtual_deadline() -> None:
    """A future deadline has no real delay, a past one is due now."""
    clock = VirtualClock(1000)
    assert clock.delay_s(1001) is None
    assert clock.delay_s(1000) == 0.0


@pytest.mark.alone
def test_a_real_clock_is_wall_time_that_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins at wall time and then follows the monotonic clock, also when wall time jumps."""
    import time

    clock = RealClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 1000
    before = clock.now_ms()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert clock.now_ms() >= before
    delay = clock.delay_s(clock.now_ms() + 500)
    assert delay is not None
    assert 0.3 < delay <= 0.51
    assert clock.delay_s(0) == 0.0


@pytest.mark.parametrize("given", [1.5, 1000.0, True, "1"])
def test_a_virtual_clock_shows_whole_milliseconds(given: Any) -> None:
    """A fraction would be in every answer that tells the time, and none of them has room for one: seconds times 1000 are told to be cut."""
    clock = VirtualClock(1000)
    with pytest.raises(TypeError, match="whole milliseconds"):
        clock.advance(given)
    with pytest.raises(TypeError, match="whole milliseconds"):
        VirtualClock(given)
    assert clock.now_ms() == 1000


def test_a_virtual_clock_stays_within_what_records_can_have() -> None:
    """Before 1970 and after the last time of 64 bits nothing would be answered."""
    for start_ms in (-1, 2**63):
        with pytest.raises(ValueError, match="since 1970"):
            VirtualClock(start_ms)
    clock = VirtualClock(2**63 - 2)
    assert clock.advance(1) == 2**63 - 1
    with pytest.raises(ValueError, match="the latest time of a record is"):
        clock.advance(1)
    assert clock.now_ms() == 2**63 - 1
