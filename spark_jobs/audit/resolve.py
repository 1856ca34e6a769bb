"""From raw faults and disagreements to findings: one per cause, with a culprit where there is evidence, and a remedy.

Pure: takes what Spark found (bounded lists), knows no Spark.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from replog.log.files import DIGEST_SUFFIX, segment_file_name
from spark_jobs.audit.findings import (
    COMMITTED_LOSS,
    EPOCH_MISMATCH,
    NO_DIGESTS_REMEDY,
    REMEDIES,
    UNDECIDED,
    VALUE_MISMATCH,
    Evidence,
    Fault,
    Finding,
    Interval,
    Mismatch,
    Replica,
    replica_names,
)
from spark_jobs.replicas.digests import NO_DIGESTS
from spark_jobs.replicas.faults import BIT_ROT, EPOCH_CACHE_LIE, GAP, INDEX_LIE, REPEATED, UNREADABLE


@dataclass
class _Partition:
    """All that was found of one partition."""

    replicas: list[Replica] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)


def resolve(
    directories: dict[int, tuple[Path, ...]],
    replicas: Iterable[Replica],
    faults: Iterable[Fault],
    mismatches: Iterable[Mismatch] = (),
    intervals: Iterable[Interval] = (),
) -> list[Finding]:
    """Everything that is wrong, by topic, partition and offset; consequences of a finding are left out."""
    partitions: dict[tuple[str, int], _Partition] = defaultdict(_Partition)
    for replica in replicas:
        partitions[replica.topic, replica.partition].replicas.append(replica)
    for fault in faults:
        partitions[fault.topic, fault.partition].faults.append(fault)
    for mismatch in mismatches:
        partitions[mismatch.topic, mismatch.partition].mismatches.append(mismatch)
    for interval in intervals:
        partitions[interval.topic, interval.partition].intervals.append(interval)
    findings = [
        finding
        for (topic, number), found in sorted(partitions.items())
        for finding in _Resolver(directories, topic, number, found).findings()
    ]
    return sorted(findings, key=lambda f: (f.topic, f.partition, -1 if f.first is None else f.first, f.kind))


class _Resolver:
    def __init__(self, directories: dict[int, tuple[Path, ...]], topic: str, partition: int, found: _Partition) -> None:
        self._directories = directories
        self._topic = topic
        self._partition = partition
        self._found = found
        self._replicas = {replica.replica: replica for replica in found.replicas}
        self._rot = _merge([fault for fault in found.faults if fault.kind == BIT_ROT])
        unread = [fault for fault in found.faults if fault.kind == UNREADABLE and fault.detail != NO_DIGESTS]
        self._holes = [
            hole
            for hole in [*(f for f in found.faults if f.kind == GAP and not _repeats(f)), *self._missing_tails()]
            if not any(_overlap(hole, other) for other in [*self._rot, *unread] if other.replica == hole.replica)
        ]

    def findings(self) -> Iterator[Finding]:
        found = [
            *self._unreadable(),
            *self._committed_losses(),
            *self._repeated(),
            *self._bit_rot(),
            *(self._mismatch(m) for m in _divergences(self._found.mismatches) if not self._is_rot(m)),
        ]
        found += [
            self._own(lie)
            for lie in self._lies()
            if not any(_explains(finding, lie) for finding in found)
            and not any(_makes_lie(gone, lie) for gone in [*self._holes, *self._rot])
        ]
        yield from found
        for interval in self._found.intervals:
            if not any(_leads_to(finding, interval) for finding in found):
                yield self._unexplained(interval)

    # -- holes

    def _missing_tails(self) -> Iterator[Fault]:
        """A log that ends below its own high watermark has lost what it once acknowledged (INV-1)."""
        for replica in self._found.replicas:
            if replica.readable and replica.log_end < replica.mark:
                detail = f"the log ends at {replica.log_end}, below its own high watermark {replica.mark}"
                yield Fault(
                    GAP,
                    self._topic,
                    self._partition,
                    replica.replica,
                    -1,
                    None,
                    max(replica.log_start, replica.log_end),
                    replica.mark - 1,
                    -1,
                    "",
                    detail,
                )

    def _committed_losses(self) -> Iterator[Finding]:
        """Holes that another replica fills are losses if the offsets are known to be committed (INV-11), else gaps."""
        for hole in self._holes:
            start = self._replicas[hole.replica].log_start if hole.replica in self._replicas else 0
            hole = replace(hole, first=max(hole.first, start))
            if hole.first > hole.last:
                continue  # below the log start: deleted on purpose
            holders = [r for r in self._found.replicas if r.replica != hole.replica and self._holds(r, hole)]
            committed = max((r.mark for r in self._found.replicas), default=0)
            if not holders or hole.first >= committed:
                yield self._own(hole)
                continue
            first = max(hole.first, min(r.log_start for r in holders))
            last = min(hole.last, committed - 1, max(r.log_end for r in holders) - 1)
            names = replica_names(r.replica for r in holders)
            why = f"{hole.detail}; {names} {'has' if len(holders) == 1 else 'have'} these offsets"
            yield self._finding(replace(hole, kind=COMMITTED_LOSS, first=first, last=last), why)

    def _repeated(self) -> Iterator[Finding]:
        """Batches that stand where offsets went by already: a copy of the partition has them once."""
        for fault in filter(_repeats, self._found.faults):
            replica = self._replicas.get(fault.replica)
            if replica is None or fault.last >= replica.log_start:
                remedy = REMEDIES[COMMITTED_LOSS].format(
                    replica=fault.replica, directory=self._directory(fault.replica)
                )
                yield replace(self._own(fault), remedy=remedy)

    def _holds(self, replica: Replica, hole: Fault) -> bool:
        if not replica.readable or replica.log_start > hole.last or replica.log_end <= hole.first:
            return False
        return not any(
            other.replica == replica.replica and other.first <= hole.first and other.last >= hole.last
            for other in [*self._holes, *self._rot]
        )

    # -- what replicas show by themselves

    def _unreadable(self) -> Iterator[Finding]:
        whole = set()
        for replica in self._found.replicas:
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
        for fault in self._found.faults:
            if fault.kind == UNREADABLE and fault.replica not in whole:
                found = self._finding(fault, f"cannot be read: {fault.detail}")
                yield replace(found, remedy=NO_DIGESTS_REMEDY) if fault.detail == NO_DIGESTS else found

    def _about(self, replica: Replica, path: str, why: str) -> Finding:
        return Finding(
            UNREADABLE,
            self._topic,
            self._partition,
            (replica.replica,),
            None,
            None,
            replica.replica,
            why,
            REMEDIES[UNREADABLE].format(file=path),
            (Evidence(replica.replica, path, None, why),),
        )

    def _bit_rot(self) -> Iterator[Finding]:
        for fault in self._rot:
            replica = self._replicas.get(fault.replica)
            if replica and fault.first >= max(replica.log_end, replica.mark) and fault.epoch < 0:
                continue  # leftovers of a crash behind the log end: recovery cuts them off
            yield self._own(fault)

    def _is_rot(self, mismatch: Mismatch) -> bool:
        """Whether others have another batch only because this one is rotten, which a header alone need not tell."""
        involved = {replica for pair in mismatch.pairs for replica in pair}
        return any(
            rot.replica in involved and rot.first <= mismatch.first and mismatch.last <= rot.last for rot in self._rot
        )

    def _lies(self) -> Iterator[Fault]:
        """Faults of indexes and epoch checkpoints."""
        for replica in self._found.replicas:
            if replica.fault == EPOCH_CACHE_LIE:
                start, end = replica.log_start, max(replica.log_start, replica.log_end - 1)
                yield Fault(
                    EPOCH_CACHE_LIE,
                    self._topic,
                    self._partition,
                    replica.replica,
                    -1,
                    None,
                    start,
                    end,
                    -1,
                    replica.file or "",
                    replica.detail or "",
                )
        yield from _merge([fault for fault in self._found.faults if fault.kind == EPOCH_CACHE_LIE])
        yield from (fault for fault in self._found.faults if fault.kind == INDEX_LIE)

    def _own(self, fault: Fault) -> Finding:
        return self._finding(fault, fault.detail)

    def _finding(self, fault: Fault, why: str) -> Finding:
        path = self._path(fault)
        remedy = REMEDIES[fault.kind].format(replica=fault.replica, directory=self._directory(fault.replica), file=path)
        epoch = fault.epoch if fault.epoch >= 0 else None
        evidence = Evidence(fault.replica, path, fault.position, fault.detail, epoch)
        return Finding(
            fault.kind,
            self._topic,
            self._partition,
            (fault.replica,),
            fault.first,
            fault.last,
            fault.replica,
            why,
            remedy,
            (evidence,),
            fault.count,
        )

    # -- what replicas show of each other

    def _mismatch(self, mismatch: Mismatch) -> Finding:
        wrong, why = self._culprit(mismatch)
        why += "; compared by records, as replicas were cleaned there" if mismatch.of_records else ""
        checksum = "hash" if mismatch.of_records else "CRC"
        evidence = tuple(
            Evidence(
                view.replica,
                str(self._directory(view.replica) / segment_file_name(view.segment, ".log")),
                view.position,
                f"offsets {mismatch.first} to {view.last_offset}, epoch {view.epoch}, "
                f"{checksum} {view.crc & 0xFFFFFFFF:08x}, {view.size} bytes",
                view.epoch,
            )
            for view in mismatch.views
        )
        remedy = UNDECIDED
        if wrong is not None:
            remedy = REMEDIES[mismatch.kind].format(replica=wrong, directory=self._directory(wrong), file="")
        return Finding(
            mismatch.kind,
            self._topic,
            self._partition,
            tuple(view.replica for view in mismatch.views),
            mismatch.first,
            mismatch.last,
            wrong,
            why,
            remedy,
            evidence,
            mismatch.count,
        )

    def _culprit(self, mismatch: Mismatch) -> tuple[int | None, str]:
        """Who is wrong: one that contradicts itself, else the minority, else the one with the older epoch."""
        involved = {view.replica for view in mismatch.views}
        contradicted = {
            fault.replica
            for fault in self._found.faults
            if fault.replica in involved
            and (fault.kind == EPOCH_CACHE_LIE or (fault.kind == INDEX_LIE and fault.file == DIGEST_SUFFIX))
            and fault.first <= mismatch.last
            and fault.last >= mismatch.first
        }
        if len(contradicted) == 1:
            wrong = contradicted.pop()
            return wrong, f"replica {wrong}'s own digest index or epoch checkpoint contradicts its batches"
        common = set.intersection(*map(set, mismatch.pairs))
        if len(mismatch.pairs) > 1 and len(common) == 1:
            wrong = common.pop()
            others = {replica for pair in mismatch.pairs for replica in pair} - {wrong}
            return wrong, f"{replica_names(others)} agree, {replica_names([wrong])} is alone"
        groups = Counter((view.last_offset, view.epoch, view.crc, view.size) for view in mismatch.views)
        most = groups.most_common()
        if most[0][1] > (most[1][1] if len(most) > 1 else 0):
            outvoted = [
                view.replica
                for view in mismatch.views
                if (view.last_offset, view.epoch, view.crc, view.size) != most[0][0]
            ]
            agree = [view.replica for view in mismatch.views if view.replica not in outvoted]
            return outvoted[
                0
            ], f"{replica_names(agree)} agree, {replica_names(outvoted)} {'is' if len(outvoted) == 1 else 'are'} alone"
        epochs = {view.epoch for view in mismatch.views}
        oldest = [view.replica for view in mismatch.views if view.epoch == min(epochs)]
        if len(epochs) > 1 and len(oldest) == 1:
            return oldest[0], f"replica {oldest[0]} holds the older leader epoch: it kept what a newer leader replaced"
        return None, "the replicas are evenly split and none contradicts itself"

    def _unexplained(self, interval: Interval) -> Finding:
        r1, r2 = interval.replicas
        what = "bytes" if interval.kind == "bytes" else "digest"
        why = (
            f"{what} over offsets {interval.first} to {interval.last}: {interval.values[0]} in replica {r1}, "
            f"{interval.values[1]} in replica {r2}, yet their batches agree: one of the indexes is wrong"
        )
        remedy = f"Rebuild the indexes of this partition on brokers {r1} and {r2} (remove them, start the broker)."
        place = (self._topic, self._partition, (r1, r2), interval.first, interval.last)
        return Finding(INDEX_LIE, *place, None, why, remedy)

    def _directory(self, replica: int) -> Path:
        """The partition's, in whichever log directory of that broker it is."""
        paths = [directory / f"{self._topic}-{self._partition}" for directory in self._directories[replica]]
        return next((path for path in paths if path.is_dir()), paths[0])

    def _path(self, fault: Fault) -> str:
        if fault.file.startswith("."):
            return str(self._directory(fault.replica) / segment_file_name(fault.segment, fault.file))
        return fault.file or str(self._directory(fault.replica))


def _divergences(mismatches: list[Mismatch]) -> list[Mismatch]:
    """Join runs that overlap if one replica is part of every disagreement: where others begin or cut their batches
    elsewhere, the same divergence shows again further on."""
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


def _merge(faults: list[Fault]) -> list[Fault]:
    """Join faults of one replica that adjoin."""
    merged: list[Fault] = []
    for fault in sorted(faults, key=lambda f: (f.replica, f.first)):
        before = merged[-1] if merged else None
        if before and before.replica == fault.replica and fault.first <= before.last + 1:
            merged[-1] = replace(before, last=max(before.last, fault.last), count=before.count + fault.count)
        else:
            merged.append(fault)
    return merged


def _repeats(fault: Fault) -> bool:
    return fault.kind == GAP and fault.detail.startswith(REPEATED)


def _overlap(one: Fault, other: Fault) -> bool:
    return one.first <= other.last and other.first <= one.last


def _leads_to(finding: Finding, interval: Interval) -> bool:
    """Whether indexes may differ because of `finding`: what it broke in a replica shifts later sums of that replica."""
    involved = finding.wrong in interval.replicas or (finding.wrong is None and bool(finding.replicas))
    last = max(interval.first, interval.last)  # a replica that has offsets twice may contradict itself at one of them
    return involved and (finding.first is None or finding.first <= last)


def _makes_lie(hole: Fault, lie: Fault) -> bool:
    """Whether an index or epoch checkpoint is wrong only because batches are gone or rotten, or lie elsewhere now."""
    if hole.replica != lie.replica:
        return False
    if lie.kind == INDEX_LIE:
        return hole.kind == GAP and hole.first <= lie.last
    return hole.first <= lie.last + 1 and lie.first <= hole.last  # an epoch may begin behind the log end now


def _explains(finding: Finding, lie: Fault) -> bool:
    """Whether an index or epoch checkpoint disagrees with its log only because of `finding` in the same replica."""
    if lie.replica not in finding.replicas:
        return False
    if finding.first is None or finding.last is None or finding.kind == UNREADABLE:
        return False
    if finding.kind in (VALUE_MISMATCH, EPOCH_MISMATCH) and finding.wrong not in (None, lie.replica):
        return False
    if finding.first <= lie.last and finding.last >= lie.first:
        return True
    shifted = finding.kind in (COMMITTED_LOSS, GAP) or lie.file == DIGEST_SUFFIX
    return lie.kind == INDEX_LIE and shifted and finding.first <= lie.last
