"""How an executor, which has nothing but an installed fencepost, finds the modules of these tests: this module is pickled by value.

Their place comes last on the path, so that what is installed stays what is under test.
"""

from __future__ import annotations

from typing import Any


def load(root: str, plan: bytes, given: dict[str, Any]) -> Any:
    """A TroubledTask, unpickled."""
    import sys

    if root not in sys.path:
        sys.path.append(root)
    import msgspec

    from tests.txn.spark.chaos.plan import Plan
    from tests.txn.spark.chaos.troubles import TroubledTask

    return TroubledTask(msgspec.json.decode(plan, type=Plan), **given)
