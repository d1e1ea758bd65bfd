"""Questions about configs: DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import configs, incremental_configs
from tests.conformance.asks_admin import AdminAsks
from tests.conformance.asks_log import PRODUCE_VERSION, produce_request
from tests.conformance.batches import Batch
from tests.conformance.stage import READY_TIMEOUT_S, Topic
from tests.waiting import until

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Change = tuple[str, int, str | None]


class ConfigAsks(AdminAsks):
    """A part of the world of a case."""

    def describe_configs(
        self,
        kind: int,
        name: str,
        *,
        label: str,
        keys: Sequence[str] | None = None,
        version: int = 4,
        synonyms: bool = False,
        names_only: bool = False,
    ) -> None:
        """Note every config in the response, one by one."""
        resource = configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
        )
        request = configs.DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)

        def show(answer: configs.DescribeConfigsResponse) -> str:
            shown = []
            for result in answer.results:
                told = sorted(each.name if names_only else _shown(each) for each in result.configs)
                shown.append(
                    f"{result.resource_type} {error_name(result.error_code)} {self.worded(result.error_message)} [{'; '.join(told)}]"
                )
            return "; ".join(shown)

        self.note_answer(label, request, version, configs.DescribeConfigsResponse, show)

    def alter(
        self,
        kind: int,
        name: str,
        changes: Sequence[Change],
        *,
        label: str,
        validate_only: bool = False,
        version: int = 1,
        times: int = 1,
        worded: bool = False,
    ) -> None:
        """IncrementalAlterConfigs for one resource. The request may name the resource several times. `worded`: note the messages."""
        resource = incremental_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                incremental_configs.AlterableConfig(name=config, config_operation=operation, value=value)
                for config, operation, value in changes
            ],
        )
        request = incremental_configs.IncrementalAlterConfigsRequest(resources=[resource] * times, validate_only=validate_only)

        def show(answer: incremental_configs.IncrementalAlterConfigsResponse) -> str:
            return self._refusals(answer.responses, worded=worded)

        self.note_answer(label, request, version, incremental_configs.IncrementalAlterConfigsResponse, show)

    def replace_configs(
        self,
        kind: int,
        name: str,
        values: Mapping[str, str | None],
        *,
        label: str,
        validate_only: bool = False,
        version: int = 2,
        worded: bool = False,
    ) -> None:
        """AlterConfigs for one resource."""
        resource = configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[configs.AlterableConfig(name=key, value=value) for key, value in values.items()],
        )
        request = configs.AlterConfigsRequest(resources=[resource], validate_only=validate_only)

        def show(answer: configs.AlterConfigsResponse) -> str:
            return self._refusals(answer.responses, worded=worded)

        self.note_answer(label, request, version, configs.AlterConfigsResponse, show)

    def _refusals(self, responses: Sequence[configs.AlterConfigsResourceResponse], *, worded: bool) -> str:
        said = (lambda message: f" {self.worded(message)}") if worded else _said
        return "; ".join(f"{each.resource_type} {error_name(each.error_code)}{said(each.error_message)}" for each in responses)

    def until_set(self, kind: int, name: str, config: str, value: str | None, *, label: str) -> None:
        """Wait until the resource is described with that value (None: without the config), and note it with its synonyms."""
        resource = configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[config])
        request = configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True)

        def look() -> list[configs.DescribeConfigsResourceResult]:
            return self.ask(request, 4, configs.DescribeConfigsResponse).results[0].configs

        def good(found: list[configs.DescribeConfigsResourceResult]) -> bool:
            return [each.value for each in found] == ([] if value is None else [value])

        found = until(look, f"{config}={value}", good=good, timeout_s=READY_TIMEOUT_S)
        self.note(label, "; ".join(map(_shown, found)) or "not set")

    def until_config(self, topic: Topic, name: str, value: str, *, label: str) -> None:
        """Wait until the topic's config has that value, and note its source."""
        resource = configs.DescribeConfigsResource(resource_type=TOPIC, resource_name=topic.name, configuration_keys=[name])

        def look() -> configs.DescribeConfigsResourceResult:
            answer = self.ask(configs.DescribeConfigsRequest(resources=[resource]), 4, configs.DescribeConfigsResponse)
            return answer.results[0].configs[0]

        found = until(look, f"{name}={value}", good=lambda entry: entry.value == value, timeout_s=READY_TIMEOUT_S)
        self.note(label, _shown(found))

    def until_refused(self, batch: Batch, topic: Topic, *, label: str) -> None:
        """Send the batch until the leader refuses it, and note the reason."""
        request = produce_request([(topic, 0, batch.encode())], PRODUCE_VERSION)

        def send() -> int:
            answer = self.ask(request, PRODUCE_VERSION, wire.ProduceResponse)
            return answer.responses[0].partition_responses[0].error_code

        self.note(label, error_name(until(send, "a refusal", timeout_s=READY_TIMEOUT_S)))


def _shown(entry: configs.DescribeConfigsResourceResult) -> str:
    named = ", ".join(f"{each.name}={each.value} from {each.source}" for each in entry.synonyms)
    flags = f"{' read-only' if entry.read_only else ''}{' sensitive' if entry.is_sensitive else ''}"
    return f"{entry.name}={entry.value} from {entry.config_source} type={entry.config_type}{flags} ({named})"


def _said(message: str | None) -> str:
    return "" if message is None else " said why"
