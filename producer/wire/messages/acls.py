"""DescribeAcls, CreateAcls and DeleteAcls: an administrator reads and changes the permissions of principals.

Only brokers up to Kafka 3.9 accept version 0. It has no pattern types: every resource name is literal.
"""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, since


class DescribeAclsRequest(Message):
    """A client asks a broker for the ACLs that match these filters."""

    api = Api.DESCRIBE_ACLS
    versions = range(4)
    flexible = 2
    is_request = True

    resource_type_filter: i8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Annotated[i8, since(1)] = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: i8 = 0
    permission_type: i8 = 0


class AclDescription(WireStruct):
    """One ACL in a response: a principal, its host, an operation, and whether the ACL allows or denies it."""

    principal: str = ""
    host: str = ""
    operation: i8 = 0
    permission_type: i8 = 0


class DescribeAclsResource(WireStruct):
    """A resource pattern in a response, and the ACLs on it."""

    resource_type: i8 = 0
    resource_name: str = ""
    pattern_type: Annotated[i8, since(1)] = 3
    acls: list[AclDescription] = []


class DescribeAclsResponse(Message):
    """The broker answers with the matching ACLs, by resource."""

    api = Api.DESCRIBE_ACLS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = []


class AclCreation(WireStruct):
    """An ACL that the broker must create."""

    resource_type: i8 = 0
    resource_name: str = ""
    resource_pattern_type: Annotated[i8, since(1)] = 3
    principal: str = ""
    host: str = ""
    operation: i8 = 0
    permission_type: i8 = 0


class CreateAclsRequest(Message):
    """A client tells a broker to create ACLs."""

    api = Api.CREATE_ACLS
    versions = range(4)
    flexible = 2
    is_request = True

    creations: list[AclCreation] = []


class AclCreationResult(WireStruct):
    """Whether the broker created one ACL; if not, the error."""

    error_code: i16 = 0
    error_message: str | None = ""


class CreateAclsResponse(Message):
    """The broker answers with one result per ACL, in the order of the request."""

    api = Api.CREATE_ACLS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[AclCreationResult] = []


class DeleteAclsFilter(WireStruct):
    """A filter: the broker must delete every ACL that matches it."""

    resource_type_filter: i8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Annotated[i8, since(1)] = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: i8 = 0
    permission_type: i8 = 0


class DeleteAclsRequest(Message):
    """A client tells a broker to delete the ACLs that match at least one of the filters."""

    api = Api.DELETE_ACLS
    versions = range(4)
    flexible = 2
    is_request = True

    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(WireStruct):
    """An ACL that matched a filter, and the error if the broker did not delete it."""

    error_code: i16 = 0
    error_message: str | None = ""
    resource_type: i8 = 0
    resource_name: str = ""
    pattern_type: Annotated[i8, since(1)] = 3
    principal: str = ""
    host: str = ""
    operation: i8 = 0
    permission_type: i8 = 0


class DeleteAclsFilterResult(WireStruct):
    """The ACLs that matched one filter, or the error."""

    error_code: i16 = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Message):
    """The broker answers with one result per filter, in the order of the request."""

    api = Api.DELETE_ACLS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
