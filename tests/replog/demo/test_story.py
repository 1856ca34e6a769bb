"""The demo's exit status is honest, and it knows whom to kill."""

from collections import Counter

import pytest

from replog.demo.narrator import Narrator
from replog.demo.story import TOPIC, _busiest_leader, _home, _identity
from replog.errors import ReplogError
from replog.rpc.v1 import log_pb2


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
