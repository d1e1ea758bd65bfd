"""DescribeAcls (29), versions 1 to 3.

The ACLs that match a filter, by resource: of one pattern type, of any (1), or of every pattern that covers a name (2, MATCH). Without an
authorizer the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.acls import Acl, Filter, numbered
from fencepost.broker_stub.security.operations import Operation, Pattern, Permission, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.acls import (
    AclDescription,
    DeleteAclsFilter,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@handles(DescribeAclsRequest, range(1, 4), cluster=Operation.DESCRIBE)
def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse | Instead:
    if is_unknown(request):
        return Instead.CUT  # Kafka cannot parse it
    if call.error:
        return DescribeAclsResponse(error_code=call.error, error_message=call.needs_words(call.error, Operation.DESCRIBE))
    if call.cluster.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker")
    resources: dict[tuple[Resource, str, Pattern], list[Acl]] = {}
    for acl in call.cluster.authorizer.matching(filter_of(request)):
        resources.setdefault((acl.resource, acl.name, acl.pattern), []).append(acl)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)
                    for acl in acls
                ],
            )
            for (kind, name, pattern), acls in resources.items()
        ],
    )


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    return Filter(
        resource=numbered(Resource, asked.resource_type_filter),
        name=asked.resource_name_filter,
        pattern=numbered(Pattern, asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=numbered(Operation, asked.operation),
        permission=numbered(Permission, asked.permission_type),
    )


def is_unknown(asked: DescribeAclsRequest | DeleteAclsFilter) -> bool:
    """Whether the filter has the number of UNKNOWN. Other unknown numbers match nothing."""
    return 0 in (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type)
