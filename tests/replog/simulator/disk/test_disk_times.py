"""What simulated disks are asked takes virtual time: more on a slow one, and on a stalled one until it is none."""

import os
from collections.abc import Callable

import pytest

from replog.log.files.opening import write_atomically
from replog.simulator.runtime.process import SimulatedProcess
from tests.replog.simulator.hosts import Host

TIMES = 200


def took_s(host: Host, work: Callable[[], object], process: SimulatedProcess | None = None) -> float:
    """How long the loop of the process is busy with it."""
    began, free = host.loop.time(), list[float]()
    context = (process or host.process).context
    host.loop.call_soon(work, context=context)
    host.loop.call_soon(lambda: free.append(host.loop.time()), context=context)
    host.loop.run_until(lambda: bool(free))
    assert host.loop.failures == []
    return free[0] - began


def test_what_waits_for_the_device_takes_longest_and_what_goes_to_memory_least(host):
    path = host.home / "file"
    fd = host.do(os.open, path, os.O_RDWR | os.O_CREAT)
    writes = took_s(host, lambda: [os.pwrite(fd, b"data", 0) for _ in range(TIMES)])
    reads = took_s(host, lambda: [os.pread(fd, 4, 0) for _ in range(TIMES)])
    names = took_s(host, lambda: [os.rename(path, path) for _ in range(TIMES)])
    syncs = took_s(host, lambda: [os.fsync(fd) for _ in range(TIMES)])
    assert 0 < writes < names / 2
    assert 0 < reads < names / 2
    assert names < syncs / 10
    assert 0.3 < syncs < 1.0
    assert took_s(host, lambda: os.pwrite(fd, bytes(10_000_000), 0)) > 20 * writes / TIMES


def test_a_slow_disk_takes_many_times_as_long_and_is_mended(host):
    def syncs() -> None:
        for _ in range(50):
            write_atomically(host.home / "file", b"data")

    usual = took_s(host, syncs)
    host.disk.times.slow("broker-1", 100)
    assert took_s(host, syncs) > 50 * usual
    host.disk.heal("broker-1")
    assert took_s(host, syncs) < 2 * usual


def test_a_disk_that_is_healed_during_a_stall_is_sound_once_what_waits_for_it_has_come_back(host):
    """Serving, seed 1301012: a broker was held to serve while its fsync still waited."""
    host.disk.times.stall("broker-1", host.loop.time() + 0.1)
    host.disk.heal("broker-1")
    host.disk.times.stall("broker-1", host.loop.time())
    assert not host.disk.sound("broker-1")
    took_s(host, lambda: [os.fsync(fd) for fd in [os.open(host.home, os.O_RDONLY)] for _ in range(TIMES)])
    assert host.disk.sound("broker-1")


def test_a_disk_that_is_healed_is_sound_once_what_began_while_it_was_slow_is_done(host):
    """Serving, seed 474: a flush in a thread went on for 20 s, and its broker was held to serve."""

    def syncs() -> None:
        write_atomically(host.home / "file", b"data")

    host.disk.times.slow("broker-1", 100)
    host.loop.call_soon(lambda: host.loop.run_in_executor(None, syncs), context=host.process.context)
    host.loop.run_until(host.loop.time() + 0.05)
    host.disk.heal("broker-1")
    assert not host.disk.sound("broker-1")
    host.loop.run_until(host.loop.time() + 2)
    assert host.disk.sound("broker-1")


def test_a_stalled_disk_completes_nothing_until_it_goes_on_except_what_memory_takes(host):
    fd = host.do(os.open, host.home / "file", os.O_RDWR | os.O_CREAT)
    host.disk.times.stall("broker-1", 5.0)
    assert took_s(host, lambda: os.pwrite(fd, b"data", 0)) < 0.001
    took_s(host, lambda: os.fsync(fd))
    assert 5.0 < host.loop.time() < 5.1
    assert took_s(host, lambda: os.fsync(fd)) < 0.1


def test_other_hosts_do_not_notice(host, tmp_path):
    (tmp_path / "broker-2").mkdir()
    other = SimulatedProcess("broker-2")
    host.disk.times.stall("broker-1", 5.0)
    assert took_s(host, lambda: write_atomically(tmp_path / "broker-2" / "file", b"data"), other) < 0.1


def test_a_step_that_waited_for_long_tells_what_it_asked_for_and_who_did(host):
    def many() -> None:
        for _ in range(10):
            write_atomically(host.home / "file", b"data")

    host.loop.step_limit_s = 0.02
    host.disk.times.slow("broker-1", 100)  # which is not the program's fault
    took_s(host, lambda: write_atomically(host.home / "file", b"data"))
    assert host.loop.too_long is None
    took_s(host, many)
    step = host.loop.too_long
    assert step.callers == "fsync_path < put_in_place < write_atomically"
    assert step.asked == {"create": 10, "write": 10, "fsync": 20, "rename": 10, "open": 20}
    assert step.process == "broker-1"
    assert step.seconds == pytest.approx(0.041, rel=0.05)


def test_some_of_what_is_read_on_a_slow_disk_is_not_in_memory_until_somebody_has_waited_for_it(host):
    def without_waiting(position: int) -> bool:
        try:
            return os.preadv(fd, [bytearray(4)], position, os.RWF_NOWAIT) == 4
        except BlockingIOError:
            return False

    fd = host.do(os.open, host.home / "file", os.O_RDWR | os.O_CREAT)
    host.do(os.pwrite, fd, bytes(TIMES), 0)
    assert all(host.do(without_waiting, position) for position in range(TIMES - 4))
    host.disk.times.stall("broker-1", 5.0)
    cold = [position for position in range(TIMES - 4) if not host.do(without_waiting, position)]
    assert TIMES / 3 < len(cold) < 2 * TIMES / 3
    took_s(host, lambda: os.pread(fd, 4, cold[0]))
    assert 5.0 < host.loop.time() < 5.1
    host.disk.heal("broker-1")
    assert 0.001 < took_s(host, lambda: [os.pread(fd, 4, position) for position in cold[1:5]]) < 0.1
    assert took_s(host, lambda: [os.pread(fd, 4, position) for position in cold[:5]]) < 0.001
