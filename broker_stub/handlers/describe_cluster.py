"""DescribeCluster (60), versions 0 to 2.

The live brokers, from version 2 on on request also the others, marked as fenced; the cluster's id; and one of the brokers as controller. A
request for controllers is MISMATCHED_ENDPOINT_TYPE, one for another type UNSUPPORTED_ENDPOINT_TYPE.

Leaves out: racks and controllers.
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.metadata import cluster_operations
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS, CONTROLLERS = 1, 2


@handles(DescribeClusterRequest, range(3))
def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if call.error:
        return DescribeClusterResponse(error_code=call.error)
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {request.endpoint_type}"
        )
    cluster = call.cluster
    live = call.image.live
    registered = [broker for broker in cluster.brokers.values() if broker.registered]
    shown = [broker for broker in registered if broker.node_id in live or request.include_fenced_brokers]
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=live[0] if live else -1,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id,
                host=broker.host,
                port=broker.port,
                is_fenced=call.version >= 2 and broker.node_id not in live,
            )
            for broker in shown
        ],
        cluster_authorized_operations=cluster_operations(call, asked=request.include_cluster_authorized_operations),
    )
