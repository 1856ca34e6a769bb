"""A log directory has one broker, ours or Kafka's."""

import os
import subprocess
import sys

import pytest

from replog.errors import ReplogError
from replog.log.directories.lock import LOCK, held, is_locked, lock
from replog.log.directories.log_directory import LogDirectory

TRY = "import fcntl, sys; fcntl.{take}(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.{take}(f, fcntl.LOCK_EX); print('held', flush=True); input()"
)


@pytest.mark.parametrize("take", ["flock", "lockf"])
def test_who_holds_a_directory_is_seen_in_either_way(tmp_path, take):
    """Java's locks are those of lockf, which flock does not see."""
    command = [sys.executable, "-c", TRY.format(take=take), tmp_path / LOCK]
    fd = lock(tmp_path)
    try:
        assert b"BlockingIOError" in subprocess.run(command, capture_output=True, timeout=30).stderr
    finally:
        os.close(fd)
    assert subprocess.run(command, timeout=30).returncode == 0


@pytest.mark.parametrize("take", ["flock", "lockf"])
def test_a_directory_that_another_process_holds_is_left_alone(tmp_path, take):
    command = [sys.executable, "-c", HOLD.format(take=take), tmp_path / LOCK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_locked(tmp_path)
        with pytest.raises(ReplogError, match="in use by another process"), held(tmp_path):
            pass
        with pytest.raises(ReplogError, match="in use by another process"):
            LogDirectory(tmp_path, cluster_id="c", node_id=1, randbytes=os.urandom)
        holder.communicate(b"\n", timeout=30)
    assert not is_locked(tmp_path)
    LogDirectory(tmp_path, cluster_id="c", node_id=1, randbytes=os.urandom).abandon()


def test_a_directory_that_never_had_a_broker_is_not_locked(tmp_path):
    assert not is_locked(tmp_path)
    with held(tmp_path):
        assert list(tmp_path.iterdir()) == []
