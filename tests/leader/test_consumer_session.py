"""A consumer's fetch session: it looks at what changed, reads what is committed, and waits for room."""

from pathlib import Path

import pytest

from leader.consumer_session import ConsumerSession
from leader.fetch_session import MAX_LOOKS
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.fetch import CONSUMER, FetchPartition, SessionRequest, SessionResponse
from replog.log.files.opening import bring
from replog.log.offsets import Isolation
from replog.log.segment import MAX_RECENT
from replog.metadata.values import NO_BROKER_EPOCH
from tests.leader.hosts import EPOCH, SessionHost, named
from tests.leader.replicas import NOW_MS, ONE_MIB, append_record
from tests.replog.log.eviction import evict

pytestmark = pytest.mark.usefixtures("evicted_is_cold")

Answer = dict[int, int]  # bytes by partition


class Host(SessionHost):
    """With one consumer's session."""

    session: ConsumerSession
    reader_for_fetch = SessionHost.leader_for_fetch

    def __init__(self, directory: Path, partitions: int, cold_wait_ms: int = 0) -> None:
        super().__init__(directory, partitions)
        self.alone = False
        self.ready = 0
        self.session = ConsumerSession(
            self, self._on_ready, max_bytes=ONE_MIB, max_wait_ms=30_000, cold_wait_ms=cold_wait_ms
        )

    def _on_ready(self) -> None:
        self.ready += 1

    def is_alone(self, leader: PartitionLeader) -> bool:
        return self.alone

    def misses_controller(self) -> bool:
        return self.alone

    def evict(self, *numbers: int) -> None:
        evict(*(self.leaders[named(number)].log.segments[-1].path for number in numbers))

    def brought(self, number: int) -> None:
        tp = named(number)
        cold = self.wanted.pop(tp)
        bring(cold)
        self.session.on_brought(tp, cold)
        self.session.on_moved(NOW_MS)

    def append(self, number: int, *, committed: bool = True) -> None:
        log = self.leaders[named(number)].log
        append_record(log, EPOCH)
        if committed:
            log.update_high_watermark(log.log_end_offset)
        self.mark(number)

    def ask(
        self,
        offsets: dict[int, int],
        *forgotten: int,
        room: int = ONE_MIB,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        rack: str | None = None,
        wait_ms: int = 500,
    ) -> Answer | None:
        request = SessionRequest(
            CONSUMER,
            NO_BROKER_EPOCH,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=ONE_MIB,
            named={named(number): FetchPartition(at, ONE_MIB, EPOCH) for number, at in offsets.items()},
            forgotten=[named(number) for number in forgotten],
            isolation=isolation,
            rack=rack,
        )
        self.session.on_request(request)
        return shown(self.session.ask(request, NOW_MS, room))

    def answer(self, room: int = ONE_MIB) -> Answer | None:
        return shown(self.session.answer(NOW_MS + 500, room))


def shown(response: SessionResponse | None) -> Answer | None:
    return response and {row.topic_partition.partition: len(row.answer.records) for row in response.rows}


def at_end(directory: Path, partitions: int) -> Host:
    """Its consumer has everything, and has been told so."""
    host = Host(directory, partitions)
    ends = dict.fromkeys(range(partitions), 10)
    assert host.ask(ends) is None
    assert host.answer() == dict.fromkeys(ends, 0), "the bounds"
    return host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return at_end(tmp_path, 3)


def test_a_pass_reads_so_many_partitions_and_the_next_one_the_rest(tmp_path):
    host = Host(tmp_path, 1)
    host.leaders = {named(number): host.leaders[named(0)] for number in range(MAX_LOOKS + 10)}
    first = host.ask(dict.fromkeys(range(MAX_LOOKS + 10), 0))
    assert len(host.touched) == MAX_LOOKS
    second = host.ask({})
    assert first is not None
    assert second is not None
    assert {*first, *second} == set(range(MAX_LOOKS + 10))


def test_an_idle_consumer_costs_no_look_at_any_partition(tmp_path):
    counted = []
    for partitions in (10, 100):
        host = at_end(tmp_path / str(partitions), partitions)
        host.looks = 0
        for _ in range(50):
            assert host.ask({}) is None
            assert host.answer() == {}
        assert host.looks == 0
        host.ask({})
        host.append(4)
        assert host.ready == 1
        assert host.answer() == {4: 72}
        host.ask({4: 11})
        counted.append(host.looks)
    assert counted[0] == counted[1] < 10


def test_a_consumer_is_woken_by_what_is_committed_and_by_nothing_else_fe_7(host):
    host.ask({})
    host.append(1, committed=False)
    assert not host.ready
    host.append(1)
    assert host.ready
    assert host.answer() == {1: 144}


def test_what_found_no_room_stays_due_and_has_its_turn_next_fe_10(host):
    """Nobody needs to name it again."""
    for number in (0, 1, 2):
        host.append(number)
    assert host.ask({}, room=72) == {0: 72, 1: 0, 2: 0}
    assert host.ask({0: 11}, room=72) == {1: 72}
    assert host.ask({1: 11}, room=72) == {2: 72}


def test_without_room_it_is_answered_at_once_and_loses_nothing(host):
    host.append(2)
    assert host.ask({}, room=0) == {2: 0}, "its new bounds alone"
    assert host.ask({}) == {2: 72}


@pytest.mark.parametrize("changes", [{"isolation": Isolation.TXN_COMMITTED}, {"rack": "b"}])
def test_other_terms_are_another_question_about_every_partition(host, changes):
    host.looks = 0
    assert host.ask({}, **changes) is None  # type: ignore[arg-type]
    assert host.looks >= 3
    host.answer()
    host.looks = 0
    host.ask({}, **changes)  # type: ignore[arg-type]
    assert host.looks == 0


def test_a_leader_that_hears_nobody_says_so_of_every_partition(host):
    """Divergence 29: nothing has happened to any of them."""
    assert host.ask({}) is None
    host.answer()
    host.alone = True
    assert host.ask({}) == {0: 0, 1: 0, 2: 0}
    assert host.ask({}) == {0: 0, 1: 0, 2: 0}, "until it is heard"


def test_what_is_forgotten_is_watched_and_answered_no_more(host):
    host.append(0)
    host.append(1)
    assert host.ask({}, 0) == {1: 72}
    assert list(host.watched) == [named(1), named(2)]
    host.session.close()
    assert not host.watched


def cold(directory: Path, partitions: int, *numbers: int, cold_wait_ms: int = 0) -> tuple[Host, int]:
    """Nothing was fetched yet, and the records of these are on the disk alone; and how many bytes each has."""
    host = Host(directory, partitions, cold_wait_ms)
    host.evict(*numbers)
    return host, host.leaders[named(0)].log.size


def test_what_is_not_in_memory_is_brought_and_read_when_it_is_there(tmp_path):
    host, size = cold(tmp_path, 1, 0)
    assert host.ask({0: 0}) is None
    assert host.ready == 0
    host.brought(0)
    assert host.ready == 1
    assert host.answer() == {0: size}


def test_what_is_in_memory_does_not_wait_for_what_is_not(tmp_path):
    host, size = cold(tmp_path, 2, 0)
    assert host.ask({0: 0, 1: 0}) is None
    assert host.ready == 1, "as there was room for one"
    assert host.answer() == {1: size}
    assert host.ask({1: 10}) is None, "what is brought is not tried before"
    host.brought(0)
    assert host.ready == 2
    assert host.answer() == {0: size}


def test_what_was_cut_off_deleted_or_lost_to_another_leader_meanwhile_is_not_served(tmp_path):
    host, _ = cold(tmp_path, 3, 0, 1, 2)
    assert host.ask({0: 5}) is None
    host.leaders[named(0)].log.truncate_to(3)
    host.brought(0)
    assert refusals(host) == {0: ErrorCode.OFFSET_OUT_OF_RANGE}
    assert host.ask({1: 5}, 0) is None
    host.leaders[named(1)].log.maybe_increment_log_start_offset(7)
    host.brought(1)
    assert refusals(host) == {1: ErrorCode.OFFSET_OUT_OF_RANGE}
    assert host.ask({2: 5}, 1) is None
    del host.leaders[named(2)]
    host.brought(2)
    assert refusals(host) == {2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def refusals(host: Host) -> dict[int, ErrorCode]:
    assert not host.watched.keys() - host.session._named.keys()
    rows = host.session.answer(NOW_MS, ONE_MIB).rows
    assert not any(row.answer.records for row in rows)
    return {row.topic_partition.partition: row.answer.error for row in rows}


def test_a_new_leader_is_heard_of_while_the_disk_is_waited_for(tmp_path):
    host, _ = cold(tmp_path, 1, 0)
    assert host.ask({0: 0}) is None
    del host.leaders[named(0)]
    host.mark(0)
    assert host.ready == 1


def test_a_request_that_does_not_wait_is_answered_and_a_later_one_gets_what_was_brought(tmp_path):
    host, size = cold(tmp_path, 1, 0)
    assert host.ask({0: 0}, wait_ms=0) == {0: 0}
    assert host.ask({}, wait_ms=0) == {}, "it is being brought, and not tried before"
    host.brought(0)
    assert host.ask({}, wait_ms=0) == {0: size}


def test_a_request_on_a_session_of_its_own_waits_for_the_disk_however_little_it_says(tmp_path):
    """Otherwise nothing would ever be there."""
    host, size = cold(tmp_path, 1, 0, cold_wait_ms=10_000)
    assert host.ask({0: 0}, wait_ms=0) is None
    assert host.session.deadline_ms == NOW_MS + 10_000
    host.brought(0)
    assert host.answer() == {0: size}
    host.append(0)
    assert host.ask({0: 11}, wait_ms=0) == {0: 0}, "the bounds: nothing is cold, nothing is waited for"


def test_where_what_is_committed_ends_is_brought_from_the_disk_too_fe_12(tmp_path):
    """With many records behind it the log remembers no place for it. The request would wait until its deadline."""
    host = at_end(tmp_path, 1)
    log = host.leaders[named(0)].log
    before = log.size
    for _ in range(1 + MAX_RECENT):
        host.append(0, committed=False)
    assert host.ask({}) is None
    host.evict(0)
    log.update_high_watermark(11)
    host.mark(0)
    assert host.ready == 0
    host.brought(0)
    assert host.ready == 1
    assert host.answer() == {0: log.bound(Isolation.HIGH_WATERMARK).position - before}


def test_what_was_brought_for_an_older_request_changes_nothing(tmp_path):
    host, _ = cold(tmp_path, 1, 0)
    assert host.ask({0: 0}) is None
    old = host.wanted[named(0)]
    assert host.ask({0: 10}) is None, "it reads from the end now"
    host.session.on_brought(named(0), old)
    host.session.on_moved(NOW_MS)
    assert host.ready == 0
    assert host.ask({}, 0) == {}
    host.session.on_brought(named(0), old)
