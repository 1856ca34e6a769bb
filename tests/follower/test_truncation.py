"""How far a follower cuts (7.4, 7.5). The table R-W-T is in tests/scenarios/truncation.txt."""

from pathlib import Path
from random import Random

import pytest

from follower.partition_follower import truncation_target
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import EpochEndOffset
from tests.leader.replicas import append_record, bytes_of, log_of, pair_of

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"


@pytest.mark.parametrize(
    ("row", "leader", "local", "log_end", "target"),
    [
        ("3, no cache", (2, 100), (-1, -1), 80, 80),
        ("3, no cache, shorter leader", (2, 60), (-1, -1), 80, 60),
        ("4, epoch unknown here", (3, 20), (2, 18), 26, 18),
        ("5, R-W-T20", (2, 100), (2, 80), 80, 80),
        ("5, leader ends earlier", (1, 10), (1, 12), 18, 10),
        ("5, ends here earlier", (1, 12), (1, 10), 18, 10),
    ],
)
def test_the_rows_of_the_truncation_table(row, leader, local, log_end, target):
    assert truncation_target(EpochEndOffset(*leader), EpochEndOffset(*local), log_end) == target, row


# Below the follower's own log start (INV-14): what is hidden there may be another history than the leader's


def delete_records(log: Log, before: int) -> None:
    log.update_high_watermark(max(before, log.high_watermark))
    log.maybe_increment_log_start_offset(before)


def reopened(log: Log, *, clean: bool, log_start: int | None = None) -> Log:
    """As after a restart of its broker, with this log start in the checkpoint."""
    start = log.log_start_offset if log_start is None else log_start
    high_watermark = log.high_watermark
    if clean:
        log.close()
    else:
        log.abandon()
    return Log.open(log.directory, log.config, clean=clean, log_start_offset=start, high_watermark=high_watermark)


def epochs_in_files(log: Log) -> list[int]:
    """Those of all batches, hidden ones too."""
    data = b"".join(segment.path.read_bytes() for segment in log.segments)
    return [header.leader_epoch for _, header in iterate_batches(data)]


def check_it_has_what_its_leader_has(log: Log, leader: Log) -> Log:
    """From both log starts on, and after a crash, too, when recovery cuts where an epoch falls. Returns it as it is
    then."""
    assert epochs_in_files(log) == sorted(epochs_in_files(log)), "INV-14"
    start = max(log.log_start_offset, leader.log_start_offset)
    assert bytes_of(log, start) == bytes_of(leader, start)
    recovered = reopened(log, clean=False)
    assert bytes_of(recovered, start) == bytes_of(leader, start)
    return recovered


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("runs", "hidden", "leader_runs", "start", "batches", "rounds"),
    [
        (  # swarm 100508: its visible records go, and the hidden ones behind the divergence with them
            ("0:0-9", "3:10-27"),
            16,
            ("0:0-9", "1:10-12", "8:13-20"),
            13,
            8,
            [(28, 3, "diverging 1,13"), (13, 3, "diverging 1,13"), (13, None, "ok")],
        ),
        (  # nothing was visible
            ("0:0-9", "3:10-15"),
            16,
            ("0:0-9", "1:10-20", "(8@21)"),
            16,
            5,
            [(16, 3, "diverging 1,21"), (16, None, "ok")],
        ),
        (  # the epochs would not fall, and still it is another history
            ("0:0-9", "2:10-15"),
            16,
            ("0:0-15", "8:16-20"),
            16,
            5,
            [(16, 2, "diverging 0,16"), (16, None, "ok")],
        ),
        (  # what stays hidden is the leader's
            ("0:0-9", "3:10-15"),
            12,
            ("0:0-9", "8:10-20"),
            10,
            21,
            [(16, 3, "diverging 0,10"), (10, 0, "ok")],
        ),
    ],
)
def test_what_a_follower_hides_is_asked_about_like_the_rest_and_removed_if_the_leader_lacks_it(
    tmp_path, restarted, runs, hidden, leader_runs, start, batches, rounds
):
    """FT-14, EP-5, INV-14."""
    log, leader = log_of(tmp_path / "f", *runs), log_of(tmp_path / "l", *leader_runs)
    delete_records(log, hidden)
    if restarted:
        log = reopened(log, clean=True)
    pair = pair_of(leader, log, 8)
    pair.catch_up()
    assert pair.rounds[: len(rounds)] == rounds
    assert (log.log_start_offset, len(epochs_in_files(log))) == (start, batches)
    check_it_has_what_its_leader_has(log, leader)


def test_a_deposed_leader_that_hides_everything_keeps_it_if_only_its_own_epoch_is_unknown(tmp_path):
    """EP-3, LG-10: of its producers it knows from nothing else (PS-11)."""
    log, leader = log_of(tmp_path / "f", "1:0-15", "(3@16)"), log_of(tmp_path / "l", "1:0-15", "8:16-20")
    delete_records(log, 16)
    pair = pair_of(leader, log, 8)
    pair.catch_up()
    assert [said for _, *said in pair.rounds[:2]] == [[3, "diverging 1,16"], [1, "ok"]]
    assert (log.log_start_offset, len(epochs_in_files(log))) == (16, 21)
    check_it_has_what_its_leader_has(log, leader)


class Replica:
    """A log whose checkpointed log start may be older than its own (LG-16)."""

    def __init__(self, directory: Path) -> None:
        self.take(log_of(directory))

    def take(self, log: Log) -> None:
        self.log = log
        log.on_recovery_point_lowered = self.checkpoint
        self.checkpoint()

    def checkpoint(self) -> None:
        self.log_start = self.log.log_start_offset

    def restart(self, rng: Random) -> None:
        clean = rng.random() < 0.5
        start = None if clean else rng.randint(self.log_start, self.log.log_start_offset)
        self.take(reopened(self.log, clean=clean, log_start=start))


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 15, 24, 34])  # the last three failed once
def test_whatever_was_elected_and_deleted_the_epochs_in_a_followers_files_never_fall(tmp_path, seed):
    """INV-14, INV-13, FT-14: any of three replicas leads next, with what it has, deletes records, or is restarted."""
    rng = Random(seed)
    replicas = [Replica(tmp_path / str(i)) for i in range(3)]
    for epoch in range(1, 8):
        leader, follower = rng.sample(replicas, 2)
        leader.log.assign_epoch_start(epoch)
        for _ in range(rng.randint(0, 4)):
            append_record(leader.log, epoch)
        for replica in replicas:
            if not rng.randrange(3):
                delete_records(replica.log, rng.randint(replica.log.log_start_offset, replica.log.log_end_offset))
            if not rng.randrange(3):
                replica.restart(rng)
        pair_of(leader.log, follower.log, epoch).catch_up()
        follower.take(check_it_has_what_its_leader_has(follower.log, leader.log))
