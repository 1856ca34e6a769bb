"""A simulated host: its process is started, dies, and is started again; its directory stays."""

import asyncio
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from replog.config.processes import BrokerConfig, ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.v1 import etcd_pb2, metadata_pb2
from replog.server.broker.broker import Broker
from replog.server.broker.cleaning.cleaning_child import CleaningRequest, Cleanings
from replog.server.broker.process import serve as serve_broker
from replog.server.controller.etcd.client import Keys, only
from replog.server.controller.formatting import format_cluster
from replog.server.controller.process import controller_server
from replog.server.controller.process import serve as serve_controller
from replog.server.controller.server import ControllerServer
from replog.server.controller.sqlite_store import SqliteStore, StoreInThread
from replog.server.work import in_thread
from replog.simulator.cluster.kernel import Kernel
from replog.simulator.etcd import PREFIX, EtcdService, EtcdState
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import CONTROLLER, DEAD, PAUSED, RUNNING, Killed, ProcessClock, SimulatedProcess
from replog.topic import TopicPartition

OTHER_CONTROLLER = f"{CONTROLLER}-of-others"
ETCD = "etcd"
ETCD_ADDRESS = f"{ETCD}:2379"


class Member(ABC):
    """A host with one process on it, or none."""

    def __init__(self, kernel: Kernel, name: str, clock: ProcessClock) -> None:
        self.kernel = kernel
        self.name = name
        self.clock = clock
        self.process = SimulatedProcess(name)
        self.process.state = DEAD
        self.held = False  # a fault works on its disk, and it must not start yet
        self.on_end: Callable[[Member], None] = lambda _: None
        self._told_to_stop = asyncio.Event()

    @property
    def up(self) -> bool:
        """True if it has a process, running or paused."""
        return self.process.state is not DEAD

    @property
    def running(self) -> bool:
        return self.process.state is RUNNING

    @property
    def paused(self) -> bool:
        return self.process.state is PAUSED

    def start(self) -> None:
        assert not self.up, f"{self.name} runs already"
        self.process = SimulatedProcess(self.name)
        self._told_to_stop = asyncio.Event()
        self.kernel.trace.add_for(self.name, "starting")
        self.kernel.loop.spawn(self.process, self._live(self.process))

    async def _live(self, process: SimulatedProcess) -> None:
        try:
            await self._run()
            how = "ended"
        except ReplogError as error:
            how = f"failed: {error}"
            self._check_failure(error)
        except Exception as error:  # noqa: BLE001 (a real process would end with a traceback)
            how = f"crashed: {error!r}"
            self.kernel.trace.defect("the process crashed", {}, error)
        self.kernel.outside(self._exit, process, how)

    def _exit(self, process: SimulatedProcess, how: str) -> None:
        if process.state is not DEAD:
            self.kernel.trace.add_for(self.name, "exit", how=how)
            self.kernel.loop.kill(process)

    def kill(self) -> None:
        if self.up:
            self.kernel.trace.add_for(self.name, "killed")
            self.kernel.loop.kill(self.process)

    def pause(self) -> None:
        self.kernel.trace.add_for(self.name, "paused")
        self.kernel.loop.pause(self.process)

    def resume(self, process: SimulatedProcess | None = None) -> None:
        """Resume `process` if it is still there and paused; None: whichever process is."""
        if self.paused and process in (None, self.process):
            self.kernel.trace.add_for(self.name, "resumed")
            self.kernel.loop.resume(self.process)

    def stop(self) -> None:
        """Tell the process to stop, as SIGTERM does."""
        if self.up:
            self.kernel.trace.add_for(self.name, "told to stop")
            self._told_to_stop.set()

    def ended(self, process: SimulatedProcess) -> None:
        """Release what the process held. Called once it is dead, however it died."""
        if process is self.process:
            self._release()
            self.on_end(self)

    @abstractmethod
    async def _run(self) -> None: ...

    def _release(self) -> None:  # noqa: B027 (some hold nothing)
        """Let go of what a dead process held."""

    def _check_failure(self, error: ReplogError) -> None:  # noqa: B027 (most have every reason)
        """Note a defect if the process had no reason to end like this."""


class BrokerMember(Member):
    def __init__(self, kernel: Kernel, config: BrokerConfig, clock: ProcessClock) -> None:
        super().__init__(kernel, f"broker-{config.node_id}", clock)
        self.broker_id = config.node_id
        self.config = config
        self.broker: Broker | None = None
        self.disks_away = False
        self.disk_trouble = False  # True: its disk has given it a reason to stop

    @property
    def disks(self) -> tuple[Path, ...]:
        own = self.config.log_dirs
        return tuple(disk.with_name(f"beneath-{disk.name}") for disk in own) if self.disks_away else own

    def mount(self, *, disks: bool) -> None:
        """Kill it; its next start finds its disks, or empty directories beneath."""
        self.kill()
        if self.disks_away:
            for disk in self.disks:
                shutil.rmtree(disk, ignore_errors=True)
        self.disks_away = not disks

    def replica(self, tp: TopicPartition) -> Path:
        """Return the only directory that holds the partition's log; raise Violation unless there is exactly one."""
        paths = [path for disk in self.disks if (path := disk / tp.directory_name).exists()]
        if len(paths) != 1:
            raise Violation("7.7", f"{self.name} has {tp} in {len(paths)} directories: {', '.join(map(str, paths))}")
        return paths[0]

    def restart_if_repaired(self) -> None:
        """Restart the broker if a directory went offline, as its operator does once the disk is repaired."""
        logs = self.broker.logs if self.broker is not None else None
        if logs is not None and logs.working != logs.directories:
            self.stop()

    def start(self) -> None:
        self.disk_trouble = self.kernel.disk.failing(self.name)
        super().start()

    async def _run(self) -> None:
        kernel = self.kernel
        rng = kernel.stream(f"{self.name} itself")
        config = self.config.model_copy(update={"log_dirs": self.disks})
        self.broker = broker = Broker(config, kernel.transport(), self.clock, rng, SimulatedCleaning())
        await serve_broker(broker, lambda: None, self._told_to_stop)
        if broker.failed:
            await broker.wait()  # raises the cause

    def _release(self) -> None:
        self.broker = None

    def _check_failure(self, error: ReplogError) -> None:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR and not self.disk_trouble:
            self.kernel.trace.defect("stopped because of a disk that is sound", {}, error)

    def power_loss(self) -> None:
        """Cut the host's power: peers hear nothing of it, and what was not flushed may be gone."""
        self.kernel.trace.add_for(self.name, "power lost")
        self.kernel.loop.kill(self.process, power_loss=True)
        self.kernel.disk.power_loss(self.disks[0], self.kernel.stream(f"{self.name} power loss"))


class EtcdMember(Member):
    """An etcd on one host: it may be down, slow or cut off, but loses nothing."""

    def __init__(self, kernel: Kernel, clock: ProcessClock) -> None:
        super().__init__(kernel, ETCD, clock)
        self.state = EtcdState()
        self.revoked: set[int] = set()  # epochs of controllers whose lease was revoked

    async def _run(self) -> None:
        server = self.kernel.transport().listen(ETCD_ADDRESS)
        service = EtcdService(self.state, self.clock)
        server.add(methods.ETCD_KV, service)
        server.add(methods.ETCD_LEASE, service)
        await server.start()
        await self._told_to_stop.wait()
        await server.stop(0)

    def leader(self) -> etcd_pb2.KeyValue | None:
        """Return the key of the controller that leads, or None."""
        return only(self.state.range(etcd_pb2.RangeRequest(key=Keys(PREFIX).leader)))


class ControllerMember(Member):
    """A controller, with its own store, which can be made to fail, or with an etcd that it shares."""

    def __init__(self, kernel: Kernel, config: ControllerConfig, clock: ProcessClock, name: str = CONTROLLER) -> None:
        super().__init__(kernel, name, clock)
        self.config = config
        self.server: ControllerServer | None = None
        self.store_fails = False
        self.die_at_commit: str = ""  # "before", "after"
        self.other_store: Path | None = None  # the store that it uses instead of its own
        self._store: SqliteStore | None = None
        if config.metadata_store == "sqlite":
            format_cluster(config.metadata_log_dir, rng=kernel.stream("cluster id"))

    def _new_server(self) -> ControllerServer:
        kernel, config, rng = self.kernel, self.config, self.kernel.stream(f"{self.name} itself")
        if config.metadata_store == "etcd":
            return controller_server(config, kernel.transport(), self.clock, rng, to_etcd=kernel.transport())
        self._store = FailingStore(self.other_store or config.metadata_log_dir, self)
        return ControllerServer(config, StoreInThread(self._store), kernel.transport(), self.clock, rng)

    def replace_store(self, store: Path | None) -> None:
        """Kill it; its next start uses that store. None: its own."""
        self.other_store = store
        self.kill()

    async def _run(self) -> None:
        server = self._new_server()

        async def work() -> None:
            await server.start()
            self.server = server
            await server.wait()

        await serve_controller(server, work(), self._told_to_stop)

    def _check_failure(self, error: ReplogError) -> None:
        if self.config.metadata_store == "etcd" and error.code is ErrorCode.NOT_CONTROLLER:
            self.kernel.trace.defect("stopped, and might have followed", {}, error)

    def _release(self) -> None:
        self.server = None
        if self._store is not None:
            self._store.close()
            self._store = None


class FailingStore(SqliteStore):
    """A store with moments at which it fails or its process dies."""

    def __init__(self, directory: Path, member: ControllerMember) -> None:
        super().__init__(directory)
        self._member = member

    def commit(
        self, expected_version: int, records: Sequence[metadata_pb2.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int:
        if self._member.store_fails:
            raise ErrorCode.KAFKA_STORAGE_ERROR.error("the metadata store refuses to write for a while")
        self._die_if("before")
        self._member.kernel.disk.times.take(self._member.process, "fsync")  # the disk does not see SQLite's own
        version = super().commit(expected_version, records, forgotten)
        self._die_if("after")
        return version

    def _die_if(self, moment: str) -> None:
        if self._member.die_at_commit == moment:
            self._member.die_at_commit = ""
            self._member.kernel.trace.add("killed", moment=f"{moment} a commit")
            self._member.kernel.loop.kill(self._member.process)
            raise Killed


class SimulatedCleaning:
    """A `replog.server.broker.cleaning.log_cleaner.CleaningWorker`."""

    def __init__(self) -> None:
        self._cleanings = Cleanings()

    async def ask(self, request: CleaningRequest) -> int:
        return await in_thread(partial(self._cleanings.carry_out, request))

    async def close(self) -> None:
        """Do nothing, for nothing runs between two requests."""
