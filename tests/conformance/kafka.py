"""A real Apache Kafka for the tests: KRaft brokers on free ports of this machine, which a test starts, stops, kills and restarts.

Nothing remains afterwards: `close`, the interpreter's exit and even a SIGKILL of the test run end the brokers and remove their data. If
there is no Kafka, `KafkaCluster` raises `KafkaUnavailable` with the reason.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.conformance import class_archive
from tests.conformance.kafka_home import KAFKA_VERSION, OLDER_VERSION, KafkaUnavailable, find_java, kafka_home
from tests.conformance.reaper import reaper
from tests.waiting import until

__all__ = ["JVM_BENCH", "JVM_FAST", "KafkaBroker", "KafkaCluster", "KafkaUnavailable", "new_cluster_id"]

HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
CHECKPOINT = "bootstrap.checkpoint"

# One cheap compiler tier and a serial collector: a broker that lives for seconds on two cores starts faster and uses less memory.
JVM_FAST = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# The flags of Kafka's own start script, for measurements.
JVM_BENCH = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")

_LOG4J = """<Configuration status="OFF">
  <Appenders>
    <File name="file" fileName="${sys:fencepost.log}" append="true"><PatternLayout pattern="%d{ISO8601} %-5p [%t] %c{1}: %m%n"/></File>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""

_DEFAULTS: dict[str, object] = {
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    "num.network.threads": 2,
    "num.io.threads": 4,
    # The controller notices a killed broker after three seconds, not nine. Two seconds of a busy machine do not make a broker look dead.
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,
}


class KafkaBroker:
    """One broker process (also a controller), with its port and its data directory, which stay the same after a restart."""

    def __init__(
        self, node: int, *, directory: Path, port: int, controller_port: int, other_ports: Mapping[str, int] | None = None
    ) -> None:
        self.node = node
        self.directory = directory
        self.port = port
        self.controller_port = controller_port
        self.other_ports = dict(other_ports or {})
        self.log_file = directory / "broker.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return (HOST, self.port)

    def log_dir(self, number: int) -> Path:
        """One of its log directories, from 1 on."""
        return self.directory / ("data" if number == 1 else f"data.{number}")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


class KafkaCluster:
    """`brokers` KRaft nodes, started by `start` or as a context manager. Closing ends them and removes their data.

    The first `controllers` of them are also controllers; by default all.
    `features` are finalized levels ("transaction.version": 0 gives TV1). `config` are broker properties. `jvm` are the JVM's flags, and
    `sharing` those for class data; by default the first cluster makes an archive. `listeners` are more listeners besides the plain one,
    name to security protocol. `formatting` are more arguments for formatting the directories. `version` is the release. `advertise(node,
    listener, port)` is the port that the broker advertises for a listener, if it is not the listener's own. Each broker has `log_dirs`
    directories.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        controllers: int | None = None,
        features: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        jvm: Sequence[str] = JVM_FAST,
        sharing: Sequence[str] | None = None,
        port: int = 0,
        listeners: Mapping[str, str] | None = None,
        formatting: Sequence[str] = (),
        version: str = KAFKA_VERSION,
        advertise: Callable[[int, str, int], int] | None = None,
        log_dirs: int = 1,
    ) -> None:
        self.java = find_java()
        self.home = kafka_home(version)
        if sharing is None:
            sharing = class_archive.using(self.java, self.home / "libs", f"kafka-{version}", _RECORDERS[version])
        self.jvm = (*jvm, *sharing)
        self.features = dict(features or {})
        self.config = dict(config or {})
        self.listeners = dict(listeners or {})
        self.formatting = tuple(formatting)
        self.advertise = advertise or _itself
        self.log_dirs = log_dirs
        self.cluster_id = new_cluster_id()
        self.directory = Path(tempfile.mkdtemp(prefix="fencepost-kafka-"))
        reaper.watch_directory(self.directory)
        atexit.register(self.close)
        (self.directory / "log4j2.xml").write_text(_LOG4J)
        fixed = [port + number for number in range(brokers)] if port else []
        free = free_ports(2 * brokers - len(fixed) + brokers * len(self.listeners))
        ports = fixed + free
        self.brokers = {
            number + 1: KafkaBroker(
                number + 1,
                directory=self.directory / str(number + 1),
                port=ports[number],
                controller_port=ports[brokers + number],
                other_ports=dict(zip(self.listeners, ports[2 * brokers + number :: brokers], strict=True)),
            )
            for number in range(brokers)
        }
        self._controllers = [*self.brokers.values()][:controllers]
        self._formatted = False
        self._closed = False

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers.values())

    def bootstrap_at(self, listener: str) -> str:
        """The address of one of `listeners`."""
        return ",".join(f"{HOST}:{broker.other_ports[listener]}" for broker in self.brokers.values())

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return {node: broker.address for node, broker in self.brokers.items()}

    def start(self) -> KafkaCluster:
        """Format the data directories (once), start every broker, and return when each one sees all of them."""
        if not self._formatted:
            self._format()
            self._formatted = True
        for broker in self.brokers.values():
            self._launch(broker)
        self._await_ready(self.brokers.values())
        return self

    def start_broker(self, node: int) -> None:
        """Start a stopped or killed broker again, on the same port and data, and wait until it serves."""
        broker = self.brokers[node]
        self._launch(broker)
        self._await_ready([broker])

    def stop_broker(self, node: int) -> None:
        """Stop the broker cleanly and wait (SIGTERM: it hands over leadership, flushes and writes its snapshots)."""
        self._end(self.brokers[node], signal.SIGTERM)

    def kill_broker(self, node: int) -> None:
        """SIGKILL: the broker hands nothing over, flushes nothing, and writes no snapshot."""
        self._end(self.brokers[node], signal.SIGKILL)

    def restart_broker(self, node: int, *, clean: bool = True) -> None:
        self.stop_broker(node) if clean else self.kill_broker(node)
        self.start_broker(node)

    def pause_broker(self, node: int) -> None:
        """SIGSTOP: the broker's sockets stay open, and it answers nothing."""
        self._signal(self.brokers[node], signal.SIGSTOP)

    def resume_broker(self, node: int) -> None:
        self._signal(self.brokers[node], signal.SIGCONT)

    def tool(self, main_class: str, *arguments: str, timeout: float = 60.0) -> str:
        """Run one of Kafka's command-line tools, and return its output."""
        done = subprocess.run(
            self._command(main_class, *arguments, log_file=self.directory / "tool.log"), capture_output=True, text=True, timeout=timeout
        )
        if done.returncode != 0:
            raise RuntimeError(f"{main_class} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout

    def close(self) -> None:
        """Kill the running brokers and remove the data. May be called again."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        for broker in self.brokers.values():
            if broker.process is not None:
                self._end(broker, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
        reaper.forget_directory(self.directory)

    def __enter__(self) -> KafkaCluster:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- processes ---------------------------------------------------------------------------------------------------------

    def _command(self, main_class: str, *arguments: str, log_file: Path) -> list[str]:
        flags = [
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
            f"-Dfencepost.log={log_file}",
            # Codecs unpack their native libraries here, and delete older ones of other processes. So each cluster has its own directory.
            f"-Djava.io.tmpdir={self.directory}",
        ]
        return [str(self.java), *self.jvm, *flags, "-cp", f"{self.home}/libs/*", main_class, *arguments]

    def _format(self) -> None:
        voters = ",".join(f"{b.node}@{HOST}:{self.advertise(b.node, 'CONTROLLER', b.controller_port)}" for b in self._controllers)
        replicas = min(3, len(self.brokers))
        for broker in self.brokers.values():
            dirs = [broker.log_dir(number) for number in range(1, self.log_dirs + 1)]
            for each in dirs:
                each.mkdir(parents=True)
            clients = {"PLAINTEXT": broker.port, **broker.other_ports}
            controls = broker in self._controllers
            everybody = {**clients, "CONTROLLER": broker.controller_port} if controls else clients
            told = clients if self.advertise is _itself else everybody
            advertised = {name: self.advertise(broker.node, name, port) for name, port in told.items()}
            protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self.listeners}
            properties: dict[str, object] = {
                "process.roles": "broker,controller" if controls else "broker",
                "node.id": broker.node,
                "listeners": _spelled(everybody),
                "advertised.listeners": _spelled(advertised),
                "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
                "controller.quorum.voters": voters,
                "log.dirs": ",".join(map(str, dirs)),
                "default.replication.factor": replicas,
                **{f"{name}.replication.factor": replicas for name in _REPLICATED_STATE},
                **{f"{name}.min.isr": max(1, replicas - 1) for name in _REPLICATED_STATE if name != "offsets.topic"},
                **_DEFAULTS,
                **self.config,
            }
            file = broker.directory / "server.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        checkpoint = self._checkpoint()
        for broker in self.brokers.values():
            (broker.directory / "data" / CHECKPOINT).write_bytes(checkpoint)
            for number in range(1, self.log_dirs + 1):
                identity = {"version": 1, "cluster.id": self.cluster_id, "node.id": broker.node, "directory.id": new_cluster_id()}
                file = broker.log_dir(number) / "meta.properties"
                file.write_text("".join(f"{name}={value}\n" for name, value in identity.items()))

    def _checkpoint(self) -> bytes:
        """What Kafka's tool writes into a formatted directory besides its identity: the features and credentials that the cluster begins
        with. It is kept for later clusters, because each call of the tool starts a JVM."""
        # Of the configs, the tool only asks whether features that are not released may be chosen.
        unstable = sorted((key, str(value)) for key, value in self.config.items() if key.startswith("unstable."))
        asked = [str(self.home), sorted(self.features.items()), self.formatting, unstable]
        digest = hashlib.sha256(repr(asked).encode()).hexdigest()[:24]
        kept = Path.home() / ".cache" / "fencepost" / "formatted" / f"{digest}.checkpoint"
        if not kept.exists():
            made = self._run_format_tool(next(iter(self.brokers.values())))
            kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_name(f"{kept.name}.{self.cluster_id}")
            fresh.write_bytes(made)
            fresh.rename(kept)
        return kept.read_bytes()

    def _run_format_tool(self, broker: KafkaBroker) -> bytes:
        levels = [word for name, level in self.features.items() for word in ("--feature", f"{name}={level}")]
        file = broker.directory / "server.properties"
        command = self._command(
            *("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(file), *levels, *self.formatting),
            log_file=broker.log_file,
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"formatting the data directory failed: {(done.stdout + done.stderr).strip()[-2000:]}")
        return (broker.directory / "data" / CHECKPOINT).read_bytes()

    def _launch(self, broker: KafkaBroker) -> None:
        assert not broker.alive, f"broker {broker.node} runs already"
        command = self._command("kafka.Kafka", str(broker.directory / "server.properties"), log_file=broker.log_file)
        with (broker.directory / "output.txt").open("ab") as output:
            # Its own session: Ctrl-C in the terminal reaches only the test run, which then ends the broker.
            broker.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=broker.directory, start_new_session=True
            )
        reaper.watch_group(broker.process.pid)

    def _end(self, broker: KafkaBroker, how: signal.Signals) -> None:
        process = broker.process
        assert process is not None, f"broker {broker.node} was never started"
        if process.poll() is None:
            self._signal(broker, how)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._signal(broker, signal.SIGKILL)
                process.wait(STOP_TIMEOUT_S)
        reaper.forget_group(process.pid)
        broker.process = None

    def _signal(self, broker: KafkaBroker, which: signal.Signals) -> None:
        assert broker.process is not None, f"broker {broker.node} does not run"
        os.killpg(broker.process.pid, which)

    def _await_ready(self, brokers: Iterable[KafkaBroker]) -> None:
        expected = {broker.node for broker in self.brokers.values() if broker.alive}

        def seen(broker: KafkaBroker) -> set[int]:
            if not broker.alive:
                raise RuntimeError(f"broker {broker.node} ended while starting: {_last_lines(broker)}")
            # The broker opens its listeners one after the other.
            return _live_nodes(broker.address) if all(map(_listens, broker.other_ports.values())) else set()

        for broker in brokers:
            try:
                until(
                    partial(seen, broker),
                    f"broker {broker.node} sees {expected}",
                    good=expected.issubset,
                    timeout_s=READY_TIMEOUT_S,
                    pause_max_s=0.1,
                )
            except TimeoutError as late:
                late.add_note(_last_lines(broker))
                raise


def _record_classes(version: str, archive: Path) -> None:
    """Run a broker from start to stop, to load the classes that it needs."""
    with KafkaCluster(sharing=class_archive.recording(archive), version=version) as cluster:
        cluster.stop_broker(1)


# One function for each release: `using` remembers by its arguments.
_RECORDERS = {version: partial(_record_classes, version) for version in (KAFKA_VERSION, OLDER_VERSION)}


def _itself(node: int, listener: str, port: int) -> int:
    return port


def _spelled(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())


def _listens(port: int) -> bool:
    for host in (HOST, "::1"):
        with suppress(OSError), socket.create_connection((host, port), timeout=1):
            return True
    return False


def new_cluster_id() -> str:
    """22 characters of base64, as Kafka's Uuid makes them. It has no leading dash, because Kafka's tools would read it as an option."""
    while True:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not identity.startswith("-"):
            return identity


_REPLICATED_STATE = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


def _last_lines(broker: KafkaBroker) -> str:
    output = (broker.directory / "output.txt").read_text(errors="replace")
    return (output + broker.log_text())[-3000:]


def free_ports(count: int) -> list[int]:
    """Ports outside the range for outgoing connections, so that no process takes one while its broker is stopped."""
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            candidate = socket.socket()
            try:
                candidate.bind((HOST, random.SystemRandom().randrange(12_000, 32_000)))
            except OSError:
                candidate.close()
            else:
                sockets.append(candidate)
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()


def _live_nodes(address: tuple[str, int]) -> set[int]:
    """The node ids in the broker's own Metadata response (version 1, no topics); empty while it does not serve."""
    request = struct.pack(">hhihi", 3, 1, 0, -1, 0)
    try:
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                answer = stream.read(size)
    except (OSError, struct.error):
        return set()
    nodes, position = set(), 8
    for _ in range(struct.unpack_from(">i", answer, 4)[0]):
        node, host_size = struct.unpack_from(">ih", answer, position)
        position += 6 + host_size + 4
        (rack_size,) = struct.unpack_from(">h", answer, position)
        position += 2 + max(0, rack_size)
        nodes.add(node)
    return nodes
