"""Makes connections: it tries a host's addresses in turn, then does TLS, ApiVersions, authentication, and a check of the cluster id.

Each address has `socket_connection_setup_timeout_ms` for all of that. A ConnectError means that retrying cannot help. It says
which setting does not fit the peer. If the peer closes without a reply, a second connection finds out what the peer speaks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.rebootstrap import ELSEWHERE
from fencepost.producer.core.events import NO_FEATURES, Features
from fencepost.producer.errors import AuthenticationFailed, NoUsableBroker, plain
from fencepost.producer.foundations.printable import said
from fencepost.producer.foundations.version import VERSION
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.connection import Connection
from fencepost.producer.network.oauth_tokens import TokenSource
from fencepost.producer.network.protocol_probe import WRONG_PORT, recognise, speaks_kafka, speaks_tls
from fencepost.producer.network.resolver import resolve
from fencepost.producer.network.sasl import Login, named
from fencepost.producer.network.tls_errors import explain
from fencepost.producer.wire import (
    Api,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ErrorCode,
    Message,
    MetadataRequest,
    MetadataResponse,
    error_name,
)
from fencepost.producer.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from fencepost.producer.wire.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from fencepost.producer.wire.tls import TlsPipe

API_VERSIONS_MAX: Final = 4
METADATA_VERSIONS_WITH_CLUSTER: Final = range(2, 10)
SOFTWARE_NAME: Final = "fencepost"

Versions = dict[int, tuple[int, int]]


class Opened(NamedTuple):
    """A connection, and the broker's versions and features."""

    connection: Connection
    versions: Versions
    features: Features


class Connector:
    """See the module. Each producer has one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tokens = TokenSource(settings) if settings.sasl_oauth_token_provider is not None else None
        self._timeout_s = settings.socket_connection_setup_timeout_ms / 1000.0
        self._suspects: set[tuple[str, int]] = set()
        self._said = ""

    def level(self, error: Exception) -> int:
        """The log level of an error. An operator must see an error that lasts, but not the same one twice in a row."""
        if not isinstance(error, ConnectError) or str(error) == self._said:
            return logging.INFO
        self._said = str(error)
        return logging.ERROR if error.kind is AuthenticationFailed else logging.WARNING

    async def open(self, host: str, port: int, *, cluster: str | None = None) -> Opened:
        """A connection to the first of the host's addresses that answers, and the versions that the broker offers. `cluster`: the id of the
        cluster that the broker must belong to.

        Raises OSError with the failure of each address: a ConnectError if retrying cannot help. The caller adds host and port to the
        text.
        """
        failures: list[str] = []
        kind: type[NoUsableBroker] | None = None
        for ip in await resolve(host, timeout_s=self._timeout_s):
            attempt = _Attempt(self._settings, host, ip, port)
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._follow(attempt, cluster)
            except TimeoutError:
                reason = f"no answer within {plain(self._timeout_s)} s{attempt.stage}"
            except ConnectError as refusal:
                reason = str(refusal)
                kind = refusal.kind if kind is not AuthenticationFailed else kind
            except OverflowError:
                reason = "the port is not a valid number"
            except OSError as error:
                # The text of asyncio's error repeats the address.
                reason = os.strerror(error.errno) if error.errno and error.errno > 0 else f"{error}{attempt.stage}"
            failures.append(reason if ip == host else f"{ip}: {reason}")
        raise OSError("; ".join(failures)) if kind is None else ConnectError("; ".join(failures), kind=kind)

    def look_for_sasl(self, host: str, port: int) -> None:
        """The next connection to this address finds out whether the listener requires SASL that the settings do not have."""
        self._suspects.add((host, port))

    async def _follow(self, attempt: _Attempt, cluster: str | None) -> Opened:
        settings = self._settings
        connection = attempt.connection
        try:
            versions = await attempt.connect()
            where = (attempt.host, attempt.port)
            if where in self._suspects:
                self._suspects.discard(where)
                await attempt.look_for_sasl(versions)
            if settings.security_protocol.sasl:
                attempt.stage = " during SASL authentication"
                login = Login(settings, versions, self._tokens)
                await connection.log_in(login.perform, patience_s=self._timeout_s)
            attempt.stage = ""
            if cluster is not None:
                await attempt.refuse_another(cluster, versions)
        except BaseException:
            connection.silence()
            raise
        connection.known()
        connection.on_unserved = partial(self.look_for_sasl, *where)
        return Opened(connection, versions, attempt.features)


def _questions(versions: Versions) -> Iterator[tuple[Message, int]]:
    """Requests that return the cluster id. Metadata comes last, because the producer's own cluster id comes from Metadata."""
    if Api.DESCRIBE_CLUSTER in versions:
        yield DescribeClusterRequest(), 0
    low, high = versions.get(Api.METADATA, (0, -1))
    version = min(high, METADATA_VERSIONS_WITH_CLUSTER[-1])
    if version >= max(low, METADATA_VERSIONS_WITH_CLUSTER[0]):
        yield MetadataRequest(topics=[], allow_auto_topic_creation=False), version


class _Attempt:
    """One attempt at one address. `stage`: the current step, for an error message."""

    def __init__(self, settings: Settings, host: str, ip: str, port: int) -> None:
        self.host = host
        self.ip = ip
        self.port = port
        self.stage = ""
        self.features = NO_FEATURES
        self._settings = settings
        context = settings.ssl_context if settings.security_protocol.tls else None
        self._tls = TlsPipe(context, server_hostname=host) if context is not None else None
        self.connection = Connection(settings.client_id, on_reply=_unasked, on_lost=_unheard, tls=self._tls, explain=self._explain)

    async def connect(self) -> Versions:
        """Connect, do the TLS handshake, and return the broker's versions. If the peer closes without a reply, find out what it speaks."""
        await asyncio.get_running_loop().create_connection(lambda: self.connection, self.ip, self.port)
        try:
            if self._tls is not None:
                self.stage = " during the TLS handshake"
            await self.connection.secured()
            self.stage = ""
            return await self._ask_versions()
        except ConnectionError:
            if not self.connection.opening:
                await self._find_out()
            raise

    async def _ask_versions(self) -> Versions:
        """The API versions of the broker (KIP-35, KIP-511)."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=VERSION)
        answer = await self.connection.ask(request, API_VERSIONS_MAX)
        assert isinstance(answer, ApiVersionsResponse)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = next((key.max_version for key in answer.api_keys if key.api_key == Api.API_VERSIONS), 0)
            answer = await self.connection.ask(request, max(0, min(API_VERSIONS_MAX, theirs)))
            assert isinstance(answer, ApiVersionsResponse)
        if answer.error_code:
            raise OSError(f"ApiVersions was answered with {error_name(answer.error_code)}")
        self.features = Features(answer.finalized_features_epoch, {each.name: each.max_version_level for each in answer.finalized_features})
        return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    async def look_for_sasl(self, versions: Versions) -> None:
        """Find out whether the listener requires SASL. Such a listener answers ApiVersions and closes at the next request. To a handshake
        with an unknown mechanism it replies UNSUPPORTED_SASL_MECHANISM. A listener without SASL replies ILLEGAL_SASL_STATE."""
        if self._settings.security_protocol.sasl or Api.SASL_HANDSHAKE not in versions:
            return
        answer = await self.connection.ask(SaslHandshakeRequest(mechanism="?"), 1)
        assert isinstance(answer, SaslHandshakeResponse)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            protocol = self._settings.security_protocol
            raise ConnectError(
                f"the listener requires SASL ({named(answer.mechanisms)}) and closes at other requests: "
                f"security_protocol={protocol.value}; set it to {'SASL_SSL' if protocol.tls else 'SASL_PLAINTEXT'}, and sasl_mechanism",
                kind=AuthenticationFailed,
            )

    async def refuse_another(self, cluster: str, versions: Versions) -> None:
        """Refuse a broker of another cluster. The address may belong to another cluster now, with a broker of the same id. Producer ids
        begin with the same numbers in every cluster, so that broker would accept our batches and the end of our transaction."""
        theirs = ""
        for request, version in _questions(versions):
            answer = await self.connection.ask(request, version)
            assert isinstance(answer, DescribeClusterResponse | MetadataResponse)
            if answer.cluster_id == cluster:
                return
            theirs = answer.cluster_id or theirs
        if theirs:
            raise OSError(f"the broker there {ELSEWHERE.format(theirs=said(theirs), ours=said(cluster))}")

    async def _find_out(self) -> None:
        """The peer closed without a reply: check whether it expects TLS, or expects none."""
        if self._tls is not None and await speaks_kafka(self.ip, self.port):
            protocol = self._settings.security_protocol
            plain_one = "SASL_PLAINTEXT" if protocol.sasl else "PLAINTEXT"
            raise ConnectError(
                f"the port has no TLS, but security_protocol={protocol.value}: set it to {plain_one}, or use the port that has TLS"
            )
        if self._tls is None and await speaks_tls(self.ip, self.port):
            raise self._wants_tls()

    def _explain(self, error: Exception, opening: bytes) -> ConnectError | None:
        """Why a response cannot be read, if the first bytes or the TLS error tell."""
        if isinstance(error, ssl.SSLError):
            established = self._tls is not None and self._tls.established
            return explain(error, self._settings, self.host, opening, established=established)
        found = recognise(opening)
        if found == "TLS" and self._tls is None:
            return self._wants_tls()
        return ConnectError(f"{found} answers there, not a Kafka broker: {WRONG_PORT}") if found is not None else None

    def _wants_tls(self) -> ConnectError:
        protocol = self._settings.security_protocol
        secure_one = "SASL_SSL" if protocol.sasl else "SSL"
        return ConnectError(
            f"the port requires TLS, but security_protocol={protocol.value}: set it to {secure_one}, or use the port without TLS"
        )


def _unasked(token: int, message: object) -> None:
    """During setup no response belongs to a caller."""


def _unheard(reason: str) -> None:
    """During setup the future of the pending request tells of the loss."""
