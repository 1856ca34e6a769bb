"""The newest result of the audit that runs all the time (`replog audit follow`), as every process knows it. Pure."""

from dataclasses import dataclass

from replog.topic import TopicPartition

VERDICTS = ("CONSISTENT", "DIVERGED", "INCONCLUSIVE")
MAX_DIVERGED = 100


@dataclass(frozen=True, slots=True)
class StandingAudit:
    verdict: str  # one of VERDICTS
    level: str
    at_ms: int  # milliseconds since 1970, by the auditor's clock
    verified: tuple[tuple[TopicPartition, int], ...]  # below the offset all replicas were equal; sorted by name
    partitions: int  # so many were compared
    diverged: tuple[str, ...]  # partitions with a finding, by name; MAX_DIVERGED of them at most
    diverged_partitions: int  # the number of all of them
    consistent_at_ms: int = 0  # when it last said CONSISTENT; 0: never
