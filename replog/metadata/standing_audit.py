"""What the audit that goes on all the time (`replog audit follow`) has said last, as every process knows it. Pure."""

from dataclasses import dataclass

from replog.topic import TopicPartition

VERDICTS = ("CONSISTENT", "DIVERGED", "INCONCLUSIVE")
MAX_DIVERGED = 100


@dataclass(frozen=True, slots=True)
class StandingAudit:
    verdict: str  # of VERDICTS
    level: str
    at_ms: int  # since 1970, by the auditor's clock
    verified: tuple[tuple[TopicPartition, int], ...]  # below the offset all replicas were equal; by name
    partitions: int  # that were compared
    diverged: tuple[str, ...]  # MAX_DIVERGED of the partitions with a finding, by name
    diverged_partitions: int  # all of them
    consistent_at_ms: int = 0  # when it last said CONSISTENT; 0: never
