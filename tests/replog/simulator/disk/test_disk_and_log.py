"""The real log over simulated disks: whatever moment the power goes, what was flushed is there, and nothing is that a
truncation had cut off."""

import errno
import random
from pathlib import Path

import pytest

from replog.config.topic import TopicConfig
from replog.log.directories.log_directory import LogDirectory
from replog.log.errors import LogStorageError, NoRoom
from replog.log.files.opening import fsync_directory
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.simulator.runtime.process import Killed
from replog.topic import TopicPartition
from tests.replog.log.batches import config, leader_batch, open_log
from tests.replog.log.directories.moving import created
from tests.replog.simulator.hosts import Host

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Replicas:
    """The replicas of one host: what was appended to each, and up to where it was flushed."""

    def __init__(self, host: Host, rng: random.Random) -> None:
        self.host = host
        self.rng = rng
        self.batches: dict[TopicPartition, list[bytes]] = {tp: [] for tp in PARTITIONS}
        self.flushed = dict.fromkeys(PARTITIONS, 0)
        self.settings: TopicConfig = config(segment_bytes=rng.choice((200, 400, 2000)), index_interval_bytes=100)

    def open(self) -> None:
        self.manager = LogDirectory(
            self.host.home / "d1", cluster_id="c", node_id=1, randbytes=random.Random(1).randbytes
        )
        self.manager.load(lambda _: self.settings)
        for tp in PARTITIONS:
            log = self.manager.get(tp)
            self.check(tp, log or created(self.manager, tp, bytes([tp.partition + 1]) * 16, self.settings))

    def check(self, tp: TopicPartition, log: Log) -> None:
        known, end = self.batches[tp], log.log_end_offset
        assert end >= self.flushed[tp], f"{tp}: the log ends at {end}, {self.flushed[tp]} were flushed"
        content = b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
        assert b"".join(known).startswith(content), f"{tp}: something came back that a truncation had cut off (LG-10)"
        batches = []
        while content:
            size = 12 + int.from_bytes(content[8:12])
            batches.append(content[:size])
            content = content[size:]
        assert len(batches) == end
        self.batches[tp] = batches

    def live(self, steps: int) -> None:
        for _ in range(steps):
            tp = self.rng.choice(PARTITIONS)
            log, batches = self.manager.logs[tp], self.batches[tp]
            deed = self.rng.random()
            if deed < 0.6:
                batch = leader_batch(len(batches), 1, self.rng.randbytes(self.rng.randint(1, 60)))
                batches.append(batch)
                log.append_as_follower(batch)
            elif deed < 0.75:
                up_to = len(batches)
                log.flush()
                self.flushed[tp] = up_to
            elif deed < 0.85:
                self.manager.checkpoints.write_recovery_points()
                self.manager.checkpoints.write_high_watermarks()
            elif deed < 0.9:
                log.roll()
            else:
                offset = self.rng.choice((0, *range(max(0, len(batches) - 8), len(batches) + 1)))
                self.flushed[tp] = min(self.flushed[tp], offset)
                if offset or self.rng.random() < 0.5:
                    log.truncate_to(offset)
                else:
                    log.truncate_fully_and_start_at(0)
                del batches[offset:]


@pytest.mark.parametrize("first", range(0, 70, 10))
def test_two_hundred_power_losses_take_nothing_that_was_flushed(tmp_path, first):
    for seed in range(first, first + 10):
        rng = random.Random(seed)
        with Host(tmp_path / str(seed), seed) as host:
            replicas = Replicas(host, rng)
            for life in range(3):
                at_change = rng.random() < 0.7
                if at_change:
                    host.disk.kill_at(host.process, rng.randint(1, 60))
                try:
                    host.do(replicas.open)
                    host.do(replicas.live, rng.randint(0, 40))
                    if rng.random() < 0.1:
                        host.do(replicas.manager.close, 0)
                except Killed:
                    assert at_change
                host.loop.kill(host.process)
                if life == 0 or rng.random() < 0.95:
                    host.disk.power_loss(host.home, rng)
                host.boot()
            host.do(replicas.open)
        assert host.disk.counts.get("names that could not be lost", 0) == 0


def diverge_and_follow(partition: Path, cut: int) -> None:
    log = open_log(partition, segment_bytes=4 * len(leader_batch(0, 1, b"x")))
    for offset in range(12):
        log.append_as_follower(leader_batch(offset, 1, b"x"))
    log.flush()
    fsync_directory(partition.parent)
    log.truncate_to(cut)
    for offset in range(cut, 12):
        log.append_as_follower(leader_batch(offset, 2, b"y"))


def test_what_was_cut_off_never_stands_before_or_behind_what_was_appended_since(tmp_path):
    """LG-10: such a log would end in an epoch that its leader has, and pass for a copy of the leader's (FE-5)."""
    for seed in range(120):
        with Host(tmp_path / str(seed), seed) as host:
            cut, partition = seed % 12, host.home / "t-0"
            host.do(diverge_and_follow, partition, cut)
            host.lose_power(seed)
            log = host.do(lambda path: open_log(path, clean=False), partition)
            content = b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
            epochs = [header.leader_epoch for _, header in iterate_batches(content)]
            assert len(epochs) == log.log_end_offset >= cut
            assert epochs == ([1] * cut + [2] * 12)[: len(epochs)], f"seed {seed}, cut at {cut}"


@pytest.mark.parametrize(("error", "raised"), [(errno.ENOSPC, NoRoom), (errno.EIO, LogStorageError)])
def test_a_log_on_a_failing_disk_says_so_and_keeps_what_was_flushed(host, error, raised):
    replicas = Replicas(host, random.Random(1))
    host.do(replicas.open)
    host.do(replicas.live, 30)
    host.disk.fail("broker-1", error)
    with pytest.raises(raised, match="No space left" if error == errno.ENOSPC else "Input/output"):
        host.do(replicas.live, 30)
    host.disk.heal("broker-1")
    host.lose_power(1)
    host.do(replicas.open)
