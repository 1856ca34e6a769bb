"""Three etcds, three controllers and three brokers as real processes; and links that can be cut."""

import asyncio
import itertools
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress

from replog.client import Admin, Consumer, Producer
from replog.errors import ReplogError, RetriableError
from replog.local_cluster.ports import free_port
from replog.local_cluster.processes import ProcessState, end, send_signal, spawn, state_of
from replog.rpc import methods
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.topic import TopicPartition
from tests.replog.processes.proxy import proxy_to
from tests.replog.server.controller.etcds import Etcds

LEASE_S = 3
SESSION_S = 9
START_S = 120  # on a busy machine
TICK_S = 0.05
IN_TURN = 10
TOPIC = "t"


class Process:
    def __init__(self, home, role, settings):
        home.mkdir(parents=True)
        self._log = home / "log"
        self._log.touch()  # of one that never starts too
        self.settings = [f"--override={name}={value}" for name, value in settings.items()]
        self._command = [sys.executable, "-m", "replog.cli", role, *self.settings]
        self.id = None

    def start(self):
        self.id = spawn(self._command, self._log)

    @property
    def runs(self):
        return state_of(self.id) is not ProcessState.STOPPED

    def signal(self, number):
        send_signal(self.id, number)

    def kill(self):
        end([self.id])

    def logs(self):
        return self._log.read_text(errors="replace")


async def all_serve(admin, brokers):
    async with asyncio.timeout(START_S):
        while True:
            with suppress(RetriableError):  # no broker answers yet
                if sum(not broker.fenced for broker in (await admin.describe_cluster()).brokers) >= brokers:
                    return
            await asyncio.sleep(0.1)


class World:
    """`async with World(program, directory) as world`. Everything that anybody was told is kept, and compared."""

    def __init__(self, program, directory):
        self.etcds = Etcds(program, directory, 3)
        self._directory = directory
        self._stack = AsyncExitStack()
        self._transport = H2Transport()
        self.links = {}  # by number of controller, to each etcd
        self.controllers = {}  # by address
        self.brokers = {}  # by id
        self.told = {}  # by version: the record
        self.led = {}  # by partition and leader epoch: the leader
        self.made = {}  # topics, and when that was answered
        self.acknowledged = []  # (when, offset, value)
        self.overslept = []  # (when, by how much)
        self.tasks = []

    async def __aenter__(self):
        try:
            await self._start()
        except BaseException:
            print(self.logs())
            await self._stop()
            raise
        return self

    async def __aexit__(self, kind, *_):
        if kind is not None:
            print(self.logs())
        await self._stop()

    async def _start(self):
        await asyncio.to_thread(self.etcds.start)
        taken = []
        for _ in range(6):
            taken.append(free_port(taken))
        addresses = [f"127.0.0.1:{port}" for port in taken]
        for number, address in enumerate(addresses[:3]):
            self.links[number] = [
                await self._stack.enter_async_context(proxy_to(endpoint)) for endpoint in self.etcds.endpoints
            ]
            settings = {
                "listeners": address,
                "metadata.store": "etcd",
                "metadata.etcd.endpoints": ",".join(link.address for link in self.links[number]),
                "metadata.etcd.lease.seconds": LEASE_S,
                "broker.session.timeout.ms": SESSION_S * 1000,
            }
            self.controllers[address] = Process(self._directory / f"controller-{number}", "controller", settings)
        first = next(iter(self.controllers.values()))
        command = [sys.executable, "-m", "replog.cli", "controller", "format", *first.settings]
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=START_S)
        for process in self.controllers.values():
            process.start()
        for number, address in enumerate(addresses[3:], 1):
            settings = {
                "node.id": number,
                "listeners": address,
                "controller.listener": ",".join(self.controllers),
                "log.dirs": self._directory / f"data-{number}",
                "broker.heartbeat.interval.ms": 300,
                "replica.fetch.backoff.ms": 100,
                "replica.lag.time.max.ms": 5000,
            }
            self.brokers[number] = Process(self._directory / f"broker-{number}", "broker", settings)
            self.brokers[number].start()
        self.bootstrap = ",".join(addresses[3:])
        self.admin = Admin(self.bootstrap, timeout_ms=60_000)
        await all_serve(self.admin, len(self.brokers))
        await self.admin.create_topic(TOPIC, partitions=3, replication_factor=3)
        self.tasks = [asyncio.create_task(self._follow(address)) for address in self.controllers]
        self.tasks += [asyncio.create_task(each()) for each in (self._produce, self._decide, self._oversleep)]
        await self.eventually(lambda: self.made and self.acknowledged, "a decision and an acknowledgement")

    async def _stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if hasattr(self, "admin"):
            await self.admin.close()
        end([each.id for each in (*self.brokers.values(), *self.controllers.values()) if each.id])
        self.etcds.stop()
        await self._stack.aclose()

    def logs(self):
        processes = {**self.controllers, **self.brokers}
        return "\n".join(
            [f"== {name}\n{process.logs()[-6000:]}" for name, process in processes.items()] + [self.etcds.logs()]
        )

    async def _follow(self, address):
        """Nobody may tell two things of one version, or of one epoch of a partition."""
        channel, version, _position = self._transport.connect(address), 0, None
        while True:
            try:
                async for delta in channel.watch(
                    methods.Controller["watch_metadata"], pb.WatchMetadataRequest(after_version=version)
                ):
                    for record in delta.records:
                        text = record.SerializeToString(deterministic=True)
                        assert self.told.setdefault(record.version, text) == text, f"{address} says otherwise: {record}"
                        if record.HasField("partition"):
                            state = record.partition
                            where = (state.topic, state.topic_id, state.partition, state.leader_epoch)
                            assert self.led.setdefault(where, state.leader) == state.leader, f"two led: {record}"
                    version = delta.version
            except ReplogError:
                pass
            await asyncio.sleep(0.1)

    async def _produce(self):
        async with Producer(self.bootstrap, linger_ms=0) as producer:
            for number in itertools.count():
                value = b"%d" % number
                delivery = await producer.send(TOPIC, value, partition=0)
                async with asyncio.timeout(120):  # wait_for may swallow the cancellation at the end
                    stored = await delivery
                self.acknowledged.append((time.monotonic(), stored.offset, value))
                await asyncio.sleep(0.02)

    async def _decide(self):
        """Topics, one after the other, each made by the controller that decides then."""
        number = 0
        while True:
            number += 1
            async with asyncio.timeout(120):
                await self.admin.create_topic(f"made-{number}", partitions=1, replication_factor=3)
            self.made[f"made-{number}"] = time.monotonic()
            await asyncio.sleep(0.05)

    async def _oversleep(self):
        """On a busy machine."""
        while True:
            begun = time.monotonic()
            await asyncio.sleep(TICK_S)
            self.overslept.append((begun, time.monotonic() - begun - TICK_S))

    async def eventually(self, condition, what, timeout_s=START_S):
        deadline = time.monotonic() + timeout_s
        while not (result := condition()):
            for task in self.tasks:
                if task.done():
                    task.result()
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
            await asyncio.sleep(0.02)
        return result

    async def active(self):
        """The address of the controller that decides now, whom all three are asked for."""
        channels = {address: self._transport.connect(address) for address in self.controllers}

        async def decides(channel):
            with suppress(ReplogError):
                request = pb.ListPartitionReassignmentsRequest()
                await channel.call(methods.Controller["list_partition_reassignments"], request, 0.5)
                return True
            return False

        try:
            answers = await asyncio.gather(*map(decides, channels.values()))
        finally:
            for channel in channels.values():
                await channel.close()
        deciding = [address for address, answer in zip(channels, answers, strict=True) if answer]
        assert len(deciding) <= 1, f"two decide: {deciding}"
        return deciding[0] if deciding else None

    async def next_active(self, besides=None, within_s=START_S):
        """How long it took until another one decides, and which."""
        begun = time.monotonic()
        while (active := await self.active()) in (None, besides):
            assert time.monotonic() - begun < within_s, f"nobody decides after {within_s:g} s"
            await asyncio.sleep(0.05)
        return time.monotonic() - begun, active

    async def decided_since(self, moment):
        """The first decision for a client after that moment, in seconds after it."""
        await self.eventually(lambda: self.made and max(self.made.values()) > moment, "a decision")
        return min(when for when in self.made.values() if when > moment) - moment

    async def all_in_sync(self):
        async with asyncio.timeout(START_S):
            while any(len(p.isr) < len(p.replicas) for p in (await self.admin.describe_topic(TOPIC)).partitions):
                await asyncio.sleep(0.1)

    def busy_s(self, since):
        """What the machine may have added: several processes wait, one after the other, for as long as this one did."""
        return IN_TURN * max(late for when, late in self.overslept if when >= since - 1)

    def longest_silence(self, since):
        """Of acknowledgements."""
        times = [when for when, *_ in self.acknowledged if when >= since - 1] + [time.monotonic()]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    async def check(self):
        """Nothing that was answered is lost: no topic, and no record."""
        for task in self.tasks:
            if task.done():
                task.result()
        topics = set(await self.admin.list_topics())
        assert set(self.made) <= topics, f"lost: {set(self.made) - topics}"
        acknowledged = [(value, offset) for _, offset, value in self.acknowledged]
        read = await self._read(max(offset for _, offset in acknowledged))
        lost = [each for each in acknowledged if each[0] not in read or each[1] not in (read[each[0]], -1)]
        assert not lost, f"{len(lost)} of {len(acknowledged)} records are lost: {lost[:10]}"

    async def _read(self, last):
        """Offsets by value, up to the last one at least."""
        read = {}
        async with Consumer(self.bootstrap) as consumer, asyncio.timeout(START_S):
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.seek_to_beginning()
            while max(read.values(), default=-1) < last:
                read |= {record.value: record.offset for record in await consumer.fetch()}
        return read
