"""Reports unavailability by kind of fault."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replog.simulator.history import Outcome, ProducerSend


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault: the times when it began, was mended, and everything was in sync again, as in the history."""

    kind: str
    begun: float
    mended: float
    in_sync: float
    longest_wait_s: float  # the longest of records sent meanwhile that were acknowledged
    acknowledged: int
    failed: int  # records that the producer gave up

    @classmethod
    def of(cls, kind: str, begun: float, mended: float, in_sync: float, sends: Iterable[ProducerSend]) -> "Episode":
        meanwhile = [send for send in sends if begun <= send.invoked_s <= in_sync]
        waits = [
            send.completed_s - send.invoked_s
            for send in meanwhile
            if send.outcome is Outcome.OK and send.completed_s is not None
        ]
        failed = sum(send.outcome in (Outcome.FAILED, Outcome.UNKNOWN) for send in meanwhile)
        return cls(kind, begun, mended, in_sync, max(waits, default=0.0), len(waits), failed)


def table(episodes: Sequence[Episode]) -> str:
    """Return a table in Markdown, with the worst kinds first."""
    kinds: dict[str, list[Episode]] = {}
    for episode in episodes:
        kinds.setdefault(episode.kind, []).append(episode)
    rows = sorted(kinds.items(), key=lambda item: -max(episode.longest_wait_s for episode in item[1]))
    lines = [
        "| fault | times | held, s | longest wait for an acknowledgement, s | worst | in sync after, s | failed |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, of_kind in rows:
        held = statistics.median(episode.mended - episode.begun for episode in of_kind)
        waits = [episode.longest_wait_s for episode in of_kind]
        healing = statistics.median(episode.in_sync - episode.mended for episode in of_kind)
        failed = sum(episode.failed for episode in of_kind)
        lines.append(
            f"| {kind} | {len(of_kind)} | {held:.1f} | {statistics.median(waits):.1f} | {max(waits):.1f} | "
            f"{healing:.1f} | {failed} |"
        )
    return "\n".join(lines)
