"""The results of many seeds: totals, and faults by kind."""

from collections import Counter
from dataclasses import dataclass, field

from replog.simulator.simulation import SeedOutcome

SHOWN_STEPS = 10


@dataclass(slots=True)
class SeedTotals:
    profile: str
    first_seed: int
    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    virtual_s: float = 0.0
    steps: int = 0
    operations: int = 0
    acknowledged: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    longest_wait_s: float = 0.0
    longest_steps: dict[str, tuple[float, str]] = field(default_factory=dict)  # keys: callers
    faults: Counter[str] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: SeedOutcome) -> None:
        self.seeds += 1
        if outcome.failed:
            self.failed.append(outcome.seed)
        self.virtual_s += outcome.virtual_s
        self.steps += outcome.steps
        self.operations += outcome.operations
        self.acknowledged += outcome.acknowledged
        self.cpu_s += outcome.cpu_s
        self.faults.update(outcome.faults)
        self.exercised.update(outcome.exercised)
        self.longest_wait_s = max(self.longest_wait_s, outcome.longest_wait_s)
        for callers, (seconds, text) in outcome.longest_steps.items():
            if seconds > self.longest_steps.get(callers, (0.0, ""))[0]:
                self.longest_steps[callers] = seconds, f"{text} (seed {outcome.seed})"

    def figures(self) -> dict[str, str]:
        seeds = max(1, self.seeds)
        return {
            "seeds": f"{self.seeds} from {self.first_seed} on",
            "failed": ", ".join(map(str, sorted(self.failed))) or "none",
            "simulated hours": f"{self.virtual_s / 3600:.2f}",
            "events": f"{self.steps:,}",
            "events a second of CPU": f"{self.steps / max(self.cpu_s, 1e-9):,.0f}",
            "client operations": f"{self.operations:,}",
            "records acknowledged": f"{self.acknowledged:,}",
            "longest wait where a majority could serve": f"{self.longest_wait_s:.1f} s",
            "CPU a seed": f"{self.cpu_s / seeds:.2f} s",
            "took": f"{self.wall_s:.0f} s",
        }

    def waits(self) -> list[str]:
        """Return the steps that made a loop wait longest for its disk, the longest first."""
        return [text for _, text in sorted(self.longest_steps.values(), reverse=True)[:SHOWN_STEPS]]

    def plain(self) -> dict[str, object]:
        return {
            "profile": self.profile,
            "first_seed": self.first_seed,
            "seeds": self.seeds,
            "failed": sorted(self.failed),
            "virtual_s": round(self.virtual_s, 3),
            "events": self.steps,
            "operations": self.operations,
            "acknowledged": self.acknowledged,
            "longest_wait_s": self.longest_wait_s,
            "longest_steps": self.waits(),
            "cpu_s": round(self.cpu_s, 3),
            "wall_s": round(self.wall_s, 3),
            "faults": dict(sorted(self.faults.items())),
            "exercised": dict(sorted(self.exercised.items())),
        }
