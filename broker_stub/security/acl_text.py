"""ACLs as text, for the command line: `allow alice READ,WRITE topic=orders`.

    allow|deny USER OPERATION[,OPERATION...] topic=NAME|group=NAME|transactional-id=NAME|cluster [host=ADDRESS]

A name that ends with `*` stands for all names that begin so, and `*` for every name or user. Quotes keep blanks inside a word.
"""

from __future__ import annotations

import shlex
from typing import Final

from fencepost.broker_stub.security.acls import ANYTHING, Acl

FORM: Final = "allow|deny USER OPERATION[,OPERATION] topic=NAME|group=NAME|transactional-id=NAME|cluster [host=ADDRESS]"
_EFFECTS: Final = {"allow": Acl.allow, "deny": Acl.deny}
_HOST: Final = "host="


def read_acl(text: str) -> list[Acl]:
    """The ACLs in a text, one for each operation. Raises ValueError with the text and the form."""
    try:
        words = shlex.split(text)
        host = words.pop().removeprefix(_HOST) if words and words[-1].startswith(_HOST) else ANYTHING
        effect, user, operations, resource = words
        make = _EFFECTS[effect.lower()]
    except (KeyError, ValueError):
        raise ValueError(f"{text!r} is no ACL: write {FORM}, such as 'allow alice READ,WRITE topic=orders'") from None
    kind, _, name = resource.partition("=")
    prefixed = name.endswith("*") and name != ANYTHING
    given: dict[str, str | bool] = {kind.replace("-", "_"): True if resource == "cluster" else name.removesuffix("*") if prefixed else name}
    try:
        return [make(user, operation, host=host, prefixed=prefixed, **given) for operation in operations.split(",")]
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{text!r} is no ACL: {wrong}") from None
