"""What a topic of newest entries is for, in the words of its errors and warnings: the ledger, or the positions of jobs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Purpose(Struct, frozen=True, kw_only=True):
    """`noun`: the topic's use, as in "the ledger". `owner`: what a key names. `lost`: what follows if the topic is lost. `twice`: what
    follows if entries are deleted after a time. `at_stake`: what is lost with a topic that was deleted, and the way out."""

    noun: str
    owner: str
    lost: str
    twice: str
    at_stake: str


LEDGER: Final = Purpose(
    noun="ledger",
    owner="sink",
    lost="batches are refused or written twice",
    twice="batches would be written twice",
    at_stake=(
        "what it had of every sink that used it is lost, and without that a repeated batch is not recognised. Way out: make sure that the "
        "topic is missing, or has cleanup.policy=compact (the next start creates a missing topic). Then start each query that used it once "
        'with on_missing_ledger="start", if it is certain that its sink does not have the query\'s next batch'
    ),
)
