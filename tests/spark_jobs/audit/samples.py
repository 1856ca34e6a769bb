"""Audits as they might come out, without Spark: small, with everything in it, and as large as it gets."""

from pathlib import Path

from replog.topic import TopicPartition
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import MEANINGS, REMEDIES, UNDECIDED, AuditFinding, Evidence
from spark_jobs.audit.since import TakenOver
from spark_jobs.replicas.describe import Replica

END = 1_482_310


def sample(*, hostile: str = "") -> Audit:
    """Three brokers, two topics, a finding of every class, lag, an absent replica; `hostile` in every text."""
    replicas = [_replica(n, "flights", p) for n in (1, 2, 3) for p in range(6)]
    replicas += [_replica(n, "payments", p, end=40_212) for n in (1, 2, 3) for p in range(2)]
    replicas += [_replica(n, "audit.log.v2", 0, end=0) for n in (1, 2)]
    replicas = [_behind(replica) for replica in replicas]
    findings = [
        _finding("VALUE_MISMATCH", "flights", 1, 2, 820_114, 820_163, (1, 2, 3), 25, hostile),
        _finding("INDEX_LIE", "flights", 1, 2, 1_100_000, 1_100_079, (2,), 1, hostile),
        _finding("EPOCH_CACHE_LIE", "flights", 2, 1, 400_000, 700_000, (1,), 1, hostile),
        _finding("BIT_ROT", "flights", 4, 3, 77_120, 77_121, (3,), 1, hostile),
        _finding("BIT_ROT", "flights", 4, 3, 78_120, 78_121, (3,), 1, hostile),
        _finding("COMMITTED_LOSS", "payments", 0, 3, 36_000, 40_211, (3,), 1, hostile),
        _finding("EPOCH_MISMATCH", "payments", 0, None, 20_000, 20_199, (1, 2), 1, hostile),
        _finding("GAP", "payments", 0, 1, 12, 14, (1,), 1, hostile),
        _finding("UNREADABLE", "payments", 1, 2, None, None, (2,), 1, hostile),
    ]
    epochs = {("flights", 1, n): ((1, 0), (2, 300_000), (4, 820_114), (5, 1_300_000)) for n in (1, 3)}
    epochs["flights", 1, 2] = ((1, 0), (2, 300_000), (3, 820_114), (5, 1_300_000))
    epochs |= {("payments", 0, n): tuple((e, 1000 * e) for e in range(1, 36)) for n in (1, 2)}
    epochs["payments", 0, 3] = tuple((e, 1000 * e) for e in range(1, 34))
    epochs |= {("flights", 2, n): ((1, 0), (2, 400_000), (3, 700_000 + 50_000 * (n == 1))) for n in (1, 2, 3)}
    return Audit(
        level="index",
        directories={n: (Path(f"/var/lib/replog/{n}"), Path(f"/mnt/{n}{hostile}")) for n in (1, 2, 3)},
        replicas=replicas,
        findings=findings,
        seconds={"describe": 1.94, "indexes": 6.31, "headers": 2.02, "epochs": 0.9},
        bytes_read={"indexes": 5_320_411, "headers": 880_012},
        epochs=epochs,
        where="broker-1:9092" + hostile,
        taken=TakenOver({TopicPartition("flights", 0): 1_000}, {TopicPartition("flights", 1): f"of another{hostile}"}),
    )


def consistent() -> Audit:
    """Nothing to say but that all is well."""
    replicas = [_replica(n, "flights", p) for n in (1, 2, 3) for p in range(2)]
    directories = {n: (Path(f"/data/{n}"),) for n in (1, 2, 3)}
    return Audit("deep", directories, replicas, [], seconds={"describe": 1.0}, where=directories)


def inconclusive() -> Audit:
    """A log directory that cannot be read."""
    unreadable = _finding("UNREADABLE", "", -1, 2, None, None, (2,), 1, "")
    broken = Replica(2, "", -1, 0, None, 0, 0, 0, "UNREADABLE", "/data/2", "garbage")
    return Audit(
        "digest", {n: (Path(f"/data/{n}"),) for n in (1, 2)}, [_replica(1, "flights", 0), broken], [unreadable]
    )


def large(partitions: int = 10_000, findings: int = 1_000) -> Audit:
    """Three replicas of each partition in topics of 40; findings spread over all of them."""
    names = [(f"topic-{p // 40:03}", p % 40) for p in range(partitions)]
    replicas = [_replica(n, topic, p, end=END - (n == 3 and p % 7 == 0)) for topic, p in names for n in (1, 2, 3)]
    kinds = [kind for kind in MEANINGS if kind != "UNREADABLE"]
    step = max(1, partitions // findings)
    spread = [
        _finding(
            kinds[i % len(kinds)], *names[i * step % partitions], 1 + i % 3, 1000 * i, 1000 * i + 9, (1, 2, 3), 5, ""
        )
        for i in range(findings)
    ]
    spread.sort(key=lambda finding: (finding.topic, finding.partition))
    epochs = {(topic, p, n): tuple((e, 1000 * e) for e in range(1, 200)) for topic, p in names[:100] for n in (1, 2, 3)}
    return Audit("deep", {n: (Path(f"/data/{n}"),) for n in (1, 2, 3)}, replicas, spread, epochs=epochs)


def _replica(number: int, topic: str, partition: int, end: int = END) -> Replica:
    return Replica(number, topic, partition, 0, end, end, 96 * end, 1 + end // 400_000)


def _behind(replica: Replica) -> Replica:
    """Some lag, and some high watermarks that are behind."""
    behind = {(1, "flights", 3): (12_400, 12_450), (2, "flights", 3): (3, 40), (3, "flights", 5): (0, 17)}
    behind[3, "payments", 0] = (4_212, 0)
    end, mark = behind.get((replica.replica, replica.topic, replica.partition), (0, 0))
    log_end, start = replica.log_end - end, 250_000 if (replica.replica, replica.partition) == (2, 5) else 0
    high_watermark = (
        None if (replica.replica, replica.topic, replica.partition) == (2, "payments", 1) else (replica.log_end - mark)
    )
    place = (replica.replica, replica.topic, replica.partition)
    return Replica(*place, start, high_watermark, log_end, 96 * (log_end - start), replica.segments)


def _finding(
    kind: str,
    topic: str,
    partition: int,
    wrong: int | None,
    first: int | None,
    last: int | None,
    replicas: tuple[int, ...],
    batches: int,
    hostile: str,
) -> AuditFinding:
    directory = f"/var/lib/replog/{wrong or 1}/{topic}-{partition}{hostile}"
    remedy = REMEDIES[kind].format(replica=wrong, directory=directory, file=f"{directory}/00000000000000000000.index")
    evidence = tuple(
        Evidence(
            n,
            f"/var/lib/replog/{n}/{topic}-{partition}{hostile}/00000000000000800000.log",
            None if first is None else 77 * (first % 90_000),
            f"offsets {first} to {last}, epoch {4 - (n == wrong)}, CRC {0x5BD1E995 * (1 + (n == wrong)):08x}{hostile}",
            None if first is None else 4 - (n == wrong),
        )
        for n in replicas
    )
    others = [n for n in (1, 2, 3) if n != wrong]
    why = f"replicas {others[0]} and {others[1]} agree, replica {wrong} is alone{hostile}"
    if wrong is None:
        why, remedy = f"the replicas are evenly split and none contradicts itself{hostile}", UNDECIDED
    return AuditFinding(kind, topic, partition, replicas, first, last, wrong, why, remedy, evidence, batches)
