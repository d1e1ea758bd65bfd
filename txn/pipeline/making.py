"""What both pipelines are made of: checked settings, counters, and the runner, with which confluent-kafka is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fencepost.producer.config.reader import read_settings
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.loop.calls import Calls
from fencepost.txn.pipeline.consumer_settings import consumer_settings
from fencepost.txn.pipeline.settings import PipelineSettings, producer_settings, read_pipeline_settings
from fencepost.txn.pipeline.stats import Counters

if TYPE_CHECKING:
    from fencepost.txn.pipeline.runner import Runner


IN_ANOTHER_PROCESS: Final = "make one in each process, with the same group"


class Plan:
    """See the module. Raises ConfigError."""

    def __init__(self, given: Mapping[str, Any], *, on_loop: bool) -> None:
        self._settings: PipelineSettings = read_pipeline_settings(given, on_loop=on_loop)
        consumer_settings(self._settings)
        self._own = producer_settings(self._settings)
        ours, rest = read_transaction_settings(self._own)
        read_settings(rest)
        self.transactional_id = ours.transactional_id
        self.counters = Counters(
            self._settings.progress_ms,
            self._settings.on_progress,
            group=self._settings.group,
            transactional_id=str(ours.transactional_id),
        )

    def runner(self, calls: Calls, make_producer: Callable[[dict[str, Any]], Any]) -> Runner:
        """What runs the pipeline. It makes the consumer."""
        from fencepost.txn.pipeline.runner import Runner  # with confluent-kafka

        return Runner(self._settings, self._own, self.counters, calls, make_producer)

    def described(self) -> str:
        """The pipeline, as `repr` shows it."""
        settings = self._settings
        return f"source={settings.source!r}, group={settings.group!r}, sink={settings.sink!r}, transactional_id={self.transactional_id!r}"
