"""Turns faults and disagreements into findings: one for each cause, with a culprit if there is evidence, and a remedy.

Pure: it takes bounded lists from Spark, but needs no Spark itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from replog.config.properties import MAX_LONG
from replog.log.files.names import DIGEST_SUFFIX, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_file_name
from replog.topic import TopicPartition
from spark_jobs.audit.findings import (
    COMMITTED_LOSS,
    EPOCH_MISMATCH,
    REMEDIES,
    REPORTED_AS,
    UNDECIDED,
    VALUE_MISMATCH,
    AuditFinding,
    Evidence,
    Interval,
    Mismatch,
    ReplicaFault,
    Seen,
    replica_names,
)
from spark_jobs.audit.votes import blame
from spark_jobs.replicas.describe import Replica
from spark_jobs.replicas.faults import BIT_ROT, EPOCH_CACHE_LIE, GAP, INDEX_LIE, NO_DIGESTS, REPEATED, UNREADABLE

Item = TypeVar("Item", Replica, ReplicaFault, Mismatch, Interval)

PRODUCERS = (TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
TAIL = -1  # not a segment: offsets are missing after the last one
MORE = "; perhaps more is wrong in its indexes or producer files: follow the remedy, then audit again"


def resolve(directories: Mapping[int, tuple[Path, ...]], replicas: Iterable[Replica], seen: Seen) -> list[AuditFinding]:
    """Return all findings by topic, partition and offset, without those that may be consequences of others."""
    held, faults = _by_partition(replicas), _by_partition(seen.faults)
    mismatches, intervals = _by_partition(seen.mismatches), _by_partition(seen.intervals)
    findings = [
        finding
        for key in {*held, *faults, *mismatches, *intervals}
        for finding in _Resolver(directories, key, held[key], faults[key]).findings(mismatches[key], intervals[key])
    ]
    return sorted(findings, key=lambda f: (f.key, -1 if f.first is None else f.first, f.kind))


class _Resolver:
    def __init__(
        self,
        directories: Mapping[int, tuple[Path, ...]],
        place: TopicPartition,
        replicas: list[Replica],
        faults: list[ReplicaFault],
    ) -> None:
        self._directories = directories
        self._place = place
        self._replicas = {replica.replica: replica for replica in replicas}
        self._faults = faults
        self._rot = [rot for rot in _merge(self._of(BIT_ROT)) if not self._is_leftover(rot)]
        self._gaps = list(self._above_log_start([*self._of(GAP), *self._missing_tails()]))
        self._unknown = [*self._rot, *self._of(UNREADABLE)]
        self._holes = _merge(
            hole
            for hole in self._gaps
            if not any(_overlap(hole, other) for other in self._unknown if other.replica == hole.replica)
        )

    def findings(self, mismatches: list[Mismatch], intervals: list[Interval]) -> Iterator[AuditFinding]:
        unread = [*self._unreadable(), *map(self._own, self._of(NO_DIGESTS))]
        findings = [
            *map(self._hole, self._holes),
            *map(self._own, [*self._above_log_start(self._of(REPEATED)), *self._rot]),
        ]
        for mismatch in _divergences(mismatches):
            findings += [] if self._is_rot(mismatch) else self._mismatch(mismatch)
        lies, unsure = self._lies(findings)
        findings += map(self._own, lies)
        for interval in intervals:
            if not any(_leads_to(finding, interval) for finding in [*unread, *findings]):
                findings.append(self._unexplained(interval))
        end = max((max(r.log_end, r.mark) for r in self._replicas.values() if r.readable), default=0)
        for finding in [*unread, *findings]:
            if finding.first is not None and finding.last is not None and finding.first < end < finding.last:
                finding = replace(finding, last=end - 1)  # a damaged header may name any offset
            more = finding.kind != UNREADABLE and unsure.intersection(_suspects(finding))
            yield replace(finding, why=finding.why + MORE) if more else finding

    def _lies(self, findings: list[AuditFinding]) -> tuple[list[ReplicaFault], set[int]]:
        """Return the faults of indexes, epochs and producer files to report, and the replicas that may have more.

        Where a replica's batches are wrong, and behind that, its indexes are not judged: batches may have moved. Behind
        a hole that nobody fills that is so in its segment alone, since it stays.
        """
        wrong_from: dict[int, int] = defaultdict(lambda: MAX_LONG)
        spots = [(fault.replica, fault.first) for fault in self._of(REPEATED)]
        spots += [(it, f.first) for f in findings if f.kind != GAP for it in _suspects(f) if f.first is not None]
        for replica, first in spots:
            wrong_from[replica] = min(wrong_from[replica], first)
        lies = self._of(INDEX_LIE)
        # A producer that one segment's file has wrong is wrong in the next one's, too.
        judged_in: dict[int, int] = defaultdict(lambda: MAX_LONG)
        for lie in lies:
            if lie.file.endswith(PRODUCERS):
                judged_in[lie.replica] = min(judged_in[lie.replica], lie.segment)

        def is_judged(lie: ReplicaFault) -> bool:
            in_place = not lie.file.endswith(PRODUCERS) or lie.segment == judged_in[lie.replica]
            return in_place and lie.last < wrong_from[lie.replica] and not any(_moves(gap, lie) for gap in self._gaps)

        epochs = [lie for lie in self._wrong_epochs() if not any(_explains(finding, lie) for finding in findings)]
        unsure = {lie.replica for lie in lies if not is_judged(lie)}
        return [*epochs, *self._by_file(filter(is_judged, lies))], unsure

    def _of(self, kind: str) -> list[ReplicaFault]:
        return [fault for fault in self._faults if fault.kind == kind]

    def _above_log_start(self, faults: Iterable[ReplicaFault]) -> Iterator[ReplicaFault]:
        """Yield faults without the part below the replica's log start, which was deleted on purpose."""
        for fault in faults:
            start = self._replicas[fault.replica].log_start if fault.replica in self._replicas else 0
            if fault.last >= start:
                yield replace(fault, first=max(fault.first, start))

    # -- holes

    def _missing_tails(self) -> Iterator[ReplicaFault]:
        """INV-1: yield a fault for each log that ends below its own high watermark: it has lost committed records."""
        for replica in self._replicas.values():
            if replica.readable and replica.log_end < replica.mark:
                detail = f"the log ends at {replica.log_end}, below its own high watermark {replica.mark}"
                offsets = max(replica.log_start, replica.log_end), replica.mark - 1
                yield ReplicaFault(GAP, *self._place, replica.replica, TAIL, None, *offsets, -1, "", detail)

    def _hole(self, hole: ReplicaFault) -> AuditFinding:
        """INV-11: return a loss if another replica has the offsets and they are committed; otherwise a gap."""
        holders = [r for r in self._replicas.values() if r.replica != hole.replica and self._holds(r, hole)]
        committed = max((r.mark for r in self._replicas.values()), default=0)
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
            for other in [*self._holes, *self._unknown]
        )

    # -- faults that a replica shows by itself

    def _unreadable(self) -> Iterator[AuditFinding]:
        whole = set()
        for replica in self._replicas.values():
            if not replica.readable:
                whole.add(replica.replica)
                yield self._about(replica, replica.file or "", f"cannot be read: {replica.detail}")
            elif replica.high_watermark is None and replica.log_end > replica.log_start:
                path = str(self._directory(replica.replica).with_name("replication-offset-checkpoint"))
                why = "no high watermark is known for this replica, so none of its data is known to be committed"
                remedy = f"Let broker {replica.replica} write {path} (every 5 s, and when it stops), then audit again."
                yield replace(self._about(replica, path, why), remedy=remedy)
        for fault in self._of(UNREADABLE):
            if fault.replica not in whole:
                yield self._finding(fault, f"cannot be read: {fault.detail}")

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

    def _wrong_epochs(self) -> Iterator[ReplicaFault]:
        for replica in self._replicas.values():
            if replica.fault == EPOCH_CACHE_LIE:
                start, end = replica.log_start, max(replica.log_start, replica.log_end - 1)
                place = EPOCH_CACHE_LIE, *self._place, replica.replica, -1, None
                yield ReplicaFault(*place, start, end, -1, replica.file or "", replica.detail or "")
        yield from _merge(self._of(EPOCH_CACHE_LIE))

    def _by_file(self, lies: Iterable[ReplicaFault]) -> Iterator[ReplicaFault]:
        """Join the faults of one index file, with offsets of its segment: a wrong entry may name any offset."""
        files: dict[tuple[int, int, str], list[ReplicaFault]] = defaultdict(list)
        for lie in lies:
            end = self._replicas[lie.replica].log_end if lie.replica in self._replicas else MAX_LONG
            if not lie.segment <= lie.first < end:
                lie = replace(lie, first=lie.segment, last=lie.segment)
            files[lie.replica, lie.segment, lie.file].append(lie)
        for one, *others in files.values():
            count = one.count + sum(lie.count for lie in others)
            detail = f"{one.detail} (the first of {count} such faults in this file)" if others else one.detail
            first, last = min(f.first for f in [one, *others]), max(f.last for f in [one, *others])
            yield replace(one, first=first, last=last, count=count, detail=detail)

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
        place = REPORTED_AS.get(fault.kind, fault.kind), *self._place, (fault.replica,), fault.first, fault.last
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
        """Return the replicas whose own indexes or checkpoints contradict their batches there, and not only because
        batches before are gone."""
        derived = (DIGEST_SUFFIX, *PRODUCERS)
        lies = [lie for lie in self._of(INDEX_LIE) if lie.file.endswith(derived)]
        lies = [*self._of(EPOCH_CACHE_LIE), *(lie for lie in lies if not any(_moves(gap, lie) for gap in self._gaps))]
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
            f"Let brokers {r1} and {r2} copy this partition again, the second when the first is back in the ISR: stop "
            "it, move its directory of the partition aside, start it. On Apache Kafka, move only the indexes aside."
        )
        return AuditFinding(INDEX_LIE, *self._place, (r1, r2), first, interval.last, None, why, remedy)

    def _directory(self, replica: int) -> Path:
        """Return the partition's directory in any log directory of that broker."""
        paths = [directory / self._place.directory_name for directory in self._directories[replica]]
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


def _moves(gap: ReplicaFault, lie: ReplicaFault) -> bool:
    """Return True if what an index says may be wrong only because batches are gone."""
    beside = gap.segment in (lie.segment, TAIL, None)  # None: lost records, whose segment is not known
    return gap.replica == lie.replica and (_overlap(gap, lie) or (beside and gap.first <= lie.last))


def _leads_to(finding: AuditFinding, interval: Interval) -> bool:
    """Return True if indexes may differ because of `finding`: the damage shifts later sums of that replica."""
    involved = finding.wrong in interval.replicas or (finding.wrong is None and bool(finding.replicas))
    last = max(interval.first, interval.last)  # offsets that a replica has twice may make `first` the greater
    return involved and (finding.first is None or finding.first <= last + 1)  # a sum ends where the next batch begins


def _explains(finding: AuditFinding, lie: ReplicaFault) -> bool:
    """Return True if an epoch checkpoint only looks wrong because the replica's batches diverge."""
    if finding.kind not in (VALUE_MISMATCH, EPOCH_MISMATCH) or finding.first is None or finding.last is None:
        return False
    return lie.replica in _suspects(finding) and finding.first <= lie.first and lie.last <= finding.last


def _suspects(finding: AuditFinding) -> tuple[int, ...]:
    """Return the replica that is wrong, or those of which one must be."""
    return finding.replicas if finding.wrong is None else (finding.wrong,)


def _by_partition(items: Iterable[Item]) -> dict[TopicPartition, list[Item]]:
    grouped: dict[TopicPartition, list[Item]] = defaultdict(list)
    for item in items:
        grouped[item.key].append(item)
    return grouped
