"""How much of these stories a run tells: one row of one program by default, and short. `make ecosystem` tells all, and long."""

from __future__ import annotations

import os
from typing import Final

from tests.drawn import drawn

FULL: Final = os.environ.get("FENCEPOST_ECOSYSTEM") == "full"
BROKERS, INSTANCES, MISHAPS = (3, 2, 15) if FULL else (1, 1, 1)
VALUES, PAUSE_S = (100_000, 0.04) if FULL else (3_000, 0.1)
"""How many values each program handles, and how long the pause is after each hundred of them."""

one_of_all: Final = drawn(10, of="exactly-once programs of other libraries")
"""For a test with a row for each place: one of the rows of all programs."""
