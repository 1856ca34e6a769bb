"""The simulated cluster: its hosts, what may be done to them, and what the checks may see of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from replog.config.processes import BrokerConfig, ControllerConfig
from replog.metadata.image import MetadataImage
from replog.server.broker.broker import Broker
from replog.server.controller.active_controller import ActiveController
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.cluster.members import (
    ETCD,
    ETCD_ADDRESS,
    OTHER_CONTROLLER,
    BrokerMember,
    ControllerMember,
    EtcdMember,
    Member,
)
from replog.simulator.etcd import format_at_once
from replog.simulator.history import History
from replog.simulator.network.links import Weather
from replog.simulator.plan import Plan
from replog.simulator.profiles import FaultKind
from replog.simulator.runtime.process import CONTROLLER, ProcessClock, SimulatedProcess
from replog.topic import TopicPartition

LEASE_S = 2  # the leading controller's, if there are several
WATCH_S = 0.1


class DurabilityBudget:
    """Limits power losses, lost disks and flipped bits to what breaks no promise (docs/simulator.md).

    One broker at a time is harmed: the next when the one before has registered again and every ISR is full. Where every
    topic has flush.messages=1, power losses cost nothing and are not limited.
    """

    def __init__(self, fsync: bool, irreplaceable: Callable[[int], bool] = lambda _: False) -> None:
        """`irreplaceable` returns True for a broker that may be the only one with an acknowledged record."""
        self._fsync = fsync
        self._irreplaceable = irreplaceable
        self.harmed: int | None = None
        self._epoch_then = -1  # the harmed broker's registration is to be newer than this

    def may_harm(self, broker_id: int, *, by_power_loss: bool = False) -> bool:
        if by_power_loss and self._fsync:
            return True
        return self.harmed in (None, broker_id) and not self._irreplaceable(broker_id)

    def harm(self, broker_id: int, image: MetadataImage, *, by_power_loss: bool = False) -> None:
        """Note a loss; `image` is the controller's."""
        if by_power_loss and self._fsync:
            return
        broker = image.broker(broker_id)
        self.harmed = broker_id
        self._epoch_then = max(self._epoch_then, broker.broker_epoch if broker is not None else -1)

    def observe(self, image: MetadataImage) -> None:
        """Forget the harmed broker once everything is whole again. Call it now and then."""
        if self.harmed is None:
            return
        broker = image.broker(self.harmed)
        if broker is None or broker.broker_epoch <= self._epoch_then or not broker.active:
            return
        if all(set(state.isr) == set(state.replicas) for state in image.partitions.values()):
            self.harmed = None


class SimulatedCluster:
    """One controller, or several over an etcd, and brokers. A process that ended is started again after a while."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        self.kernel = kernel
        self.plan = plan
        self.budget = DurabilityBudget(plan.fsync, self._irreplaceable)
        self.faults: Counter[FaultKind] = Counter()
        self.history = History()
        self.members: dict[int, BrokerMember] = {}
        self.last_image = MetadataImage()  # the controller's newest, kept while none runs
        self.losses: Counter[int] = Counter()  # each broker's power losses, wiped disks and flipped bits
        self._restarting = True
        for broker_id, rack in plan.racks.items():
            self.members[broker_id] = self._broker(broker_id, rack)
        self.etcd: EtcdMember | None = None
        if plan.profile.controllers > 1:
            self.etcd = EtcdMember(kernel, self._clock(ETCD))
            format_at_once(self.etcd.state, kernel.stream("cluster id"))
        self.controller_members = [self._controller(name) for name in _controllers(plan)]
        self._decided_last = self.controller_members[0]
        self._last_active: ActiveController | None = None
        self.other_controller: ControllerMember | None = None  # another cluster's, but brokers have its address too
        if FaultKind.OTHER_CONTROLLER in plan.faults:
            self.other_controller = self._controller(OTHER_CONTROLLER)
            self.other_controller.held = True
        for member in self.everyone():
            member.on_end = self._ended
        kernel.loop.on_kill.append(self._on_kill)
        kernel.outside(self._watch, after_s=WATCH_S)

    def _controller(self, name: str) -> ControllerMember:
        where: dict[str, object] = {"metadata.log.dir": str(self.kernel.directory / name)}
        if self.etcd is not None and name != OTHER_CONTROLLER:
            where = {
                "metadata.store": "etcd",
                "metadata.etcd.endpoints": ETCD_ADDRESS,
                "metadata.etcd.lease.seconds": LEASE_S,
            }
        settings = {"listeners": f"{name}:9093", **where, **self.plan.controller_settings}
        config = ControllerConfig.parse(settings, f"simulated {name}")
        return ControllerMember(self.kernel, config, self._clock(name), name)

    def _broker(self, broker_id: int, rack: str) -> BrokerMember:
        name, controllers = f"broker-{broker_id}", _controllers(self.plan)
        if FaultKind.OTHER_CONTROLLER in self.plan.faults:
            controllers.insert(1, OTHER_CONTROLLER)
        config = BrokerConfig.parse(
            {
                "node.id": broker_id,
                "listeners": f"{name}:9092",
                "controller.listener": ",".join(f"{name}:9093" for name in controllers),
                "log.dirs": ",".join(str(self.kernel.directory / name / disk) for disk in self.plan.disks),
                "broker.rack": rack,
                **self.plan.broker_settings,
            },
            name,
        )
        return BrokerMember(self.kernel, config, self._clock(name))

    def _clock(self, name: str) -> ProcessClock:
        rng = self.kernel.stream(f"clock of {name}")
        return ProcessClock(
            self.kernel.loop,
            offset_ms=rng.randrange(1 << 40),
            rate=rng.uniform(0.995, 1.005),
            skew_ms=rng.randint(-1000, 1000),
        )

    # -- what the checks look at

    @property
    def now_s(self) -> float:
        return self.kernel.now_s

    @property
    def brokers(self) -> dict[int, Broker]:
        """The live incarnations, whatever their state."""
        return {broker_id: member.broker for broker_id, member in self.members.items() if member.broker is not None}

    @property
    def controller_member(self) -> ControllerMember:
        """The controller; of several, the one that decides, or did last."""
        for member in self.controller_members if self.etcd is not None else ():
            if self._decides(member):
                self._decided_last = member
        return self._decided_last

    def _believes(self, member: ControllerMember) -> bool:
        """Return True if it believes that it decides: its lease may have been revoked without its knowledge."""
        server = member.server
        if server is None or member.other_store is not None:
            return False
        return self.etcd is None or server.decides

    def _decides(self, member: ControllerMember) -> bool:
        server = member.server
        revoked = server is not None and self.etcd is not None and server.epoch in self.etcd.revoked
        return self._believes(member) and not revoked

    @property
    def controller(self) -> ActiveController | None:
        """The controller that decides; None also while it uses another store than its own: nobody must follow it."""
        member = self.controller_member
        return member.server.controller if member.server is not None and self._decides(member) else None

    @property
    def image(self) -> MetadataImage | None:
        """The controller's image, also after its lease was revoked, and while it stops: it finishes a decision, and may
        still send brokers what it has committed."""
        member = self.controller_member
        if member.server is None or member.other_store is not None:
            return None
        if self._believes(member):
            self._last_active = member.server.controller
        return self._last_active.state.image if self._last_active is member.server.controller else None

    def process_of(self, broker_id: int) -> SimulatedProcess:
        return self.members[broker_id].process

    def unsynced(self, path: Path) -> int | None:
        return self.kernel.disk.unsynced(path)

    # -- life and death

    def everyone(self) -> Iterator[Member]:
        if self.etcd is not None:
            yield self.etcd
        yield from self.controller_members
        if self.other_controller is not None:
            yield self.other_controller
        yield from self.members.values()

    @property
    def bootstrap(self) -> str:
        return ",".join(member.config.listeners for member in self.members.values())

    def start(self) -> None:
        for member in self.everyone():
            if not member.held:
                member.start()

    def _on_kill(self, process: SimulatedProcess) -> None:
        for member in self.everyone():
            member.ended(process)

    def _ended(self, member: Member) -> None:
        if self._restarting:
            self.kernel.outside(self._start_again, member, after_s=self._downtime_s(member))

    def _downtime_s(self, member: Member) -> float:
        rng = self.kernel.stream(f"how long {member.name} is down")
        return rng.choice((0.05, 0.5, 2.0, 6.0)) * rng.random()

    def _start_again(self, member: Member) -> None:
        if self._restarting and not member.up and not member.held:
            member.start()

    def may_lose_power(self, member: BrokerMember) -> bool:
        return member.up and self.budget.may_harm(member.broker_id, by_power_loss=True)

    def lose_power(self, member: BrokerMember) -> None:
        self.harm(member, by_power_loss=True)
        member.power_loss()

    def harm(self, member: BrokerMember, *, by_power_loss: bool = False) -> None:
        """Note that a member's disk will lose something; the budget must allow it."""
        self.budget.harm(member.broker_id, self.last_image, by_power_loss=by_power_loss)
        self.losses[member.broker_id] += 1

    def mount(self, member: BrokerMember) -> None:
        """Mount a member's disks if they are away, and if the budget allows to lose what it has copied since."""
        has_copies = any(path.stat().st_size for disk in member.disks for path in disk.glob("*-*/*.log"))
        if not member.disks_away or (has_copies and not self.budget.may_harm(member.broker_id)):
            return
        if has_copies:
            self.harm(member)
        member.mount(disks=True)

    def _irreplaceable(self, broker_id: int) -> bool:
        """Return True if the broker alone may have an acknowledged record, or may lead whatever its disk lost."""
        if not self.plan.eligible_leader_replicas:
            return True
        image = self.image
        states = [image and image.partitions.get(tp) for tp in self.plan.acknowledged_by_one]
        return not all(state and set(state.isr) - {broker_id} for state in states)

    def release(self, member: Member) -> None:
        """Let a held member start again."""
        member.held = False
        if not member.up:
            self._ended(member)

    def heal(self) -> None:
        """Repair everything that is cut, slow, full, paused or down."""
        self.kernel.network.weather = Weather()
        self.kernel.network.heal_all()
        for controller in self.controller_members:
            controller.store_fails = False
            controller.die_at_commit = ""
            if controller.other_store is not None:
                controller.replace_store(None)
        self.kernel.disk.heal(CONTROLLER)
        for member in self.members.values():
            self.kernel.disk.heal(member.name)
            self.kernel.disk.spare(member.process)
            self.mount(member)
            self.losses[member.broker_id] += member.disks_away  # they are as good as lost
            member.held = False
        for host in self.everyone():
            host.resume()
            self._start_again(host)
        for member in self.members.values():
            member.restart_if_repaired()

    def stop_brokers(self) -> None:
        """Tell each broker to stop, as SIGTERM does; none is started again."""
        self._restarting = False
        for member in self.members.values():
            member.stop()

    # -- its state

    def _watch(self) -> None:
        """Note the controller's image, otherwise the budget would miss when everything is whole again."""
        if (image := self.image) is not None:
            self.last_image = image
            self.budget.observe(self.last_image)
        self.kernel.outside(self._watch, after_s=WATCH_S)

    def leader_of(self, tp: TopicPartition) -> int:
        """Return the leader's id; -1: there is none."""
        state = self.last_image.partitions.get(tp)
        return state.leader if state is not None else -1


def _controllers(plan: Plan) -> list[str]:
    return [CONTROLLER, *(f"{CONTROLLER}-{number}" for number in range(2, plan.profile.controllers + 1))]
