"""Where the stub is known to answer otherwise than Kafka: what it answers instead, and why.

A gap that closes fails the run until its line is taken out, and so does one that changes.
"""

from __future__ import annotations

from typing import NamedTuple


class Gap(NamedTuple):
    """The answers of one case that are known to differ."""

    why: str
    answers: dict[str, str]


GAPS: dict[str, Gap] = {
    "codecs.zstd_damage": Gap(
        "a frame that breaks off behind a whole one is refused as damaged, where Kafka opens what it can and finds too many records: no "
        "client sends it",
        dict.fromkeys(
            ("a frame cut after its first block", "a frame cut after two blocks", "a frame's checksum cut after the end"),
            "UNKNOWN_SERVER_ERROR @-1 time=- start=0",
        ),
    ),
    "groups.no_protocol_but_one_named_twice": Gap(
        "Kafka counts the name twice, finds no protocol that all members know and lets the member wait; its group takes nobody any more. "
        "Here the name counts once: no client sends it twice, and nobody's test is to lose a group to one that does",
        {
            "joins": "NONE generation=1 type=None protocol='range' leader=m1 skip=False me=m1 [\"m1 None b'r'\"]",
            "the group then": "g1 NONE None state='CompletingRebalance' protocol='consumer'/'' operations=-2147483648 "
            "[\"m1 instance=None client='conformance' host='/127.0.0.1' metadata=b'' assignment=b''\"]",
            "another comes": "NONE generation=2 type=None protocol='range' leader=m2 skip=False me=m2 [\"m2 None b'r'\"]",
        },
    ),
    "frames.a_body_that_cannot_be_read": Gap(
        "a negative count below -1 and text that is not UTF-8 are refused as what they are: no client sends them",
        dict.fromkeys(("Metadata v1 with count -2", "a name that is not UTF-8"), "closed"),
    ),
}
