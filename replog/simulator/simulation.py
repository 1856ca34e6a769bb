"""One seed from start to end: a cluster, clients, faults, repair, the outcome, and what was exercised."""

import re
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import replog.simulator.faults  # noqa: F401 - which register what the nemesis does
from replog.client.admin import Admin
from replog.errors import ErrorCode, ReplogError
from replog.simulator.checks.checker import Checker
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.touched import touched
from replog.simulator.clients.stranger import ACLS
from replog.simulator.clients.workload import Workload
from replog.simulator.cluster.kernel import WORLD, Kernel
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.ending import Ending
from replog.simulator.faults.nemesis import Nemesis
from replog.simulator.history import History, Outcome
from replog.simulator.invariants import Violation
from replog.simulator.leading import ControllersCheck
from replog.simulator.plan import draw
from replog.simulator.profiles import Profile
from replog.simulator.runtime.loop import Stuck
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.serving import Serving

RELEVANT_EVENTS = 60
RARE_NETWORK_EVENTS = frozenset({"network: broken", "network: slow", "network: healed"})
ADMIN_TIMEOUT_MS = 3000
MAX_VIRTUAL_S = 600.0
# Counts that the ledgers of partitions do not have:
COMPARED = "records compared"  # the number that the last readers read
FAULTS, ELECTIONS, UNCLEAN = "faults", "elections", "elections by evidence, or unclean"


@dataclass(slots=True)
class SeedOutcome:
    """The outcome of a seed, of plain values, since it is sent from one process to another."""

    seed: int
    profile: str
    invariant: str = ""  # the violated one, if any
    text: str = ""
    virtual_s: float = 0.0
    steps: int = 0
    operations: int = 0
    acknowledged: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    exercised: dict[str, int] = field(default_factory=dict)
    longest_wait_s: float = 0.0  # the longest wait for an acknowledgement that a majority could have given
    cpu_s: float = 0.0  # filled in by the runner

    @property
    def failed(self) -> bool:
        return bool(self.invariant)


class Simulation:
    """One seed's simulation, to be `run` once. `directory` must be empty, and on a fast disk."""

    def __init__(self, seed: int, profile: Profile, directory: Path, *, messages: bool = False) -> None:
        self.seed = seed
        self.profile = profile
        self.kernel = Kernel(seed, directory)
        self.trace = self.kernel.trace
        self.plan = draw(self.kernel.rng, profile)
        self.kernel.network.weather = self.plan.weather
        self.kernel.network.on_event = self.trace.add_for if messages else self._rare_network_event
        if messages:
            self.kernel.network.on_message = self.trace.add_for
        self.cluster: SimulatedCluster
        self.workload: Workload
        self.checker: Checker
        self.longest_wait_s = 0.0

    def run(self) -> SeedOutcome:
        outcome = SeedOutcome(self.seed, self.profile.name)
        kernel = self.kernel
        with self.trace.capturing_logs(), kernel.disk, touched() as directories:
            try:
                self.cluster = SimulatedCluster(kernel, self.plan)
                self.workload = Workload(kernel, self.plan, self.cluster)
                alone = {tp.topic for tp in self.plan.acknowledged_by_one}
                given_up = alone | {topic.name for topic in self.plan.topics if topic.unclean}
                self.checker = Checker(
                    self.cluster,
                    eligible_leader_replicas=self.plan.eligible_leader_replicas,
                    asks_all=lambda topic: topic not in given_up,
                    touched=directories,
                )
                if self.cluster.etcd is not None:
                    controllers = ControllersCheck(self.cluster.etcd, self.cluster.controller_members)
                    kernel.loop.on_step.append(controllers.after_step)
                kernel.loop.on_step.append(self.checker.after_step)
                story = kernel.loop.spawn(SimulatedProcess(WORLD), self._story())
                failures, defects = kernel.loop.failures, self.trace.defects
                kernel.loop.step_limit_s = self.profile.step_limit_s
                if not kernel.loop.run_until(
                    lambda: bool(failures or defects or kernel.loop.too_long) or story.done(), MAX_VIRTUAL_S
                ):
                    raise Violation("INV-21", f"the simulation is not over after {MAX_VIRTUAL_S:g} virtual seconds")
                for defect in (*failures, *defects):
                    raise Violation("defect", defect)
                if kernel.loop.too_long is not None:
                    limit_ms = self.profile.step_limit_s * 1000
                    raise Violation("loop", f"a step may take {limit_ms:g} ms; it took {kernel.loop.too_long}")
                story.result()
            except Violation as violation:
                outcome.invariant, outcome.text = violation.invariant, self._described(violation)
            except Stuck as error:
                outcome.invariant, outcome.text = "stuck", self._described(Violation("stuck", str(error)))
            except Exception:  # noqa: BLE001 (a defect of the simulation or of a check: the other seeds go on)
                outcome.invariant = "defect"
                outcome.text = self._described(Violation("defect", traceback.format_exc()))
            finally:
                kernel.loop.on_step.clear()
                self.trace.end()
                kernel.loop.dispose()
        history = self.cluster.history
        outcome.virtual_s = round(kernel.loop.time(), 6)
        outcome.steps = kernel.loop.steps
        outcome.operations = len(history.sends) + len(history.reads) + len(history.latest) + len(history.deletions)
        outcome.acknowledged = sum(send.offset >= 0 for send in history.sends)
        faults = sum(self.cluster.faults.values())
        outcome.exercised = exercised(self.checker.partitions.values(), history, faults)
        outcome.longest_wait_s = round(self.longest_wait_s, 3)
        outcome.faults = {kind.value: count for kind, count in sorted(self.cluster.faults.items())}
        outcome.faults |= {f"messages {kind}": count for kind, count in sorted(kernel.network.counts.items())}
        outcome.faults |= {
            f"files: {kind}": count for kind, count in sorted(kernel.disk.counts.items()) if kind != "fsyncs"
        }
        return outcome

    def _rare_network_event(self, source: str, event: str, **details: Any) -> None:
        if event in RARE_NETWORK_EVENTS:
            self.trace.add_for(source, event, **details)

    async def _story(self) -> None:
        cluster, workload = self.cluster, self.workload
        ending = Ending(self.kernel, cluster, workload)
        cluster.start()
        await ending.quiescence("before there are topics")
        await self.kernel.loop.spawn(SimulatedProcess("admin-0"), self._make_topics())
        await ending.quiescence("after the start")
        workload.start()
        nemesis = Nemesis(self.kernel, cluster, workload)
        serving = Serving(self.kernel, cluster, workload)
        self.trace.add("trouble begins", seconds=round(self.plan.trouble_s, 3))
        serving.begin()
        await nemesis.run(self.plan.trouble_s)
        serving.end()
        self.longest_wait_s = serving.longest_s
        self.trace.add("trouble ends")
        self.checker.before_healing()
        cluster.heal()
        await workload.stop_producers()
        await ending.quiescence("after the trouble")
        await ending.drain()
        await ending.quiescence("in the end")  # leaders may have been given back to preferred replicas meanwhile
        self.checker.at_the_end()
        ending.check_truncations()
        await ending.stop_and_compare()

    async def _make_topics(self) -> None:
        for topic in self.plan.topics:
            while True:
                admin = Admin(
                    self.cluster.bootstrap,
                    timeout_ms=ADMIN_TIMEOUT_MS,
                    transport=self.kernel.transport(),
                    rng=self.kernel.stream("making topics"),
                )
                try:
                    if self.profile.permission:
                        await admin.create_acls(ACLS)
                    await admin.create_topic(topic.name, configs=topic.configs, assignment=topic.assignment)
                    break
                except ReplogError as error:  # an answer that was lost makes the second request fail
                    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                        break
                    self.trace.add("create topic failed", error=str(error))
                finally:
                    await admin.close()

    def _described(self, violation: Violation) -> str:
        """Return a text with all that a reader needs: what was seen, the events before, and how to replay it."""
        about = dict.fromkeys(re.findall(r"\bt\d-\d\b|\bbroker-\d+\b", str(violation)))
        events = self.trace.lines(about, RELEVANT_EVENTS)
        return "\n".join(
            [
                str(violation),
                f"the last events about {', '.join(about) or 'anything'}:",
                *events,
                f"replay: replog sim replay --profile {self.profile.name} --seed {self.seed}",
            ]
        )


def simulate(
    seed: int,
    profile: Profile,
    directory: Path,
    *,
    messages: bool = False,
    on_trace: Callable[[list[str]], None] | None = None,
) -> SeedOutcome:
    """Run one seed in `directory`, which is emptied first, and left as the simulated disks are in the end.

    The same seed gives the same outcome and trace."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    simulation = Simulation(seed, profile, directory, messages=messages)
    outcome = simulation.run()
    if on_trace is not None:
        on_trace(simulation.trace.lines())
    return outcome


def exercised(partitions: Iterable[PartitionLedger], history: History, faults: int) -> dict[str, int]:
    """Count how often each kind of event happened."""
    counts = Counter({FAULTS: faults, "refusals": history.denials})
    counts[COMPARED] = sum(len(drained.records) for drained in history.drained.values())
    counts["deletions of records"] = sum(deletion.outcome is Outcome.OK for deletion in history.deletions)
    transactions = {id(send.transaction): send.transaction for send in history.sends}.values()
    counts["transactions"] = sum(each is not None and each.committed is not None for each in transactions)
    for partition in partitions:
        counts += partition.done
        counts[UNCLEAN] += len(partition.unclean)
    return dict(sorted(counts.items()))
