"""A store made of what disks hold, which may be those of other hosts; in a file, or in etcd."""

import asyncio
import random
from contextlib import closing
from uuid import UUID

import pytest

from replog.cli import controller as commands
from replog.cli.log import survey as print_survey
from replog.config import ControllerConfig
from replog.errors import ErrorCode
from replog.log.directories.meta_properties import verify_or_create
from replog.log.directories.metadata_position import Position, write_position
from replog.log.directories.partition_metadata import write_topic_id
from replog.rpc.http2.transport import H2Transport
from replog.server.clock import SystemClock
from replog.server.controller.backup import read_copy
from replog.server.controller.formatting import format_etcd, store_in_etcd
from replog.server.controller.process import controller_server
from replog.server.controller.restoring import VERSIONS_AHEAD, restored_store
from replog.server.controller.sqlite_store import SqliteStore
from replog.topic import TopicPartition
from tests.replog.log.batches import fixture_t
from tests.replog.server.controller.stores import simulated_etcd

TP = TopicPartition("t", 0)


@pytest.fixture
def disks(tmp_path):
    """Of two brokers: the first has two log directories, one of them empty."""
    paths = [tmp_path / name for name in ("1", "1-empty", "2")]
    for number, path in enumerate(paths):
        path.mkdir()
        verify_or_create(path, cluster_id="the-cluster", node_id=int(path.name[0]), directory_id=UUID(int=number + 1))
        write_position(path, Position("the-cluster", b"h" * 16, 40 + number))
    for path in (paths[0], paths[2]):
        (path / "t-0").mkdir()
        fixture_t(path / "t-0", index_interval_bytes=100).close()
        write_topic_id(path / "t-0", b"1" * 16)
    return {1: paths[:2], 2: paths[2:]}


@pytest.fixture
def files(disks, tmp_path, capsys):
    """The same, as each host prints it."""
    for broker_id, paths in disks.items():
        print_survey(paths)
        (tmp_path / f"{broker_id}.survey").write_text(capsys.readouterr().out)
    return {broker_id: [tmp_path / f"{broker_id}.survey"] for broker_id in disks}


def test_survey_files_of_other_hosts_are_as_good_as_their_directories(disks, files):
    expected = restored_store(disks, random.Random(1))
    mixed = {1: disks[1], 2: files[2]}
    for others in (files, mixed):
        restored = restored_store(others, random.Random(1))
        assert (restored.records, restored.remarks) == (expected.records, expected.remarks)
    assert expected.records[0].version == 42 + VERSIONS_AHEAD + 1, "above what any of them knows"
    assert expected.image.partitions[TP].elr == (1, 2)


def test_a_survey_of_another_broker_or_of_another_cluster_is_refused(disks, files, refused):
    with refused(ErrorCode.INVALID_REQUEST, "2.survey", "belongs to broker 2"):
        restored_store({1: files[2]}, random.Random(1))
    files[2][0].write_text(files[2][0].read_text().replace("the-cluster", "another"))
    with refused(ErrorCode.INCONSISTENT_CLUSTER_ID, "2 clusters"):
        restored_store(files, random.Random(1))


def test_a_partition_that_no_cluster_has_is_refused_before_as_many_are_made(files, refused):
    files[2][0].write_text(files[2][0].read_text().replace("t-0", "t-2000000000"))
    with refused(ErrorCode.INVALID_REQUEST, "2.survey", "t-2000000000"):
        restored_store(files, random.Random(1))


async def test_a_store_in_etcd_is_copied_and_restored_below_another_prefix(files, tmp_path, capsys):
    async with simulated_etcd() as address:
        settings = {"metadata.store": "etcd", "metadata.etcd.endpoints": address, "listeners": "127.0.0.1:0"}
        await format_etcd(ControllerConfig.parse(settings, "test"), "the-cluster")
        override = [f"{name}={value}" for name, value in settings.items()]
        await asyncio.to_thread(commands.backup, None, override, tmp_path / "copies")
        (copy,) = (tmp_path / "copies").iterdir()
        assert capsys.readouterr().out.strip() == str(copy)
        async with store_in_etcd(ControllerConfig.parse(settings, "test")) as store:
            assert read_copy(copy) == await store.load()

        settings["metadata.etcd.prefix"] = "/restored/"
        replicas = [f"{broker_id}={path}" for broker_id, (path,) in files.items()]
        override.append("metadata.etcd.prefix=/restored/")
        await asyncio.to_thread(commands.restore, replicas, copy, None, override)
        config = ControllerConfig.parse(settings, "test")
        server = controller_server(config, H2Transport(), SystemClock(), random.Random(1))
        try:
            await server.start()
            image = server.controller.state.image
            assert (image.cluster_id, image.partitions[TP].elr) == ("the-cluster", (1, 2))
        finally:
            await server.stop()


def test_the_commands_write_a_file_otherwise(files, tmp_path):
    replicas = [f"{broker_id}={path}" for broker_id, (path,) in files.items()]
    commands.rebuild(replicas, None, [f"metadata.log.dir={tmp_path / 'new'}", "listeners=127.0.0.1:0"])
    with closing(SqliteStore(tmp_path / "new")) as store:
        assert [record.key for record in store.load()][:3] == ["cluster", "topic/t", "partition/t/0"]
