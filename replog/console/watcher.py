"""One poll for all viewers, while somebody looks. It takes at most a fifth of the time."""

import asyncio
import json
import shlex
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from replog.client.admin import Admin
from replog.client.descriptions import ClusterDescription, LogDirDescription
from replog.console.board import Board
from replog.errors import ReplogError

POLL_S = 1.0  # the least rest after a poll
REST = 4  # a rest is at least so many times as long as the poll
BROKERS_S = 0.5  # how long a poll waits for brokers; slower ones are in a later poll
DISKS_S = 10.0  # how often log directories and the report of the audit are read
SUMMARY = "summary.json"
MAX_BYTES = 64 << 20
SHOWN = 50  # findings
_BROKER = ("state", "address", "rack", "broker_epoch")
_STANDING = ("verdict", "level", "at_ms", "consistent_at_ms", "partitions", "diverged", "diverged_partitions")
_FINDING = ("class", "topic", "partition", "first_offset", "last_offset", "wrong_replica", "why", "remedy")


class Watcher:
    """Asks the cluster and puts the answers on the board. `ticked` is set, and replaced, with each tick."""

    def __init__(self, admin: Admin, board: Board, audit: Path | None = None) -> None:
        self.board = board
        self.ticked = asyncio.Event()
        self._admin = admin
        self._audit = audit
        self.viewers = 0
        self._watched = asyncio.Event()
        self._version = 0  # the newest change that is known
        self._asking: dict[tuple[str, int], asyncio.Task[Any]] = {}
        self._brokers: dict[int, dict[str, Any]] = {}
        self._next_disks = 0.0

    def come(self) -> None:
        self.viewers += 1
        self._watched.set()

    def go(self) -> None:
        self.viewers -= 1
        if not self.viewers:
            self._watched.clear()

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                await self._watched.wait()
                began = time.monotonic()
                try:
                    await self._poll()
                except Exception as defect:  # noqa: BLE001 (otherwise the page would stand still, and nobody would know)
                    self.board.put_part("trouble", f"the console failed: {defect!r}")
                if self.board.publish():
                    self.ticked.set()
                    self.ticked = asyncio.Event()
                await asyncio.sleep(max(POLL_S, REST * (time.monotonic() - began)))
        finally:
            tasks = list(self._asking.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _poll(self) -> None:
        try:
            cluster = await self._admin.describe_cluster()
            self.board.put_topics(await self._admin.describe_topics())
        except ReplogError as error:
            self.board.put_part("trouble", error.message)
            return
        self.board.put_part("trouble", "")
        await asyncio.gather(self._take_changes(), self._ask_brokers(cluster))
        self.board.put_part("cluster", self._cluster(cluster))

    async def _take_changes(self) -> None:
        try:
            changes = await self._admin.describe_partition_changes(self._version)
        except ReplogError as error:
            self.board.put_part("history", {"since": None, "trouble": error.message})
            return
        self.board.put_changes(changes)
        self._version = changes.changes[-1].version if changes.changes else self._version
        self.board.put_part("history", {"since": changes.kept_since_ms, "trouble": ""})

    async def _ask_brokers(self, cluster: ClusterDescription) -> None:
        """Ask each broker by itself: otherwise one that hangs would hold back the others' answers."""
        self._brokers = {b.broker_id: self._brokers.get(b.broker_id, _nothing()) for b in cluster.brokers}
        self.board.keep_brokers(self._brokers)
        now, disks = time.monotonic(), False
        if now >= self._next_disks:
            self._next_disks, disks = now + DISKS_S, True
            self._begin("standing audit", 0, self._take_standing_audit())
            if self._audit is not None:
                self._begin("audit", 0, self._look_at_audit(self._audit))
        for broker in cluster.brokers:
            if broker.fenced:
                self._forget_offsets(broker.broker_id, "")
                self._told(broker.broker_id)["disks"] = []
                continue
            self._begin("replicas", broker.broker_id, self._take_replicas(broker.broker_id))
            if disks:
                self._begin("disks", broker.broker_id, self._take_disks(broker.broker_id))
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=BROKERS_S)
        for key in [key for key, task in self._asking.items() if task.done()]:
            self._asking.pop(key).result()

    def _begin(self, what: str, broker: int, asking: Coroutine[Any, Any, None]) -> None:
        if (what, broker) in self._asking:
            asking.close()
        else:
            self._asking[what, broker] = asyncio.create_task(asking, name=f"{what} of {broker}")

    async def _take_replicas(self, broker: int) -> None:
        try:
            told = await self._admin.describe_replicas(broker)
        except ReplogError as error:
            self._forget_offsets(broker, error.message)
            return
        self._told(broker).update(trouble="", step_ms=round(1000 * told.longest_step_s))
        self.board.put_replicas(broker, told.replicas)

    def _forget_offsets(self, broker: int, why: str) -> None:
        self._told(broker).update(trouble=why, step_ms=None)
        self.board.put_replicas(broker, {})

    async def _take_disks(self, broker: int) -> None:
        told = self._told(broker)
        try:
            described = await self._admin.describe_log_dirs([broker])
        except ReplogError as error:
            told["disks_trouble"] = error.message
            return
        told["disks"], told["disks_trouble"] = [_disk(directory) for directory in described[broker]], ""

    async def _take_standing_audit(self) -> None:
        try:
            audit = await self._admin.describe_audit()
        except ReplogError as error:
            self.board.put_part("standing", {"trouble": error.message})
            return
        self.board.put_part("standing", {name: getattr(audit, name) for name in _STANDING} if audit else None)

    async def _look_at_audit(self, directory: Path) -> None:
        self.board.put_part("audit", await asyncio.to_thread(audit_report, directory))

    def _told(self, broker: int) -> dict[str, Any]:
        """Return the facts of a broker to write to; for one that has gone, a dict that nobody reads."""
        return self._brokers.get(broker, {})

    def _cluster(self, cluster: ClusterDescription) -> dict[str, Any]:
        return {
            "id": cluster.cluster_id,
            "controller": cluster.controller,
            "controllers": cluster.controllers,
            "silent": cluster.controller_heard_ms_ago > 5000,
            "version": cluster.metadata_version,
            "brokers": [
                {"id": b.broker_id, **{name: getattr(b, name) for name in _BROKER}, **self._brokers[b.broker_id]}
                for b in cluster.brokers
            ],
        }


def _nothing() -> dict[str, Any]:
    return {"trouble": "", "step_ms": None, "disks": [], "disks_trouble": ""}


def _disk(directory: LogDirDescription) -> dict[str, Any]:
    return {
        "directory": directory.log_dir,
        "error": directory.error.name if directory.error else "",
        "total": directory.total_bytes,
        "usable": directory.usable_bytes,
        "size": sum(replica.size for _, replica in directory.replicas),
    }


def audit_report(directory: Path) -> dict[str, Any]:
    """Read the verdict and the first findings, or say under `trouble` why they are not known. Waits for a disk."""
    path = directory / SUMMARY
    explain = f"replog audit explain --report-dir {shlex.quote(str(directory))}"
    try:
        with path.open("rb") as file:
            content, changed = file.read(MAX_BYTES + 1), path.stat().st_mtime
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES >> 20} MiB")
        summary = json.loads(content)
        findings = summary["findings"]
        return {
            "at": int(changed * 1000),
            "explain": explain,
            "count": sum(summary["classes"].values()),
            "findings": [{name: finding[name] for name in _FINDING} for finding in findings[:SHOWN]],
            **{name: summary[name] for name in ("verdict", "level", "partitions_compared", "complete")},
        }
    except FileNotFoundError:
        return {"trouble": f"there is no {path} yet; make it with: replog audit run --report-dir {directory}"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return {"trouble": f"{path} is not the summary of an audit: {error}"}
