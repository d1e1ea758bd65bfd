"""`fencepost topics`: list, create, delete and describe, through confluent-kafka's AdminClient.

Every call has a deadline. `delete` does not ask for confirmation; neither does Kafka's own tool.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.options import TIMEOUT_S, Bootstrap, connection, pairs
from fencepost.cli.output import say
from fencepost.cli.profiles import source_of_settings
from fencepost.cli.tables import show
from fencepost.cli.token_provider import for_librdkafka
from fencepost.cli.waiting import waiting
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

topics = typer.Typer(help="List, create, delete and describe topics.", no_args_is_help=True)

Client = Annotated[list[str] | None, typer.Option("--client-config", metavar="NAME=VALUE", help="A setting of librdkafka; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@topics.command("list")
def list_topics(
    bootstrap: Bootstrap = None,
    internal: Annotated[bool, typer.Option("--internal", help="Also Kafka's internal topics.")] = False,
    json: Json = False,
    client_config: Client = None,
) -> None:
    """List the topics, with partitions and replicas."""
    servers, admin = _admin(bootstrap, client_config)
    with _patience(servers, "the list of topics"):
        known = _ask(lambda: admin.list_topics(timeout=TIMEOUT_S))
    found = [
        {"topic": name, "partitions": len(topic.partitions), "replicas": _replicas(topic), "leaderless": _leaderless(topic)}
        for name, topic in sorted(known.topics.items())
        if internal or not name.startswith("__")
    ]
    show(found, json=json, columns=("topic", "partitions", "replicas", "leaderless"))


@topics.command()
def create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    partitions: Annotated[int | None, typer.Option(min=1, help="The number of partitions; default: the cluster's.")] = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", "--replication-factor", min=1, help="The number of replicas of each partition; default: the cluster's."),
    ] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A config of the topic; repeatable.")] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")] = False,
    bootstrap: Bootstrap = None,
    client_config: Client = None,
) -> None:
    """Create a topic."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    servers, admin = _admin(bootstrap, client_config)
    new = NewTopic(name, num_partitions=partitions or -1, replication_factor=replicas or -1, config=pairs("--config", config))
    try:
        with _patience(servers, f"topic {name!r}"):
            admin.create_topics([new], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S + 1)
    except KafkaException as error:
        if not (if_not_exists and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS):
            raise _complaint(error, name) from None
        say(f"{name} exists already")
    except TimeoutError:
        raise _late(name) from None
    else:
        asked = [counted(count, kind) for count, kind in ((partitions, "partition"), (replicas, "replica")) if count]
        say(f"created {name}: {', '.join(asked) or 'as many partitions and replicas as the cluster gives a topic'}")


@topics.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Their names.")],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    bootstrap: Bootstrap = None,
    client_config: Client = None,
) -> None:
    """Delete topics and all their records."""
    from confluent_kafka import KafkaError, KafkaException

    servers, admin = _admin(bootstrap, client_config)
    wrong = []
    for name, deleted in admin.delete_topics(names, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S).items():
        try:
            with _patience(servers, f"the end of topic {name!r}"):
                deleted.result(TIMEOUT_S + 1)
        except KafkaException as error:
            if not (if_exists and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
                wrong.append(str(_complaint(error, name)))
        except TimeoutError:
            wrong.append(str(_late(name)))
    if wrong:
        raise CommandError("; ".join(wrong))


@topics.command()
def describe(
    name: Annotated[str, typer.Argument(help="Its name.")],
    bootstrap: Bootstrap = None,
    json: Json = False,
    client_config: Client = None,
) -> None:
    """Show a topic's partitions, with leaders, replicas and offsets, and the configs that are set on the topic."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types do not declare these exports
        ConfigResource,
        OffsetSpec,
        ResourceType,
    )

    servers, admin = _admin(bootstrap, client_config)
    # A request that names the topic might create it.
    with _patience(servers, "the list of topics"):
        topic = _ask(lambda: admin.list_topics(timeout=TIMEOUT_S)).topics.get(name)
    if topic is None:
        raise CommandError(f"there is no topic {name!r}")
    led = [number for number, partition in sorted(topic.partitions.items()) if partition.leader >= 0]
    ends: dict[str, dict[int, int]] = {}
    specs: dict[str, Any] = {"first": OffsetSpec.earliest(), "next": OffsetSpec.latest()}  # type: ignore[no-untyped-call]  # they have no types
    for end, spec in specs.items():
        asked = admin.list_offsets({TopicPartition(name, number): spec for number in led}, request_timeout=TIMEOUT_S) if led else {}
        with _patience(servers, f"the offsets of topic {name!r}"):
            ends[end] = {at.partition: _offset(name, found) for at, found in asked.items()}
    resource = ConfigResource(ResourceType.TOPIC, name)
    with _patience(servers, f"the configs of topic {name!r}"):
        configs = _ask(lambda: admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S + 1))
    own = {each.name: each.value for each in configs.values() if each.source == DYNAMIC_TOPIC_CONFIG}
    partitions = [
        {
            "partition": number,
            "leader": partition.leader if partition.leader >= 0 else None,
            "replicas": partition.replicas,
            "in sync": partition.isrs,
            "first": ends["first"].get(number),
            "next": ends["next"].get(number),
        }
        for number, partition in sorted(topic.partitions.items())
    ]
    if json:
        show([{"topic": name, "configs": own, "partitions": partitions}], json=True, columns=())
    else:
        show(partitions, json=False, columns=("partition", "leader", "replicas", "in sync", "first", "next"))
        if own:
            show([{"config": key, "value": value} for key, value in sorted(own.items())], json=False, columns=("config", "value"))


DYNAMIC_TOPIC_CONFIG: Final = 1


def _admin(bootstrap: str | None, given: list[str] | None) -> tuple[str, AdminClient]:
    """The brokers' address, and a client of them."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from fencepost.cli.reachability import reach

    servers, settings = connection(bootstrap, "--client-config", given)
    reach(servers, settings)
    try:
        given_to_it = for_librdkafka(servers, settings)
        return servers, AdminClient({"client.id": "fencepost-topics", "log_level": 0, **given_to_it, "bootstrap.servers": servers})
    except KafkaException as error:
        raise CommandError(f"{source_of_settings('--client-config')}: {error.args[0].str()}") from None


def _patience(servers: str, what: str) -> AbstractContextManager[None]:
    return waiting(f"{what} at {servers}", TIMEOUT_S)


def _ask(ask: Callable[[], Any]) -> Any:
    from confluent_kafka import KafkaException

    try:
        return ask()
    except KafkaException as error:
        raise CommandError(error.args[0].str()) from None
    except TimeoutError:
        raise CommandError(f"no answer within {TIMEOUT_S:g} s") from None


def _offset(topic: str, found: Any) -> int:
    offset: int = _ask(partial(found.result, TIMEOUT_S + 1)).offset
    if offset < 0:  # librdkafka's value for a missing answer
        raise CommandError(f"topic {topic!r}: no answer within {TIMEOUT_S:g} s about its offsets")
    return offset


def _complaint(error: Exception, name: str) -> CommandError:
    return CommandError(f"topic {name!r}: {error.args[0].str()}")


def _late(name: str) -> CommandError:
    return CommandError(f"topic {name!r}: no answer within {TIMEOUT_S:g} s; the brokers may have done it nevertheless")


def _replicas(topic: Any) -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _leaderless(topic: Any) -> int:
    return sum(partition.leader < 0 for partition in topic.partitions.values())
