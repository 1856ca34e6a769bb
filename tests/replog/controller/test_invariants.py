"""Random histories of a cluster, with a model of what each replica's log holds."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from replog.controller.elections import Election
from replog.controller.reassignments import Reassignment
from replog.errors import ErrorCode, ReplogError
from replog.metadata.log_ends import LogEnd
from replog.topic import TopicPartition
from tests.cases import SOAK

T = TopicPartition("t", 0)
BROKERS = (1, 2, 3, 4, 5)
EXAMPLES = SOAK or 50
some_broker = st.sampled_from(BROKERS)


def machine(cluster_class, **topic_settings):
    """A state machine over one partition, at first on brokers 1, 2, 3; reassignments move it about.

    `log_end[r]` is how many committed-or-not records broker r still has; `committed` how many were ever committed.
    A record commits when the ISR is at least the minimum and every member has it (HW-2)."""
    unclean_allowed = topic_settings.get("unclean.leader.election.enable") == "true"

    class Histories(RuleBasedStateMachine):
        @initialize()
        def begin(self):
            self.cluster = cluster_class().start(*BROKERS)
            self.cluster.assigned("t", [1, 2, 3], configs=topic_settings)
            self.min_isr = int(self.cluster.image.topics["t"].configs["min.insync.replicas"])
            self.log_end = dict.fromkeys(BROKERS, 0)
            self.log_epoch = dict.fromkeys(BROKERS, -1)  # of the last record that was written there
            self.unclean_asked = False
            self.cancelling = False
            self.committed = 0
            self.checked = 0
            self.states = []
            self.follow()

        @property
        def now(self):
            return self.cluster.partition()

        def follow(self):
            """Check every partition record written since the last step."""
            for change in self.cluster.history[self.checked :]:
                if change.kind == "partition":
                    self.judge(change.value)
                    self.states.append(change.value)
            self.checked = len(self.cluster.history)

        def judge(self, new):
            assert set(new.isr) <= set(new.replicas), "INV-1"
            assert new.leader == -1 or new.leader in new.isr, "INV-2"
            assert not set(new.isr) & set(new.elr)
            assert set(new.elr) <= set(new.replicas)
            assert (new.leader == -1) == (not new.isr), "with ELR a partition has a leader exactly while it has an ISR"
            assert not new.elr or len(new.isr) < min(self.min_isr, len(new.replicas)), "ISR-15, PR-2"
            self.judge_assignment(new)
            if not self.states:
                return
            old = self.states[-1]
            assert new.partition_epoch == old.partition_epoch + 1, "INV-4"
            leader_set = new.leader != old.leader or not set(old.replicas) <= set(new.replicas)
            assert new.leader_epoch == old.leader_epoch + leader_set, "INV-4, CT-9"
            if new.leader != old.leader and new.leader != -1:
                self.elected(new)
            if gone := set(old.replicas) - set(new.replicas):
                assert self.cancelling or set(new.isr) == set(new.replicas), "CT-15: it completed too early"
                self.log_end.update(dict.fromkeys(gone, 0))  # they delete their copies (CT-17)

        def judge_assignment(self, new):
            """CT-14, CT-15."""
            adding, removing = set(new.adding), set(new.removing)
            target = [r for r in new.replicas if r not in removing]
            assert target, "CT-14"
            assert len(set(new.replicas)) == len(new.replicas)
            assert list(new.replicas) == target + [r for r in new.replicas if r in removing], "the target comes first"
            assert adding | removing <= set(new.replicas)
            if adding or removing:
                assert not set(target) <= set(new.isr), "CT-15: it should have completed"

        def elected(self, new):
            old = self.states[-1]
            if new.recovering and new.leader not in (*old.isr, *old.elr):
                pool = old.last_known_elr or old.replicas
                said = {replica: self.how_far(replica) for replica in old.replicas}
                most = max(said[replica] for replica in pool)
                more = [end for end in said.values() if end.last_epoch >= most.last_epoch and end[1] > most[1]]
                best = said[new.leader] == max(more) if more else new.leader in pool and said[new.leader] == most
                furthest = not old.isr and not old.elr and best
                assert unclean_allowed or self.unclean_asked or furthest, "CT-30, CT-8"
                assert (new.isr, new.elr) == ((new.leader,), ()), "CT-8"
                self.committed = min(self.committed, self.log_end[new.leader])
            else:
                assert self.log_end[new.leader] >= self.committed, "INV-11: a clean election lost committed records"

        def how_far(self, replica):
            end = self.log_end[replica]
            return LogEnd(self.log_epoch[replica] if end else -1, end)

        @rule()
        def all_that_live_say_how_far_they_go(self):
            self.tell()
            state = self.now
            if state.leader == -1:
                certain, had_all = state.isr or state.elr, state.last_known_elr
                enough = not certain and len(had_all) >= min(self.min_isr, len(state.replicas))
                awaited = had_all if enough else state.replicas
                missing = [r for r in awaited if not self.cluster.image.brokers[r].active]
                assert missing or (certain and not unclean_allowed), f"CT-30: {state} waits for nobody"

        def tell(self):
            self.cluster.log_ends = {broker: self.how_far(broker) for broker in BROKERS}
            self.cluster.recover()
            self.follow()

        @rule()
        def produce(self):
            if self.now.leader != -1 and len(self.now.isr) >= min(self.min_isr, len(self.now.replicas)):
                self.committed += 1
                for member in self.now.isr:
                    self.log_end[member], self.log_epoch[member] = self.committed, self.now.leader_epoch

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
        def all_others_expire(self, broker):
            self.cluster.expire(*(b for b in BROKERS if b != broker and not self.cluster.image.brokers[b].fenced))
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
            if not clean:
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
            before = self.now
            leader = before.leader
            others = data.draw(st.sets(st.sampled_from(before.replicas))) - {leader}
            (result,) = self.cluster.alter(leader, self.cluster.item(sorted({leader} | others)))
            if not all(self.cluster.image.brokers[b].active for b in others):
                assert result.error is ErrorCode.INELIGIBLE_REPLICA
                return
            for member in others - set(before.isr):
                self.log_end[member], self.log_epoch[member] = self.log_end[leader], self.log_epoch[leader]
            if leader == self.now.leader:
                assert result.error is ErrorCode.NONE
            else:
                assert result.error is ErrorCode.NEW_LEADER_ELECTED, "CT-15"
                assert leader in before.removing
            assert set(self.now.isr) == ({leader} | others) & set(self.now.replicas)
            self.follow()

        @rule(brokers=st.lists(some_broker, min_size=1, max_size=5, unique=True))
        def is_reassigned(self, brokers):
            """CT-14; in mid-way it is another target (CT-16)."""
            if not self.now.reassigning:
                self.origin = set(self.now.replicas)
            code = self.reassign(brokers)
            assert code is ErrorCode.NONE
            assert [r for r in self.now.replicas if r not in self.now.removing] == brokers
            self.follow()

        @rule()
        def reassignment_is_cancelled(self):
            """CT-16."""
            before = self.now
            code = self.reassign(None)
            staying = [r for r in before.replicas if r not in before.adding]
            if not before.reassigning:
                assert code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            elif code is ErrorCode.NONE:
                assert (list(self.now.replicas), self.now.reassigning) == (staying, False)
                assert set(staying) == self.origin, "divergence 23"
                if not unclean_allowed:
                    assert self.now.leader != -1 or self.now.elr, "nobody who stays has what was committed"
                    assert self.now.leader != -1 or before.leader == -1, "it cost the partition its leader"
            else:
                assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
                assert not set(before.isr) & set(staying), "a replica in sync would have stayed"
            self.cancelling = True
            self.follow()
            self.cancelling = False

        def reassign(self, target):
            (error,) = self.cluster.do(self.cluster.state.alter_partition_reassignments([Reassignment(T, target)]))
            return error.code

        @rule(election=st.sampled_from([Election.PREFERRED, Election.UNCLEAN]))
        def an_election_is_asked_for(self, election):
            """CT-11."""
            self.tell()
            before = self.now
            self.unclean_asked = election is Election.UNCLEAN
            (result,) = self.cluster.do(self.cluster.state.elect_leaders(election, [T]))
            self.follow()
            self.unclean_asked = False
            elected = result.error.code is ErrorCode.NONE
            assert elected == (self.now.leader != before.leader)
            assert result.leader == self.now.leader
            if election is Election.UNCLEAN and self.now.leader == -1:
                assert not any(self.cluster.image.brokers[r].active for r in self.now.replicas), "CT-8"

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
                assert result.error is not ErrorCode.NONE
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
                able = [r for r in self.now.elr if self.cluster.image.brokers[r].active]
                assert not able, f"{able} could lead {self.now}"
                assert self.now.last_known_leader in (-1, *self.now.replicas)

        def teardown(self):
            """After all faults every broker returns and the partition is led again."""
            if hasattr(self, "cluster"):
                for _ in range(3):  # a broker in a controlled shutdown first ends it
                    for broker in BROKERS:
                        self.cluster.heartbeat(broker)
                self.tell()
                assert self.now.leader != -1, "the partition stayed offline with every broker up"

    Histories.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=30)
    return Histories


@pytest.mark.parametrize(
    ("min_isr", "unclean"), [("1", "false"), ("2", "false"), ("3", "false"), ("1", "true"), ("2", "true")]
)
def test_random_events_keep_the_invariants(make_cluster, min_isr, unclean):
    """INV-1, INV-2, INV-4, INV-11, INV-20, INV-22; CT-7, CT-8, CT-9, CT-11, CT-14, CT-15, CT-16."""
    run(make_cluster, **{"min.insync.replicas": min_isr, "unclean.leader.election.enable": unclean})


def run(cluster_class, **topic_settings):
    case = machine(cluster_class, **topic_settings).TestCase("runTest")
    case.runTest()
