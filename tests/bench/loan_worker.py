"""One process of the loan benchmark: so many borrowers, each on a thread of its own, that write what they are told by lines of JSON.

It measures and prints; it judges nothing. The arguments are a bootstrap address and the number of borrowers. Each line of the input is an
`Errand`, which is answered with one line of `Done`s; the end of the input ends it.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec

from fencepost import Borrower, Loan, Written

WAIT_S = 120.0


class Errand(msgspec.Struct, frozen=True):
    """What to do: `partitions` of the loan, one for each borrower; `records` of each after the first one, which is waited for;
    `borrowers`: how many there are, as they are told."""

    loan: str
    partitions: list[tuple[str, int]]
    records: int
    borrowers: int


class Done(msgspec.Struct, frozen=True):
    """What a borrower did. `first_ms`: from the loan to the acknowledgement of the first record; `retries`: how often that was repeated."""

    first_ms: float
    retries: int
    written: Written


def main() -> int:
    bootstrap, count = sys.argv[1], int(sys.argv[2])
    borrowers = [Borrower(bootstrap_servers=bootstrap, linger_ms=0, client_id=f"borrower-{number}") for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        print("ready", flush=True)
        for line in sys.stdin:
            errand = msgspec.json.decode(line, type=Errand)
            loan, together = Loan.loads(errand.loan), Barrier(len(errand.partitions))
            turns = [
                pool.submit(write, borrower, loan.part([tp]), tp, errand, together)
                for borrower, tp in zip(borrowers, errand.partitions, strict=False)
            ]
            print(msgspec.json.encode([turn.result(WAIT_S) for turn in turns]).decode(), flush=True)
    for borrower in borrowers:
        borrower.close(5)
    return 0


def write(borrower: Borrower, loan: Loan, tp: tuple[str, int], errand: Errand, together: Barrier) -> Done:
    """One borrower's part."""
    topic, partition = tp
    together.wait(WAIT_S)
    begun = time.monotonic()
    borrower.begin(loan, WAIT_S, borrowers=errand.borrowers)
    launched = launches(borrower, tp)
    borrower.send(topic, b"first", partition=partition).result(WAIT_S)
    first_ms = (time.monotonic() - begun) * 1000.0
    retries = launches(borrower, tp) - launched - 1
    if errand.records:
        borrower.send_many(topic, [b"%d" % number for number in range(errand.records)], partition=partition)
    (written,) = borrower.finish(WAIT_S)
    return Done(first_ms, retries, written)


def launches(borrower: Borrower, tp: tuple[str, int]) -> int:
    """How often a batch of the partition was sent so far."""
    core = borrower._core()
    assert core is not None
    sender = core.produce_requests.senders.get(tp)
    return sender.window.launches if sender is not None else 0


if __name__ == "__main__":
    sys.exit(main())
