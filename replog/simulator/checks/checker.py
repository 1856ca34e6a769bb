"""All checks of one simulation: call `after_step` after every step of a process, `at_the_end` once nothing happens.

A step can only change the state of its own process, so only that is looked at. Each change is compared with the
partition's ledger, which has what every replica holds and ever held."""

from collections.abc import Callable, MutableMapping
from functools import partial
from pathlib import Path

from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration, PartitionState, Topic
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.checks.broker_check import BrokerCheck
from replog.simulator.checks.in_sync import check_in_sync, check_somebody_has_all
from replog.simulator.checks.metadata_records import check_active, follow_record
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.quiescence import check_quiescence
from replog.simulator.cluster.simulated_cluster import SimulatedCluster
from replog.simulator.history import Outcome
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import CONTROLLER, DEAD, SimulatedProcess
from replog.topic import TopicPartition


class Checker:
    """Raises `Violation`. `partitions` has topic ids in its keys, since a deleted topic's name may come again."""

    def __init__(
        self,
        world: SimulatedCluster,
        *,
        eligible_leader_replicas: bool = True,
        asks_all: Callable[[str], bool] = lambda _: False,
        touched: MutableMapping[Path, None] | None = None,
    ) -> None:
        """`asks_all(topic)` goes to `follow_record`. If `touched` is None, every step looks at every replica."""
        self.partitions: dict[tuple[TopicPartition, bytes], PartitionLedger] = {}
        self._world = world
        self._eligible_leader_replicas = eligible_leader_replicas
        self._asks_all = asks_all
        self._touched = touched
        self._looks: dict[SimulatedProcess, Callable[[], None]] = {}
        self._brokers: dict[SimulatedProcess, BrokerCheck] = {}
        self._current: dict[TopicPartition, PartitionLedger] = {}  # only topics that the controller has now
        self._recorded: dict[TopicPartition, PartitionState] = {}
        self._topics: tuple[dict[str, Topic], int] = {}, 0  # topics and the number of partitions at the last look
        self._registered: dict[int, BrokerRegistration] = {}
        self._version = 0  # the controller's metadata version at the last look
        self._acknowledged = 0  # how many of the history's acknowledgements are checked

    def after_step(self, process: SimulatedProcess) -> None:
        (self._looks.get(process) or self._look_at(process))()
        if self._touched:
            self._touched.clear()

    def before_healing(self) -> None:
        """Check every replica while the faults still last, not only those that a step touched."""
        for process, check in self._brokers.items():
            if process.state is not DEAD:
                check.look_at_all()
        for partition in self._current.values():
            check_in_sync(partition)
            check_somebody_has_all(partition)
        self._after_client_step()
        self.check_history()

    def at_the_end(self) -> None:
        """INV-21: check that all agree. Call it once every fault is over, every broker is back and nobody sends."""
        self._after_client_step()
        check_quiescence(self._world.brokers, self.partitions.values())
        self.check_history()

    def check_history(self) -> None:
        """Raise Violation for anything that clients may not see (INV-17, INV-18)."""
        for partition in self.partitions.values():
            if partition.unclean:
                self._world.history.unclean[partition.topic_partition] = None
        anomalies = find_anomalies(self._world.history)
        if anomalies:
            raise Violation(anomalies[0].invariant, "\n    ".join(map(str, anomalies[:10])))

    def _look_at(self, process: SimulatedProcess) -> Callable[[], None]:
        """Return the check that runs after this and all further steps of the process."""
        look: Callable[[], None] | None = None
        if process.name.startswith(CONTROLLER):
            look = self._after_controller_step
        else:
            for broker_id, broker in self._world.brokers.items():
                if self._world.process_of(broker_id) is process:
                    check = BrokerCheck(broker_id, broker, process, self.partitions, self._world)
                    look, self._brokers[process] = partial(check.after_step, self._touched), check
        if look is None and process.name.startswith("broker"):
            return lambda: None  # its broker is not made yet
        self._looks[process] = look or self._after_client_step
        return self._looks[process]

    # the controller

    def _after_controller_step(self) -> None:
        image = self._world.image
        if image is None or image.version == self._version:
            return
        if image.version < self._version:
            if image.version == 0:
                return  # it has not loaded its store yet
            raise Violation("INV-4", f"the controller had metadata up to {self._version}, and now {image.version}")
        self._version = image.version
        topics, registered = (dict(image.topics), len(image.partitions)), dict(image.brokers)
        if topics != self._topics:
            self._topics = topics
            self._follow_topics(image)
        everybody, self._registered = registered != self._registered, registered
        for tp, state in image.partitions.items():
            known = self._recorded.get(tp)
            changed = state is not known and state != known
            if changed:
                self._recorded[tp] = state
                asks_all = self._asks_all(tp.topic)
                follow_record(self._current[tp], state, image, self._world.losses, asks_all=asks_all)
                check_in_sync(self._current[tp])
            if changed or everybody:
                check_active(self._current[tp], image, last_stays=not self._eligible_leader_replicas)

    def _follow_topics(self, image: MetadataImage) -> None:
        for tp in [tp for tp in self._current if tp not in image.partitions]:
            self._current.pop(tp).deleted = True
            del self._recorded[tp]
        for tp in image.partitions:
            key = tp, image.topics[tp.topic].topic_id
            if key not in self.partitions:
                self.partitions[key] = PartitionLedger(tp)
            partition = self.partitions[key]
            if self._current.get(tp) is not partition:
                self._recorded.pop(tp, None)
                if tp in self._current:
                    self._current[tp].deleted = True
                self._current[tp] = partition

    # clients

    def _after_client_step(self) -> None:
        """INV-12: a record that acks=all acknowledged lies below a high watermark that some leader has had by now.

        Asking the leader that answered would not do: it may be gone, while an exposed high watermark stays so.
        INV-17 checks in the end that the right record lies there."""
        acknowledgements = self._world.history.acknowledgements
        while self._acknowledged < len(acknowledgements):
            send = acknowledgements[self._acknowledged]
            self._acknowledged += 1
            if send.acks != -1 or send.outcome is not Outcome.OK:
                continue
            partition = self._current.get(send.partition)
            if partition is not None and send.offset >= partition.highest:
                partition.fail(
                    "INV-12",
                    f"{send.client} was told that {send.value[:60]!r} is committed at offset {send.offset}, and no "
                    f"leader's high watermark was ever above {partition.highest}",
                )
