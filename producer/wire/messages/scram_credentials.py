"""DescribeUserScramCredentials and AlterUserScramCredentials: the users that log in with SCRAM (KIP-554)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32


class UserName(WireStruct):
    """A user to describe."""

    name: str = ""


class DescribeUserScramCredentialsRequest(Message):
    """A client asks for the SCRAM credentials of users. Null and an empty list stand for all users."""

    api = Api.DESCRIBE_USER_SCRAM_CREDENTIALS
    versions = range(1)
    flexible = 0
    is_request = True

    users: list[UserName] | None = []


class CredentialInfo(WireStruct):
    """One credential: its mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and its iterations."""

    mechanism: i8 = 0
    iterations: i32 = 0


class DescribeUserScramCredentialsResult(WireStruct):
    """A user and its credentials, or an error."""

    user: str = ""
    error_code: i16 = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = []


class DescribeUserScramCredentialsResponse(Message):
    """The broker answers with mechanisms and iterations, never with a key."""

    api = Api.DESCRIBE_USER_SCRAM_CREDENTIALS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = []


class ScramCredentialDeletion(WireStruct):
    """A credential to remove."""

    name: str = ""
    mechanism: i8 = 0


class ScramCredentialUpsertion(WireStruct):
    """A credential to set. The client has salted the password; the broker never sees it."""

    name: str = ""
    mechanism: i8 = 0
    iterations: i32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message):
    """A client removes and sets SCRAM credentials."""

    api = Api.ALTER_USER_SCRAM_CREDENTIALS
    versions = range(1)
    flexible = 0
    is_request = True

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(WireStruct):
    """A user, and whether its credentials were changed."""

    user: str = ""
    error_code: i16 = 0
    error_message: str | None = ""


class AlterUserScramCredentialsResponse(Message):
    """The controller answers, user by user."""

    api = Api.ALTER_USER_SCRAM_CREDENTIALS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[AlterUserScramCredentialsResult] = []
