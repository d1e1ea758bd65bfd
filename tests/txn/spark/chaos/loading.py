"""An executor has only an installed fencepost. This module is pickled by value, and finds the modules of these tests there.

Their directory comes last in the path, so that the installed package stays under test.
"""

from __future__ import annotations

from typing import Any


def load(root: str, plan: bytes, given: dict[str, Any]) -> Any:
    """Unpickle a TroubledTask."""
    import sys

    if root not in sys.path:
        sys.path.append(root)
    import msgspec

    from tests.txn.spark.chaos.plan import Plan
    from tests.txn.spark.chaos.troubles import TroubledTask

    return TroubledTask(msgspec.json.decode(plan, type=Plan), **given)
