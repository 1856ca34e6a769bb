"""Random histories of a cluster, with a model of what each replica's log holds."""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from replog.errors import ErrorCode, ReplogError

BROKERS = (1, 2, 3, 4)
some_broker = st.sampled_from(BROKERS)


def machine(cluster_class, **topic_settings):
    """A state machine over one topic of RF 3 on brokers 1, 2, 3; broker 4 holds no replica.

    `log_end[r]` is how many committed-or-not records replica r still has; `committed` how many were ever committed.
    A record commits when the ISR is at least the minimum and every member has it (HW-2).
    """

    class Histories(RuleBasedStateMachine):
        @initialize()
        def begin(self):
            self.cluster = cluster_class().start(*BROKERS)
            self.cluster.assigned("t", [1, 2, 3], configs=topic_settings)
            self.min_isr = int(self.cluster.image.topics["t"].configs["min.insync.replicas"])
            self.log_end = dict.fromkeys((1, 2, 3), 0)
            self.committed = 0
            self.checked = 0
            self.states = []
            self.follow()

        @property
        def now(self):
            return self.cluster.partition()

        def follow(self):
            """Check every partition record written since the last step."""
            for record in self.cluster.history[self.checked :]:
                if record.HasField("partition"):
                    self.judge(record.partition)
                    self.states.append(record.partition)
            self.checked = len(self.cluster.history)

        def judge(self, new):
            assert set(new.isr) <= set(new.replicas), "INV-1"
            assert new.leader == -1 or new.leader in new.isr, "INV-2"
            assert not set(new.isr) & set(new.elr)
            assert (new.leader == -1) == (not new.isr), "with ELR a partition has a leader exactly while it has an ISR"
            assert not new.elr or len(new.isr) < self.min_isr, "ISR-15"
            if not self.states:
                return
            old = self.states[-1]
            assert new.partition_epoch == old.partition_epoch + 1, "INV-4"
            assert new.leader_epoch == old.leader_epoch + (new.leader != old.leader), "INV-4, CT-9"
            if new.leader != old.leader and new.leader != -1:
                self.elected(new)

        def elected(self, new):
            old = self.states[-1]
            if new.leader not in (*old.isr, *old.elr):
                assert new.recovery_state, "ISR-17: an unclean election says so"
                assert not new.elr, "ISR-17: and is the last resort"
                self.committed = min(self.committed, self.log_end[new.leader])
            else:
                assert self.log_end[new.leader] >= self.committed, "INV-11: a clean election lost committed records"

        @rule()
        def produce(self):
            if self.now.leader != -1 and len(self.now.isr) >= self.min_isr:
                self.committed += 1
                for member in self.now.isr:
                    self.log_end[member] = self.committed

        @rule(broker=some_broker)
        def expires(self, broker):
            if not self.cluster.image.brokers[broker].fenced:
                self.cluster.expire(broker)
                self.follow()

        @rule(a=some_broker, b=some_broker)
        def expire_together(self, a, b):
            ids = {x for x in (a, b) if not self.cluster.image.brokers[x].fenced}
            self.cluster.expire(*ids)
            self.follow()

        @rule(broker=some_broker)
        def returns_from_a_pause(self, broker):
            self.cluster.heartbeat(broker)
            self.follow()

        @rule(broker=some_broker, clean=st.booleans(), lost=st.integers(0, 3), fenced_first=st.booleans())
        def restarts(self, broker, clean, lost, fenced_first):
            """A process stops, its session ends, and another takes over, before or after the fencing."""
            if fenced_first and not self.cluster.image.brokers[broker].fenced:
                self.cluster.expire(broker)
            else:
                self.cluster.now_ms += 9000
                for other, known in self.cluster.image.brokers.items():
                    if other != broker and not known.fenced:
                        self.cluster.heartbeat(other)
            if not clean and broker in self.log_end:
                self.log_end[broker] = max(0, self.log_end[broker] - lost)
            previous = self.cluster.image.brokers[broker].broker_epoch if clean else -1
            self.cluster.register(broker, previous=previous)
            self.follow()

        @rule(broker=some_broker, fence=st.booleans(), shutdown=st.booleans(), behind=st.integers(0, 3))
        def heartbeats(self, broker, fence, shutdown, behind):
            version = max(0, self.cluster.image.version - behind)
            self.cluster.heartbeat(broker, fence=fence, shutdown=shutdown, version=version)
            self.follow()

        @precondition(lambda self: self.now.leader != -1)
        @rule(data=st.data())
        def leader_proposes(self, data):
            """A leader adds members that have caught up with it, and drops others."""
            leader = self.now.leader
            others = data.draw(st.sets(st.sampled_from([r for r in (1, 2, 3) if r != leader])))
            adding = others - set(self.now.isr)
            (result,) = self.cluster.alter(leader, self.cluster.item(sorted({leader} | others)))
            eligible = all(self.cluster.image.brokers[b].active for b in others)
            assert result.error_code == (ErrorCode.NONE if eligible else ErrorCode.INELIGIBLE_REPLICA)
            if eligible:
                for member in adding:
                    self.log_end[member] = self.log_end[leader]
                assert set(self.now.isr) == {leader} | others
            self.follow()

        @rule(sender=some_broker, epoch=st.integers(-1, 8), members=st.sets(some_broker), stale=st.booleans())
        def anyone_proposes_with_old_epochs(self, sender, epoch, members, stale):
            """Never does a proposal change anything whose epochs are not the current ones (ISR-13, INV-20)."""
            before = self.now
            if epoch == before.partition_epoch and sender == before.leader:
                return
            item = self.cluster.item(sorted(members), partition_epoch=epoch)
            if stale:
                with pytest.raises(ReplogError, match="STALE_BROKER_EPOCH"):
                    self.cluster.alter(sender, item, epoch=1)
            else:
                (result,) = self.cluster.alter(sender, item)
                assert result.error_code != ErrorCode.NONE
            assert self.now == before

        @rule()
        def leaders_are_rebalanced(self):
            self.cluster.do(self.cluster.state.rebalance_leaders())
            self.follow()

        @invariant()
        def inv_22_every_isr_member_and_eligible_leader_has_what_was_committed(self):
            if hasattr(self, "cluster"):
                for replica in (*self.now.isr, *self.now.elr):
                    assert self.log_end[replica] >= self.committed, f"replica {replica} of {self.now}"

        @invariant()
        def members_of_the_isr_are_active(self):
            if hasattr(self, "cluster"):
                assert all(self.cluster.image.brokers[r].active for r in self.now.isr), self.now

        @invariant()
        def nobody_who_may_lead_is_left_waiting(self):
            if hasattr(self, "cluster") and self.now.leader == -1:
                last = (self.now.last_known_leader,) if not self.now.elr else ()
                able = [r for r in (*self.now.elr, *last) if self.cluster.image.brokers[r].active]
                assert not able, f"{able} could lead {self.now}"
                assert self.now.last_known_leader != -1

        def teardown(self):
            """After all faults every broker returns and the partition is led again."""
            if hasattr(self, "cluster"):
                for _ in range(3):  # whoever is in a controlled shutdown first ends it
                    for broker in BROKERS:
                        self.cluster.heartbeat(broker)
                assert self.now.leader != -1, "the partition stayed offline with every broker up"

    Histories.TestCase.settings = settings(
        max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    return Histories


def test_inv_2_inv_4_inv_11_inv_22_hold_over_random_events_with_min_isr_2(make_cluster):
    """INV-2, INV-4, INV-11, INV-22, ISR-2."""
    run(make_cluster)


def test_inv_2_inv_4_inv_11_inv_22_hold_over_random_events_with_min_isr_1(make_cluster):
    """INV-2, INV-4, INV-11, INV-22, ISR-1."""
    run(make_cluster, **{"min.insync.replicas": "1"})


def test_inv_2_inv_4_inv_11_inv_22_hold_over_random_events_with_min_isr_3(make_cluster):
    """INV-2, INV-4, INV-11, INV-22, ISR-3."""
    run(make_cluster, **{"min.insync.replicas": "3"})


def run(cluster_class, **topic_settings):
    case = machine(cluster_class, **topic_settings).TestCase("runTest")
    case.runTest()
