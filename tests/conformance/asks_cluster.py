"""Questions about the cluster: Metadata, CreateTopics, InitProducerId, FindCoordinator and ApiVersions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.producer import wire
from fencepost.producer.wire import Api, error_name
from tests.conformance.stage import READY_TIMEOUT_S, SPOKEN, Stage, Topic
from tests.waiting import until

METADATA_VERSION = 12
FEATURES = ("transaction.version",)
_NO_COORDINATOR = wire.ErrorCode.COORDINATOR_NOT_AVAILABLE
_LATER = (wire.ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _NO_COORDINATOR, wire.ErrorCode.NOT_COORDINATOR)


class ClusterAsks(Stage):
    """A part of the world of a case."""

    # -- Metadata ----------------------------------------------------------------------------------------------------------

    def metadata(self, names: Sequence[str], *, label: str, version: int = METADATA_VERSION, auto_create: bool = False) -> None:
        """Ask for topics by name, and note the state of each."""
        request = metadata_request(names, auto_create=auto_create or version < 4)
        self.note_answer(label, request, version, wire.MetadataResponse, self._show_topics)

    def metadata_by_id(self, topic: Topic, *, version: int, label: str, with_name: bool = False) -> None:
        asked = wire.MetadataRequestTopic(topic_id=topic.id, name=topic.name if with_name else None)
        request = wire.MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        self.note_answer(label, request, version, wire.MetadataResponse, self._show_topics)

    def metadata_all(self, topic: Topic, names: list[str] | None, *, version: int, label: str) -> None:
        """Ask with an empty or null list, and note whether the response contains the case's topic."""
        request = wire.MetadataRequest(topics=None if names is None else [])

        def show(answer: wire.MetadataResponse) -> str:
            listed = any(each.name == topic.name for each in answer.topics)
            return "lists the topic" if listed else f"{'other topics' if answer.topics else 'no topics'}"

        self.note_answer(label, request, version, wire.MetadataResponse, show)

    def metadata_until_created(self, version: int) -> None:
        """Ask for an unknown topic with auto-creation, until it has a leader."""
        request = metadata_request([self.fresh_name()], auto_create=True)
        self.note_answer(f"v{version} first", request, version, wire.MetadataResponse, self._show_topics)
        (created,) = until(
            lambda: self.ask(request, version, wire.MetadataResponse).topics,
            "its creation",
            good=lambda topics: not any(topic.error_code or any(part.error_code for part in topic.partitions) for topic in topics),
            timeout_s=READY_TIMEOUT_S,
        )
        self.note(f"v{version} in the end", f"NONE with {len(created.partitions)} partitions")

    def metadata_cluster(self, version: int, *, topic: wire.MetadataRequestTopic | None = None, label: str = "") -> None:
        """Note everything in the response that is not about topics. `topic`: a topic to ask for."""

        def show(answer: wire.MetadataResponse) -> str:
            told = {each.node_id: (each.host, each.port) for each in answer.brokers}
            right = "right" if told == dict(self.target.addresses) else "wrong" if told else "none"
            racks = {each.rack for each in answer.brokers}
            controller = "a broker" if answer.controller_id in told else str(answer.controller_id)
            named = "named" if answer.cluster_id else str(answer.cluster_id)
            return (
                f"{error_name(answer.error_code)} brokers {right} racks={racks} controller={controller} cluster {named}"
                f" throttle={answer.throttle_time_ms} operations={answer.cluster_authorized_operations}"
            )

        request = metadata_request([], auto_create=True) if topic is None else wire.MetadataRequest(topics=[topic])
        self.note_answer(f"v{version}{label}", request, version, wire.MetadataResponse, show)

    def metadata_operations(self, topic: Topic, version: int) -> None:
        """The sets of authorized operations, with and without the flag that asks for them."""

        def show(answer: wire.MetadataResponse) -> str:
            return f"topic={answer.topics[0].topic_authorized_operations} cluster={answer.cluster_authorized_operations}"

        for asked in (False, True) if version >= 8 else (False,):
            request = wire.MetadataRequest(
                topics=[wire.MetadataRequestTopic(name=topic.name)],
                include_topic_authorized_operations=asked,
                include_cluster_authorized_operations=asked and version <= 10,
            )
            self.note_answer(f"v{version}{' asked' if asked else ''}", request, version, wire.MetadataResponse, show)

    def _show_topics(self, answer: wire.MetadataResponse) -> str:
        shown = [] if answer.error_code == 0 else [f"{error_name(answer.error_code)} for all"]
        for topic in sorted(answer.topics, key=lambda each: (each.name or "", each.error_code)):
            has_id = "" if topic.topic_id == wire.ZERO_UUID else " id"
            parts = [
                f"p{part.partition_index} {error_name(part.error_code)} leader={self.show_node(part.leader_id)}"
                f" epoch={part.leader_epoch} replicas={self.show_nodes(part.replica_nodes)} isr={self.show_nodes(part.isr_nodes)}"
                f" offline={self.show_nodes(part.offline_replicas)}"
                for part in sorted(topic.partitions, key=lambda each: each.partition_index)
            ]
            internal = " internal" if topic.is_internal else ""
            shown.append(f"{self.show_topic(topic.name, topic.topic_id)}{has_id}{internal} {error_name(topic.error_code)} {parts}")
        return "; ".join(shown) or "nothing"

    # -- CreateTopics ------------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        label: str,
        partitions: int = 1,
        replicas: int = 1,
        config: Mapping[str, str | None] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
        version: int = 7,
    ) -> None:
        """Ask for one topic. Brokers in `assignments` are counted from 1. A number above the last one stands for an unknown broker."""
        count = len(self.nodes)
        placed = [
            wire.CreatableReplicaAssignment(
                partition_index=index, broker_ids=[self.nodes[each - 1] if 0 < each <= count else each for each in brokers]
            )
            for index, brokers in (assignments or {}).items()
        ]
        wanted = wire.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=placed,
            configs=[wire.CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
        )
        self._note_created(label, wire.CreateTopicsRequest(topics=[wanted], validate_only=validate_only), version)

    def created_configs(self, name: str, config: Mapping[str, str], *, label: str, version: int = 7) -> None:
        """Create a topic, and note every config in the response."""
        configs = [wire.CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
        wanted = wire.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)

        def show(answer: wire.CreateTopicsResponse) -> str:
            told = answer.topics[0].configs or []
            shown = sorted(
                f"{each.name}={each.value} from {each.config_source}{' read-only' if each.read_only else ''}"
                f"{' sensitive' if each.is_sensitive else ''}"
                for each in told
            )
            return f"{error_name(answer.topics[0].error_code)} [{'; '.join(shown)}]"

        self.note_answer(label, wire.CreateTopicsRequest(topics=[wanted]), version, wire.CreateTopicsResponse, show)

    def create_many(self, names: Sequence[str], *, label: str, partitions: int = 1, validate_only: bool = False, version: int = 7) -> None:
        wanted = [wire.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
        self._note_created(label, wire.CreateTopicsRequest(topics=wanted, validate_only=validate_only), version)

    def _note_created(self, label: str, request: wire.CreateTopicsRequest, version: int) -> None:
        def show(answer: wire.CreateTopicsResponse) -> str:
            shown = []
            for topic in sorted(answer.topics, key=lambda each: each.name):
                text = error_name(topic.error_code) + ("" if topic.error_message is None else " said why")
                text += f" id={topic.topic_id != wire.ZERO_UUID} partitions={topic.num_partitions} replicas={topic.replication_factor}"
                text += f" configs={'null' if topic.configs is None else bool(topic.configs)}"
                shown.append(text + (f" config error={error_name(topic.topic_config_error_code)}" if topic.topic_config_error_code else ""))
            return "; ".join(shown) or "nothing"

        self.note_answer(label, request, version, wire.CreateTopicsResponse, show)

    # -- InitProducerId ----------------------------------------------------------------------------------------------------

    def producer_id(self) -> tuple[int, int]:
        """A producer id and epoch from the broker."""
        answer = self._when_loaded(wire.InitProducerIdRequest(transactional_id=None), 5)
        assert answer.error_code == 0, wire.error_name(answer.error_code)
        self._seen().add(answer.producer_id)
        return answer.producer_id, answer.producer_epoch

    def init_producer_id(
        self,
        *,
        label: str,
        transactional_id: str | None = None,
        timeout_ms: int = 60_000,
        pid: int = -1,
        epoch: int = -1,
        version: int = 5,
    ) -> None:
        request = wire.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=pid, producer_epoch=epoch
        )

        answer = self._when_loaded(request, version)
        given, seen = answer.producer_id, self._seen()
        word = "none" if given == -1 else "seen before" if given in seen else "new"
        seen.add(given)
        self.note(label, f"{error_name(answer.error_code)} id {word} epoch={answer.producer_epoch}")

    def _when_loaded(self, request: wire.InitProducerIdRequest, version: int) -> wire.InitProducerIdResponse:
        """The first final answer. A broker first asks its controller for a block of ids, and a coordinator first reads its log."""
        return until(
            lambda: self.ask(request, version, wire.InitProducerIdResponse),
            "a final answer",
            good=lambda answer: answer.error_code not in _LATER,
            timeout_s=READY_TIMEOUT_S,
        )

    def _seen(self) -> set[int]:
        seen: set[int] = self.__dict__.setdefault("_given", set())
        return seen

    # -- FindCoordinator ---------------------------------------------------------------------------------------------------

    def coordinator(self, kind: int, key: str, *, version: int = 4, label: str = "coordinator") -> None:
        """Ask for one key until the answer is final. The first call creates the internal topics."""
        if version < 4:
            request = wire.FindCoordinatorRequest(key_type=kind, key=key)
        else:
            request = wire.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        self._note_coordinators(label, request, version)

    def coordinators(self, kind: int, keys: Sequence[str], *, version: int, label: str) -> None:
        self._note_coordinators(label, wire.FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys)), version)

    def _note_coordinators(self, label: str, request: wire.FindCoordinatorRequest, version: int) -> None:
        answer = until(
            lambda: self.ask(request, version, wire.FindCoordinatorResponse),
            "coordinators",
            good=lambda answer: _NO_COORDINATOR not in [answer.error_code, *(each.error_code for each in answer.coordinators)],
            timeout_s=READY_TIMEOUT_S,
        )
        if version < 4:
            found = [(answer.error_code, answer.node_id, answer.host, answer.port, answer.error_message)]
        else:
            found = [(each.error_code, each.node_id, each.host, each.port, each.error_message) for each in answer.coordinators]
        shown = [f"{error_name(code)} {self._place(node, host, port)} message={_kind(text)}" for code, node, host, port, text in found]
        self.note(label, "; ".join(shown) or "nothing")

    def _place(self, node: int, host: str, port: int) -> str:
        if node in self.nodes:
            return "a broker" if self.target.addresses[node] == (host, port) else f"a broker at {host!r}:{port}"
        return f"{node} at {host!r}:{port}"

    # -- ApiVersions -------------------------------------------------------------------------------------------------------

    def api_versions(self, version: int) -> None:
        """Note the version ranges of the supported APIs."""

        def show(answer: wire.ApiVersionsResponse) -> str:
            ranges = {each.api_key: f"{each.min_version}-{each.max_version}" for each in answer.api_keys}
            spoken = ", ".join(f"{Api(key).name} {ranges.get(key, 'missing')}" for key in SPOKEN)
            ordered = [each.api_key for each in answer.api_keys] == sorted(ranges)
            return f"{error_name(answer.error_code)} throttle={answer.throttle_time_ms} ascending={ordered}: {spoken}"

        request = wire.ApiVersionsRequest(client_software_name="conformance", client_software_version="1")
        self.note_answer(f"v{version}", request, version, wire.ApiVersionsResponse, show)

    def features(self, version: int) -> None:
        """Note the features that affect a producer."""

        def show(answer: wire.ApiVersionsResponse) -> str:
            supported = {each.name: f"{each.min_version}-{each.max_version}" for each in answer.supported_features}
            finalized = {each.name: f"{each.min_version_level}-{each.max_version_level}" for each in answer.finalized_features}
            shown = [f"{name} supported={supported.get(name)} finalized={finalized.get(name)}" for name in FEATURES]
            return "; ".join(shown) + f"; epoch known={answer.finalized_features_epoch >= 0}; zk={answer.zk_migration_ready}"

        request = wire.ApiVersionsRequest(client_software_name="conformance", client_software_version="1")
        self.note_answer(f"v{version}", request, version, wire.ApiVersionsResponse, show)

    def client_software(self, name: str, software_version: str, *, label: str) -> None:
        def show(answer: wire.ApiVersionsResponse) -> str:
            return f"{error_name(answer.error_code)} {'with' if answer.api_keys else 'without'} versions"

        request = wire.ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        self.note_answer(label, request, 3, wire.ApiVersionsResponse, show)


def metadata_request(names: Sequence[str], *, auto_create: bool = False) -> wire.MetadataRequest:
    # Before version 4 there is no flag: a request creates the topic.
    topics = [wire.MetadataRequestTopic(name=name) for name in names]
    return wire.MetadataRequest(topics=topics, allow_auto_topic_creation=auto_create)


def _kind(text: str | None) -> str:
    return "null" if text is None else "some" if text and text != "NONE" else repr(text)
