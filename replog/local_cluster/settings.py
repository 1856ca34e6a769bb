"""The settings of a local cluster's processes, and the certificates of a secure one."""

from collections.abc import Mapping
from pathlib import Path

from replog.config.properties import load_properties, number_in
from replog.local_cluster.cluster_file import (
    BROKER,
    CA_CERTIFICATE,
    CLIENT_FILE,
    CONTROLLER,
    ETCD_TLS_DIRECTORY,
    TLS_DIRECTORY,
    ClusterFile,
    LocalMember,
)
from replog.local_cluster.ports import HOST, free_port, is_free
from replog.log.files.opening import write_atomically
from replog.rpc.peer import Role
from replog.rpc.tls import Tls, TlsFiles

CLIENT_NAME = "admin"  # commands show this client's certificate
GUARD = {  # settings of a secure cluster
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{CLIENT_NAME}",
}

# A local cluster notices a dead process within seconds: it has no slow network to be patient with.
CONTROLLER_SETTINGS = {"broker.session.timeout.ms": "3000"}
LEASE = {"metadata.etcd.lease.seconds": "3"}  # only for several controllers
BROKER_SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "replica.lag.time.max.ms": "10000",
    "auto.create.topics.enable": "true",
}


_FILE_HEAD = "# Settings here are kept, except addresses and the first of log.dirs. It holds from the next start on."


class LocalSettings:
    def __init__(self, directory: Path, broker_settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._tls, self._etcd_tls = directory / TLS_DIRECTORY, directory / ETCD_TLS_DIRECTORY
        self.client_config = self._tls / CLIENT_FILE
        self._broker_settings = broker_settings

    @property
    def secure(self) -> bool:
        return self.client_config.exists()

    def make_secure(self, cluster_id: str, *, etcds: bool) -> None:
        """Make an authority for the cluster, and one for its etcds, whose certificates allow changes of metadata."""
        from replog.local_cluster import authority  # its import takes a while

        if etcds:
            authority.init(self._etcd_tls, cluster_id)
        authority.init(self._tls, cluster_id)
        keystore = authority.issue(self._tls, Role.CLIENT, CLIENT_NAME)
        settings = _ssl(keystore)
        write_atomically(self.client_config, "".join(f"{name}={value}\n" for name, value in settings.items()).encode())

    def cluster_id(self) -> str | None:
        """Return the cluster id in a secure cluster's certificates; None without TLS."""
        from replog.local_cluster import authority

        return authority.cluster_id_of(self._tls) if self.secure else None

    def etcd_files(self, member: LocalMember) -> TlsFiles | None:
        """Return the certificates of an etcd, or of a controller for etcds; None without TLS."""
        if not self.secure:
            return None
        return TlsFiles(_issued(self._etcd_tls, Role.CONTROLLER, member.name), self._etcd_tls / CA_CERTIFICATE)

    def etcd_tls(self, member: LocalMember) -> Tls | None:
        """Return TLS for a probe of an etcd; None without it."""
        files = self.etcd_files(member)
        return Tls(files) if files else None

    def write(self, state: ClusterFile, member: LocalMember) -> Path:
        """Write a controller's or broker's file: settings that it has stay, also further directories in `log.dirs`,
        except the ones decided here."""
        path = self._directory / member.name / f"{member.kind}.properties"
        path.parent.mkdir(parents=True, exist_ok=True)
        settings = [f"{name}={value}" for name, value in self._of(state, member, path).items()]
        write_atomically(path, "\n".join([_FILE_HEAD, *settings, ""]).encode())
        return path

    def _of(self, state: ClusterFile, member: LocalMember, path: Path) -> dict[str, str]:
        before = load_properties(path) if path.exists() else {}
        guard = GUARD if self.secure else {}
        address = {
            "listeners": f"{HOST}:{member.port}",
            "log.file": str(path.with_suffix(".log")),  # the process's output goes there too
            "metrics.listener": _metrics_address(state, before.get("metrics.listener", "")),
            **self._keystore(member),
        }
        if member.kind == CONTROLLER:
            defaults = {
                **CONTROLLER_SETTINGS,
                **(LEASE if state.etcds else {}),
                **guard,
                "default.replication.factor": str(min(3, len(state.brokers))),
                "min.insync.replicas": str(min(2, len(state.brokers))),
            }
            return {**defaults, **before, **address, **self._store(state, member, path)}
        decided = {
            "node.id": str(member.node_id),
            **address,
            "controller.listener": ",".join(controller.address for controller in state.controllers),
        }
        if before.get("log.dirs", "").split(",")[0] != str(path.parent / "data"):  # the directory was copied or moved
            decided["log.dirs"] = str(path.parent / "data")
        return {**BROKER_SETTINGS, **guard, **before, **self._broker_settings, **decided}

    def _store(self, state: ClusterFile, member: LocalMember, path: Path) -> dict[str, str]:
        if not state.etcds:
            return {"metadata.log.dir": str(path.parent / "data")}
        endpoints = ",".join(etcd.address for etcd in state.etcds)
        store = {"metadata.store": "etcd", "metadata.etcd.endpoints": endpoints}
        if files := self.etcd_files(member):
            store["metadata.etcd.ssl.keystore.location"] = str(files.keystore)
            store["metadata.etcd.ssl.truststore.location"] = str(files.truststore)
        return store

    def _keystore(self, member: LocalMember) -> dict[str, str]:
        """Return the settings of the member's TLS; empty without it."""
        if not self.secure:
            return {}
        role, name = (Role.BROKER, str(member.node_id)) if member.kind == BROKER else (Role.CONTROLLER, member.name)
        return _ssl(_issued(self._tls, role, name))


def _metrics_address(state: ClusterFile, before: str) -> str:
    """Return the address that it had, or another if its port is taken."""
    port = number_in(before.rpartition(":")[2], 0xFFFF)
    return before if port and is_free(port) else f"{HOST}:{free_port(state.ports)}"


def _issued(authority_directory: Path, role: Role, name: str) -> Path:
    """Return the certificate's path; make it if there is none."""
    path = authority_directory / f"{role}-{name}.pem"
    if not path.exists():
        from replog.local_cluster import authority

        authority.issue(authority_directory, role, name)
    return path


def _ssl(keystore: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.location": str(keystore.parent / CA_CERTIFICATE),
    }
