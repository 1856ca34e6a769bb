"""Checks one incarnation of a broker after each of its steps; only what the step touched is looked at."""

from collections.abc import Collection, Iterable
from pathlib import Path

from leader.isr import IsrState
from replog.log.offsets import NO_EPOCH
from replog.metadata.values import NO_BROKER_EPOCH
from replog.server.broker.broker import Broker
from replog.simulator.checks.beliefs import check_beliefs, check_expansion, check_exposure, check_flushed
from replog.simulator.checks.commitment import check_log_start, follow_high_watermark, follow_stable, take_leadership
from replog.simulator.checks.compaction import check_cleaning
from replog.simulator.checks.in_sync import check_in_sync
from replog.simulator.checks.log_checks import follow_log, follow_move
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.roles import check_log_epochs, check_zombies, follow_role
from replog.simulator.checks.seen_replica import Registrations, SeenReplica
from replog.simulator.checks.waiting import Waiting
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import DEAD, SimulatedProcess
from replog.topic import TopicPartition

PURGATORY_STEPS = 16  # the fewest steps between two looks at the delayed operations
ROWS_A_STEP = 4  # delayed operations that are looked at for each step, on average
SHOWN = 10  # partitions in a message
UNTOUCHED_STEPS = 500  # steps between two looks at every replica, touched or not

PartitionOf = dict[tuple[TopicPartition, bytes], PartitionLedger]


class BrokerCheck:
    """`after_step` is called after each step of `process`."""

    def __init__(
        self,
        broker_id: int,
        broker: Broker,
        process: SimulatedProcess,
        partitions: PartitionOf,
        world: SimulatedCluster,
    ) -> None:
        self._broker_id = broker_id
        self._manager = broker.manager
        self._process = process
        self._partitions = partitions
        self._world = world
        self._hosted = broker.manager.replicas.hosted
        self._replicas: dict[TopicPartition, SeenReplica] = {}
        self._by_directory: dict[Path, SeenReplica] = {}
        self._image = broker.manager.context.image
        self._version = -1  # the image's, when it was last looked at
        self._registered: Registrations = {}
        self._waiting = Waiting(broker_id, broker.manager, process, world)
        self._steps = self._next_rows = 0  # the steps so far, and at the next look at delayed operations

    def after_step(self, touched: Collection[Path] | None = None) -> None:
        """Check the replicas whose directories are in `touched`; None: all of them.

        Every `UNTOUCHED_STEPS` all are checked, otherwise a change that `Touched` misses would go unnoticed."""
        self._steps += 1
        if self._steps >= self._next_rows and self._process.state is not DEAD:  # a kill stops a process in mid-step
            self._next_rows = self._steps + max(PURGATORY_STEPS, self._waiting.check() // ROWS_A_STEP)
        if self._image.version != self._version:
            self._version = self._image.version
            self._note_registrations()
            self._check_topics()
        if len(self._hosted) != len(self._replicas):
            self._take_stock()
        if touched is None:
            self._look_at(self._replicas.values())
            return
        if touched:
            replicas = [self._by_directory[directory] for directory in touched if directory in self._by_directory]
            if len(replicas) < len(touched):
                self._take_stock()  # a replica moved to another directory, or replaced one that has gone
            self._look_at(replicas if len(replicas) == len(touched) else self._replicas.values())
        if self._steps % UNTOUCHED_STEPS == 0 and (changed := self._look_at(self._replicas.values())):
            raise Violation("defect", f"changed, and checks/touched.py did not notice: {', '.join(map(str, changed))}")

    def look_at_all(self) -> None:
        """Check every replica at any moment, but no delayed operations: a broker may be paused or busy."""
        self._take_stock()
        self._look_at(self._replicas.values())

    def _look_at(self, replicas: Iterable[SeenReplica]) -> list[SeenReplica]:
        """Check the replicas that changed since the last look, and return them."""
        changed: list[SeenReplica] = []
        for replica in list(replicas):
            hosted = replica.hosted
            if self._hosted.get(hosted.topic_partition) is not hosted:
                self._take_stock()
                return [*changed, *self._look_at(self._replicas.values())]
            log, leader = replica.log, hosted.leader
            role = leader or hosted.follower
            if (
                log is not hosted.log
                or log.log_end_offset != replica.end
                or log.high_watermark != replica.high_watermark
                or log.log_start_offset != replica.start
                or log.epochs.latest is not replica.latest
                or log.generation != replica.generation
                or role is not replica.role
                or (role is not None and role.leader_epoch != replica.epoch)
                or (leader is not None and leader.state is not replica.state)
                or (replica.compacted and log.segments[:-1] != replica.sealed)
            ) and self._changed(replica):
                changed.append(replica)
        return changed

    def _note_registrations(self) -> None:
        """Note when this broker learned of each other broker's present incarnation (INV-20)."""
        for broker_id, broker in self._image.brokers.items():
            known = self._registered.get(broker_id)
            if known is None or known[0] != broker.broker_epoch:
                self._registered[broker_id] = broker.broker_epoch, self._manager.context.clock.monotonic_ms()

    def _check_topics(self) -> None:
        """CT-19: this broker has missed no deletion."""
        known, there = self._image, self._world.image
        if there is None or there.version != known.version:
            return
        if known.partitions.keys() != there.partitions.keys() or known.topics != there.topics:
            others = ", ".join(map(str, sorted(known.partitions.keys() ^ there.partitions.keys())[:SHOWN]))
            raise Violation(
                "CT-19",
                f"broker {self._broker_id} and the controller, both at version {known.version}, know different topics, "
                f"or partitions: {others}",
            )

    def _take_stock(self) -> None:
        """Follow replicas that came or went. One that went was deleted with its topic, or moved to another broker."""
        known, self._replicas = self._replicas, {}
        for tp, hosted in self._hosted.items():
            replica = known.get(tp)
            if replica is not None and replica.hosted is hosted:
                self._replicas[tp] = known.pop(tp)
            else:
                self._replicas[tp] = self._first_seen(tp, hosted.topic_id)
        self._by_directory = {replica.hosted.log.directory: replica for replica in self._replicas.values()}
        for replica in known.values():
            partition = self._partition(replica.hosted.topic_partition, replica.hosted.topic_id)
            if partition.replicas.get(self._broker_id) is replica:
                del partition.replicas[self._broker_id]

    def _partition(self, tp: TopicPartition, topic_id: bytes) -> PartitionLedger:
        partition = self._partitions.get((tp, topic_id))
        if partition is None:
            partition = self._partitions[tp, topic_id] = PartitionLedger(tp)
        return partition

    def _first_seen(self, tp: TopicPartition, topic_id: bytes) -> SeenReplica:
        """Check a replica that was just hosted, also against what an earlier incarnation had, and return it."""
        partition = self._partition(tp, topic_id)
        replica = SeenReplica(
            self._broker_id,
            self._process,
            self._hosted[tp],
            self._registered,
            self._world.losses.get(self._broker_id, 0),
        )
        registered = self._image.broker(self._broker_id)
        replica.broker_epoch = registered.broker_epoch if registered is not None else NO_BROKER_EPOCH
        before = partition.replicas.get(self._broker_id)
        partition.replicas[self._broker_id] = replica
        if replica.log.failure is None:
            follow_log(partition, replica)
            if before is not None:
                _note_losses(partition, before, replica)
                if replica.compacted and replica.losses == before.losses and not before.failed:
                    check_cleaning(
                        partition, replica, before.records, replica.records, below=min(before.end, replica.end)
                    )
        self._changed(replica, first_seen=True)
        return replica

    def _changed(self, replica: SeenReplica, *, first_seen: bool = False) -> bool:
        """Check a replica that the last step changed. Return False if it failed or its process is dead."""
        if replica.failed or self._process.state is DEAD:
            return False
        if replica.log is not replica.hosted.log:
            follow_move(self._partition(replica.hosted.topic_partition, replica.hosted.topic_id), replica)
        partition = self._partition(replica.hosted.topic_partition, replica.hosted.topic_id)
        check_log_start(partition, replica, self._world.history)
        if replica.log.failure is not None:
            replica.failed = True
            return True
        state, high_watermark, epoch = replica.state, replica.high_watermark, replica.epoch
        led_in = epoch if replica.leader is not None else NO_EPOCH
        rewritten = follow_log(partition, replica)
        leads_on, leads_anew = follow_role(partition, replica)
        check_log_epochs(partition, replica)
        check_zombies(partition, replica)
        if replica.leader is None and led_in == NO_EPOCH:
            led_in = _led_meanwhile(replica, epoch)
        if leads_anew:
            take_leadership(partition, replica)
        if replica.log.high_watermark != high_watermark or leads_anew:
            follow_high_watermark(partition, replica, leads_on=leads_on, led_in=led_in, first_seen=first_seen)
        follow_stable(partition, replica, leads_on=leads_on)
        if replica.leader is not None:
            _check_leader(partition, replica, state, high_watermark)
            if replica.high_watermark > high_watermark:
                check_flushed(partition, replica, high_watermark, self._world.unsynced)
        exposed = replica.high_watermark != high_watermark and (replica.leader is not None or led_in != NO_EPOCH)
        if rewritten or first_seen or leads_anew or exposed or replica.state is not state:
            check_in_sync(partition)
        return True


def _led_meanwhile(replica: SeenReplica, since: int) -> int:
    """Return the epoch in which the replica led for a part of one step only, or NO_EPOCH. The epoch cache shows it:
    only leaders note an epoch of which they have no batch (ST-13)."""
    latest = replica.log.epochs.latest
    if latest is None or since == NO_EPOCH:
        return NO_EPOCH
    epoch, start = latest
    return epoch if since < epoch < replica.epoch and start == replica.log.log_end_offset else NO_EPOCH


def _check_leader(
    partition: PartitionLedger, replica: SeenReplica, state: IsrState | None, high_watermark: int
) -> None:
    """Check a leader whose `state` and `high_watermark` were these before the step. If the ISR changed in it too, the
    exposure is not checked: nobody can tell which ISR the high watermark moved with."""
    if replica.state is not state:
        check_expansion(partition, replica)
    elif replica.high_watermark > high_watermark:
        check_exposure(partition, replica)
    check_beliefs(partition, replica)


def _note_losses(partition: PartitionLedger, before: SeenReplica, replica: SeenReplica) -> None:
    """Excuse what is missing until it has been copied again, if a disk lost something or refused the last write. A
    killed process by itself loses nothing."""
    if (replica.losses > before.losses or before.failed) and partition.is_incomplete(replica, before.end, before.chain):
        replica.lost_below = before.end
    if before.lost_below > before.end:
        replica.lost_below = max(replica.lost_below, before.lost_below)
