"""`python -m tests.conformance.record [pattern ...]`: runs the cases on a real Kafka, and records its answers.

It shows new and changed answers, so that a person can review them before the commit.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from fnmatch import fnmatch

from tests.conformance.answers import Notes, load_cases, recorded, write
from tests.conformance.targets import KafkaPool
from tests.conformance.world import play


def main() -> None:
    patterns = sys.argv[1:] or ["*"]
    chosen = [case for name, case in load_cases().items() if not case.older and any(fnmatch(name, pattern) for pattern in patterns)]
    answers: dict[str, Notes] = {}
    with ExitStack() as stack:
        pool = stack.enter_context(KafkaPool())
        for case in chosen:
            answers[case.name] = notes = play(case, pool.target_for(case))
            before = recorded(case) or {}
            changed = {
                label: (before.get(label), notes.get(label)) for label in {**before, **notes} if before.get(label) != notes.get(label)
            }
            print(f"{case.name}: {len(notes)} answers, {len(changed)} new or different", flush=True)
            for label, (old, new) in changed.items() if before else ():
                print(f"  {label}\n    was {old}\n    is  {new}")
    write(answers)
    print(f"{len(answers)} cases, {sum(map(len, answers.values()))} answers")


if __name__ == "__main__":
    main()
