"""The follower's half of a fetch session: it asks about what changed, and leaves out what has to wait."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import follower.fetch_session_handler
from follower.fetch_session_handler import FetchSessionHandler
from follower.partition_follower import FetchState, FollowerProgress, PartitionFollower
from replog.common.quota import ReplicationQuota, Throttles
from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode
from replog.log.fetch import FetchAnswer, FetchPartition, SessionRequest, SessionRow
from replog.log.log import Log
from replog.topic import TopicPartition
from tests.leader.replicas import NOW_MS, bytes_of, log_of, state

BACKOFF_MS = 1000
EPOCH = 3
TOPIC_ID = b"topic id is here"


@dataclass
class Replica:
    topic_partition: TopicPartition
    topic_id: bytes
    log: Log
    follower: PartitionFollower | None
    follower_quota: ReplicationQuota | None = None
    fetched_by: FetchSessionHandler | None = None


class Quota(ReplicationQuota):
    exceeded = False

    def is_exceeded(self, now_ms: int) -> bool:
        return self.exceeded


class Session(FetchSessionHandler):
    """Of broker 2; each of its partitions has records 0 to 4, and the leader 0 to 9."""

    def __init__(self, directory: Path, partitions: int) -> None:
        config = BrokerConfig(node_id=2, log_dirs=directory, replica_fetch_backoff_ms=BACKOFF_MS)
        self.quota = Quota(1000, 1, 1000)
        throttles = Throttles(1000, 1, 1000)
        throttles.listed = self.quota
        self.progress: list[FollowerProgress] = []
        self.defects: list[Exception] = []
        super().__init__(
            config,
            lambda: 102,
            throttles,
            lambda _, progress: self.progress.append(progress),
            lambda _, error: self.defects.append(error),
        )
        self.now_ms = NOW_MS
        self.leaders = log_of(directory / "leader", "3:0-9")
        self.looks = 0
        self.replicas = [self.replica(directory, number) for number in range(partitions)]
        for replica in self.replicas:
            self.add(replica)

    def replica(self, directory: Path, number: int) -> Replica:
        tp = TopicPartition("t", number)
        log = log_of(directory / str(number), "3:0-4")
        role = PartitionFollower(tp, log, backoff_ms=BACKOFF_MS)
        role.become_follower(state(epoch=EPOCH, isr=(1,)), NOW_MS)
        return Replica(tp, TOPIC_ID, log, role)

    def _fetch(self, *arguments: Any) -> FetchPartition | None:
        self.looks += 1
        return super()._fetch(*arguments)

    def ask(self) -> tuple[dict[int, int], list[int]]:
        """The partitions that the next request names, with their offsets, and those that it forgets."""
        request = self.next_request(self.now_ms)
        assert request is not None
        return shown(request)

    def answer(self, number: int, offset: int = 5, **answer: Any) -> None:
        """The outstanding request is answered for one partition: by default with nothing."""
        self.respond((number, offset, FetchAnswer(**{"high_watermark": 5, "log_start_offset": 0} | answer)))

    def respond(self, *rows: tuple[int, int, FetchAnswer]) -> None:
        asked = [
            (TopicPartition("t", number), FetchPartition(offset, 0, EPOCH, topic_id=TOPIC_ID), answer)
            for number, offset, answer in rows
        ]
        self.on_response([SessionRow(*row) for row in asked], self.now_ms)

    def records(self) -> bytes:
        """What the leader has from 5 to 9."""
        return bytes_of(self.leaders, 5)


def shown(request: SessionRequest) -> tuple[dict[int, int], list[int]]:
    named = {tp.partition: fetch.fetch_offset for tp, fetch in request.named.items()}
    return named, [tp.partition for tp in request.forgotten]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, 3)


def test_a_request_names_what_changed_and_looks_at_nothing_else_ft_6(tmp_path):
    session = Session(tmp_path, 20)
    assert session.ask() == (dict.fromkeys(range(20), 5), [])
    session.looks = 0
    session.answer(7, records=session.records())
    assert session.ask() == ({7: 10}, [])
    session.respond()
    assert session.ask() == ({}, [])
    assert session.looks == 1


def test_an_answer_that_takes_too_long_is_asked_for_by_halves_until_answers_come_easily(session):
    def asked() -> int:
        session.now_ms += BACKOFF_MS
        request = session.next_request(session.now_ms)
        assert request is not None
        return request.max_bytes

    most = size = asked()
    session.lost(session.now_ms)
    assert asked() == most, "another failure says nothing about its size"
    while size > len(session.records()):
        session.lost(session.now_ms, timed_out=True)
        size //= 2
        assert asked() == size
    session.answer(0, records=session.records())
    assert asked() == 2 * size


def test_one_request_at_a_time_and_one_more_for_partitions_that_come_while_it_waits(session, tmp_path):
    session.ask()
    assert session.next_request(session.now_ms) is None
    session.add(session.replica(tmp_path, 3))
    assert session.ask() == ({3: 5}, [])
    session.add(session.replica(tmp_path, 4))
    assert session.next_request(session.now_ms) is None
    session.respond()
    assert session.ask() == ({4: 5}, [])


def test_with_much_to_name_requests_do_not_wait(tmp_path, monkeypatch):
    """So that no step of the loop has to do with all partitions at once."""
    monkeypatch.setattr(follower.fetch_session_handler, "MAX_NAMED", 2)
    session = Session(tmp_path, 5)
    requests = []
    for _ in range(3):
        request = session.next_request(session.now_ms)
        assert request is not None
        requests.append((list(shown(request)[0]), request.max_wait_ms > 0))
        session.respond()
    assert requests == [([0, 1], False), ([2, 3], False), ([4], True)]


def test_a_partition_that_is_removed_is_forgotten_and_its_answers_are_dropped(session):
    """FT-8."""
    session.ask()
    removed = session.replicas[1]
    assert session.remove(removed.topic_partition)
    assert not session.remove(removed.topic_partition)
    session.answer(1, records=session.records())
    assert removed.log.log_end_offset == 5
    assert session.ask() == ({}, [1])
    session.add(removed)
    assert session.ask() == ({1: 5}, [])
    assert removed.fetched_by is session


def test_an_answer_to_an_earlier_question_counts_for_its_high_watermark_alone(session):
    """FT-8."""
    session.ask()
    session.answer(0, records=session.records())
    session.ask()
    session.answer(0, offset=5, records=session.records(), high_watermark=8)
    log = session.replicas[0].log
    assert (log.log_end_offset, log.high_watermark) == (10, 8)
    session.respond((0, 5, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=9)))
    assert log.high_watermark == 8


def test_a_push_moves_the_high_watermark_and_answers_nothing(session):
    session.ask()
    session.answer(0)
    session.ask()
    fetch = FetchPartition(5, 0, EPOCH, topic_id=TOPIC_ID)
    rows = [SessionRow(TopicPartition("t", 0), fetch, FetchAnswer(high_watermark=5))]
    other = [row._replace(request=fetch._replace(topic_id=b"of another topic")) for row in rows]
    session.replicas[0].log.update_high_watermark(3)
    session.on_push(other)
    assert session.replicas[0].log.high_watermark == 3
    session.on_push(rows)
    assert (session.replicas[0].log.high_watermark, session.outstanding) == (5, 1)
    assert session.progress[-1].bounds_moved


def test_a_stream_that_is_lost_before_all_were_named_forgets_none_ft_11(tmp_path, monkeypatch):
    monkeypatch.setattr(follower.fetch_session_handler, "MAX_NAMED", 2)
    session = Session(tmp_path, 5)
    session.ask()
    session.lost(session.now_ms)
    session.now_ms += BACKOFF_MS
    named: dict[int, int] = {}
    for _ in range(3):
        named |= session.ask()[0]
        session.respond()
    assert named == dict.fromkeys(range(5), 5)


def test_a_log_start_that_moved_is_named_st_7(session):
    session.ask()
    session.answer(0)
    session.ask()
    session.replicas[0].log.maybe_increment_log_start_offset(2)
    session.respond()
    assert session.ask() == ({}, [])
    session.mark(TopicPartition("t", 0))
    session.respond()
    assert session.ask() == ({0: 5}, [])


@pytest.mark.parametrize(
    ("lag", "isr", "counts"), [(5, (1,), True), (None, (1,), True), (0, (1,), False), (5, (1, 2), False)]
)
def test_only_copies_of_what_is_not_in_sync_count_and_wait_ft_6(session, lag, isr, counts):
    """Divergence 55: a member of the ISR neither waits nor uses up what the others may copy."""
    replica = session.replicas[0]
    replica.follower_quota, replica.follower.isr = session.quota, isr
    session.ask()
    replica.follower.lag = lag
    session.answer(0, records=session.records(), high_watermark=100)
    assert (session.quota._total > 0) is counts
    session.quota.exceeded, replica.follower.lag = True, lag
    assert (0 in session.ask()[0]) is not counts


def test_a_partition_that_is_listed_no_more_is_copied_within_a_backoff(session):
    session.replicas[0].follower_quota = session.quota
    session.quota.exceeded = True
    assert session.ask() == ({1: 5, 2: 5}, [])
    session.replicas[0].follower_quota = None
    session.respond()
    assert session.ask() == ({}, [])
    session.respond()
    session.now_ms += BACKOFF_MS
    assert session.ask() == ({0: 5}, [])


def test_requests_meanwhile_do_not_put_the_next_try_of_a_throttled_partition_off(session):
    for replica in session.replicas:
        replica.follower_quota = session.quota
    session.quota.exceeded = True
    assert session.next_request(session.now_ms) is None
    session.now_ms += BACKOFF_MS // 2
    assert session.next_request(session.now_ms) is None
    for replica in session.replicas:
        replica.follower_quota = None
    session.now_ms += BACKOFF_MS // 2
    assert session.ask() == (dict.fromkeys(range(3), 5), [])


@pytest.mark.parametrize("waits_for", ["the quota", "its backoff"])
def test_a_partition_that_is_removed_while_it_waits_is_asked_for_no_more(session, waits_for):
    replica = session.replicas[0]
    if waits_for == "the quota":
        replica.follower_quota, session.quota.exceeded = session.quota, True
    else:
        replica.follower.on_failure(replica.follower.next_fetch(NOW_MS, 1), NOW_MS)
    assert session.ask() == ({1: 5, 2: 5}, [])
    session.remove(replica.topic_partition)
    session.quota.exceeded = False
    session.now_ms += BACKOFF_MS
    session.respond()
    assert session.ask() == ({}, [])


def test_a_defect_in_one_partition_leaves_the_others_alone(session):
    """FT-12."""
    session.ask()
    broken = session.replicas[0].follower
    assert broken is not None

    def defect(*_: Any) -> None:
        raise ValueError("a defect")

    broken.on_answer = defect  # type: ignore[assignment, method-assign]
    records = FetchAnswer(records=session.records(), high_watermark=5, log_start_offset=0)
    session.respond((0, 5, records), (1, 5, records))
    assert (broken.fetch_state, len(session.defects)) == (FetchState.FAILED, 1)
    assert session.ask() == ({1: 10}, [0])


def test_nothing_is_asked_where_there_is_nothing_to_ask(session):
    for replica in session.replicas:
        replica.follower = None
    assert session.next_request(session.now_ms) is None
    assert session.next_wake_ms is None


def test_where_many_have_nothing_to_ask_the_others_are_looked_at_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(follower.fetch_session_handler, "MAX_NAMED", 2)
    session = Session(tmp_path, 5)
    for replica in session.replicas[:4]:
        assert replica.follower is not None
        replica.follower.fail("the leader has a newer epoch")
    for _ in range(2):
        assert session.next_request(session.now_ms) is None
        wake_ms = session.next_wake_ms
        assert wake_ms is not None
        assert wake_ms <= session.now_ms
    assert session.ask() == ({4: 5}, [])
