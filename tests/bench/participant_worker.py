"""One process of the participants bench: several participants, each on its own thread, that write in shared transactions.

The arguments are a bootstrap address and the number of participants. Each input line is an `Errand` in JSON. The worker answers it with one
line of `Done`s. It ends at the end of the input. It measures and prints, and judges nothing.
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

from fencepost import Participant, Participation, Written

WAIT_S = 120.0


class Errand(msgspec.Struct, frozen=True):
    """What the participants write: `partitions` of the participation, one for each participant.

    `records`: how many each one sends after its first record, for which it waits. `participants`: the number that `begin` gets.
    """

    participation: str
    partitions: list[tuple[str, int]]
    records: int
    participants: int


class Done(msgspec.Struct, frozen=True):
    """What one participant did. `first_ms`: from the participation to the acknowledgement of the first record. `retries`: how often that
    record was sent again.
    """

    first_ms: float
    retries: int
    written: Written


def main() -> int:
    bootstrap, count = sys.argv[1], int(sys.argv[2])
    participants = [Participant(bootstrap_servers=bootstrap, linger_ms=0, client_id=f"participant-{number}") for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        print("ready", flush=True)
        for line in sys.stdin:
            errand = msgspec.json.decode(line, type=Errand)
            participation, together = Participation.loads(errand.participation), Barrier(len(errand.partitions))
            turns = [
                pool.submit(write, participant, participation.part([tp]), tp, errand, together)
                for participant, tp in zip(participants, errand.partitions, strict=False)
            ]
            print(msgspec.json.encode([turn.result(WAIT_S) for turn in turns]).decode(), flush=True)
    for participant in participants:
        participant.close(5)
    return 0


def write(participant: Participant, participation: Participation, tp: tuple[str, int], errand: Errand, together: Barrier) -> Done:
    """What one participant does."""
    topic, partition = tp
    together.wait(WAIT_S)
    begun = time.monotonic()
    participant.begin(participation, WAIT_S, participants=errand.participants)
    launched = launches(participant, tp)
    participant.send(topic, b"first", partition=partition).result(WAIT_S)
    first_ms = (time.monotonic() - begun) * 1000.0
    retries = launches(participant, tp) - launched - 1
    if errand.records:
        participant.send_many(topic, [b"%d" % number for number in range(errand.records)], partition=partition)
    (written,) = participant.finish(WAIT_S)
    return Done(first_ms, retries, written)


def launches(participant: Participant, tp: tuple[str, int]) -> int:
    """How often a batch of the partition was sent so far."""
    core = participant._core()
    assert core is not None
    sender = core.produce_requests.senders.get(tp)
    return sender.window.launches if sender is not None else 0


if __name__ == "__main__":
    sys.exit(main())
