"""Replicas that share a segment's base offset hold identical files: however the bytes came, were cut, or were reloaded.

`.log`, `.index`, `.timeindex`, `.digest` and `.txnindex` are compared byte for byte (divergences 1 to 3, IX-19)."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from replog.log.log import Log
from replog.log.offsets import AppendOrigin
from tests.replog.log.batches import append, client_batch, files_of, open_log
from tests.replog.log.producers.writes import marker

Batch = tuple[int, int, int]  # records, bytes of each value, timestamp

SETTINGS = {"segment_bytes": 900, "index_interval_bytes": 150, "segment_ms": 500, "segment_index_bytes": 60}
BATCHES: list[Batch] = [(1 + i % 3, (i * 13) % 60, 1000 + (i * 37) % 400 + i * 9) for i in range(60)]


def lead(directory: Path, batches: list[Batch], *, transactions: bool = False, **overrides: int) -> Log:
    """With `transactions` every second batch is of one of three producers', which are ended after a while."""
    log = open_log(directory, **overrides)
    sequences = dict.fromkeys(range(3), 0)
    for number, (count, size, time) in enumerate(batches):
        pid, fields = number // 2 % 3, {}
        if transactions and number % 2:
            fields = {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequences[pid], "transactional": 1}
            sequences[pid] += count
        append(log, client_batch(*[b"v" * size] * count, timestamps=[time] * count, **fields), epoch=number // 7)
        if transactions and number % 3 == 2:
            ended = marker(number % 4 % 3, commit=number % 5 == 0, timestamp=time)
            log.append_as_leader(ended, leader_epoch=number // 7, now_ms=0, origin=AppendOrigin.COORDINATOR)
    log.write_indexes()
    return log


def log_bytes(log: Log) -> bytes:
    return b"".join(segment.path.read_bytes() for segment in log.segments)


def only_logs(directory: Path) -> Path:
    """Remove everything but the `.log` files."""
    for path in directory.iterdir():
        if path.suffix != ".log":
            path.unlink()
    return directory


def follow(data: bytes, log: Log, size: int) -> None:
    """Fetch `data` in pieces of `size` bytes, at least one batch each, cut anywhere."""
    position = 0
    while position < len(data):
        whole = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        size_before = log.size
        log.append_as_follower(data[position : position + max(whole, size)])
        position += log.size - size_before
    log.write_indexes()


def test_digests_of_common_intervals_compare_across_different_segments(tmp_path):
    """Sums can be subtracted: one log in segments of 900 bytes, one in one segment, same batches."""
    small = lead(tmp_path / "small", BATCHES, **SETTINGS)
    large = lead(tmp_path / "large", BATCHES, index_interval_bytes=150)
    one = large._segments.active.digest_index
    entries = [one.get(slot) for slot in range(one.count)]
    compared = 0
    for segment in small._segments:
        inside = {entry.offset: entry.digest for entry in entries}
        mine = [segment.digest_index.get(slot) for slot in range(segment.digest_index.count)]
        common = [entry for entry in mine if entry.offset in inside]
        for first, second in pairwise(common):
            theirs = (inside[second.offset] - inside[first.offset]) % 2**64
            assert (second.digest - first.digest) % 2**64 == theirs
            compared += 1
    assert compared > 3


actions = st.one_of(
    st.tuples(st.just("fetch"), st.integers(1, 2000)),
    st.tuples(st.just("reopen"), st.booleans()),
    st.tuples(st.just("cut"), st.integers(0, 40)),
    st.tuples(st.just("tear"), st.integers(1, 300)),
    st.tuples(st.just("flush"), st.just(0)),
)


@settings(max_examples=60)
@given(
    batches=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 120), st.integers(-1, 3000)), min_size=1, max_size=30),
    steps=st.lists(actions, max_size=15),
    interval=st.sampled_from([0, 1, 100, 500, 4096]),
    segment_bytes=st.sampled_from([700, 1500, 10**6]),
    transactions=st.booleans(),
)
def test_no_history_shows_in_the_files(batches, steps, interval, segment_bytes, transactions):
    """A follower fetches, restarts, is truncated, loses unflushed bytes, then catches up: the leader's files, and those
    that recovery makes of the logs alone."""
    overrides = {"segment_bytes": segment_bytes, "index_interval_bytes": interval, "segment_ms": 900}
    with TemporaryDirectory() as name:
        directory = Path(name)
        leader = lead(directory / "leader", batches, transactions=transactions, **overrides)
        data = log_bytes(leader)
        log = open_log(directory / "follower", **overrides)
        for step, number in steps:
            fetched = sum(segment.size for segment in log.segments)
            if step == "fetch" and fetched < len(data):
                whole = 12 + int.from_bytes(data[fetched + 8 : fetched + 12], "big")
                log.append_as_follower(data[fetched : fetched + max(whole, number)])
            elif step == "cut":
                log.truncate_to(max(0, log.log_end_offset - number))
            elif step == "flush":
                log.flush()
            elif step == "reopen":
                log.close() if number else log.abandon()
                point, repairs = log.recovery_point, []
                log = open_log(
                    directory / "follower",
                    clean=bool(number),
                    recovery_point=point,
                    on_progress=repairs.append,
                    **overrides,
                )
                assert not (number and repairs), repairs
            elif step == "tear":
                active = log.segments[-1]
                log.abandon()
                for kind in (".log", ".index", ".timeindex", ".digest", ".txnindex"):
                    if (path := active.path.with_suffix(kind)).exists():
                        with path.open("r+b") as file:
                            file.truncate(max(0, file.seek(0, 2) - number))
                point = log.recovery_point
                for path in (directory / "follower").glob("*.snapshot"):
                    if int(path.stem) > point:
                        path.write_bytes(path.read_bytes()[:-number])
                log = open_log(directory / "follower", clean=False, recovery_point=point, **overrides)
        fetched = sum(segment.size for segment in log.segments)
        follow(data[fetched:], log, 1000)
        assert files_of(directory / "follower") == files_of(directory / "leader")
        assert log.epochs.entries == leader.epochs.entries
        assert sorted(log.producers.snapshot_entries()) == sorted(leader.producers.snapshot_entries())
        log.close()
        leader.close()
        assert files_of(directory / "follower") == files_of(directory / "leader")
        open_log(only_logs(directory / "follower"), clean=False, **overrides).abandon()
        assert files_of(directory / "follower") == files_of(directory / "leader")
