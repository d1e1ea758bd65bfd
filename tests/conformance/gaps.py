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
    "frames.a_body_that_cannot_be_read": Gap(
        "a negative count below -1 and text that is not UTF-8 are refused as what they are: no client sends them",
        dict.fromkeys(("Metadata v1 with count -2", "a name that is not UTF-8"), "closed"),
    ),
}
