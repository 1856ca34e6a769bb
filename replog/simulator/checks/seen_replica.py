"""One replica as it was last seen, which its next state is compared with."""

from collections.abc import Mapping, Sequence

from follower.partition_follower import PartitionFollower
from leader.follower_state import FollowerState
from leader.isr import IsrState
from leader.partition_leader import PartitionLeader
from replog.log.epochs import EpochEntry
from replog.log.log import Log
from replog.log.offsets import NO_EPOCH
from replog.log.segment import Segment
from replog.metadata.values import NO_BROKER_EPOCH
from replog.server.broker.replicas.hosted_replicas import HostedPartition
from replog.simulator.checks.chain import Chain, Kept, cache_text
from replog.simulator.runtime.process import DEAD, SimulatedProcess

Registrations = dict[int, tuple[int, int]]
"""Each broker's epoch, and when the broker that is checked learned it, in ms of its own clock."""


class SeenReplica:
    """A replica, also of a dead process: what that wrote is still on its disk, unless `losses` grows.

    `failed`: its disk refused something, and the broker stops. Its state in memory may be half changed, so it is not
    checked until the broker has started again."""

    def __init__(
        self, broker_id: int, process: SimulatedProcess, hosted: HostedPartition, registered: Registrations, losses: int
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = NO_BROKER_EPOCH
        self.process = process
        self.hosted = hosted
        self.registered = registered
        self.take_log(hosted.log)
        self.compacted = hosted.log.config.compacted
        self.chain = Chain()  # stays empty for a compacted log, whose replicas hold different batches (CL-10)
        self.records: dict[int, Kept] = {}  # only for a compacted log; keys: offsets
        self.sealed: Sequence[Segment] = []  # only for a compacted log: all segments but the active one
        self.failed = False
        self.losses = losses  # how often its disk had lost something when it was first seen
        self.lost_below = 0  # its disk lost some records below this offset; counts until `end` gets there again
        self.end = -1
        self.high_watermark = -1
        self.stable = -1  # its last stable offset
        self.start = -1
        self.latest: EpochEntry | None = (-1, -1)
        self.leader: PartitionLeader | None = None
        self.role: PartitionLeader | PartitionFollower | None = None
        self.elected_with: Mapping[int, FollowerState] = {}  # its followers' state when it began to lead
        self.epoch = NO_EPOCH
        self.state: IsrState | None = None  # the leader's

    def take_log(self, log: Log) -> None:
        """Follow this log from now on; its files are read at the next look."""
        self.log = log
        self.generation = -1  # the log counts its truncations

    @property
    def presumes_to_lead(self) -> bool:
        """Return True if it may act as a leader now, or once its process is resumed (INV-5, INV-6)."""
        return self.leader is not None and self.epoch != NO_EPOCH and not self.failed and self.process.state is not DEAD

    @property
    def maximal_isr(self) -> frozenset[int]:
        return self.state.maximal_isr if self.state is not None else frozenset()

    def __str__(self) -> str:
        role = "leads" if self.leader is not None else "follows in"
        state = "" if self.state is None else f", {type(self.state).__name__} {sorted(self.maximal_isr)}"
        notes = [self.process.state.value] if self.process.state is DEAD else []
        notes += ["failed"] if self.failed else []
        notes += [f"lost up to {self.lost_below}"] if self.lost_below > self.end else []
        return (
            f"broker {self.broker_id} {role} epoch {self.epoch}{state}: log {self.chain}, start {self.start}, "
            f"HW {self.high_watermark}, end {self.end}, cache {cache_text(self.log.epochs.entries)}"
            + (f" ({', '.join(notes)})" if notes else "")
        )
