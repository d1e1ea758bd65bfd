"""FindCoordinator: the broker that coordinates a group or a transactional id."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, ignorable, since, until


class FindCoordinatorRequest(Message):
    """A client asks any broker for the coordinator of one key, from version 4 on of several.

    Key type 0 is a group, 1 a transactional id, 2 a share group.
    """

    api = Api.FIND_COORDINATOR
    versions = range(7)
    flexible = 3
    is_request = True

    key: Annotated[str, until(3)] = ""
    key_type: Annotated[i8, since(1)] = 0
    coordinator_keys: Annotated[list[str], since(4)] = []


class Coordinator(WireStruct):
    """The coordinator of one key, or the error."""

    key: Annotated[str, since(4)] = ""
    node_id: Annotated[i32, since(4)] = 0
    host: Annotated[str, since(4)] = ""
    port: Annotated[i32, since(4)] = 0
    error_code: Annotated[i16, since(4)] = 0
    error_message: Annotated[str | None, since(4), ignorable] = ""


class FindCoordinatorResponse(Message):
    """The broker answers with the coordinator. Up to version 3 it is in the response itself, later in a list."""

    api = Api.FIND_COORDINATOR
    versions = range(7)
    flexible = 3
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: Annotated[i16, until(3)] = 0
    error_message: Annotated[str | None, since(1), until(3), ignorable] = ""
    node_id: Annotated[i32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[i32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = []
