"""Clusters for Kafka's own tests, which run in a JVM: `python -m tests.foreign.java_clusters DIRECTORY` serves one.

A line of JSON asks, a line answers. `{"do": "up", "brokers": {"0": {…}}, "settings": {…}, "disks": 1}` starts a
cluster, and the answer has its number and its brokers' ports. `stop` and `start` are about one `broker` of a `cluster`;
`down` says that a test has done with it. A cluster in which nothing but topics has changed serves the next test
that wants the same. When stdin ends, all clusters do.
"""

import json
import shutil
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from replog.client.sync import SyncAdmin
from replog.common.acl import AclFilter
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.config.properties import MAX_BATCH_BYTES
from replog.config.settings import Settings
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.cluster_file import ClusterFile, LocalMember
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.ports import free_port
from replog.local_cluster.processes import ProcessState, terminate, wait_until_stopped
from replog.server.controller.formatting import format_cluster

_STOP_S, _PATIENCE_S = 60, 180
_KEPT = 2  # clusters that run while no test uses them
_KAFKAS = {  # what Kafka does where a test does not say
    "auto.create.topics.enable": "true",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "num.partitions": "1",
}
_MOST = {"fetch.max.bytes": str(MAX_BATCH_BYTES)}  # Kafka's tests want 2 GiB
_OURS = {  # decided here, whatever a test says
    "advertised.listeners",
    "controller.listener",
    "listener.security.protocol.map",
    "listeners",
    "inter.broker.listener.name",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
}

Asked = Mapping[str, Any]


class _Used(NamedTuple):
    wanted: str
    cluster: LocalCluster


class Clusters:
    """All clusters of one JVM."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._used: dict[int, _Used] = {}
        self._touched: set[int] = set()  # clusters of which a broker was stopped
        self._idle: dict[str, int] = {}  # by what was wanted, the longest idle first
        self._made = 0

    def up(self, asked: Asked) -> Asked:
        wanted = json.dumps(asked, sort_keys=True)
        number = self._idle.pop(wanted, None)
        if number is None:
            self._made = number = self._made + 1
            cluster = _cluster(self._directory / str(number), asked)
            self._used[number] = _Used(wanted, cluster)
            cluster.up(_PATIENCE_S)
        state = self._used[number].cluster.state
        with SyncAdmin(state.bootstrap) as admin:
            cluster_id = admin.describe_cluster().cluster_id
        homes = {str(broker.node_id): str(self._used[number].cluster.home(broker)) for broker in state.brokers}
        ports = {str(broker.node_id): broker.port for broker in state.brokers}
        return {"cluster": number, "cluster_id": cluster_id, "ports": ports, "homes": homes}

    def stop(self, asked: Asked) -> Asked:
        """Stop a broker in order."""
        self._touched.add(asked["cluster"])
        broker = self._used[asked["cluster"]].cluster.state.broker(asked["broker"])
        if (process := broker.process) is not None and broker.state is not ProcessState.STOPPED:
            terminate(process)
            if wait_until_stopped([process], _STOP_S):
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"{broker.name} did not stop within {_STOP_S} s")
        return {}

    def start(self, asked: Asked) -> Asked:
        self._used[asked["cluster"]].cluster.start(asked["broker"], _PATIENCE_S)
        return {}

    def down(self, asked: Asked) -> Asked:
        """Keep the cluster for another test if it is as new, else remove it."""
        number = asked["cluster"]
        wanted, cluster = self._used[number]
        if number in self._touched or wanted in self._idle or not _is_as_new(cluster):
            self._remove(number)
        else:
            self._idle[wanted] = number
            if len(self._idle) > _KEPT:
                self._remove(self._idle.pop(next(iter(self._idle))))
        return {}

    def close(self) -> None:
        for number in list(self._used):
            self._remove(number)

    def _remove(self, number: int) -> None:
        cluster = self._used.pop(number).cluster
        cluster.down(timeout_s=0)
        shutil.rmtree(cluster.directory, ignore_errors=True)


def _cluster(directory: Path, asked: Asked) -> LocalCluster:
    """Return a new cluster whose brokers have the ids that were asked for."""
    format_cluster(directory / "controller" / "data")
    settings = _KAFKAS | asked["settings"]
    first = next(iter(asked["brokers"].values()))  # whose settings are also the defaults of topics, as in Kafka
    _write(directory / "controller" / "controller.properties", _KAFKAS | first | asked["settings"], ControllerConfig)
    state = ClusterFile.new(1, 0)
    for broker, own in asked["brokers"].items():
        name = f"broker-{broker}"
        port = free_port(state.ports)
        state.brokers.append(LocalMember(name=name, node_id=int(broker), port=port))
        home = directory / name
        data = [home / "data", *(home / f"data-{number}" for number in range(2, asked["disks"] + 1))]
        more = {
            "log.dirs": ",".join(map(str, data)),
            "advertised.listeners": f"localhost:{port}",
        }  # as Kafka's tests say
        _write(home / "broker.properties", settings | own, BrokerConfig, more)
    state.save(directory)
    return LocalCluster(directory, len(state.brokers))


def _write(path: Path, settings: Mapping[str, str], of: type[Settings], more: Mapping[str, str] | None = None) -> None:
    """Write the settings that such a process of ours has, as far as it takes their values."""
    known = {field.alias for field in of.model_fields.values()} - _OURS
    kept = {name: _MOST.get(name, value) for name, value in settings.items() if name in known}
    kept = {name: value for name, value in kept.items() if _fits(of, name, value)} | (more or {})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in kept.items()))


def _fits(of: type[Settings], name: str, value: str) -> bool:
    """Return False if the value is what is wrong with these settings; others may be missing."""
    try:
        of.parse({name: value}, "")
    except ReplogError as error:
        return f"{name}='" not in str(error)
    return True


def _is_as_new(cluster: LocalCluster) -> bool:
    """Return whether nothing was changed that stays, once its topics are deleted."""
    try:
        with SyncAdmin(cluster.bootstrap) as admin:
            if admin.describe_client_quotas() or any(broker.configs for broker in admin.describe_cluster().brokers):
                return False
            try:
                if admin.describe_acls(AclFilter()):
                    return False
            except ReplogError as error:
                if error.code is not ErrorCode.SECURITY_DISABLED:
                    return False
            for topic in admin.list_topics():
                admin.delete_topic(topic)
            return not admin.list_topics()
    except ReplogError:
        return False


def main(directory: Path) -> None:
    """Serve until stdin ends."""
    clusters = Clusters(directory)
    calls = {"up": clusters.up, "stop": clusters.stop, "start": clusters.start, "down": clusters.down}
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer = dict(calls[asked.pop("do")](asked))
            except Exception as error:  # noqa: BLE001 (the test that asked for it fails with it)
                traceback.print_exc()
                answer = {"error": str(error) or repr(error)}
            print(json.dumps(answer), flush=True)
    finally:
        clusters.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
