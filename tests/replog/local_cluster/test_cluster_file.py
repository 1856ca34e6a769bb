"""`cluster.json`: what it says survives, damage is told."""

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.cluster_file import STATE_FILE, ClusterFile, LocalMember
from replog.local_cluster.processes import ProcessId, ProcessState


def _state() -> ClusterFile:
    brokers = [LocalMember(name=f"broker-{n}", node_id=n, port=20_000 + n) for n in (1, 2)]
    return ClusterFile(controller=LocalMember(name="controller", node_id=0, port=20_000), brokers=brokers)


def test_what_is_saved_is_loaded(tmp_path):
    state = _state()
    state.brokers[0].process = ProcessId(1234, 99)
    state.save(tmp_path)
    assert ClusterFile.load(tmp_path) == state
    assert state.bootstrap == "127.0.0.1:20001,127.0.0.1:20002"


def test_a_directory_without_a_cluster_has_no_state(tmp_path):
    assert ClusterFile.load(tmp_path) is None


def test_a_member_whose_process_is_gone_is_stopped():
    member = LocalMember(name="broker-1", node_id=1, port=20_001)
    assert member.state is ProcessState.STOPPED
    member.process = ProcessId(2**22 + 1, 1)
    assert member.state is ProcessState.STOPPED


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"version": 1, "controller": {}}'])
def test_a_damaged_state_file_is_named(tmp_path, content):
    (tmp_path / STATE_FILE).write_text(content)
    with pytest.raises(ReplogError, match=STATE_FILE) as caught:
        ClusterFile.load(tmp_path)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
