"""`cluster.json`: what it says survives, damage is told."""

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.cluster_file import STATE_FILE, ClusterFile, LocalMember
from replog.local_cluster.processes import ProcessId


def _state() -> ClusterFile:
    brokers = [LocalMember(name=f"broker-{n}", node_id=n, port=20_000 + n) for n in (1, 2)]
    return ClusterFile(controller=LocalMember(name="controller", node_id=0, port=20_000), brokers=brokers)


def test_what_is_saved_is_loaded(tmp_path):
    state = _state()
    state.brokers[0].process = ProcessId(1234, 99)
    state.save(tmp_path)
    assert ClusterFile.load(tmp_path) == state
    assert state.bootstrap == "127.0.0.1:20001,127.0.0.1:20002"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"version": 1, "controller": {}}'])
def test_a_damaged_state_file_is_named(tmp_path, content):
    (tmp_path / STATE_FILE).write_text(content)
    with pytest.raises(ReplogError, match=STATE_FILE) as caught:
        ClusterFile.load(tmp_path)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
