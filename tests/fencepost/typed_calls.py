"""Calls as users write them, for a type checker: those in `right` are correct, and each line in `wrong` has one mistake. They never run."""

from __future__ import annotations

from collections import UserList
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from fencepost import (
    AsyncJob,
    AsyncPipeline,
    AsyncProducer,
    AsyncTransactionalPool,
    AsyncTransactionalProducer,
    BrokerStub,
    DatabaseCursor,
    FileSource,
    HttpPages,
    IteratorSource,
    Job,
    Participant,
    Pipeline,
    Producer,
    TransactionalPool,
    TransactionalProducer,
    resume,
)
from fencepost.producer import ProducerRecord, RecordMetadata
from fencepost.txn.spark import ExactlyOnceKafkaWriter, write_once


class Audit:
    def on_send(self, record: ProducerRecord) -> None: ...

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None: ...


class Upper:
    def serialize(self, topic: str, value: str) -> bytes:
        return value.upper().encode()


class Tokens:
    def token(self) -> str:
        return "t"


def right(config: Mapping[str, Any], df: DataFrame) -> None:
    Producer(bootstrap_servers="localhost:9092")
    Producer(bootstrap_servers=["a:9092", "b:9092"], linger_ms=5)
    Producer({"bootstrap.servers": "localhost:9092", "linger.ms": 5})
    Producer(config, acks="all")
    Producer(config, acks=-1, compression_type="zstd", compression_level=3)
    Producer(config, partitioner=lambda *_: 0)
    Producer(config, security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_username="a", sasl_password="b")
    Producer(config, max_in_flight_requests_per_connection=5)
    AsyncProducer(bootstrap_servers="localhost:9092", request_timeout_ms=1_000)
    AsyncProducer(config, enable_idempotence=False, retries=0)
    TransactionalProducer(bootstrap_servers="localhost:9092", transactional_id="orders")
    TransactionalPool({"bootstrap.servers": "localhost:9092", "transactional.id.prefix": "orders"}, size=4, linger_ms=5)
    AsyncTransactionalPool(config, transactional_id_prefix="orders", instance="a", transaction_timeout_ms=5_000, lock_directory=Path("a"))
    TransactionalProducer(config, transaction_timeout_ms=60_000)
    Pipeline(
        bootstrap_servers="localhost:9092", source="orders", group="billing", sink="invoices", transform=lambda message: message.value()
    )
    AsyncPipeline(bootstrap_servers=["a:9092"], source=["a", "^b.*"], group="g", transform_many=len, consumer={"fetch.min.bytes": 1})
    AsyncTransactionalProducer(config, transactional_id="orders", linger_ms=1.5)
    Participant(bootstrap_servers="localhost:9092")
    resume("token", "localhost:9092", sasl_username="a")
    ExactlyOnceKafkaWriter("localhost:9092", "orders", topic="t")
    ExactlyOnceKafkaWriter("localhost:9092", "orders", guard="auto", on_bad_row="dead", linger_ms=5)
    write_once(df, "localhost:9092", "orders", job_id="j", version=1, topic="t", max_reruns=1)
    Producer(config, partitioner="consistent_random", key_serializer="string", value_serializer=Upper())
    Producer(config, value_serializer=lambda value: str(value).encode(), interceptors=[Audit(), lambda record: None])
    Producer(config, security_protocol="ssl", ssl_check_hostname="https", ssl_cafile=Path("ca.pem"))
    Producer(config, ssl_endpoint_identification_algorithm="", sasl_oauth_token_provider=Tokens())
    Producer(config, sasl_oauth_token_provider=lambda: "token", metadata_recovery_strategy="none", interceptors=Audit())
    Producer(bootstrap_servers=UserList(["a:9092"]), compression_type="GZIP")
    TransactionalProducer(config, existing_topics={"t": 1}.keys(), on_open_transaction="refuse")
    Job("flights", FileSource("a.csv", Path("b.csv"), key_field="k"), bootstrap_servers="localhost:9092", topic="flights")
    Job("orders", DatabaseCursor(dict, "SELECT 1", key="id", start=0), bootstrap_servers=["a:9092"], topic="t", transform=str, batch_ms=5)
    AsyncJob("pages", HttpPages(lambda token: "url", lambda page: ([], None)), bootstrap_servers="a:9092", topic="t")
    Job("numbers", IteratorSource(lambda position: iter([(b"1", 1), None])), bootstrap_servers="a:9092", topic="t")
    BrokerStub(brokers=3, config={"num.partitions": 3})
    Producer(bootstrap_servers="localhost:9092").send("t", b"v", key=b"k", headers=[("a", b"1")]).result(1.5)


def wrong(config: Mapping[str, Any], df: DataFrame) -> None:
    Producer(bootstrap_servers=5)
    Producer(lingr_ms=5)
    Producer(config, linger_ms="soon")
    Producer(config, acks="some")
    Producer(config, batch_size=1.5)
    Producer(config, enable_idempotence="maybe")
    Producer(config, partitioner=3)
    Producer(config, ssl_cafile=7)
    Producer(config, acks=2)
    Producer(config, compression_type="zstandard")
    Producer(config, security_protocol="TLS")
    Producer(config, sasl_mechanism="SCRAM")
    Producer(config, partitioner="rnd")
    Producer(config, value_serializer=5)
    Producer(config, key_serializer="yaml")
    Producer(config, interceptors=5)
    Producer(config, ssl_check_hostname=None)
    Producer(config, ssl_endpoint_identification_algorithm=None)
    Producer(config, client_dns_lookup="default")
    Producer(config, metadata_recovery_strategy="always")
    Producer(config, sasl_oauth_token_provider=5)
    TransactionalProducer(config, on_open_transaction="commit")
    TransactionalProducer(config, existing_topics=5)
    AsyncProducer(bootstrap_server="localhost:9092")
    AsyncProducer(config, on_statistics="print")
    TransactionalProducer(config, transactional_id=7)
    TransactionalProducer(config, transaction_timeout="1s")
    AsyncTransactionalProducer(config, prepared=3)
    TransactionalPool(config, transactional_id="a")
    TransactionalPool(config, transactional_id_prefix="a", sise=4)
    AsyncTransactionalPool(config, transactional_id_prefix="a", size="4")
    Participant(config, transactional_id="a")
    resume("token", "localhost:9092", sasl_user="a")
    ExactlyOnceKafkaWriter("localhost:9092", "orders", gard="auto")
    ExactlyOnceKafkaWriter("localhost:9092", "orders", max_reruns="2")
    write_once(df, "localhost:9092", "orders", job_id="j", on_bad_rows="dead")
    Pipeline(bootstrap_servers="localhost:9092", source="orders", transform=len)
    Pipeline(bootstrap_servers="localhost:9092", source="orders", group="billing", batch_size="100")
    AsyncPipeline(bootstrap_servers="localhost:9092", source="orders", group="billing", dead_letter="dead")
    Job("flights", FileSource("a.csv"), bootstrap_servers="localhost:9092")
    Job("flights", "a.csv", bootstrap_servers="localhost:9092", topic="flights")
    Job("flights", FileSource("a.csv"), bootstrap_servers="localhost:9092", topic="flights", batch_sise=5)
    AsyncJob("flights", FileSource(5), bootstrap_servers="localhost:9092", topic="flights")
    DatabaseCursor(dict, "SELECT 1", key="id")
    BrokerStub(brokers="3")
    Producer(config).send("t", b"v", kye=b"k")
