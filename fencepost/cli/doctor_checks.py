"""The findings of `fencepost doctor`: whether and how a producer can write to a cluster from here.

It uses the producer's own connections and messages. Each request has a deadline of REQUEST_TIMEOUT_S. It writes no record and creates no
topic. With `--transactions` it creates a transactional id, which expires by itself.
"""

from __future__ import annotations

import asyncio
import enum
import secrets
from collections.abc import Awaitable
from typing import Final, TypeVar

import msgspec

from fencepost.cli.doctor_findings import Finding, Verdict
from fencepost.cli.doctor_topics import topic_findings
from fencepost.producer.config.bootstrap_servers import addresses
from fencepost.producer.config.settings import Settings
from fencepost.producer.foundations.address import Address
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.version import VERSION
from fencepost.producer.network.connection import Connection
from fencepost.producer.network.connector import API_VERSIONS_MAX, Connector, Versions
from fencepost.producer.wire import (
    REQUESTS,
    Api,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ErrorCode,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    Message,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    UnsupportedFieldValue,
    error_name,
)

REQUEST_TIMEOUT_S: Final = 5.0
TRANSACTIONS_S: Final = 20.0
TRANSACTION_MS: Final = 10_000
PERMISSIONS_SINCE: Final = 8
"""The first Metadata that tells what the client may do with a topic (KIP-430)."""
AGAIN_S: Final = 0.2
BROKERS_MAX: Final = 256
DIALLED_TOGETHER: Final = 32
NEEDED: Final = (Api.METADATA, Api.PRODUCE, Api.INIT_PRODUCER_ID)
NOT_YET: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)

RELEASES: Final = (
    (30, "4.3 or later"),
    (28, "4.2"),
    (26, "4.1"),
    (22, "4.0"),
    (21, "3.9"),
    (20, "3.8"),
    (15, "3.7"),
    (12, "3.6"),
    (9, "3.5"),
)
"""The first level of metadata.version that each release supports (`MetadataVersion`)."""

OLDER: Final = (
    (12, "4.0 or later"),
    (11, "3.8 or 3.9"),
    (10, "3.7"),
    (9, "2.8 to 3.6"),
    (8, "2.4 to 2.7"),
    (7, "2.1 to 2.3"),
    (3, "0.11 to 2.0"),
)
"""The newest Produce of each range of releases, for brokers that name no features."""

T = TypeVar("T")


class Subject(enum.StrEnum):
    """What a finding is about."""

    BOOTSTRAP = "bootstrap"
    VERSION = "version"
    FEATURES = "features"
    CLUSTER = "cluster"
    BROKER = "advertised address"
    IDEMPOTENCE = "idempotence"
    TRANSACTIONS = "transactions"
    CLOCK = "clock"


class BrokerConnection(msgspec.Struct, frozen=True):
    """A connection, and the versions that its broker offers."""

    connection: Connection
    versions: Versions

    def speaks(self, api: int) -> int | None:
        """The newest version of the API that both sides know."""
        ours = REQUESTS[Api(api)].versions
        low, high = self.versions.get(api, (0, -1))
        newest = min(high, ours.stop - 1)
        return newest if newest >= max(low, ours.start) else None

    async def ask(self, message: Message) -> Message:
        """The answer. Raises OSError, TimeoutError among them."""
        version = self.speaks(message.api)
        if version is None:
            raise OSError(f"the broker does not speak {message.api.name} in a version known here")
        try:
            return await within(self.connection.ask(message, version), REQUEST_TIMEOUT_S)
        except UnsupportedFieldValue as error:
            raise OSError(f"the broker speaks {message.api.name} in too old a version: {error}") from None


async def examine(settings: Settings, *, topic: str | None, transactions: bool) -> list[Finding]:
    """Every finding, in the order in which a producer would meet the causes."""
    examination = Examination(settings)
    try:
        await examination.run(topic, transactions)
    finally:
        await examination.close()
    return examination.findings


class Examination:
    """One run."""

    def __init__(self, settings: Settings) -> None:
        self.findings: list[Finding] = []
        self._settings = settings
        self._dialer = Connector(settings)
        self._open: list[Connection] = []

    async def run(self, topic: str | None, transactions: bool) -> None:
        connection = await self._bootstrap()
        if connection is None:
            return
        try:
            await self._versions(connection)
            metadata = await self._cluster(connection, topic)
            await self._brokers(metadata)
            await self._idempotence(connection)
            if transactions:
                await self._transactions(connection)
            else:
                self._say(Verdict.NONE, Subject.TRANSACTIONS, "not tried; --transactions tries it, with a transactional id of its own")
            self._say(
                Verdict.NONE,
                Subject.CLOCK,
                "not compared: Kafka tells a broker's time only in the answer to a write, and this command writes nothing",
            )
            if topic is not None:
                newest = connection.versions.get(Api.PRODUCE, (0, -1))[1]
                self.findings += await topic_findings(connection.ask, metadata, topic, self._settings, produce=newest)
        except OSError as error:
            self._say(Verdict.FAIL, Subject.CLUSTER, f"the examination ended early: {error}")

    async def close(self) -> None:
        for connection in self._open:
            connection.silence()
        await asyncio.sleep(0)  # the loop closes transports in its next iteration

    async def _bootstrap(self) -> BrokerConnection | None:
        """A connection to the first address that answers. It tries every address."""
        each_address = addresses(self._settings)
        for each in each_address:
            self._dialer.look_for_sasl(each.host, each.port)
        opened = await asyncio.gather(*(self._dial(each.host, each.port) for each in each_address))
        answering = [result for result in opened if isinstance(result, BrokerConnection)]
        for address, result in zip(each_address, opened, strict=True):
            if isinstance(result, BrokerConnection):
                self._say(Verdict.OK, Subject.BOOTSTRAP, f"{address} answers as a Kafka broker")
            else:
                # One address that answers is enough.
                self._say(Verdict.WARN if answering else Verdict.FAIL, Subject.BOOTSTRAP, f"{address}: {result}")
        return answering[0] if answering else None

    async def _versions(self, broker: BrokerConnection) -> None:
        request = ApiVersionsRequest(client_software_name="fencepost", client_software_version=VERSION)
        highest = broker.versions.get(Api.API_VERSIONS, (0, 0))[1]
        answer = await within(broker.connection.ask(request, max(0, min(highest, API_VERSIONS_MAX))), REQUEST_TIMEOUT_S)
        assert isinstance(answer, ApiVersionsResponse)
        produce = broker.versions.get(Api.PRODUCE, (0, -1))[1]
        level = next((each.max_version for each in answer.supported_features if each.name == "metadata.version"), None)
        name = _release(level, RELEASES, "3.3 or 3.4") if level is not None else _release(produce, OLDER, "before 0.11")
        self._say(Verdict.OK, Subject.VERSION, f"Apache Kafka {name}, or a compatible broker (Produce up to version {produce})")
        for api in NEEDED:
            if broker.speaks(api) is None:
                offered = broker.versions.get(api)
                words = f"versions {offered[0]} to {offered[1]}" if offered else "nothing"
                ours = REQUESTS[api].versions
                self._say(Verdict.FAIL, Subject.VERSION, f"{api.name}: {words} offered, {ours.start} to {ours.stop - 1} known here")
        finalized = ", ".join(
            f"{each.name}={each.max_version_level}" for each in sorted(answer.finalized_features, key=lambda each: each.name)
        )
        self._say(Verdict.OK, Subject.FEATURES, f"finalized: {finalized or 'none'}")

    async def _cluster(self, connection: BrokerConnection, topic: str | None) -> MetadataResponse:
        # The request must not create a missing topic.
        wanted = [MetadataRequestTopic(name=topic)] if topic is not None else []
        tells_permissions = (connection.speaks(Api.METADATA) or 0) >= PERMISSIONS_SINCE
        answer = await connection.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=tells_permissions)
        )
        assert isinstance(answer, MetadataResponse)
        words = f"{answer.cluster_id or 'without an id'}: {counted(len(answer.brokers), 'broker')}, controller {answer.controller_id}"
        self._say(Verdict.OK if answer.brokers else Verdict.FAIL, Subject.CLUSTER, words)
        return answer

    async def _brokers(self, metadata: MetadataResponse) -> None:
        """Whether the brokers can be reached at their advertised addresses. A producer uses only these."""
        brokers = sorted(metadata.brokers, key=lambda each: each.node_id)
        others = len(brokers) - BROKERS_MAX
        brokers = brokers[:BROKERS_MAX]
        turn = asyncio.Semaphore(DIALLED_TOGETHER)

        async def dial(host: str, port: int) -> BrokerConnection | OSError:
            async with turn:
                return await self._dial(host, port)

        opened = await asyncio.gather(*(dial(each.host, each.port) for each in brokers))
        for broker, result in zip(brokers, opened, strict=True):
            where = f"broker {broker.node_id} at {Address(broker.host, broker.port)}"
            if isinstance(result, BrokerConnection):
                self._say(Verdict.OK, Subject.BROKER, f"{where} can be reached")
            else:
                hint = "no producer here can reach it: check the broker's advertised.listeners"
                self._say(Verdict.FAIL, Subject.BROKER, f"{where}: {result}; {hint}")
        if others > 0:
            self._say(
                Verdict.WARN,
                Subject.BROKER,
                f"{counted(others, 'more broker was', 'more brokers were')} not tried: the limit is {BROKERS_MAX}",
            )

    async def _idempotence(self, connection: BrokerConnection) -> None:
        if not self._settings.enable_idempotence:
            self._say(Verdict.NONE, Subject.IDEMPOTENCE, "not asked, because of enable_idempotence=False")
            return
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TRANSACTION_MS)
        deadline = asyncio.get_running_loop().time() + REQUEST_TIMEOUT_S
        while True:
            answer = await connection.ask(request)
            assert isinstance(answer, InitProducerIdResponse)
            if answer.error_code not in NOT_YET or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(AGAIN_S)
        if not answer.error_code:
            self._say(Verdict.OK, Subject.IDEMPOTENCE, "permitted: the broker gave a producer id")
            return
        hint = "; grant WRITE on a topic, or IDEMPOTENT_WRITE on the cluster; or write with enable_idempotence=False"
        refused = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        self._say(Verdict.FAIL, Subject.IDEMPOTENCE, f"InitProducerId: {error_name(answer.error_code)}{hint if refused else ''}")

    async def _transactions(self, connection: BrokerConnection) -> None:
        """Whether InitProducerId succeeds for a new transactional id that no program uses."""
        name = f"fencepost-doctor-{secrets.token_hex(8)}"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TRANSACTIONS_S
        while True:
            said, code = await self._try_transaction(connection, name)
            if code not in NOT_YET or loop.time() > deadline:
                break
            await asyncio.sleep(AGAIN_S)
        self._say(Verdict.FAIL if code else Verdict.OK, Subject.TRANSACTIONS, said)

    async def _try_transaction(self, connection: BrokerConnection, name: str) -> tuple[str, int]:
        listed = (connection.speaks(Api.FIND_COORDINATOR) or 0) >= 4
        asked = FindCoordinatorRequest(coordinator_keys=[name], key_type=1) if listed else FindCoordinatorRequest(key=name, key_type=1)
        found = await connection.ask(asked)
        assert isinstance(found, FindCoordinatorResponse)
        where = found.coordinators[0] if found.coordinators else found
        if where.error_code:
            return f"FindCoordinator: {error_name(where.error_code)}", where.error_code
        coordinator = await self._dial(where.host, where.port)
        if not isinstance(coordinator, BrokerConnection):
            return f"the coordinator at {Address(where.host, where.port)}: {coordinator}", ErrorCode.UNKNOWN_SERVER_ERROR
        answer = await coordinator.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TRANSACTION_MS))
        assert isinstance(answer, InitProducerIdResponse)
        if answer.error_code:
            return f"InitProducerId for {name!r} at broker {where.node_id}: {error_name(answer.error_code)}", answer.error_code
        return f"permitted: broker {where.node_id} gave an identity to {name!r}", 0

    async def _dial(self, host: str, port: int) -> BrokerConnection | OSError:
        try:
            connection, versions, _ = await self._dialer.open(host, port)
        except OSError as error:
            return error
        self._open.append(connection)
        return BrokerConnection(connection, versions)

    def _say(self, verdict: Verdict, subject: str, words: str) -> None:
        self.findings.append(Finding(verdict, str(subject), words))


async def within(awaited: Awaitable[T], seconds: float) -> T:
    """Its result. A TimeoutError names the limit."""
    try:
        async with asyncio.timeout(seconds):
            return await awaited
    except TimeoutError:
        raise TimeoutError(f"no answer within {seconds:g} s") from None


def _release(level: int, table: tuple[tuple[int, str], ...], otherwise: str) -> str:
    return next((name for lowest, name in table if level >= lowest), otherwise)
