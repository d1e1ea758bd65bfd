"""The responses to requests that a broker could not forward to the controller in time: REQUEST_TIMED_OUT in every result, as in Kafka.

Such a response is made from the request alone, because the broker checks nothing that the controller checks.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.wire import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse, ErrorCode, Message
from fencepost.producer.wire.messages import acls, alter_quotas, alter_quotas_response, configs, incremental_configs, replicas, topic_admin

CODE: Final = ErrorCode.REQUEST_TIMED_OUT
MESSAGE: Final = "The request timed out."
"""Only AlterClientQuotas has it."""


def timed_out(request: Message, version: int) -> Message:
    """The response to a request of one of the APIs that brokers forward."""
    match request:
        case CreateTopicsRequest():
            names = dict.fromkeys(topic.name for topic in request.topics)
            return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_code=CODE, error_message=None) for name in names])
        case topic_admin.DeleteTopicsRequest():
            asked = request.topics if version >= 6 else [topic_admin.DeleteTopicState(name=name) for name in request.topic_names]
            deleted = [topic_admin.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=CODE) for topic in asked]
            return topic_admin.DeleteTopicsResponse(responses=deleted)
        case topic_admin.CreatePartitionsRequest():
            grown = [topic_admin.CreatePartitionsTopicResult(name=topic.name, error_code=CODE) for topic in request.topics]
            return topic_admin.CreatePartitionsResponse(results=grown)
        case replicas.ElectLeadersRequest():
            return _elect(request, version)
        case replicas.AlterPartitionReassignmentsRequest():
            return _reassign(request)
        case replicas.ListPartitionReassignmentsRequest():
            return _list_reassignments(request)
        case configs.AlterConfigsRequest():
            return configs.AlterConfigsResponse(responses=[_config(each) for each in request.resources])
        case incremental_configs.IncrementalAlterConfigsRequest():
            return incremental_configs.IncrementalAlterConfigsResponse(responses=[_config(each) for each in request.resources])
        case acls.CreateAclsRequest():
            created = acls.AclCreationResult(error_code=CODE, error_message=None)
            return acls.CreateAclsResponse(results=[created] * len(request.creations))
        case acls.DeleteAclsRequest():
            filtered = acls.DeleteAclsFilterResult(error_code=CODE, error_message=None)
            return acls.DeleteAclsResponse(filter_results=[filtered] * len(request.filters))
        case alter_quotas.AlterClientQuotasRequest():
            entries = [
                alter_quotas_response.EntryData(error_code=CODE, error_message=MESSAGE, entity=each.entity) for each in request.entries
            ]
            return alter_quotas_response.AlterClientQuotasResponse(entries=entries)
    raise TypeError(f"{type(request).__name__} is not forwarded")


def _elect(request: replicas.ElectLeadersRequest, version: int) -> replicas.ElectLeadersResponse:
    results = [
        replicas.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                replicas.PartitionResult(partition_id=index, error_code=CODE, error_message=None) for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return replicas.ElectLeadersResponse(error_code=CODE if version >= 1 else ErrorCode.NONE, replica_election_results=results)


def _reassign(request: replicas.AlterPartitionReassignmentsRequest) -> replicas.AlterPartitionReassignmentsResponse:
    results = [
        replicas.ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                replicas.ReassignablePartitionResponse(partition_index=each.partition_index, error_code=CODE, error_message=None)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replicas.AlterPartitionReassignmentsResponse(error_code=CODE, error_message=None, responses=results)


def _list_reassignments(request: replicas.ListPartitionReassignmentsRequest) -> replicas.ListPartitionReassignmentsResponse:
    """It names the partitions of the request."""
    named = [
        replicas.OngoingTopicReassignment(
            name=topic.name,
            partitions=[replicas.OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return replicas.ListPartitionReassignmentsResponse(error_code=CODE, error_message=None, topics=named)


def _config(resource: configs.AlterConfigsResource | incremental_configs.AlterConfigsResource) -> configs.AlterConfigsResourceResponse:
    return configs.AlterConfigsResourceResponse(
        error_code=CODE, error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
