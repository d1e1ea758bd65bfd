"""Known differences between the stub and Kafka: what the stub answers instead, and why.

If a difference disappears or changes, the run fails until its line is removed or corrected.
"""

from __future__ import annotations

from typing import NamedTuple


class Gap(NamedTuple):
    """The answers of one case that are known to differ."""

    why: str
    answers: dict[str, str]


GAPS: dict[str, Gap] = {
    "codecs.zstd_damage": Gap(
        "the stub refuses a truncated frame after a whole one as damaged; Kafka decompresses what it can and finds too many records. No "
        "client sends it",
        dict.fromkeys(
            ("a frame cut after its first block", "a frame cut after two blocks", "a frame's checksum cut after the end"),
            "UNKNOWN_SERVER_ERROR @-1 time=- start=0",
        ),
    ),
    "groups.no_protocol_but_one_named_twice": Gap(
        "Kafka counts the name twice, finds no protocol that all members know, and lets the member wait. Its group then accepts no member. "
        "The stub counts the name once, so that such a client cannot block a test's group. No known client sends a name twice",
        {
            "joins": "NONE generation=1 type=None protocol='range' leader=m1 skip=False me=m1 [\"m1 None b'r'\"]",
            "the group then": "g1 NONE None state='CompletingRebalance' protocol='consumer'/'' operations=-2147483648 "
            "[\"m1 instance=None client='conformance' host='/127.0.0.1' metadata=b'' assignment=b''\"]",
            "another comes": "NONE generation=2 type=None protocol='range' leader=m2 skip=False me=m2 [\"m2 None b'r'\"]",
        },
    ),
    "frames.a_body_that_cannot_be_read": Gap(
        "the stub refuses a count below -1, and text that is not UTF-8; no client sends them",
        dict.fromkeys(("Metadata v1 with count -2", "a name that is not UTF-8"), "closed"),
    ),
}
