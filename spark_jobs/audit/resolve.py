"""Turns faults and disagreements into findings: one for each cause, with a culprit if there is evidence, and a remedy.

Pure: it takes bounded lists from Spark, but needs no Spark itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from replog.log.files.names import DIGEST_SUFFIX, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_file_name
from replog.topic import TopicPartition
from spark_jobs.audit.findings import (
    COMMITTED_LOSS,
    EPOCH_MISMATCH,
    REMEDIES,
    TOLD_AS,
    UNDECIDED,
    VALUE_MISMATCH,
    AuditFinding,
    Evidence,
    Interval,
    Mismatch,
    ReplicaFault,
    replica_names,
)
from spark_jobs.audit.votes import blame
from spark_jobs.replicas.describe import Replica
from spark_jobs.replicas.faults import BIT_ROT, EPOCH_CACHE_LIE, GAP, INDEX_LIE, NO_DIGESTS, REPEATED, UNREADABLE

PRODUCERS = (TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
TAIL = -1  # not a segment: offsets are missing after the last one


@dataclass
class _Partition:
    """All observations of one partition."""

    replicas: list[Replica] = field(default_factory=list)
    faults: list[ReplicaFault] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)


def resolve(
    directories: dict[int, tuple[Path, ...]],
    replicas: Iterable[Replica],
    faults: Iterable[ReplicaFault],
    mismatches: Iterable[Mismatch] = (),
    intervals: Iterable[Interval] = (),
) -> list[AuditFinding]:
    """Return all findings by topic, partition and offset, without those that are consequences of others."""
    partitions: dict[TopicPartition, _Partition] = defaultdict(_Partition)
    for replica in replicas:
        partitions[replica.key].replicas.append(replica)
    for fault in faults:
        partitions[fault.key].faults.append(fault)
    for mismatch in mismatches:
        partitions[mismatch.key].mismatches.append(mismatch)
    for interval in intervals:
        partitions[interval.key].intervals.append(interval)
    findings = [
        finding
        for (topic, number), given in sorted(partitions.items())
        for finding in _Resolver(directories, topic, number, given).findings()
    ]
    return sorted(findings, key=lambda f: (f.key, -1 if f.first is None else f.first, f.kind))


class _Resolver:
    def __init__(self, directories: dict[int, tuple[Path, ...]], topic: str, partition: int, given: _Partition) -> None:
        self._directories = directories
        self._place = topic, partition
        self._given = given
        self._replicas = {replica.replica: replica for replica in given.replicas}
        self._rot = [rot for rot in _merge(self._of(BIT_ROT)) if not self._is_leftover(rot)]
        self._unread = self._of(UNREADABLE)
        unknown = [*self._rot, *self._unread]
        self._gaps = list(self._above_log_start([*self._of(GAP), *self._missing_tails()]))
        self._holes = _merge(
            hole
            for hole in self._gaps
            if not any(_overlap(hole, other) for other in unknown if other.replica == hole.replica)
        )

    def findings(self) -> Iterator[AuditFinding]:
        findings = [
            *self._unreadable(),
            *map(self._hole, self._holes),
            *map(self._own, self._above_log_start(self._of(REPEATED))),
            *map(self._own, self._rot),
        ]
        for mismatch in _divergences(self._given.mismatches):
            findings += [] if self._is_rot(mismatch) else self._mismatch(mismatch)
        lies = [
            lie
            for lie in self._lies()
            if not any(_explains(finding, lie) for finding in findings)
            and not any(_makes_lie(cause, lie) for cause in [*self._gaps, *self._of(REPEATED), *self._rot])
        ]
        findings += map(self._own, self._by_file(lies))
        for interval in self._given.intervals:
            if not any(_leads_to(finding, interval) for finding in findings):
                findings.append(self._unexplained(interval))
        end = max((max(r.log_end, r.mark) for r in self._given.replicas if r.readable), default=0)
        for finding in findings:  # a damaged header may name any offset
            beyond = finding.first is not None and finding.last is not None and finding.first < end < finding.last
            yield replace(finding, last=end - 1) if beyond else finding

    def _of(self, kind: str) -> list[ReplicaFault]:
        return [fault for fault in self._given.faults if fault.kind == kind]

    def _above_log_start(self, faults: Iterable[ReplicaFault]) -> Iterator[ReplicaFault]:
        """Yield faults without the part below the replica's log start, which was deleted on purpose."""
        for fault in faults:
            start = self._replicas[fault.replica].log_start if fault.replica in self._replicas else 0
            if fault.last >= start:
                yield replace(fault, first=max(fault.first, start))

    # -- holes

    def _missing_tails(self) -> Iterator[ReplicaFault]:
        """INV-1: yield a fault for each log that ends below its own high watermark: it has lost committed records."""
        for replica in self._given.replicas:
            if replica.readable and replica.log_end < replica.mark:
                detail = f"the log ends at {replica.log_end}, below its own high watermark {replica.mark}"
                offsets = max(replica.log_start, replica.log_end), replica.mark - 1
                yield ReplicaFault(GAP, *self._place, replica.replica, TAIL, None, *offsets, -1, "", detail)

    def _hole(self, hole: ReplicaFault) -> AuditFinding:
        """INV-11: return a loss if another replica has the offsets and they are committed; otherwise a gap."""
        holders = [r for r in self._given.replicas if r.replica != hole.replica and self._holds(r, hole)]
        committed = max((r.mark for r in self._given.replicas), default=0)
        if not holders or hole.first >= committed:
            return self._own(hole)
        first = max(hole.first, min(r.log_start for r in holders))
        last = min(hole.last, committed - 1, max(r.log_end for r in holders) - 1)
        names = replica_names(r.replica for r in holders)
        why = f"{hole.detail}; {names} {'has' if len(holders) == 1 else 'have'} these offsets"
        return self._finding(replace(hole, kind=COMMITTED_LOSS, first=first, last=last), why)

    def _holds(self, replica: Replica, hole: ReplicaFault) -> bool:
        """Return True if the replica has some of these offsets, and they can be read."""
        first, last = max(hole.first, replica.log_start), min(hole.last, replica.log_end - 1)
        if not replica.readable or first > last:
            return False
        return not any(
            other.replica == replica.replica and other.first <= first and last <= other.last
            for other in [*self._holes, *self._rot, *self._unread]
        )

    # -- faults that a replica shows by itself

    def _unreadable(self) -> Iterator[AuditFinding]:
        whole = set()
        for replica in self._given.replicas:
            if not replica.readable:
                whole.add(replica.replica)
                yield self._about(replica, replica.file or "", f"cannot be read: {replica.detail}")
            elif replica.high_watermark is None and replica.log_end > replica.log_start:
                path = str(self._directory(replica.replica).with_name("replication-offset-checkpoint"))
                why = "no high watermark is known for this replica, so none of its data is known to be committed"
                remedy = (
                    f"Let broker {replica.replica} write {path} (every 5 s, and at an orderly stop), then audit again."
                )
                yield replace(self._about(replica, path, why), remedy=remedy)
        for fault in self._of(UNREADABLE):
            if fault.replica not in whole:
                yield self._finding(fault, f"cannot be read: {fault.detail}")
        yield from map(self._own, self._of(NO_DIGESTS))

    def _about(self, replica: Replica, path: str, why: str) -> AuditFinding:
        number, remedy = replica.replica, REMEDIES[UNREADABLE].format(file=path)
        evidence = (Evidence(number, path, None, why),)
        return AuditFinding(UNREADABLE, *self._place, (number,), None, None, number, why, remedy, evidence)

    def _is_leftover(self, rot: ReplicaFault) -> bool:
        """Return True if a crash left the damage after the log end, where recovery cuts it off."""
        replica = self._replicas.get(rot.replica)
        return replica is not None and rot.first >= max(replica.log_end, replica.mark) and rot.epoch < 0

    def _is_rot(self, mismatch: Mismatch) -> bool:
        """Return True if a replica differs only because its batch is rotten, which headers alone need not show."""
        involved = {replica for pair in mismatch.pairs for replica in pair}
        return any(
            rot.replica in involved and rot.first <= mismatch.first and mismatch.last <= rot.last for rot in self._rot
        )

    def _lies(self) -> Iterator[ReplicaFault]:
        """Yield the faults of indexes and epoch checkpoints."""
        for replica in self._given.replicas:
            if replica.fault == EPOCH_CACHE_LIE:
                start, end = replica.log_start, max(replica.log_start, replica.log_end - 1)
                place = EPOCH_CACHE_LIE, *self._place, replica.replica, -1, None
                yield ReplicaFault(*place, start, end, -1, replica.file or "", replica.detail or "")
        yield from _merge(self._of(EPOCH_CACHE_LIE))
        lies = self._of(INDEX_LIE)
        wrong = {(lie.replica, name) for lie in lies if (name := lie.file).endswith(SNAPSHOT_SUFFIX)}
        for lie in lies:
            # If the snapshot at a segment's start is wrong, nothing can be said of the segment's other producer files.
            begun = segment_file_name(lie.segment, SNAPSHOT_SUFFIX)
            if not lie.file.endswith(PRODUCERS) or lie.file == begun or (lie.replica, begun) not in wrong:
                yield lie

    def _by_file(self, lies: list[ReplicaFault]) -> Iterator[ReplicaFault]:
        """Join the faults of one index file, with offsets of its segment: a wrong entry may name any offset."""
        files: dict[tuple[str, int, int, str], list[ReplicaFault]] = defaultdict(list)
        ends = {replica.replica: replica.log_end for replica in self._given.replicas}
        for lie in lies:
            if not lie.segment <= lie.first < ends.get(lie.replica, lie.first + 1) and lie.kind == INDEX_LIE:
                lie = replace(lie, first=lie.segment, last=lie.segment)
            files[lie.kind, lie.replica, lie.segment, lie.file].append(lie)
        for (kind, *_), of in files.items():
            if kind != INDEX_LIE or len(of) == 1:
                yield from of
                continue
            count = sum(lie.count for lie in of)
            detail = f"{of[0].detail} (the first of {count} such faults in this file)"
            yield replace(
                of[0], first=min(f.first for f in of), last=max(f.last for f in of), count=count, detail=detail
            )

    def _own(self, fault: ReplicaFault) -> AuditFinding:
        return self._finding(fault, fault.detail)

    def _finding(self, fault: ReplicaFault, why: str) -> AuditFinding:
        path = self._path(fault)
        of_file = (REMEDIES[suffix] for suffix in PRODUCERS if fault.file.endswith(suffix))
        remedy = next(of_file, REMEDIES[fault.kind]).format(
            replica=fault.replica, directory=self._directory(fault.replica), file=path
        )
        epoch = fault.epoch if fault.epoch >= 0 else None
        evidence = Evidence(fault.replica, path, fault.position, fault.detail, epoch)
        place = TOLD_AS.get(fault.kind, fault.kind), *self._place, (fault.replica,), fault.first, fault.last
        return AuditFinding(*place, fault.replica, why, remedy, (evidence,), fault.count)

    # -- disagreements of replicas

    def _mismatch(self, mismatch: Mismatch) -> Iterator[AuditFinding]:
        """Yield one finding for each replica that is wrong."""
        checksum = "hash" if mismatch.of_records else "CRC"
        evidence = []
        for view in mismatch.views:
            path = str(self._directory(view.replica) / segment_file_name(view.segment, ".log"))
            batch = f"offsets {mismatch.first} to {view.last_offset}, epoch {view.epoch}"
            batch += f", {checksum} {view.crc & 0xFFFFFFFF:08x}, {view.size} bytes"
            evidence.append(Evidence(view.replica, path, view.position, batch, view.epoch))
        replicas = tuple(view.replica for view in mismatch.views)
        place = mismatch.kind, *self._place, replicas, mismatch.first, mismatch.last
        for wrong, why in blame(mismatch, self._contradicted(mismatch)):
            remedy = UNDECIDED
            if wrong is not None:
                remedy = REMEDIES[mismatch.kind].format(replica=wrong, directory=self._directory(wrong), file="")
            why += "; compared by records, as replicas were cleaned there" if mismatch.of_records else ""
            yield AuditFinding(*place, wrong, why, remedy, tuple(evidence), mismatch.count)

    def _contradicted(self, mismatch: Mismatch) -> set[int]:
        """Return the replicas whose own indexes or checkpoints contradict their batches there."""
        tell = (DIGEST_SUFFIX, *PRODUCERS)
        lies = [*self._of(EPOCH_CACHE_LIE), *(lie for lie in self._of(INDEX_LIE) if lie.file.endswith(tell))]
        ends = {view.replica: view.last_offset for view in mismatch.views}
        return {lie.replica for lie in lies if lie.first <= ends.get(lie.replica, -1) and lie.last >= mismatch.first}

    def _unexplained(self, interval: Interval) -> AuditFinding:
        (r1, r2), first = interval.replicas, min(interval.first, interval.last)
        what = "bytes" if interval.kind == "bytes" else "digest"
        why = (
            f"{what} over offsets {first} to {interval.last}: {interval.values[0]} in replica {r1}, "
            f"{interval.values[1]} in replica {r2}, yet their batches agree: one of the indexes is wrong"
        )
        remedy = (
            f"Let brokers {r1} and {r2} rebuild the indexes of this partition, one after the other: stop it, move them "
            "aside, start it."
        )
        return AuditFinding(INDEX_LIE, *self._place, (r1, r2), first, interval.last, None, why, remedy)

    def _directory(self, replica: int) -> Path:
        """Return the partition's directory in any log directory of that broker."""
        paths = [directory / TopicPartition(*self._place).directory_name for directory in self._directories[replica]]
        return next((path for path in paths if path.is_dir()), paths[0])

    def _path(self, fault: ReplicaFault) -> str:
        if fault.file.startswith("."):
            return str(self._directory(fault.replica) / segment_file_name(fault.segment, fault.file))
        return str(self._directory(fault.replica) / fault.file)


def _divergences(mismatches: list[Mismatch]) -> list[Mismatch]:
    """Join runs that overlap if one replica is part of every disagreement: one divergence shows in several runs if the
    other replicas begin elsewhere or cut their batches differently."""
    joined: list[Mismatch] = []
    for mismatch in sorted(mismatches, key=lambda m: m.first):
        for slot, before in enumerate(joined):
            pairs = tuple(sorted({*before.pairs, *mismatch.pairs}))
            if mismatch.first <= before.last and set.intersection(*map(set, pairs)):
                last, count = max(before.last, mismatch.last), max(before.count, mismatch.count)
                joined[slot] = replace(before, last=last, count=count, pairs=pairs)
                break
        else:
            joined.append(mismatch)
    return joined


def _merge(faults: Iterable[ReplicaFault]) -> list[ReplicaFault]:
    """Join faults of one replica that adjoin."""
    merged: list[ReplicaFault] = []
    for fault in sorted(faults, key=lambda f: (f.replica, f.first)):
        before = merged[-1] if merged else None
        if before and before.replica == fault.replica and fault.first <= before.last + 1:
            merged[-1] = replace(before, last=max(before.last, fault.last), count=before.count + fault.count)
        else:
            merged.append(fault)
    return merged


def _overlap(one: ReplicaFault, other: ReplicaFault) -> bool:
    return one.first <= other.last and other.first <= one.last


def _leads_to(finding: AuditFinding, interval: Interval) -> bool:
    """Return True if indexes may differ because of `finding`: the damage shifts later sums of that replica."""
    involved = finding.wrong in interval.replicas or (finding.wrong is None and bool(finding.replicas))
    last = max(interval.first, interval.last)  # offsets that a replica has twice may make `first` the greater
    return involved and (finding.first is None or finding.first <= last + 1)  # a sum ends where the next batch begins


def _makes_lie(cause: ReplicaFault, lie: ReplicaFault) -> bool:
    """Return True if an index is wrong only because its batch is rotten or gone, or has moved in its file."""
    if lie.kind != INDEX_LIE or cause.replica != lie.replica:
        return False
    beside = cause.segment in (lie.segment, TAIL, None)  # None: lost records, whose segment is not known
    moved = cause.kind in (GAP, REPEATED) and beside and cause.first <= lie.last
    return moved or _overlap(cause, lie)


def _explains(finding: AuditFinding, lie: ReplicaFault) -> bool:
    """Return True if an index or epoch checkpoint only looks wrong because `finding` changed the replica's batches."""
    if finding.kind not in (VALUE_MISMATCH, EPOCH_MISMATCH) or lie.replica not in finding.replicas:
        return False
    if finding.wrong not in (None, lie.replica) or finding.first is None or finding.last is None:
        return False
    if lie.kind == EPOCH_CACHE_LIE:
        return finding.first <= lie.first and lie.last <= finding.last
    return finding.first <= lie.last and lie.first <= finding.last
