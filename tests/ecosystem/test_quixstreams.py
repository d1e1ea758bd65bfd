"""quixstreams with processing_guarantee="exactly-once" works on the stub as on Apache Kafka: each number leads to one total, while
processes are killed and brokers restart."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.fixtures import require, require_kafka
from tests.ecosystem.quix_home import quix_python
from tests.ecosystem.site import SESSION_MS, SITES
from tests.ecosystem.sizes import FULL, one_of_all
from tests.ecosystem.totals import KEYS, SOURCE, TARGET, totals_hold

PROGRAM: Final = Path(__file__).with_name("quix_totals.py")

pytestmark = pytest.mark.timeout(900 if FULL else 240)


@one_of_all
@pytest.mark.parametrize("place", SITES)
def test_quixstreams_totals(place: str, tmp_path: Path) -> None:
    """Each number is counted once."""
    if place == "kafka":
        require_kafka()
    require(quix_python)
    with SITES[place]() as site:

        def command(home: Path) -> list[str]:
            return [str(quix_python()), str(PROGRAM), site.bootstrap, str(home), SOURCE, TARGET, str(KEYS), str(SESSION_MS)]

        # It ends by itself after some errors while brokers restart, such as a leader that moves during an assignment.
        totals_hold("quixstreams", site, command, tmp_path, supervised=True)
