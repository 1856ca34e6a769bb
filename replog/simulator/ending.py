"""The end of a simulation: the cluster comes to rest, everything is read once more, and the disks are compared."""

from pathlib import Path

from replog.client.admin import Admin
from replog.client.descriptions import ElectionType
from replog.errors import ReplogError
from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.batch import iterate_batches
from replog.log.formats.records import LogRecord
from replog.log_tools.checker.findings import Finding, Kind, Severity
from replog.log_tools.verify.paths import verify
from replog.log_tools.verify.segment import Options, VerifiedTotals
from replog.metadata.values import PartitionState
from replog.simulator.checks.chain import latest_values, records_of
from replog.simulator.checks.quiescence import unsettled
from replog.simulator.clients.workload import DELETED_KEYS, Workload
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.invariants import Violation
from replog.simulator.runtime.loop import until
from replog.topic import TopicPartition, parse_directory_name

QUIESCENCE_S = 180.0  # virtual time; far more than a cluster needs, even with a throttle of 2,000 bytes a second
STOP_S = 40.0
DISKS_S = 60.0  # the time that an administrator waits for disks
POLL_S = 0.1


class Ending:
    """The last steps of a simulation; each raises Violation."""

    def __init__(self, kernel: Kernel, cluster: SimulatedCluster, workload: Workload) -> None:
        self._kernel = kernel
        self._cluster = cluster
        self._workload = workload

    async def quiescence(self, when: str) -> None:
        """INV-21: the cluster comes to rest within `QUIESCENCE_S`; an administrator elects where a disk is lost."""
        if not await until(lambda: not self._unsettled(), DISKS_S, POLL_S):
            await self._workload.administer_once("elect leaders uncleanly", _elect_without_disks)
        if not await until(lambda: not self._unsettled(), QUIESCENCE_S - DISKS_S, POLL_S):
            reasons = "\n    ".join(self._unsettled())
            raise Violation("INV-21", f"{when} the cluster is not at rest within {QUIESCENCE_S:g} s:\n    {reasons}")
        self._kernel.trace.add("at rest", when=when)

    def _unsettled(self) -> list[str]:
        """Return the reasons why the cluster is not at rest."""
        cluster = self._cluster
        if cluster.controller is None:
            return ["the controller is down"]
        reasons = [] if cluster.image is cluster.last_image else ["metadata has just changed"]
        for broker_id, member in cluster.members.items():
            registered = cluster.last_image.broker(broker_id)
            if member.broker is None or registered is None or not registered.active:
                reasons.append(f"{member.name} is {'fenced' if member.up else 'down'}")
            elif self._kernel.disk.times.holds_up(member.name):
                reasons.append(f"{member.name} may still wait for a disk that was stalled")
            elif member.broker.logs is not None:
                reasons += [f"{member.name} still moves {tp}" for tp in member.broker.logs.futures]
        for tp, state in cluster.last_image.partitions.items():
            reasons += [f"{tp}: {why}" for why in unsettled(tp, state, cluster.brokers)]
        return reasons

    async def drain(self) -> None:
        """A fresh consumer reads everything, and so do those that were there during the faults."""
        try:
            await self._workload.drain()
            await self._workload.stop_readers()
        except ReplogError as error:
            raise Violation("INV-21", f"at rest, and yet a consumer cannot read everything: {error}") from error

    def check_truncations(self) -> None:
        """Raise Violation if a consumer saw committed records go, without an unclean election that the checks noted."""
        for truncation in self._workload.truncations:
            if truncation.partition not in self._workload.history.unclean:
                raise Violation("INV-11", f"a consumer saw committed records go: {truncation}")

    async def stop_and_compare(self) -> None:
        """Stop the brokers cleanly; check that replicas' files are equal where both have them, and have no fault."""
        starts = {tp: self._log_start(tp, state) for tp, state in self._cluster.last_image.partitions.items()}
        replicas = {tp: state.replicas for tp, state in self._cluster.last_image.partitions.items()}
        self._cluster.stop_brokers()
        members = self._cluster.members.values()
        if not await until(lambda: not any(member.up for member in members), STOP_S, POLL_S):
            up = ", ".join(member.name for member in members if member.up)
            raise Violation("INV-21", f"not stopped {STOP_S:g} s after they were told to: {up}")
        for tp, start in starts.items():
            directories = [self._cluster.members[broker].replica(tp) for broker in replicas[tp]]
            if tp.topic in self._workload.history.compacted:
                self._compare_latest(tp, start, directories)
            else:
                self._compare(tp, start, directories)
        faults = [
            f"{finding.kind.name} {finding.file} at {finding.position}, offset {finding.offset}: {finding.found}"
            for member in members
            for finding in verify(member.disks, Options(deep=True), VerifiedTotals())
            if finding.severity is Severity.FAULT and not self._was_copied_clean(finding)
        ]
        if faults:
            raise Violation("INV-21", "stopped cleanly, and their files have faults:\n    " + "\n    ".join(faults))

    def _was_copied_clean(self, finding: Finding) -> bool:
        """Return True for records that a follower never had since its leader's cleaner had removed them (CL-8)."""
        if finding.kind not in (Kind.HOLE, Kind.BATCH_COUNT, Kind.RECORDS):
            return False
        return parse_directory_name(finding.file.parent.name).topic in self._workload.history.compacted

    def _log_start(self, tp: TopicPartition, state: PartitionState) -> int:
        """Return the highest log start of the replicas."""
        brokers = [self._cluster.brokers[broker] for broker in state.replicas]
        return max(broker.replicas.hosted[tp].log.log_start_offset for broker in brokers)

    @staticmethod
    def _compare(tp: TopicPartition, start: int, directories: list[Path]) -> None:
        """INV-13: compare the bytes from the batch at `start` on, or from where retention left all replicas. Segments
        may begin at different offsets."""
        logs = {directory: sorted(directory.glob(f"*{LOG_SUFFIX}")) for directory in directories}
        start = max([start, *(int(files[0].stem) for files in logs.values() if files)])
        contents = {directory: _bytes_from(files, start) for directory, files in logs.items()}
        if len(set(contents.values())) > 1:
            sizes = ", ".join(f"{directory.parts[-3]}: {len(data)}" for directory, data in contents.items())
            raise Violation("INV-21", f"{tp}: replicas differ from offset {start} on (bytes by broker: {sizes})")

    def _compare_latest(self, tp: TopicPartition, start: int, directories: list[Path]) -> None:
        """CL-10: compare the latest record of each key, except of deleted keys if tombstones expire."""
        forgotten = () if self._cluster.plan.topic(tp).keeps_tombstones else DELETED_KEYS
        by_directory: dict[Path, dict[bytes | None, LogRecord]] = {}
        for directory in directories:
            files = [(path, path.stat().st_size) for path in sorted(directory.glob(f"*{LOG_SUFFIX}"))]
            latest = latest_values(records_of(files), start)
            by_directory[directory] = {key: record for key, record in latest.items() if key not in forgotten}
        first, *others = by_directory
        for other in others:
            for key in by_directory[first].keys() | by_directory[other].keys():
                if by_directory[first].get(key) != by_directory[other].get(key):
                    raise Violation(
                        "CL-10",
                        f"{tp}: the latest of {key!r} is {by_directory[first].get(key)} for {first.parts[-3]}, and "
                        f"{by_directory[other].get(key)} for {other.parts[-3]}",
                    )


async def _elect_without_disks(admin: Admin) -> object:
    known = await admin.describe_log_ends()
    waiting = [tp for tp, ends in known.items() if any(replica.is_missing for replica in ends.replicas)]
    return waiting and await admin.elect_leaders(ElectionType.UNCLEAN, waiting)


def _bytes_from(files: list[Path], start: int) -> bytes:
    """Return the bytes from the batch that holds offset `start` to the end."""
    pieces = []
    for path in files:
        data = path.read_bytes()
        begin = next((at for at, header in iterate_batches(data) if header.next_offset > start), len(data))
        pieces.append(data[begin:])
    return b"".join(pieces)
