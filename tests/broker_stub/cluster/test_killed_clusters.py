"""`fencepost broker --brokers 3 --data-dir DIR` is killed at random and started again: nothing that was acknowledged is lost or doubled,
and transactions are whole.

A sample by default. `make kill-clusters` kills twenty times.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.broker_stub.cluster.killed_clusters import campaign

KILLS = int(os.environ.get("FENCEPOST_CLUSTER_KILLS", "3"))

pytestmark = pytest.mark.timeout(300 + 20 * KILLS)


def test_killed_at_random(tmp_path: Path) -> None:
    """The logs of all replicas are the same at the end, too. A kill may come before the brokers listen."""
    found = campaign(tmp_path / "data", kills=KILLS, seed=random.SystemRandom().randrange(10**6), say=lambda line: print(line, flush=True))
    assert found.wrong == (0, 0, 0, 0, 0), found
    assert found.acknowledged > 0, found
    assert found.committed > 0, found
