"""The leader's half of a fetch session: it looks at what changed, and every clock is right all the same."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leader.follower_session import MAX_FOLLOWER_LOOKS, PUSH_EVERY_MS, FollowerSession
from leader.isr import Pending
from leader.partition_leader import PartitionLeader
from replog.common.quota import ReplicationQuota
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import FetchPartition, SessionRequest, SessionRow
from replog.topic import TopicPartition
from tests.leader.hosts import EPOCH, SessionHost, leaders_of, named
from tests.leader.replicas import LAG_MS, NOW_MS, ONE_MIB, leader_of, proposed, record, state
from tests.replog.log.eviction import evict

pytestmark = pytest.mark.usefixtures("evicted_is_cold")

WAIT_MS = 500
PUSH_MS = 2 * PUSH_EVERY_MS  # at the latest


class Host(SessionHost):
    """With one follower's session."""

    session: FollowerSession

    def __init__(self, directory: Path, partitions: int) -> None:
        super().__init__(directory, partitions)
        self.quota: ReplicationQuota | None = None
        self.sent: list[Sequence[SessionRow]] = []
        self.pushed: list[Sequence[SessionRow]] = []
        self.session = FollowerSession(
            self,
            self,
            self.on_fetched,
            self.sent.append,
            self.pushed.append,
            lambda _: None,
            max_bytes=ONE_MIB,
            max_wait_ms=30_000,
        )

    def leader_throttle(self, tp: TopicPartition, follower: int) -> ReplicationQuota | None:
        return self.quota

    def on_fetched(self, tp: TopicPartition, leader: PartitionLeader, *, moved: bool) -> None:
        if moved:
            self.session.mark(tp)

    # what happens

    def append(self, number: int, size: int = 0) -> None:
        leader = self.leaders[named(number)]
        leader.append_records_to_leader(
            record(EPOCH, leader.log.log_end_offset, size), acks=1, wall_ms=0, now_ms=self.now_ms
        )
        self.mark(number)

    def step(self, work: Callable[..., None], *arguments: Any, **options: Any) -> None:
        self.touched.clear()
        work(*arguments, **options)
        assert len(self.touched) <= MAX_FOLLOWER_LOOKS

    def ask(
        self,
        offsets: dict[int, int],
        *forgotten: int,
        max_bytes: int = ONE_MIB,
        wait_ms: int = WAIT_MS,
        epoch: int = EPOCH,
    ) -> None:
        """The next request, which names these partitions at these offsets."""
        fetches = {named(number): FetchPartition(at, ONE_MIB, epoch, EPOCH, 0) for number, at in offsets.items()}
        gone = [named(number) for number in forgotten]
        self.session.on_request(SessionRequest(2, 102, wait_ms, 1, max_bytes, fetches, gone), self.now_ms)

    def after(self, ms: int) -> None:
        self.now_ms += ms
        self.session.on_time(self.now_ms)

    def idle(self, ms: int) -> None:
        """The follower is alive and has nothing to say: it asks, waits, and asks again."""
        for _ in range(ms // WAIT_MS):
            self.after(WAIT_MS)
            self.ask({})

    def answered(self) -> dict[int, int]:
        """The partitions of the last answer, and how many bytes each got."""
        return {row.topic_partition.partition: len(row.answer.records) for row in self.sent[-1]}

    def caught_up(self, number: int) -> int:
        """When the follower last was, in ms since the beginning."""
        return self.leaders[named(number)].replicas[2].caught_up_ms - NOW_MS


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, 3)


def level(host: Host) -> Host:
    """The follower has everything, and has been told so."""
    host.ask(dict.fromkeys(range(len(host.leaders)), 10), wait_ms=0)
    host.ask({})
    return host


def test_a_round_looks_at_what_changed_and_at_nothing_else(tmp_path):
    """With five partitions and with fifty: the same number of looks, none while nothing happens."""
    counted = []
    for partitions in (5, MAX_FOLLOWER_LOOKS):
        host = level(Host(tmp_path / str(partitions), partitions))
        host.looks = 0
        host.idle(60_000)
        assert host.looks == 0
        host.append(4)
        host.ask({4: 11})
        host.after(WAIT_MS)
        counted.append(host.looks)
    assert counted[0] == counted[1] < 20


def test_a_follower_that_asks_on_without_fetching_what_came_falls_behind_isr_5(host):
    """Its requests go on to count where it is level, and count nothing where it is not."""
    level(host)
    host.idle(1000)
    host.append(0)
    host.idle(20_000)
    assert (host.caught_up(0), host.caught_up(1)) == (1000, 21_000)
    leader = host.leaders[named(0)]
    leader.check_isr(host.now_ms)
    assert isinstance(leader.state, Pending)


def test_a_request_between_an_append_and_the_look_at_it_counts_nothing_of_that_partition_st_7(host):
    level(host)
    host.after(100)
    leader = host.leaders[named(0)]
    leader.append_records_to_leader(record(EPOCH, 10), acks=1, wall_ms=0, now_ms=host.now_ms)
    host.session.mark(named(0))
    host.after(100)
    host.ask({})
    assert (host.caught_up(0), host.caught_up(1)) == (0, 200)


def test_a_partition_that_is_forgotten_counts_no_further_requests(host):
    """A follower that left it out, for a delay or a throttle."""
    level(host)
    host.idle(1000)
    host.ask({}, 0)
    host.idle(5000)
    assert (host.caught_up(0), host.caught_up(1)) == (1000, 6000)
    assert list(host.watched) == [named(1), named(2)]
    host.ask({0: 10})
    assert host.caught_up(0) == 6000


def test_a_stream_that_ends_leaves_the_time_of_its_last_request(host):
    level(host)
    host.idle(1000)
    host.session.close()
    host.now_ms += 500
    assert (host.caught_up(0), dict(host.watched)) == (1000, {})


def test_a_new_epoch_forgets_the_session_st_11(host):
    """What the follower asks in the old epoch is fenced, and counts nothing."""
    level(host)
    host.idle(1000)
    leader = host.leaders[named(0)]
    leader.become_leader(state(epoch=EPOCH + 1, partition_epoch=1, isr=(1, 2)), 101, host.now_ms)
    host.mark(0)
    assert [row.answer.error for row in host.sent[-1]] == [ErrorCode.FENCED_LEADER_EPOCH]
    host.ask({})
    host.idle(5000)
    assert host.caught_up(0) == 1000


def test_bounds_are_told_again_to_who_may_have_dropped_them_fe_17(host):
    """FE-17, FT-8, FT-9: in a new epoch it dropped what came in the old one, and from a refusal it takes none."""
    level(host)
    host.leaders[named(0)].become_leader(
        state(epoch=EPOCH + 1, partition_epoch=1, isr=(1, 2)), 101, host.now_ms
    )  # the follower has heard of it, too, before any refusal
    refused = host.leaders.pop(named(1))
    host.mark(1)
    assert [row.answer.error for row in host.sent[-1]] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    host.leaders[named(1)] = refused
    host.ask({0: 10}, epoch=EPOCH + 1, wait_ms=0)
    told = {row.topic_partition.partition: row.answer.high_watermark for row in host.sent[-1]}
    assert told == {0: 10, 1: 10}


@pytest.mark.parametrize("wait_ms", [WAIT_MS, PUSH_MS])
def test_a_follower_whose_shrink_is_committed_while_it_is_level_joins_again_isr_1(host, wait_ms):
    """The proposal was on its way when it caught up: nothing else happens there, and its next request asks for it.

    The high watermark that it moved may be pushed meanwhile."""
    level(host)
    leader = host.leaders[named(0)]
    host.append(0)
    leader.check_isr(NOW_MS + LAG_MS + 1)
    shrink = proposed(leader)
    host.ask({0: 11})
    leader.on_alter_partition_result(shrink, ErrorCode.NONE, state(epoch=EPOCH, partition_epoch=1, isr=(1,)), NOW_MS)
    host.mark(0)
    host.after(wait_ms)
    host.ask({})
    expand = proposed(leader)
    assert [broker_id for broker_id, _ in expand.isr] == [1, 2]


def test_a_joiner_that_is_refused_is_proposed_again_isr_1(host):
    """As long as it is outside, each of its requests may let it in: the reason may be over."""
    host.leaders = {tp: leader_of(leader.log, state(epoch=EPOCH + 1, isr=(1,))) for tp, leader in host.leaders.items()}
    leader = host.leaders[named(0)]
    asked = FetchPartition(10, ONE_MIB, EPOCH + 1, EPOCH, 0)
    host.session.on_request(SessionRequest(2, 102, WAIT_MS, 1, ONE_MIB, {named(0): asked}), host.now_ms)
    for _ in range(3):
        proposal = proposed(leader)
        leader.on_alter_partition_result(proposal, ErrorCode.INELIGIBLE_REPLICA, None, host.now_ms)
        host.idle(WAIT_MS)


MANY = 5000


@pytest.fixture
def crowd(tmp_path: Path) -> Host:
    """Five thousand partitions, as if each had that one log; the follower has everything and its request waits."""
    host = Host(tmp_path, 1)
    host.leaders = {named(number): host.leaders[named(0)] for number in range(MANY)}
    for first in range(0, MANY, MAX_FOLLOWER_LOOKS):
        host.step(host.ask, dict.fromkeys(range(first, first + MAX_FOLLOWER_LOOKS), 10), wait_ms=1)
        host.after(1)
    host.ask({})
    return host


def test_of_five_thousand_partitions_with_data_a_step_touches_no_more_than_the_bound_and_all_get_their_turn(crowd):
    """FE-10; and what a request names is looked at with it, however many wait (ST-7)."""
    leader = crowd.leaders[named(0)]
    leader.append_records_to_leader(record(EPOCH, 10), acks=1, wall_ms=0, now_ms=crowd.now_ms)
    for number in range(MANY):
        crowd.session.mark(named(number))
    crowd.step(crowd.session.on_moved, crowd.now_ms)
    got = Counter(crowd.answered().keys())
    while len(got) < MANY:
        asked = min(got)
        crowd.step(crowd.ask, {asked: 10})
        assert asked in crowd.touched
        assert crowd.answered(), "each answer gives data"
        got.update(crowd.answered().keys())
    assert sum(got.values()) < 1.05 * MANY, "hardly any twice before all had their turn"


def test_a_waiting_request_is_answered_for_the_last_of_five_thousand_partitions_that_were_marked_fe_12(crowd, tmp_path):
    answers = len(crowd.sent)
    (crowd.leaders[named(MANY - 1)],) = leaders_of(tmp_path / "another", 1).values()
    crowd.ask({MANY - 1: 10})
    assert len(crowd.sent) == answers + 1, "one that waited no longer"
    crowd.session.on_moved(crowd.now_ms)
    crowd.leaders[named(MANY - 1)].append_records_to_leader(record(EPOCH, 10), acks=1, wall_ms=0, now_ms=crowd.now_ms)
    for number in range(MANY):
        crowd.session.mark(named(number))
    steps = 0
    while len(crowd.sent) == answers + 1:
        crowd.goes_on = False
        crowd.touched.clear()
        crowd.session.on_moved(crowd.now_ms)
        assert len(crowd.touched) <= 2 * MAX_FOLLOWER_LOOKS, "so many looks, and the reads of the answer"
        steps += 1
        assert crowd.goes_on == (steps < MANY / MAX_FOLLOWER_LOOKS)
    assert crowd.answered()[MANY - 1] > 0
    assert steps == MANY / MAX_FOLLOWER_LOOKS


def test_five_thousand_high_watermarks_are_pushed_in_messages_of_no_more_than_the_bound(crowd):
    crowd.leaders[named(0)].log.update_high_watermark(9)
    for number in range(MANY):
        crowd.session.mark(named(number))
    while crowd.session._unseen:
        crowd.step(crowd.session.on_moved, crowd.now_ms)
    crowd.step(crowd.after, PUSH_MS)
    while crowd.session.next_wake_ms == crowd.now_ms:
        crowd.step(crowd.after, 0)
    pushed = [row.topic_partition.partition for rows in crowd.pushed for row in rows]
    assert sorted(pushed) == list(range(MANY))


def test_high_watermarks_that_move_together_are_pushed_together_and_once(host):
    """Divergence 6; what was pushed is not told again (FE-17), and nobody looks at it any more."""
    level(host)
    for number in (0, 2):
        host.append(number)
    host.ask({0: 11, 2: 11})
    host.session.on_moved(host.now_ms)
    answers = len(host.sent)
    host.after(PUSH_MS - 1)
    assert len(host.sent) == answers
    host.after(1)
    assert len(host.sent) == answers
    (pushed,) = host.pushed
    assert [(row.topic_partition.partition, row.answer.high_watermark) for row in pushed] == [(0, 11), (2, 11)]
    host.looks = 0
    host.idle(5000)
    assert host.answered() == {}
    assert host.looks == 0


def test_sessions_push_at_common_moments(host):
    """Divergence 6: whenever it is that a high watermark moves."""
    level(host)
    wakes = []
    for number in range(3):
        host.append(0)
        host.ask({0: 11 + number})
        host.session.on_moved(host.now_ms)
        wakes.append(host.session.next_wake_ms)
        host.after(PUSH_EVERY_MS // 2)
    assert wakes == [NOW_MS + PUSH_MS, NOW_MS + PUSH_MS, NOW_MS + PUSH_MS + PUSH_EVERY_MS]


def test_while_data_comes_no_high_watermark_is_pushed(host):
    """Divergence 6: each answer has those that have moved."""
    level(host)
    answers = len(host.sent)
    for number in range(10):
        host.append(0)
        host.ask({0: 11 + number})
        host.session.on_moved(host.now_ms)
        host.after(PUSH_EVERY_MS)
    assert len(host.sent) == answers + 10
    assert not host.pushed


def test_what_was_never_told_is_not_pushed(host):
    """A follower takes no high watermark before an answer of the epoch: until then it need not have the records."""
    host.ask({0: 10})
    host.mark(0)
    host.after(PUSH_MS)
    assert host.sent == []


class Exceeded(ReplicationQuota):
    def is_exceeded(self, now_ms: int) -> bool:
        return self.rate == 0


def outside(host: Host) -> Host:
    """The follower is not in sync, and copies from replicas that are listed; the quota is used up."""
    host.leaders = {
        tp: leader_of(leader.log, state(epoch=EPOCH, partition_epoch=1, isr=(1,)))
        for tp, leader in host.leaders.items()
    }
    host.quota = Exceeded(0, 1, 1000)
    return host


def test_a_throttled_partition_neither_counts_nor_completes_fe_23(host):
    """FE-12, F2 and F3 'unless the follower is throttled': an empty answer would have it ask again at once."""
    outside(host).ask({0: 5})
    log = host.leaders[named(0)].log
    host.append(0, 300)
    log.roll()
    host.append(0, 300)
    assert host.sent == []
    host.after(WAIT_MS)
    assert host.answered() == {0: 0}, "its bounds"
    assert host.quota is not None
    host.quota.rate = 1
    host.ask({})
    assert host.answered()[0] > 0


def test_a_throttled_partition_still_tells_of_a_truncation(host):
    """R-W-D7."""
    outside(host).ask({0: 5})
    host.leaders[named(0)].log.truncate_to(3)
    host.mark(0)
    assert [row.answer.diverging is not None for row in host.sent[-1]] == [True]


def test_members_of_the_isr_are_not_throttled_and_do_not_count_for_the_quota_fe_23(host):
    """Divergence 55: what is left of a throttle would else be nothing, below the rate of writes of all of them."""
    host.quota = Exceeded(0, 1, 1000)
    host.ask({0: 5})
    assert host.answered()[0] > host.quota._total == 0


def test_a_second_request_before_the_answer_gets_both(host):
    """A follower asks once more when it has partitions to add; the first answer then has nothing to say."""
    level(host)
    answers = len(host.sent)
    host.ask({0: 10})
    assert host.sent[answers:] == [[]]
    host.append(1)
    assert len(host.sent) == answers + 2
    assert host.answered()[1] > 0


def test_a_session_is_one_followers(host):
    level(host)
    with pytest.raises(ReplogError, match="a fetch session of broker 2 in epoch 102 is continued by 2 in 103"):
        host.session.on_request(SessionRequest(2, 103, 0, 1, 1, {}), host.now_ms)


def test_a_session_holds_so_many_partitions_and_no_more(host, monkeypatch):
    monkeypatch.setattr("leader.fetch_session.MAX_SESSION_PARTITIONS", 2)
    host.ask({0: 10, 1: 10})
    with pytest.raises(ReplogError, match="at most 2 partitions") as refused:
        host.ask({2: 10})
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    host.ask({2: 10}, 0)


def test_a_follower_whose_records_are_on_the_disk_alone_is_heard_and_answered_in_time(host):
    """An answer without them goes out when it is due; they follow once they are in memory (divergence 34)."""
    tp = named(0)
    log = host.leaders[tp].log
    evict(log.segments[-1].path)
    host.ask({0: 4})
    assert host.leaders[tp].replicas[2].log_end_offset == 4, "what it has counts (ST-10)"
    host.after(WAIT_MS)
    assert host.answered() == {0: 0}, "the bounds"
    host.ask({})
    host.session.on_brought(tp, host.wanted[tp])
    host.session.on_moved(host.now_ms)
    assert len(host.sent) == 2
    assert 0 < host.answered()[0] < log.size
