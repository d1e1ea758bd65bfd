"""CreateAcls (30), versions 1 to 3.

Creates ACLs. An existing one is no error. A resource without a name, a cluster that is not `kafka-cluster`, unknown numbers, and a
principal without a type are INVALID_REQUEST. Values that only filters may have (ANY, MATCH) fail the whole request with
UNKNOWN_SERVER_ERROR, as in Kafka. Without an authorizer the answer is SECURITY_DISABLED.

Leaves out: ACLs on delegation tokens and users are kept and not obeyed.
"""

from __future__ import annotations

from dataclasses import replace

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.acls import Acl, numbered
from fencepost.broker_stub.security.operations import CLUSTER_NAME, Operation, Pattern, Permission, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse


@handles(CreateAclsRequest, range(1, 4), cluster=Operation.ALTER, forwarded=True)
def create_acls(call: Call, request: CreateAclsRequest) -> CreateAclsResponse | Instead:
    if any(0 in (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type) for each in request.creations):
        return Instead.CUT  # Kafka cannot parse it
    if call.error:
        return _every(request, call.error, call.needs_words(call.error, Operation.ALTER))
    if call.cluster.authorizer is None:
        return _every(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    acls = [_acl(each) for each in request.creations]
    if not call.cluster.release.differs.two_phase_commit:
        acls = [replace(acl, operation=Operation.UNKNOWN) if acl.operation is Operation.TWO_PHASE_COMMIT else acl for acl in acls]
    if any(acl.pattern in (Pattern.ANY, Pattern.MATCH) or 1 in (acl.resource, acl.operation, acl.permission) for acl in acls):
        return _every(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)  # Kafka fails at values that only filters may have
    reasons = [_why_not(acl) for acl in acls]
    call.cluster.authorizer.add(acl for acl, reason in zip(acls, reasons, strict=True) if reason is None)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=reason) if reason else AclCreationResult()
            for reason in reasons
        ]
    )


def _acl(asked: AclCreation) -> Acl:
    return Acl(
        principal=asked.principal,
        operation=numbered(Operation, asked.operation),
        resource=numbered(Resource, asked.resource_type),
        name=asked.resource_name,
        pattern=numbered(Pattern, asked.resource_pattern_type),
        permission=numbered(Permission, asked.permission_type),
        host=asked.host,
    )


def _why_not(acl: Acl) -> str | None:
    """The error of an ACL, in Kafka's order and words; None without one."""
    if acl.resource is Resource.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    for what, value in (
        ("resourceType", acl.resource),
        ("patternType", acl.pattern),
        ("operation", acl.operation),
        ("permissionType", acl.permission),
    ):
        if not value:
            return f"Invalid {what} UNKNOWN"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from the principal name)"
        )
    return None


def _every(request: CreateAclsRequest, code: int, message: str | None) -> CreateAclsResponse:
    """The same result for each."""
    return CreateAclsResponse(results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations])
