"""A fault rule as one line, for `fencepost fault` and for `repr`."""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.producer.foundations.counted import counted

OFTEN: Final = ("times", "on_call", "forever", "probability")
OWN: Final = ("id", "on", "at", "action", "code", "ms", *OFTEN, "seed", "hits", "holding")
"""The fields of a rule besides its filters."""


def one_line(rule: Mapping[str, Any]) -> str:
    """The line for a rule as data, as `Fault.as_data` and the control give it."""
    where = " ".join(f"{name}={value}" for name, value in rule.items() if name not in OWN)
    what = " ".join(str(rule[name]) for name in ("action", "code", "ms") if name in rule)
    often = " ".join(f"{name}={rule[name]}" for name in (*OFTEN, "seed") if name in rule)
    held = f", holding {rule['holding']}" if rule["holding"] else ""
    parts = (",".join(rule["on"]) or "any API", where, f"at {rule['at']}:", what, f"({often})")
    return f"fault {rule['id']}: {' '.join(filter(None, parts))}, {counted(rule['hits'], 'hit')}{held}"
