"""A consumer's fetch session: it looks at what changed, reads what is committed, and waits for room."""

from pathlib import Path

import pytest

from leader.consumer_session import ConsumerSession
from leader.fetch_session import MAX_LOOKS
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.log.fetch import CONSUMER, FetchPartition, SessionRequest, SessionRow
from replog.log.files.opening import bring
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log.segment import MAX_RECENT
from replog.metadata.values import NO_BROKER_EPOCH
from tests.leader.hosts import EPOCH, SessionHost, named
from tests.leader.replicas import NOW_MS, ONE_MIB, append_record, leader_of, log_of, state
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
            self, self, self._on_ready, max_bytes=ONE_MIB, max_wait_ms=30_000, cold_wait_ms=cold_wait_ms
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
        self.append_to(self.leaders[named(number)].log, committed=committed)
        self.mark(number)

    @staticmethod
    def append_to(log: Log, size: int = 0, *, committed: bool = True) -> None:
        append_record(log, EPOCH, size)
        if committed:
            log.update_high_watermark(log.log_end_offset)

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

    def answer(self, room: int = ONE_MIB, after_ms: int = 500) -> Answer | None:
        return shown(self.session.answer(NOW_MS + after_ms, room))

    def look_on(self) -> int:
        """As the broker's follow-up does, until the session asks for no more; how often it did."""
        steps = 0
        while self.goes_on:
            self.goes_on = False
            self.touched.clear()
            self.session.on_moved(NOW_MS)
            assert len(self.touched) <= MAX_LOOKS
            steps += 1
        return steps


def shown(rows: list[SessionRow] | None) -> Answer | None:
    return None if rows is None else {row.topic_partition.partition: len(row.answer.records) for row in rows}


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


@pytest.mark.parametrize("limit", [71, 100, 141])
def test_two_partitions_with_room_for_one_batch_get_it_in_turn_fe_9_fe_10(tmp_path, limit):
    """FE-9, FE-10, KIP-74: what does not fit whole is left out. A piece of it would be of no use, and cost its turn."""
    host, at, moved = Host(tmp_path, 2), [0, 0], {0: 0, 1: 0}
    for _ in range(20):
        answer = host.ask(moved, room=limit)
        assert answer is not None
        for number, size in answer.items():
            assert not 0 < size < 71, "a first batch comes whole or not at all"
            at[number] += size // 71
        moved = {number: at[number] for number, size in answer.items() if size}
    assert at == [10, 10]


BATCH_LIMITS = {  # the least and most bytes of an answer: what two partitions with batches of 71 bytes give
    (71, 71): {0: 71, 1: 0},
    (1, 71): {0: 71, 1: 0},  # the first batch comes whole
    (71, 142): {0: 71, 1: 71},
    (71, 1000): {0: 71, 1: 71},
    (142, 212): {0: 142, 1: 0},  # the second one would be cut off
    (142, 213): {0: 142, 1: 71},
    (200, 1000): {0: 200, 1: 200},  # a piece behind whole batches stays, as in Kafka: the reader drops it
}


@pytest.mark.parametrize(("limits", "given"), BATCH_LIMITS.items())
def test_what_fits_into_a_partition_s_limit_and_the_answer_s_fe_9(tmp_path, limits, given):
    """FE-9."""
    host, (of_partition, of_answer) = Host(tmp_path, 2), limits
    named_at = {named(number): FetchPartition(0, of_partition, EPOCH) for number in (0, 1)}
    request = SessionRequest(CONSUMER, NO_BROKER_EPOCH, 0, 1, of_answer, named_at)
    host.session.on_request(request)
    assert shown(host.session.ask(request, NOW_MS, ONE_MIB)) == given


def many(directory: Path, *with_data: int) -> tuple[Host, dict[int, int]]:
    """More partitions than one pass looks at, of which these have a record; and where their reader is."""
    host = Host(directory, 2)
    of_both = [host.leaders[named(number)] for number in (0, 1)]
    host.append_to(of_both[1].log)
    count = 2 * MAX_LOOKS + 200
    host.leaders = {named(number): of_both[number in with_data] for number in range(count)}
    return host, dict.fromkeys(range(count), 10)


def test_a_request_that_does_not_wait_is_answered_when_all_partitions_were_looked_at_fe_11(tmp_path):
    """FE-11: an answer without records says that there are none, however many are named, and however often."""
    with_data = range(2 * MAX_LOOKS + 150, 2 * MAX_LOOKS + 200)
    host, ends = many(tmp_path, *with_data)
    for _ in range(2):  # all are named each time, as on a call with a session of its own
        assert host.ask(ends, wait_ms=0) is None
        assert host.look_on() > 0
        assert host.ready == 1
        answer = host.answer()
        assert answer is not None
        assert [number for number, size in answer.items() if size] == [*with_data], "all that have some"
        host.ready = 0


def test_a_request_that_does_not_wait_is_answered_without_records_if_there_are_none(tmp_path):
    host, ends = many(tmp_path)
    assert host.ask(ends, wait_ms=0) is None
    assert host.look_on() <= 3
    assert host.ready == 1
    answer = host.answer(after_ms=0)
    assert answer is not None
    assert not any(answer.values())
    host.ready = 0
    assert host.ask({}, wait_ms=0) is None, "the bounds of the others are due"
    host.look_on()
    host.answer(after_ms=0)
    assert host.ask({}, wait_ms=0) is not None


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
    assert not host.watched.keys() - host.session.named.keys()
    rows = host.session.answer(NOW_MS, ONE_MIB)
    assert rows is not None
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


BATCH = 3 << 19  # bytes: more than is brought for the headers that are read before it


def larger(directory: Path, cold_wait_ms: int) -> Host:
    """One partition with such a batch, of which nothing is in memory."""
    host = Host(directory / "host", 1, cold_wait_ms)
    log = log_of(directory / "log", f"{EPOCH}:0-9", high_watermark=10, max_message_bytes=2 * BATCH)
    host.leaders[named(0)] = leader_of(log, state(epoch=EPOCH, isr=(1, 2)))
    host.append_to(log, BATCH)
    for _ in range(MAX_RECENT):
        host.append_to(log)
    host.evict(0)
    return host


@pytest.mark.parametrize(("cold_wait_ms", "wait_ms"), [(10_000, 0), (10_000, 500), (0, 500)])
def test_what_lacks_more_than_was_brought_waits_on(tmp_path, cold_wait_ms, wait_ms):
    """A header first and then its batch, or an index and then the records: no answer says that nothing is there."""
    host = larger(tmp_path, cold_wait_ms)
    assert host.ask({0: 10}, wait_ms=wait_ms) is None
    host.brought(0)
    assert host.ready == 1
    assert host.answer(after_ms=1) is None
    host.brought(0)
    assert host.ready == 2
    answer = host.answer(after_ms=2)
    assert answer is not None
    assert answer[0] >= BATCH


@pytest.mark.parametrize("lagging", [(1,), (1, 2)])
def test_new_records_do_not_wait_for_what_is_brought_from_the_disk(tmp_path, lagging):
    """Whatever happens to what is brought, and however much that is: it keeps no room from what is there."""
    host, _ = cold(tmp_path, 3, *lagging)
    assert host.ask({0: 10}, wait_ms=0) == {0: 0}
    assert host.ask(dict.fromkeys(lagging, 0)) is None
    assert host.answer(after_ms=1) is None
    for number in (*lagging, 0):
        host.append(number)
    assert host.ready
    answer = host.answer(after_ms=2)
    assert answer is not None
    assert answer[0] == 72
    assert set(host.wanted) == {named(number) for number in lagging}


def test_looking_for_what_is_there_brings_no_more_from_the_disk(tmp_path):
    host, _ = cold(tmp_path, 4, 0, 1, 2, 3)
    assert host.ask(dict.fromkeys(range(4), 0)) is None
    assert host.ready == 1, "as there was room for one"
    assert host.answer(after_ms=1) is None
    assert set(host.wanted) == {named(0), named(1)}


def test_a_new_record_does_not_wait_for_the_disk_though_more_partitions_are_due_than_a_pass_looks_at(tmp_path):
    """The first pass finds its room taken by what it asks the disk for, and the second one must get to it all the
    same."""
    host, _ = cold(tmp_path, 2, 0)
    lagging, last = range(2 * MAX_LOOKS + 200), 2 * MAX_LOOKS + 200
    host.leaders |= {named(last): host.leaders[named(1)]} | {named(one): host.leaders[named(0)] for one in lagging}
    host.ask({**dict.fromkeys(lagging, 9), last: 10})
    while host.answer(after_ms=1) is not None:  # of bounds
        host.ask({})
    host.append(last)
    answer = host.answer(after_ms=2)
    assert answer is not None
    assert answer[last] == 72


def test_what_is_brought_is_still_waited_for_when_its_partition_has_changed_and_there_is_no_room_to_read_it(tmp_path):
    host, _ = cold(tmp_path, 1, 0)
    assert host.ask({0: 9}) is None
    brought = host.wanted[named(0)]
    host.append(0)
    assert host.answer(room=0) == {0: 0}, "the new bounds"
    assert host.ask({}) is None
    assert host.wanted == {named(0): brought}, "asked for once"
    host.brought(0)
    assert host.answer() is not None


def test_what_was_brought_and_found_no_room_is_not_brought_again(tmp_path):
    host, size = cold(tmp_path, 1, 0)
    assert host.ask({0: 0}) is None
    host.brought(0)
    assert host.answer(room=0) == {0: 0}
    host.evict(0)
    assert host.ask({}) == {0: size}


def test_a_request_for_which_there_is_no_room_does_not_wait_for_the_disk(tmp_path):
    """As one that finds no room when it comes."""
    host, _ = cold(tmp_path, 2, 0, 1)
    assert host.ask({0: 0, 1: 0}) is None
    assert host.answer(after_ms=1) is None
    host.brought(0)
    assert host.answer(room=0, after_ms=2) == {0: 0}


def test_a_session_that_goes_on_is_answered_in_its_time_though_the_disk_is_slower(tmp_path):
    host = larger(tmp_path, 0)
    assert host.ask({0: 10}) is None
    host.brought(0)
    assert host.answer(after_ms=1) is None
    assert host.answer(after_ms=500) == {}


def test_a_single_call_waits_for_the_disk_also_if_there_is_something_only_later(tmp_path):
    """As around an election: a new leader may have to find what is committed on the disk."""
    host = Host(tmp_path, 1, 10_000)
    log = host.leaders[named(0)].log
    for _ in range(1 + MAX_RECENT):
        host.append_to(log, committed=False)
    assert host.ask({0: 10}) is None
    host.evict(0)
    log.update_high_watermark(11)
    host.mark(0)
    assert host.session.deadline_ms == NOW_MS + 10_000
    assert host.answer(after_ms=500) is None, "its own wait is over, and the disk has not answered"
    host.brought(0)
    assert host.answer(after_ms=600) == {0: 72}


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
