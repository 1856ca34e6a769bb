"""How a simulation ends: everything is mended, the cluster comes to rest, and its disks are compared."""

import asyncio
from pathlib import Path

from cluster.simulation.checks.kept import latest_values, records_of
from cluster.simulation.checks.violation import Violation
from cluster.simulation.cluster import SimulatedCluster
from cluster.simulation.kernel import Kernel
from cluster.simulation.workload import DELETED_KEYS, Workload
from replog.errors import ReplogError
from replog.log.batch import parse_header
from replog.log.files import LOG_SUFFIX
from replog.log.records import Record
from replog.log.verify.findings import Finding, Kind, Severity
from replog.log.verify.partition import Options
from replog.log.verify.paths import verify
from replog.log.verify.segment import Totals
from replog.metadata import PartitionState
from replog.topic import TopicPartition, parse_directory_name

QUIESCENCE_S = 180.0  # virtual, and far more than it takes, even where a throttle lets 2,000 bytes a second pass
STOP_S = 40.0
POLL_S = 0.1


class Ending:
    """The last acts; each raises Violation."""

    def __init__(self, kernel: Kernel, cluster: SimulatedCluster, workload: Workload) -> None:
        self._kernel = kernel
        self._cluster = cluster
        self._workload = workload

    async def quiescence(self, when: str) -> None:
        """INV-21, within a bound."""
        loop = asyncio.get_running_loop()
        until = loop.time() + QUIESCENCE_S
        while reasons := self._cluster.unsettled():
            if loop.time() > until:
                raise Violation(
                    "INV-21",
                    f"{when} the cluster is not at rest within {QUIESCENCE_S:g} s:\n    " + "\n    ".join(reasons),
                )
            await asyncio.sleep(POLL_S)
        self._kernel.trace.add("at rest", when=when)

    async def drain(self) -> None:
        try:
            await self._workload.drain()
        except ReplogError as error:
            raise Violation("INV-21", f"at rest, and yet a consumer cannot read everything: {error}") from error

    def check_truncations(self) -> None:
        """Once the checks have told where unclean elections were."""
        for truncation in self._workload.truncations:
            if truncation.partition not in self._workload.history.unclean:
                raise Violation("INV-11", f"a consumer saw committed records go: {truncation}")

    async def stop_and_compare(self) -> None:
        """After clean stops the replicas' files are equal where both have them, and none has a fault."""
        loop = asyncio.get_running_loop()
        starts = {tp: self._log_start(tp, state) for tp, state in self._cluster.last_image.partitions.items()}
        replicas = {tp: state.replicas for tp, state in self._cluster.last_image.partitions.items()}
        self._cluster.stop_brokers()
        until = loop.time() + STOP_S
        while up := [member.name for member in self._cluster.members.values() if member.up]:
            if loop.time() > until:
                raise Violation("INV-21", f"not stopped {STOP_S:g} s after they were told to: {', '.join(up)}")
            await asyncio.sleep(POLL_S)
        for tp, start in starts.items():
            directories = [self._cluster.members[broker].replica(tp) for broker in replicas[tp]]
            if tp.topic in self._workload.history.compacted:
                self._compare_latest(tp, start, directories)
            else:
                self._compare(tp, start, directories)
        faults = [
            f"{finding.kind.name} {finding.file} at {finding.position}, offset {finding.offset}: {finding.found}"
            for member in self._cluster.members.values()
            for finding in verify(member.disks, Options(deep=True), Totals())
            if finding.severity is Severity.FAULT and not self._was_copied_clean(finding)
        ]
        if faults:
            raise Violation("INV-21", "stopped cleanly, and their files have faults:\n    " + "\n    ".join(faults))

    def _was_copied_clean(self, finding: Finding) -> bool:
        """What a leader's cleaner took is missing in a follower too, whose own cleaner was never there (CL-8)."""
        if finding.kind not in (Kind.HOLE, Kind.BATCH_COUNT, Kind.RECORDS):
            return False
        return parse_directory_name(finding.file.parent.name).topic in self._workload.history.compacted

    def _log_start(self, tp: TopicPartition, state: PartitionState) -> int:
        """The latest of the replicas'."""
        brokers = [self._cluster.brokers[broker] for broker in state.replicas]
        return max(broker.manager.hosted[tp].log.log_start_offset for broker in brokers)

    @staticmethod
    def _compare(tp: TopicPartition, start: int, directories: list[Path]) -> None:
        """Their bytes from the batch at `start` on (INV-13); segments may begin at different offsets, and retention may
        have taken some meanwhile."""
        logs = {directory: sorted(directory.glob(f"*{LOG_SUFFIX}")) for directory in directories}
        start = max([start, *(int(files[0].stem) for files in logs.values() if files)])
        contents = {directory: _bytes_from(files, start) for directory, files in logs.items()}
        if len(set(contents.values())) > 1:
            sizes = ", ".join(f"{directory.parts[-3]}: {len(data)}" for directory, data in contents.items())
            raise Violation("INV-21", f"{tp}: replicas differ from offset {start} on (bytes by broker: {sizes})")

    def _compare_latest(self, tp: TopicPartition, start: int, directories: list[Path]) -> None:
        """CL-10: what readers come to. Whoever was away for longer than tombstones stay may never hear of one."""
        forgotten = () if self._cluster.plan.topic(tp).keeps_tombstones else DELETED_KEYS
        found: dict[Path, dict[bytes | None, Record]] = {}
        for directory in directories:
            files = [(path, path.stat().st_size) for path in sorted(directory.glob(f"*{LOG_SUFFIX}"))]
            latest = latest_values(records_of(files), start)
            found[directory] = {key: record for key, record in latest.items() if key not in forgotten}
        first, *others = found
        for other in others:
            for key in found[first].keys() | found[other].keys():
                if found[first].get(key) != found[other].get(key):
                    raise Violation(
                        "CL-10",
                        f"{tp}: the latest of {key!r} is {found[first].get(key)} for {first.parts[-3]}, and "
                        f"{found[other].get(key)} for {other.parts[-3]}",
                    )


def _bytes_from(files: list[Path], start: int) -> bytes:
    """From the batch that holds offset `start` to the end."""
    pieces = []
    for path in files:
        data, position = path.read_bytes(), 0
        while position < len(data):
            header = parse_header(data, position)
            if header.next_offset > start:
                pieces.append(data[position:])
                break
            position += header.size
    return b"".join(pieces)
