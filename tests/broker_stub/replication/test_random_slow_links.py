"""Random runs as in `test_random_replication`, in which links are slow as well, also those to the controller, so that brokers learn late
which broker leads, and the controller hears late of the ISR that a leader wants."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost.broker_stub.cluster.context import CONTROLLER
from tests.broker_stub.replication.test_random_replication import LAG_MS, World
from tests.drawn import drawn


class SlowWorld(World):
    """One run."""

    def steps(self) -> list[tuple[Callable[[], None], int]]:
        return [*super().steps(), (self.slow_link, 4), (self.slow_controller, 6)]

    def calm(self) -> None:
        """The steps of time are too large for requests that take seconds."""
        for node in (1, 2, 3):
            self.cluster.broker_links.slow_down(CONTROLLER, node, 0)

    def slow_link(self) -> None:
        one, other = self.rng.sample((1, 2, 3), 2)
        self.cluster.broker_links.slow_down(one, other, self.rng.choice((0, 1, 100, 700)))

    def slow_controller(self) -> None:
        self.cluster.broker_links.slow_down(CONTROLLER, self.rng.choice((1, 2, 3)), self.rng.choice((0, 1, 300, 5_000, LAG_MS)))


@drawn(4)
@pytest.mark.parametrize("seed", range(40))
def test_replicas_agree_though_brokers_hear_late(seed: int) -> None:
    """After random faults all replicas hold the same, and all that was acknowledged."""
    SlowWorld(seed).run()
