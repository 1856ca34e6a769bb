"""The demo's exit status is honest, and it knows whom to kill."""

from collections import Counter
from pathlib import Path

import pytest

from replog.demo.story import TOPIC, Narrator, _busiest_leader, _home, _identity, flip_payload_bit
from replog.errors import ReplogError
from replog.log.formats.batch import HEADER_SIZE, iterate_batches, validate_crc
from replog.rpc.v1 import log_pb2
from tests.replog.log.batches import leader_batch


def test_a_step_that_does_not_hold_is_marked_and_remembered(capsys):
    narrator = Narrator()
    narrator.done("all is well")
    assert narrator.failures == []
    narrator.done("3 lost", holds=False)
    assert narrator.failures == ["3 lost"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✓ all is well")
    assert lines[1].startswith("✗ 3 lost")


def test_a_directory_with_something_in_it_is_refused(tmp_path):
    assert _home(tmp_path / "new") == tmp_path / "new"
    (tmp_path / "new" / "file").write_text("")
    with pytest.raises(ReplogError, match="is not empty"):
        _home(tmp_path / "new")


def _metadata(leaders: list[int]) -> log_pb2.GetMetadataResponse:
    partitions = [log_pb2.PartitionMetadata(partition=n, leader=leader) for n, leader in enumerate(leaders)]
    return log_pb2.GetMetadataResponse(topics=[log_pb2.TopicMetadata(topic=TOPIC, partitions=partitions)])


def test_the_broker_that_leads_most_partitions_is_chosen():
    assert _busiest_leader(_metadata([1, 2, 2, 3, 2, 1]), Counter()) == (2, {1, 2, 4})


def test_of_several_the_one_with_most_records_is_chosen():
    assert _busiest_leader(_metadata([1, 2, 3, 1, 2, 3]), Counter({5: 1})) == (3, {2, 5})


def test_a_finding_is_known_by_class_replica_partition_and_first_offset():
    finding = {"class": "BIT_ROT", "topic": "t", "partition": 2, "wrong_replica": 1, "first_offset": 7, "why": "CRC"}
    assert _identity(finding) == ("BIT_ROT", 1, "t", 2, 7)


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    """Two segments of five batches of two records each."""
    for base in (0, 10):
        segment = b"".join(leader_batch(base + 2 * n, 0, b"first", b"second") for n in range(5))
        (tmp_path / f"{base:020d}.log").write_bytes(segment)
    return tmp_path


def test_exactly_one_batch_fails_its_crc_and_it_is_the_one_reported(replica):
    before = {path: path.read_bytes() for path in replica.iterdir()}
    done = flip_payload_bit(replica, below_offset=20)
    after = done.path.read_bytes()
    assert [n for n, pair in enumerate(zip(before[done.path], after, strict=True)) if pair[0] != pair[1]] == [
        done.position
    ]
    assert all(path.read_bytes() == content for path, content in before.items() if path != done.path)
    ((at, bad),) = [(at, each) for at, each in iterate_batches(after) if not validate_crc(after, at, each)]
    assert bad.base_offset == done.base_offset
    assert done.position >= at + HEADER_SIZE, "the batch still parses"


def test_only_batches_wholly_below_the_high_watermark_are_touched(replica):
    done = flip_payload_bit(replica, below_offset=3)
    assert done.base_offset == 0


def test_a_replica_without_a_committed_batch_is_refused(replica):
    with pytest.raises(ValueError, match="no batch with a payload below offset 1"):
        flip_payload_bit(replica, below_offset=1)
