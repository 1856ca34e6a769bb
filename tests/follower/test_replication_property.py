"""A leader and its followers under random appends, fetches, elections, restarts and message delays.

Three replicas with real logs, a controller in miniature (6.4, CT-8), and a network that delays, reorders and drops.
After every step the invariants of the protocol hold; above all, no record below a high watermark is ever lost.
"""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from follower.partition_follower import PartitionFollower
from leader.alter_partition_queue import AlterPartitionQueue
from leader.follower_state import Asker
from leader.isr import IsrProposal
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode, ReplogError
from replog.fetch import FetchAnswer, FetchPartition
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.metadata.values import NO_LEADER, PartitionState
from tests.leader.replicas import LAG_MS, NOW_MS, ONE_MIB, TP, Brokers, bytes_of, log_of
from tests.replog.log.batches import client_batch

IDS = (1, 2, 3)
BACKOFF_MS = 1
Record = tuple[int, bytes]  # leader epoch and the batch


class Sent(NamedTuple):
    """A message on its way, between two incarnations."""

    to: int
    deliver: Callable[[], None]


class Replicas(RuleBasedStateMachine):
    @initialize(min_isr=st.sampled_from([1, 2]))
    def start(self, min_isr: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        root = Path(self.directory.name)
        self.logs: dict[int, Log] = {i: log_of(root / str(i), min_insync_replicas=min_isr) for i in IDS}
        self.brokers = Brokers(*IDS)
        self.metadata = [PartitionState(IDS, IDS, 1, 0, 0)]
        self.applied = dict.fromkeys(IDS, 0)
        self.roles: dict[int, PartitionLeader | PartitionFollower | None] = dict.fromkeys(IDS)
        self.queues = {i: AlterPartitionQueue() for i in IDS}
        self.network: list[Sent] = []
        self.now_ms = NOW_MS
        self.appended = 0
        self.committed: dict[int, Record] = {}
        self.leader_hw: dict[PartitionLeader, int] = {}
        for broker_id in IDS:
            self.apply_metadata(broker_id)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            for log in self.logs.values():
                log.abandon()
            self.directory.cleanup()

    # The controller

    @property
    def current(self) -> PartitionState:
        return self.metadata[-1]

    def change(self, isr: tuple[int, ...], leader: int) -> None:
        epoch = self.current.leader_epoch + (leader != self.current.leader)
        self.metadata.append(
            replace(
                self.current,
                isr=isr,
                leader=leader,
                leader_epoch=epoch,
                partition_epoch=self.current.partition_epoch + 1,
            )
        )

    def up(self, broker_id: int) -> bool:
        broker = self.brokers.broker(broker_id)
        return broker is not None and not broker.fenced

    def decide(self, sender: int, proposal: IsrProposal) -> tuple[ErrorCode, PartitionState | None]:
        """6.4, the rows that can match here."""
        isr = tuple(member for member, _ in proposal.isr)
        if proposal.leader_epoch < self.current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, None
        if self.current.leader != sender:
            return ErrorCode.INVALID_REQUEST, None
        if proposal.partition_epoch < self.current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION, None
        for member, epoch in proposal.isr:
            broker = self.brokers.broker(member)
            if broker is None or broker.fenced or epoch not in (-1, broker.broker_epoch):
                return ErrorCode.INELIGIBLE_REPLICA, None
        self.change(isr, sender)
        return ErrorCode.NONE, self.current

    # Steps

    @rule(broker_id=st.sampled_from(IDS))
    def apply_metadata(self, broker_id: int) -> None:
        """The next metadata record reaches a broker."""
        index = self.applied[broker_id]
        if not self.up(broker_id) or index == len(self.metadata):
            return
        self.applied[broker_id] += 1
        record, role = self.metadata[index], self.roles[broker_id]
        if record.leader == broker_id:
            if not isinstance(role, PartitionLeader):
                role = PartitionLeader(
                    TP, broker_id, self.logs[broker_id], self.brokers, replica_lag_time_max_ms=LAG_MS
                )
            registration = self.brokers.broker(broker_id)
            assert registration is not None
            role.become_leader(record, registration.broker_epoch, self.now_ms)
            self.note_committed(role, records(role.log))  # the next record may depose it before anybody looks
        else:
            if not isinstance(role, PartitionFollower):
                role = PartitionFollower(TP, self.logs[broker_id], backoff_ms=BACKOFF_MS)
            role.become_follower(record, self.now_ms)
        self.roles[broker_id] = role

    @rule(which=st.integers(0, 2), count=st.integers(1, 4), acks=st.sampled_from([1, -1]))
    def produce(self, which: int, count: int, acks: int) -> None:
        """To one of those who believe to lead, deposed ones too."""
        leaders = [role for role in self.roles.values() if isinstance(role, PartitionLeader)]
        for _ in range(count if leaders else 0):
            self.appended += 1
            batch = client_batch(f"{self.appended}".encode())
            with suppress(ReplogError):  # NOT_ENOUGH_REPLICAS
                leaders[which % len(leaders)].append(batch, acks=acks, wall_ms=0, now_ms=self.now_ms)

    @rule(broker_id=st.sampled_from(IDS))
    def send_fetch(self, broker_id: int) -> None:
        role = self.roles[broker_id]
        if isinstance(role, PartitionFollower):
            self.now_ms += BACKOFF_MS
            request = role.next_fetch(self.now_ms, ONE_MIB)
            registration = self.brokers.broker(broker_id)
            assert registration is not None
            if request is not None:
                self.send(role.leader_id, self.fetching(broker_id, role.leader_id, registration.broker_epoch, request))

    def fetching(self, sender: int, to: int, broker_epoch: int, request: FetchPartition) -> Callable[[], None]:
        asker = self.roles[sender]

        def arrive() -> None:
            role = self.roles[to]
            if isinstance(role, PartitionLeader):
                caller = Asker(sender, broker_epoch)
                answer = role.fetch_as_follower(caller, request, max_bytes=150, min_one=True)
                role.on_fetched(caller, request, answer, self.now_ms)
                pushed = (role.leader_epoch, role.high_watermark)
            else:
                answer, pushed = FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER), (-1, -1)

            def answered() -> None:
                if isinstance(asker, PartitionFollower) and self.roles[sender] is asker:
                    progress = asker.on_answer(request, answer, self.now_ms)
                    assert progress.note is None or "newer epoch" in progress.note, progress
                    asker.on_high_watermark(*pushed)

            self.send(sender, answered)

        return arrive

    @rule(broker_id=st.sampled_from(IDS), lost=st.booleans())
    def send_proposal(self, broker_id: int, lost: bool) -> None:
        """The controller decides at once; its answer may get lost, or arrive late."""
        role, queue = self.roles[broker_id], self.queues[broker_id]
        if isinstance(role, PartitionLeader) and (proposal := role.take_proposal()) and not queue.submit(TP, proposal):
            role.on_alter_partition_result(proposal, ErrorCode.OPERATION_NOT_ATTEMPTED, None, self.now_ms)
        batch = queue.next_batch()
        if batch is None or not self.up(broker_id):
            return
        error, state = self.decide(broker_id, batch[TP])
        if lost:
            queue.on_failure()
            return

        def answered() -> None:
            if self.queues[broker_id] is queue:
                proposal = queue.on_answer([TP])[TP]
                leader = self.roles[broker_id]
                if isinstance(leader, PartitionLeader):
                    leader.on_alter_partition_result(proposal, error, state, self.now_ms)

        self.send(broker_id, answered)

    def send(self, to: int, deliver: Callable[[], None]) -> None:
        self.network.append(Sent(to, deliver))

    @rule(place=st.integers(0, 5), drop=st.integers(0, 9))
    def deliver(self, place: int, drop: int) -> None:
        """Any message of the next few arrives, or in one case out of ten none ever does."""
        if self.network:
            message = self.network.pop(min(place, len(self.network) - 1))
            if drop and self.up(message.to):
                message.deliver()

    @rule(broker_id=st.sampled_from(IDS), often=st.booleans())
    def elect(self, broker_id: int, often: bool) -> None:
        """A clean election among the in-sync set."""
        if often and broker_id in self.current.isr and self.up(broker_id) and broker_id != self.current.leader:
            self.change(self.current.isr, broker_id)

    @rule(broker_id=st.sampled_from(IDS), chance=st.integers(0, 3))
    def crash(self, broker_id: int, chance: int) -> None:
        """Fenced at once; the last in-sync member stays, without a leader (ISR-19). The log survives, the role not."""
        if chance or not self.up(broker_id):
            return
        self.brokers.change(broker_id, fenced=True)
        self.roles[broker_id] = None
        self.queues[broker_id] = AlterPartitionQueue()
        isr = tuple(member for member in self.current.isr if member != broker_id) or self.current.isr
        leader = self.current.leader
        if leader == broker_id:
            leader = next((member for member in isr if self.up(member)), NO_LEADER)
        if (isr, leader) != (self.current.isr, self.current.leader):
            self.change(isr, leader)

    @rule(broker_id=st.sampled_from(IDS), checkpoint=st.floats(0, 1))
    def restart(self, broker_id: int, checkpoint: float) -> None:
        """A new incarnation, whose high watermark is that of an old checkpoint (HW-11, HW-12)."""
        registration = self.brokers.broker(broker_id)
        assert registration is not None
        if self.up(broker_id):
            return
        log = self.logs[broker_id]
        log.update_high_watermark(int(log.high_watermark * checkpoint))
        self.brokers.change(broker_id, fenced=False, broker_epoch=registration.broker_epoch + 10)
        if self.current.leader == NO_LEADER and broker_id in self.current.isr:
            self.change(self.current.isr, broker_id)
        self.applied[broker_id] = len(self.metadata) - 1
        self.apply_metadata(broker_id)

    @rule(broker_id=st.sampled_from(IDS), pause=st.booleans())
    def check_isr(self, broker_id: int, pause: bool) -> None:
        role = self.roles[broker_id]
        if isinstance(role, PartitionLeader):
            self.now_ms += LAG_MS + 1 if pause else 1
            role.check_isr(self.now_ms)

    @rule(broker_ids=st.permutations(IDS), count=st.integers(1, 3), proposal_lost=st.booleans())
    def whole_rounds(self, broker_ids: list[int], count: int, proposal_lost: bool) -> None:
        """Metadata, fetches, answers and a proposal without delay, so that runs get somewhere."""
        waiting, self.network = self.network, []
        for broker_id in broker_ids[:count] * 2:
            while self.up(broker_id) and self.applied[broker_id] < len(self.metadata):
                self.apply_metadata(broker_id)
            self.send_fetch(broker_id)
            if self.up(self.current.leader):
                self.send_proposal(self.current.leader, proposal_lost)
            while self.network:
                message = self.network.pop(0)
                if self.up(message.to):
                    message.deliver()
        self.network = waiting

    # What must hold

    @invariant()
    def nothing_committed_is_lost(self) -> None:
        contents = {i: records(log) for i, log in self.logs.items()}
        leaders = {i: role for i, role in self.roles.items() if isinstance(role, PartitionLeader)}
        for log in self.logs.values():
            assert 0 <= log.log_start_offset <= log.high_watermark <= log.log_end_offset, "INV-1"
        for broker_id, leader in leaders.items():
            self.note_committed(leader, contents[broker_id])
            assert leader.high_watermark >= self.leader_hw.get(leader, 0), "INV-9"
            self.leader_hw[leader] = leader.high_watermark
            if leader.leader_epoch == self.current.leader_epoch:
                assert set(self.current.isr) <= leader.maximal_isr, "INV-7"
        for offset, record in self.committed.items():
            for member in self.current.isr:
                held = contents[member][offset : offset + 1]
                assert held == [record], f"INV-6, INV-11: {record} at {offset} is not on {member}, which may lead"
        epochs = [leader.leader_epoch for leader in leaders.values()]
        assert len(epochs) == len(set(epochs)), "INV-3"
        top = max((role.high_watermark for role in leaders.values()), default=0)
        for broker_id, role in self.roles.items():
            if isinstance(role, PartitionFollower):
                assert role.log.high_watermark <= max(top, len(self.committed)), "INV-10"
                for offset in range(role.log.high_watermark if role.fetch_state.value == "fetching" else 0):
                    assert contents[broker_id][offset] == self.committed[offset], f"follower {broker_id} at {offset}"
        self.check_log_matching(list(contents.values()))

    def note_committed(self, leader: PartitionLeader, own: list[Record]) -> None:
        for offset in range(leader.high_watermark):
            assert self.committed.setdefault(offset, own[offset]) == own[offset], f"INV-17 at {offset}"

    def check_log_matching(self, contents: list[list[Record]]) -> None:
        for one in contents:
            assert [epoch for epoch, _ in one] == sorted(epoch for epoch, _ in one), "INV-14"
            for other in contents:
                same = [a[0] == b[0] for a, b in zip(one, other, strict=False)]
                if True in same:
                    last = len(same) - 1 - same[::-1].index(True)
                    assert one[: last + 1] == other[: last + 1], "INV-13"


def records(log: Log) -> list[Record]:
    """Leader epoch and bytes of each record, by offset."""
    data = bytes_of(log)
    return [(header.leader_epoch, data[at : at + header.size]) for at, header in iterate_batches(data)]


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
