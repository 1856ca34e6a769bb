"""`cluster.json` in a local cluster's directory: its members, their addresses, their processes; and their status."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from replog.config.properties import MAX_INT, number_in
from replog.errors import ErrorCode
from replog.local_cluster.ports import HOST, free_port, is_free
from replog.local_cluster.processes import ProcessId, ProcessState, state_of
from replog.log.files.opening import write_atomically
from replog.metadata.values import out_of_sync

STATE_FILE = "cluster.json"
CONTROLLER, BROKER, ETCD = "controller", "broker", "etcd"
TLS_DIRECTORY = "tls"  # the certificates of a secure cluster
ETCD_TLS_DIRECTORY = "etcd-tls"  # certificates of its etcds, and of the controllers that may reach them
CA_CERTIFICATE = "ca.pem"  # the authority's certificate, in either directory
CLIENT_FILE = "client.properties"  # the clients' settings, in `TLS_DIRECTORY`


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the cluster's lock. Raises INVALID_REQUEST if another command is changing the cluster."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".cluster.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ErrorCode.INVALID_REQUEST.error(
                f"another command is changing the cluster in {directory}; wait until it has finished"
            ) from None
        yield


class LocalMember(BaseModel):
    """A controller, a broker or an etcd."""

    model_config = ConfigDict(extra="forbid")

    name: str  # "controller", or "controller-1" if there are several; "broker-1", "etcd-1"
    node_id: int = Field(ge=0)  # a broker's; 0 for the others
    port: int = Field(ge=1, le=65535)
    pid: int | None = Field(default=None, gt=0)
    start_time: int = 0

    @property
    def kind(self) -> str:
        """CONTROLLER, BROKER or ETCD."""
        return self.name.partition("-")[0]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> ProcessId | None:
        return None if self.pid is None else ProcessId(self.pid, self.start_time)

    @process.setter
    def process(self, process: ProcessId | None) -> None:
        self.pid = process.pid if process else None
        self.start_time = process.start_time if process else 0

    @property
    def state(self) -> ProcessState:
        return state_of(self.process) if self.process else ProcessState.STOPPED


class EtcdMember(LocalMember):
    """An etcd; its `port` is for controllers."""

    peer_port: int = Field(ge=1, le=65535)  # the port for other etcds; it cannot change, since they remember it


class ClusterFile(BaseModel):
    """The content of `cluster.json`."""

    model_config = ConfigDict(extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    controller: LocalMember
    other_controllers: list[LocalMember] = []
    etcds: list[EtcdMember] = []  # several controllers have their metadata in these
    formatted: bool = False  # True: the etcds have the metadata
    brokers: list[LocalMember]
    left: list[int] = []  # ids of brokers that left the cluster; nobody gets them again

    @property
    def controllers(self) -> list[LocalMember]:
        return [self.controller, *self.other_controllers]

    @property
    def members(self) -> list[LocalMember]:
        return [*self.etcds, *self.controllers, *self.brokers]

    @property
    def ports(self) -> list[int]:
        return [member.port for member in self.members] + [etcd.peer_port for etcd in self.etcds]

    @property
    def bootstrap(self) -> str:
        """Every broker's address, comma-separated."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def running(self) -> list[LocalMember]:
        """The brokers that run, and are not paused."""
        return [broker for broker in self.brokers if broker.state is ProcessState.RUNNING]

    @classmethod
    def new(cls, controllers: int, etcds: int) -> "ClusterFile":
        """Return a cluster without brokers; several controllers have numbers."""
        first = LocalMember(name=CONTROLLER if controllers == 1 else f"{CONTROLLER}-1", node_id=0, port=free_port([]))
        state = cls(controller=first, brokers=[])
        for number in range(2, controllers + 1):
            port = free_port(state.ports)
            state.other_controllers.append(LocalMember(name=f"{CONTROLLER}-{number}", node_id=0, port=port))
        for number in range(1, etcds + 1):
            port = free_port(state.ports)
            peer_port = free_port([*state.ports, port])
            state.etcds.append(EtcdMember(name=f"{ETCD}-{number}", node_id=0, port=port, peer_port=peer_port))
        return state

    def add_brokers(self, count: int) -> None:
        for _ in range(count):
            node_id = max((0, *self.left, *(broker.node_id for broker in self.brokers))) + 1
            name = f"{BROKER}-{node_id}"
            self.brokers.append(LocalMember(name=name, node_id=node_id, port=free_port(self.ports)))

    def free_ports(self) -> None:
        """Give stopped members other ports where theirs are taken. Raises INVALID_REQUEST for that between etcds."""
        for member in self.members:
            if member.state is ProcessState.STOPPED:
                member.process = None
                if not is_free(member.port):
                    member.port = free_port(self.ports)
                if isinstance(member, EtcdMember) and not is_free(member.peer_port):
                    raise ErrorCode.INVALID_REQUEST.error(
                        f"{member.name} needs port {member.peer_port}, which another process uses; end that"
                    )

    def broker(self, broker_id: int) -> LocalMember:
        return self.member(str(broker_id))

    def member(self, name: str) -> LocalMember:
        """Return a member by its name, or a broker by its id. Raises INVALID_REQUEST, which names those that exist."""
        wanted = name if (broker_id := number_in(name, MAX_INT)) is None else f"{BROKER}-{broker_id}"
        known = {member.name: member for member in self.members}
        if wanted not in known:
            raise ErrorCode.INVALID_REQUEST.error(f"{wanted} is not in this cluster; it has {', '.join(known)}")
        return known[wanted]

    def save(self, directory: Path) -> None:
        write_atomically(directory / STATE_FILE, self.model_dump_json(indent=2).encode() + b"\n")

    @classmethod
    def load(cls, directory: Path) -> "ClusterFile | None":
        """Return the directory's state; None if it has no cluster. Raises INVALID_CONFIG if the file is damaged."""
        path = directory / STATE_FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"])) or "the file"
            raise ErrorCode.INVALID_CONFIG.error(
                f"{path}: {where}: {fault['msg']}; stop its processes by hand, remove the file and start again"
            ) from None


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One line of `replog cluster status`. The counts are -1 if no running broker answers."""

    name: str
    pid: int | None
    address: str
    state: str  # running, starting, fenced, paused, stopped
    leaders: int
    replicas: int
    out_of_sync: int  # replicas that are not in the ISR, without those being added to their partition


def incomplete(metadata: Any, topic: str | None) -> list[str]:
    """Describe the partitions of `topic`, or of all topics, without a leader or with a replica out of sync."""
    return [
        f"{described.topic}-{partition.partition} with isr {list(partition.isr)} of {list(partition.replicas)}"
        + (" and no leader" if partition.leader < 0 else "")
        for described in metadata.topics
        if topic is None or described.topic == topic
        for partition in described.partitions
        if partition.leader < 0 or set(partition.isr) != set(partition.replicas)
    ]


def member_status(member: LocalMember, metadata: Any) -> MemberStatus:
    """Return a member's status. `metadata` is a GetMetadataResponse, or None if no broker answers."""
    state, broker_id, counts = member.state.value, member.node_id, (-1, -1, -1)
    if member.kind == BROKER and metadata is not None:
        fenced = {broker.broker_id: broker.fenced for broker in metadata.brokers}
        if member.state is ProcessState.RUNNING and fenced.get(broker_id, True):
            state = "fenced" if broker_id in fenced else "starting"
        replicas = [p for topic in metadata.topics for p in topic.partitions if broker_id in p.replicas]
        leaders = sum(p.leader == broker_id for p in replicas)
        late = sum(bool(out_of_sync([broker_id], p.isr, p.adding_replicas)) for p in replicas)
        counts = leaders, len(replicas), late
    return MemberStatus(member.name, member.pid, member.address, state, *counts)
