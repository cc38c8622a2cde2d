"""Brokers as context managers.

In: a working directory and overrides of the server properties. Out: a running broker with `bootstrap` and `log_dir`.
Raises `BrokerError`, with the end of the server's own log, when a server does not come up. Every server listens on
127.0.0.1 only and is stopped through the process that was started here, by SIGTERM first: a clean shutdown is what
trims the index files. `kill` gives the other kind.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.jars import KAFKA_2, KAFKA_4, KAFKA_4_TIERED, Distribution, java_command, run_java

HOST = "127.0.0.1"
START_SECONDS = 90
STOP_SECONDS = 60

#: One replica of everything internal, one partition each, nothing expires, compaction looks for work every second.
COMMON_PROPERTIES = {
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "2",
}


class BrokerError(Exception):
    """A server did not start, or died."""


def free_port() -> int:
    """A port that was free a moment ago; the kernel does not hand it out again soon."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class JavaServer:
    """One Java process with its log file; knows how to start, to wait until a port answers, and to stop."""

    def __init__(self, distribution: Distribution, main_class: str, properties: Path) -> None:
        self._command = java_command(distribution, main_class, str(properties), heap="768m")
        self._log = properties.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; its output goes to a file beside its properties."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)

    def stop(self) -> None:
        """SIGTERM and wait; SIGKILL only if that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """SIGKILL and wait: what the process had not given to the operating system is lost."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def failure(self, what: str) -> BrokerError:
        """The error to raise, with the end of the server's log."""
        tail = "".join(self._log.read_text(errors="replace").splitlines(keepends=True)[-20:])
        return BrokerError(f"{what}; end of its log:\n{tail}")


class Broker:
    """What both kinds of broker share: properties in, a process, a bootstrap address, a log directory.

    tools: the jars of Kafka's own clients and tools, where they are not those of the broker.
    """

    distribution: Distribution
    tools: Distribution | None = None

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self.log_dir = folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        self._properties = folder / "server.properties"
        own = {"log.dirs": str(self.log_dir), **self._own_properties()}
        self._properties.write_text(_as_properties({**COMMON_PROPERTIES, **own, **(overrides or {})}))
        self._server = JavaServer(self.distribution, "kafka.Kafka", self._properties)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start, or start again after `stop` or `kill`, and return when the broker answers."""
        self._server.start()
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Shut down cleanly: flushed logs, trimmed index files, checkpoints written."""
        self._server.stop()

    def kill(self) -> None:
        """End it as a crash would: nothing is flushed, trimmed or written down. `start` lets it recover."""
        self._server.kill()

    def run_tool(self, main_class: str, *arguments: str, seconds: float | None = None) -> str:
        """Run one of Kafka's own tools, and return what it printed; `run_java` says more."""
        return run_java(self.tools or self.distribution, main_class, *arguments, seconds=seconds)

    def copy_live(self, destination: Path) -> None:
        """Copy the log directory under a running broker: logs first, so that no index names bytes the copy lacks."""
        if not self._server.running:
            raise self._server.failure("the broker is not running")
        shutil.copytree(self.log_dir, destination, ignore=shutil.ignore_patterns("*index", ".lock"))
        for index in self.log_dir.glob("*/*index"):
            shutil.copy2(index, destination / index.relative_to(self.log_dir))

    def _own_properties(self) -> dict[str, str]:
        """What only this kind of broker must be told."""
        raise NotImplementedError

    def _wait_until_it_answers(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self._server.running:
                raise self._server.failure("the broker ended while starting")
            if self._knows_itself(admin):
                return
            time.sleep(0.2)
        raise self._server.failure(f"the broker did not answer within {START_SECONDS} s")

    def _knows_itself(self, admin: AdminClient) -> bool:
        """A broker that answers may not yet be registered; one that lists itself is."""
        try:
            listed = admin.list_topics(timeout=2).brokers.values()
        except KafkaException:
            return False
        return any(broker.port == self.port for broker in listed)


class KRaftBroker(Broker):
    """Kafka 4.1: broker and controller in one process, or one more broker of the cluster of another.

    first: the broker whose cluster this one joins.
    """

    distribution = KAFKA_4

    def __init__(
        self,
        folder: Path,
        overrides: Mapping[str, str] | None = None,
        first: KRaftBroker | None = None,
        node_id: int = 1,
    ) -> None:
        self.node_id = node_id
        self._cluster_id = ""
        self._first = first or self
        self._controller: str = f"{HOST}:{free_port()}" if first is None else first._controller
        super().__init__(folder, overrides)

    def start(self) -> None:
        """Format the storage the first time, then start."""
        if not (self.log_dir / "meta.properties").exists():
            self._format()
        super().start()

    def _own_properties(self) -> dict[str, str]:
        listeners = f"PLAINTEXT://{self.bootstrap}"
        return {
            "process.roles": "broker,controller" if self._first is self else "broker",
            "node.id": str(self.node_id),
            "controller.quorum.voters": f"1@{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://{self._controller}" if self._first is self else listeners,
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
        }

    def _format(self) -> None:
        tool = "kafka.tools.StorageTool"
        if self._first is self:
            self._cluster_id = run_java(self.distribution, tool, "random-uuid").strip()
        cluster_id = self._first._cluster_id
        run_java(self.distribution, tool, "format", "-t", cluster_id, "-c", str(self._properties))


class TieredBroker(KRaftBroker):
    """Kafka 4.1 with Kafka's own LocalTieredStorage, which keeps its objects in `tier`.

    tier: a directory, which several brokers of a cluster share. Nothing in it is ever deleted, as if each deletion had
    failed: orphaned segments stay.
    """

    distribution = KAFKA_4_TIERED

    def __init__(
        self,
        folder: Path,
        tier: Path,
        overrides: Mapping[str, str] | None = None,
        first: KRaftBroker | None = None,
        node_id: int = 1,
    ) -> None:
        self.tier = tier
        super().__init__(folder, overrides, first, node_id)

    def _own_properties(self) -> dict[str, str]:
        return super()._own_properties() | {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
            "rsm.config.dir": str(self.tier),
            "rsm.config.delete.on.close": "false",
            "rsm.config.delete.enable": "false",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "remote.log.manager.task.interval.ms": "500",
            "log.retention.check.interval.ms": "500",
            "log.initial.task.delay.ms": "500",
        }


class ZooKeeper:
    """The ZooKeeper that brokers before 4.0 need."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.connect = f"{HOST}:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        properties = folder / "zookeeper.properties"
        properties.write_text(_as_properties(self._own_properties(folder)))
        self._server = JavaServer(KAFKA_2, "org.apache.zookeeper.server.ZooKeeperServerMain", properties)

    def __enter__(self) -> Self:
        self._server.start()
        try:
            self._wait_until_it_listens()
        except BaseException:
            self._server.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    def _own_properties(self, folder: Path) -> dict[str, str]:
        return {
            "dataDir": str(folder / "zookeeper"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
        }

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self._server.running:
                raise self._server.failure("ZooKeeper ended while starting")
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self.port)) == 0:
                    return
            time.sleep(0.1)
        raise self._server.failure(f"ZooKeeper did not listen within {START_SECONDS} s")


class ZooKeeperBroker(Broker):
    """Kafka 2.8, which can write message sets v0 and v1 (topic config `message.format.version`), or the
    older 0.10.2."""

    def __init__(
        self,
        folder: Path,
        zookeeper: ZooKeeper,
        broker_id: int = 1,
        overrides: Mapping[str, str] | None = None,
        distribution: Distribution = KAFKA_2,
    ) -> None:
        self.distribution = distribution
        self._broker_id = broker_id
        self._zookeeper = zookeeper
        super().__init__(folder, overrides)

    def _own_properties(self) -> dict[str, str]:
        protocol = {"inter.broker.protocol.version": "2.0"} if self.distribution == KAFKA_2 else {}
        return protocol | {
            "broker.id": str(self._broker_id),
            "zookeeper.connect": self._zookeeper.connect,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
        }


def _as_properties(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in sorted(values.items()))
