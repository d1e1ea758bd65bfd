"""DescribeAcls, CreateAcls and DeleteAcls: the permissions of principals. Only brokers up to Kafka 3.9 accept version 0. It has no pattern
types: every name is literal."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, since


class DescribeAclsRequest(Message):
    """Asks for the ACLs that match."""

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
    """A principal, and an operation that it may or may not do."""

    principal: str = ""
    host: str = ""
    operation: i8 = 0
    permission_type: i8 = 0


class DescribeAclsResource(WireStruct):
    """A pattern of names and the ACLs on it."""

    resource_type: i8 = 0
    resource_name: str = ""
    pattern_type: Annotated[i8, since(1)] = 3
    acls: list[AclDescription] = []


class DescribeAclsResponse(Message):
    """The matching ACLs, by resource."""

    api = Api.DESCRIBE_ACLS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = []


class AclCreation(WireStruct):
    """An ACL to create."""

    resource_type: i8 = 0
    resource_name: str = ""
    resource_pattern_type: Annotated[i8, since(1)] = 3
    principal: str = ""
    host: str = ""
    operation: i8 = 0
    permission_type: i8 = 0


class CreateAclsRequest(Message):
    """Creates ACLs."""

    api = Api.CREATE_ACLS
    versions = range(4)
    flexible = 2
    is_request = True

    creations: list[AclCreation] = []


class AclCreationResult(WireStruct):
    """The result for one ACL."""

    error_code: i16 = 0
    error_message: str | None = ""


class CreateAclsResponse(Message):
    """One answer per ACL, in the order of the request."""

    api = Api.CREATE_ACLS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[AclCreationResult] = []


class DeleteAclsFilter(WireStruct):
    """The ACLs to delete."""

    resource_type_filter: i8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Annotated[i8, since(1)] = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: i8 = 0
    permission_type: i8 = 0


class DeleteAclsRequest(Message):
    """Deletes the ACLs that match any of the filters."""

    api = Api.DELETE_ACLS
    versions = range(4)
    flexible = 2
    is_request = True

    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(WireStruct):
    """A deleted ACL, or why it was not deleted."""

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
    """The result for one filter."""

    error_code: i16 = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Message):
    """One answer per filter, in the order of the request."""

    api = Api.DELETE_ACLS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
