"""DeleteAcls (31), versions 1 to 3.

Deletes the ACLs that match any of the filters, which are DescribeAcls', and returns them. Without an authorizer the answer is
SECURITY_DISABLED.
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.describe_acls import filter_of, is_unknown
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.acls import Filter
from fencepost.broker_stub.security.authorizer import Authorizer
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.acls import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse


@handles(DeleteAclsRequest, range(1, 4), cluster=Operation.ALTER, forwarded=True)
def delete_acls(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse | Instead:
    if any(map(is_unknown, request.filters)):
        return Instead.CUT  # Kafka cannot parse it
    if call.error:
        return _every(request, call.error, call.needs_words(call.error, Operation.ALTER))
    authorizer = call.cluster.authorizer
    if authorizer is None:
        return _every(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    filters = [filter_of(each) for each in request.filters]
    results = [_matches(authorizer, wanted) for wanted in filters]
    for wanted, result in zip(filters, results, strict=True):
        if not result.error_code:
            authorizer.remove(authorizer.matching(wanted))
    return DeleteAclsResponse(filter_results=results)


def _matches(authorizer: Authorizer, wanted: Filter) -> DeleteAclsFilterResult:
    """The ACLs that match the filter. An ACL may match several filters."""
    unknown = "patternFilter" if not wanted.resource or not wanted.pattern else "entryFilter"
    if 0 in (wanted.resource, wanted.pattern, wanted.operation, wanted.permission):
        return DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=f"Unknown {unknown}.")
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in authorizer.matching(wanted)
        ],
    )


def _every(request: DeleteAclsRequest, code: int, message: str | None) -> DeleteAclsResponse:
    """The same result for each."""
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters])
