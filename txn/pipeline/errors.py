"""The errors with which a pipeline ends. Each leaves the group's committed offsets at the first message that was not processed."""

from __future__ import annotations

from typing import Final

from fencepost.producer.errors import FencepostError

__all__ = ["PipelineFailed", "PoisonMessage"]


class PipelineFailed(FencepostError):
    """The pipeline cannot continue. Nothing is lost: a restarted pipeline begins at the first message without a committed result."""


class PoisonMessage(PipelineFailed):
    """A message cannot be processed, and the pipeline has no topic for dead letters. `topic`, `partition`, `offset`: the message's.
    `attempts`: how many times the transform was tried. `__cause__`: the last error. Everything before the message is committed."""

    def __init__(self, reason: str, *, topic: str, partition: int, offset: int, attempts: int) -> None:
        self.reason: Final = reason
        self.topic: Final = topic
        self.partition: Final = partition
        self.offset: Final = offset
        self.attempts: Final = attempts
        super().__init__(
            f"{topic}-{partition}, offset {offset}: {reason} (attempts={attempts}). Everything before this message is committed. Correct"
            ' the transform and start again, or set dead_letters="<topic>" for such messages'
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _poison, (self.reason, self.topic, self.partition, self.offset, self.attempts)


def _poison(reason: str, topic: str, partition: int, offset: int, attempts: int) -> PoisonMessage:
    return PoisonMessage(reason, topic=topic, partition=partition, offset=offset, attempts=attempts)
