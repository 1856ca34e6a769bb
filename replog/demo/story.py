"""The whole demo: replicate real records through a crash, prove that nothing was lost, find a flipped bit."""

import asyncio
import shutil
import signal
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from replog.client import Admin
from replog.command.audit_process import AuditRun, run_audit
from replog.command.ending import PROBLEM_FOUND, SPARK, require
from replog.demo import dataset
from replog.demo.traffic import Tracker, drained, produce_through_a_crash, read_back
from replog.errors import ErrorCode
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.files.names import LOG_SUFFIX, base_offset_of
from replog.log.formats.batch import HEADER_SIZE, iterate_batches
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.rpc.tasks import of_commands
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.history import History
from replog.topic import TopicPartition

TOPIC = "flights"
PARTITIONS = 6
BROKERS = 3
CRASH_AFTER = 0.3  # the share of records before the crash
FAILOVER_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0  # the limit for the last stop
SHOWN = 20
FLIPPED = 0x01


class Narrator:
    """Prints to stdout, and keeps the checks that failed."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.failures: list[str] = []
        self._started = monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a spinner on a terminal while a step runs; `done` prints the outcome."""
        self._started = monotonic()
        with self.console.status(title):
            yield

    @contextmanager
    def counted(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar on a terminal while a step runs; yield the function that sets its count."""
        self._started = monotonic()
        with Progress(console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(title, total=total)
            yield lambda count: bar.update(task, completed=count)

    def done(self, outcome: str, holds: bool = True) -> None:
        """Print the last step's outcome. If it does not hold, the demo fails."""
        mark = "[green]✓[/]" if holds else "[red]✗[/]"
        self.console.print(f"{mark} {outcome} [dim]({monotonic() - self._started:.1f} s)[/]", soft_wrap=True)
        if not holds:
            self.failures.append(outcome)

    def tell(self, line: str) -> None:
        """Print something that happens within a step."""
        self.console.print(f"  {line}", soft_wrap=True)


def run(directory: Path | None) -> int:
    """Run the demo. Return 0 if every check held, otherwise 1. All processes that it started are stopped at the end."""
    require(*SPARK)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    home = _home(directory)
    narrator = Narrator()
    story = Story(home, narrator)
    cluster = LocalCluster(home / "cluster", BROKERS)
    try:
        story.tell(cluster)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # otherwise a second signal would leave processes running
        if (home / "cluster" / "cluster.json").exists():
            cluster.down(STOP_TIMEOUT_S)
    if narrator.failures:
        narrator.console.print(f"[red]FAILED[/]: {'; '.join(narrator.failures)}\neverything is kept in {home}")
        return PROBLEM_FOUND
    return 0


def _home(directory: Path | None) -> Path:
    """Return an empty directory. Raises INVALID_REQUEST if `directory` is not empty, OSError."""
    if directory is None:
        base = Path("build/demo").absolute()
        base.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=base, prefix="run-"))
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise ErrorCode.INVALID_REQUEST.error(f"{directory} is not empty; name a new directory")
    return directory.absolute()


class Story:
    """The steps in order, and their facts for the summary."""

    def __init__(self, home: Path, narrator: Narrator) -> None:
        self._home = home
        self._say = narrator
        self._facts: list[tuple[str, str]] = []

    def tell(self, cluster: LocalCluster) -> None:
        """Run all steps. Raises ReplogError or OSError if one cannot go on; the narrator keeps checks that failed."""
        started = monotonic()
        say = self._say
        say.console.print(f"everything of this run lies in {self._home}", soft_wrap=True)
        with say.step("fetching the records"):
            rows = dataset.rows(dataset.load())
        size = sum(map(len, rows))
        say.done(f"{len(rows):,} flights ({size / 1e6:.1f} MB), all different", len(set(rows)) == dataset.ROWS)
        self._facts.append(("records", f"{len(rows):,} ({size / 1e6:.1f} MB)"))
        self._start(cluster)
        tracker = asyncio.run(self._produce(cluster, rows))
        self._compare(cluster, tracker.history)
        damaged = self._stop(cluster, tracker.by_partition())
        data = {broker.node_id: cluster.data_directory(broker.node_id) for broker in cluster.state.brokers}
        reports = [self._audit(data, "index"), self._audit(data, "deep"), self._damage(data, *damaged)]
        self._summarise(reports, monotonic() - started)

    def _start(self, cluster: LocalCluster) -> None:
        with self._say.step("starting a controller and three brokers"):
            cluster.up()
        addresses = ", ".join(broker.address for broker in cluster.state.brokers)
        self._say.done(f"a controller and {BROKERS} brokers serve, each a process: {addresses}")

        async def create() -> None:
            async with Admin(cluster.bootstrap) as admin:
                await admin.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})

        with self._say.step("creating the topic"):
            asyncio.run(create())
            cluster.wait_for_full_isr(TOPIC)
        self._say.done(f"topic {TOPIC}: {PARTITIONS} partitions, 3 replicas each, min.insync.replicas=2")

    async def _produce(self, cluster: LocalCluster, rows: list[bytes]) -> Tracker:
        say, crash_after = self._say, int(len(rows) * CRASH_AFTER)
        victim, led = -1, set[int]()

        async def crash(tracker: Tracker) -> None:
            nonlocal victim, led
            metadata = await of_commands.do(cluster.metadata)
            victim, led = _busiest_leader(metadata, tracker.by_partition())
            await asyncio.to_thread(cluster.kill, victim)
            say.tell(f"{tracker.count:,} acknowledged: killed broker {victim}, leader of {len(led)} partitions")

        async def repair(tracker: Tracker) -> None:
            waiting = led & set(tracker.by_partition())
            async with asyncio.timeout(FAILOVER_TIMEOUT_S):
                while waiting - set(tracker.recovered_s):
                    await asyncio.sleep(0.01)
            failover = max(tracker.recovered_s[partition] for partition in waiting)
            say.tell(f"every partition has a new leader and acknowledges again, {failover:.2f} s after the kill")
            self._facts.append(("failover", f"{failover:.2f} s from the kill to the last partition's next ack"))
            await asyncio.to_thread(cluster.start, victim)
            say.tell(f"broker {victim} is back on its own data")

        with say.counted(f"producing to {TOPIC}", len(rows)) as progress:
            started = monotonic()
            tracker = await produce_through_a_crash(
                cluster.bootstrap, TOPIC, rows, crash_after, crash, repair, progress
            )
            seconds = monotonic() - started
            await of_commands.do(lambda: cluster.wait_for_full_isr(TOPIC))
        acknowledged = f"{tracker.count:,} of {len(rows):,} acknowledged by all in-sync replicas"
        say.done(acknowledged, tracker.count == len(rows))
        self._facts.append(("produced", f"in {seconds:.1f} s, at an even pace, acks=all"))
        return tracker

    def _compare(self, cluster: LocalCluster, history: History) -> None:
        with self._say.counted("reading everything back", len(history.acknowledgements)) as progress:
            read = asyncio.run(read_back(cluster.bootstrap, TOPIC, PARTITIONS, progress))
            history.drained = drained(TOPIC, PARTITIONS, read)
            anomalies = find_anomalies(history)
        kinds = Counter(anomaly.name for anomaly in anomalies)
        words = f"{kinds['unseen']} lost, {kinds['inconsistent-offsets']} different, {kinds['duplicate']} twice"
        self._say.done(f"{len(read):,} records read back and compared by offset: {words}", not anomalies)
        for anomaly in anomalies[:SHOWN]:
            self._say.tell(str(anomaly))
        self._facts.append(("acknowledged = readable", words))

    def _stop(self, cluster: LocalCluster, acknowledged: Counter[int]) -> tuple[int, TopicPartition]:
        """Stop cleanly. Return the partition with most records, and a follower of it."""
        ((busiest, _),) = acknowledged.most_common(1)
        state = next(each for each in _partitions(cluster.metadata()) if each.partition == busiest)
        follower = next(broker for broker in state.replicas if broker != state.leader)
        with self._say.step("stopping the cluster"):
            killed = cluster.down()
        self._say.done(f"stopped cleanly{': not so ' + ', '.join(killed) if killed else ''}", not killed)
        return follower, TopicPartition(TOPIC, busiest)

    def _audit(self, data: dict[int, Path], level: str) -> AuditRun:
        with self._say.step(f"Spark audits the three replicas, level {level}"):
            audit = run_audit(data, level, self._home / "reports" / level)
        verdict = audit.summary.get("verdict")
        self._say.done(f"audit, level {level}: {verdict}", audit.exit_code == 0 and verdict == "CONSISTENT")
        self._facts.append((f"audit, level {level}", f"{verdict} in {audit.seconds:.1f} s"))
        return audit

    def _damage(self, data: dict[int, Path], follower: int, tp: TopicPartition) -> AuditRun:
        """Flip one bit of a copy; the audit must name replica, partition, offset and cause."""
        with self._say.step("copying the replicas and flipping one bit of the copy"):
            copies = {broker: self._home / "damaged" / f"broker-{broker}" for broker in data}
            for broker, copy in copies.items():
                shutil.copytree(data[broker], copy)
            committed = OffsetCheckpoint(copies[follower] / HIGH_WATERMARK_CHECKPOINT).read()[tp]
            flipped = flip_payload_bit(copies[follower] / tp.directory_name, committed)
        place = f"broker {follower}, {tp}, offset {flipped.base_offset}"
        self._say.done(f"one bit flipped in a copy: {place} ({flipped.path.name} at byte {flipped.position})")
        with self._say.step("Spark audits the copy, level deep"):
            audit = run_audit(copies, "deep", self._home / "reports" / "damaged")
        wanted = ("BIT_ROT", follower, TOPIC, tp.partition, flipped.base_offset)
        seen = [_identity(finding) for finding in audit.summary.get("findings", ())]
        findings = "; ".join("{} at broker {}, {}-{}, offset {}".format(*identity) for identity in seen) or "nothing"
        self._say.done(
            f"audit of the copy: {audit.summary.get('verdict')}, {findings}", audit.exit_code == 1 and seen == [wanted]
        )
        self._say.tell(f"without Spark: replog log verify {copies[follower]}")
        self._facts.append(("audit of the damaged copy", f"{findings}, in {audit.seconds:.1f} s"))
        return audit

    def _summarise(self, reports: list[AuditRun], seconds: float) -> None:
        table = Table(show_header=False, title="What was shown", title_justify="left")
        for name, value in [*self._facts, ("in all", f"{seconds:.0f} s")]:
            table.add_row(name, value)
        self._say.console.print(table)
        self._say.console.print(
            f"replicas: {self._home / 'cluster'}, and the damaged copy in {self._home / 'damaged'}", soft_wrap=True
        )
        for report in reports:
            self._say.console.print(f"report: {report.report}", soft_wrap=True)


def _identity(finding: dict[str, Any]) -> tuple[Any, ...]:
    names = ("class", "wrong_replica", "topic", "partition", "first_offset")
    return tuple(finding.get(name) for name in names)


def _partitions(metadata: Any) -> Any:
    (topic,) = (topic for topic in metadata.topics if topic.topic == TOPIC)
    return topic.partitions


def _busiest_leader(metadata: Any, acknowledged: Counter[int]) -> tuple[int, set[int]]:
    """Return the broker that leads most partitions (of several, the one with most records), and what it leads."""
    led: defaultdict[int, set[int]] = defaultdict(set)
    for partition in _partitions(metadata):
        led[partition.leader].add(partition.partition)
    chosen = max(led, key=lambda broker: (len(led[broker]), sum(acknowledged[number] for number in led[broker])))
    return chosen, led[chosen]


class Corruption(NamedTuple):
    """The flipped bit, which an audit must report as that of this batch."""

    path: Path
    position: int  # the byte in the file
    base_offset: int


def flip_payload_bit(replica: Path, below_offset: int) -> Corruption:
    """Flip one bit in the middle of a batch's payload, in the batch in the middle of those below `below_offset`.

    `replica` is a partition's directory, `below_offset` its high watermark, so that the batch is committed. Raises
    ValueError if the replica has no such batch."""
    candidates = [
        (path, start, header)
        for path in sorted(replica.glob(f"*{LOG_SUFFIX}"))
        if base_offset_of(path.name) is not None
        for start, header in iterate_batches(path.read_bytes())
        if header.last_offset < below_offset and header.size > HEADER_SIZE
    ]
    if not candidates:
        raise ValueError(f"{replica} has no batch with a payload below offset {below_offset}")
    path, start, header = candidates[len(candidates) // 2]
    position, content = start + (HEADER_SIZE + header.size) // 2, bytearray(path.read_bytes())
    content[position] ^= FLIPPED
    path.write_bytes(content)
    return Corruption(path, position, header.base_offset)
