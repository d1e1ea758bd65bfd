"""Requests that change and describe configs."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.producer.wire.messages import incremental_configs
from fencepost.producer.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER, CLIENT_METRICS, GROUP = 4, 16, 32
SET, DELETE = 0, 1


def change(kind: int, name: str, values: Mapping[str, str | None]) -> incremental_configs.IncrementalAlterConfigsRequest:
    """Sets these configs. None: deletes."""
    changes = [
        incremental_configs.AlterableConfig(name=config, config_operation=DELETE if value is None else SET, value=value)
        for config, value in values.items()
    ]
    resource = incremental_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return incremental_configs.IncrementalAlterConfigsRequest(resources=[resource])


def describe(kind: int, name: str, *configs: str) -> DescribeConfigsRequest:
    """Asks for these configs."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(configs))
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True)
