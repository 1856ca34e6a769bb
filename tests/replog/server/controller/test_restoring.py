"""Copies of the store, taken while it is open. A store made of what disks hold, which may be those of other hosts; in a
file, or in etcd."""

import asyncio
import random
import stat
from contextlib import closing
from uuid import UUID

import pytest

from replog.cli import controller as commands
from replog.cli.log import survey as print_survey
from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode
from replog.log.directories.identity import Position, verify_or_create, write_marker, write_position
from replog.log.directories.partition_metadata import write_topic_id
from replog.metadata.changes import Change
from replog.metadata.records import record_of
from replog.metadata.values import PartitionState
from replog.rpc.transports import H2Transport
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.clock import SystemClock
from replog.server.controller.formatting import format_cluster, format_etcd, is_formatted, store_in_etcd
from replog.server.controller.process import controller_server
from replog.server.controller.restoring import VERSIONS_AHEAD, Outcome, back_up, read_copy, read_store, restored_store
from replog.server.controller.sqlite_store import DATABASE_NAME, SqliteStore, create_store
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


def restored(replicas, copy=None, without=(), *, later_ms=0) -> Outcome:
    return restored_store(replicas, random.Random(1), SystemClock().wall_ms() + later_ms, copy, set(without))


@pytest.fixture
def older(disks, tmp_path):
    """A copy by which both brokers have all."""
    create_store(tmp_path / "older", restored(disks).records)
    return tmp_path / "older" / DATABASE_NAME


def test_survey_files_of_other_hosts_are_as_good_as_their_directories(disks, files):
    expected = restored(disks)
    mixed = {1: disks[1], 2: files[2]}
    for others in (files, mixed):
        outcome = restored(others)
        assert (outcome.records, outcome.remarks) == (expected.records, expected.remarks)
    assert expected.records[0].version == 42 + VERSIONS_AHEAD + 1, "above what any of them knows"
    assert expected.image.partitions[TP].elr == (1, 2)


def test_a_survey_of_another_broker_or_of_another_cluster_is_refused(disks, files, refused):
    with refused(ErrorCode.INVALID_REQUEST, "2.survey", "belongs to broker 2"):
        restored({1: files[2]})
    files[2][0].write_text(files[2][0].read_text().replace("the-cluster", "another"))
    with refused(ErrorCode.INCONSISTENT_CLUSTER_ID, "2 clusters"):
        restored(files)


def test_a_copy_or_a_directory_that_is_not_there_is_named_with_what_it_should_be(disks, tmp_path, refused):
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "older.sqlite is not there", "replog controller backup"):
        restored(disks, tmp_path / "older.sqlite")
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "is a directory; name a file in it"):
        restored(disks, tmp_path)
    with refused(ErrorCode.INVALID_REQUEST, f"--replica 1={tmp_path}/nope: it is not there", "replog log survey"):
        restored({1: [tmp_path / "nope"]})


def test_a_broker_of_the_copy_that_was_not_surveyed_must_be_given_up(disks, older, refused):
    """It may have had everything, and one that was surveyed not: that one led, and the other cut its log."""
    with refused(ErrorCode.INVALID_REQUEST, "broker 1", "--replica", "--without-broker"):
        restored({2: disks[2]}, older)
    outcome = restored({2: disks[2]}, older, {1})
    assert outcome.image.partitions[TP].elr == (2,)
    assert [remark for remark in outcome.remarks if "broker 1" in remark] == [
        "t-0: what only broker 1 had is lost, and is cut off there, too, if it comes back: it was not read"
    ]
    nothing = restored({1: disks[1][1:]}, older, {2})
    assert nothing.image.partitions[TP].elr == (2,)
    assert "t-0: only broker 2 may have it: it has no leader until that comes" in nothing.remarks


def test_a_broker_is_given_up_only_if_the_copy_has_it_and_nothing_of_it_is_named(disks, older, refused):
    for without, replicas, copy in (({3}, disks, older), ({2}, disks, older), ({2}, {1: disks[1]}, None)):
        with refused(ErrorCode.INVALID_REQUEST, "--without-broker", *map(str, without)):
            restored(replicas, copy, without)


def test_a_survey_of_long_ago_is_remarked(files, disks):
    assert restored(files, later_ms=3_000_000).remarks == restored(disks).remarks
    late = restored(files, later_ms=26 * 3_600_000 + 1).remarks
    for broker_id, (path,) in files.items():
        assert f"{path} is 26 hours old: if broker {broker_id} ran since, it is wrong; write it again" in late


def test_a_log_directory_that_was_left_out_is_remarked_if_the_broker_stopped_in_order(disks):
    for path in disks[1]:
        write_marker(path, 9, 2)
    assert restored(disks).remarks == restored({**disks, 1: disks[1][::-1]}).remarks
    (remark,) = set(restored({**disks, 1: disks[1][:1]}).remarks) - set(restored(disks).remarks)
    assert remark == "broker 1 had 2 log directories when it stopped, and 1 is named: what only the others have is lost"


def test_what_is_not_known_and_what_becomes_of_permissions_is_said(disks, older):
    assert restored(disks).remarks[:2] == [
        "without a copy no brokers are known except those that were read, brokers 1, 2: what only others have is lost",
        "without a copy there are no ACLs and no quotas: only super.users may do anything, or everybody everything "
        "with allow.everyone.if.no.acl.found=true, until they are made again (docs/backup.md)",
    ]
    assert restored(disks, older).remarks[0] == (
        "ACLs and quotas are those of the copy, 0 and 0 of them: what was revoked or denied since is allowed again; "
        "look at them before clients connect (docs/backup.md)"
    )


def test_a_partition_that_no_cluster_has_is_refused_before_as_many_are_made(files, refused):
    files[2][0].write_text(files[2][0].read_text().replace("t-0", "t-2000000000"))
    with refused(ErrorCode.INVALID_REQUEST, "2.survey", "t-2000000000"):
        restored(files)


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


def test_a_dry_run_says_the_same_and_makes_nothing_and_what_is_said_comes_first(files, tmp_path, capsys, refused):
    replicas = [f"{broker_id}={path}" for broker_id, (path,) in files.items()]
    override = [f"metadata.log.dir={tmp_path / 'new'}", "listeners=127.0.0.1:0"]
    commands.rebuild(replicas, None, override, dry_run=True)
    remarks = capsys.readouterr().out
    assert "topic t is in no copy" in remarks
    assert not (tmp_path / "new").exists()
    commands.rebuild(replicas, None, override)
    assert capsys.readouterr().out == remarks
    with closing(SqliteStore(tmp_path / "new")) as store:
        assert [record.key for record in store.load()][:3] == ["cluster", "topic/t", "partition/t/0"]
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "already"):
        commands.rebuild(replicas, None, override)
    assert capsys.readouterr().out == remarks


def test_no_unclean_election_may_come_before_all_brokers_are_there(files, tmp_path, refused):
    replicas = [f"{broker_id}={path}" for broker_id, (path,) in files.items()]
    override = [f"metadata.log.dir={tmp_path / 'new'}", "listeners=127.0.0.1:0", "unclean.leader.election.enable=true"]
    with refused(ErrorCode.INVALID_CONFIG, "unclean.leader.election.enable", "false"):
        commands.rebuild(replicas, None, override)


@pytest.fixture
def directory(tmp_path):
    format_cluster(tmp_path / "store", "the-cluster")
    return tmp_path / "store"


def test_a_copy_has_what_is_committed_also_what_is_in_the_log_of_an_open_store(directory, tmp_path):
    with closing(SqliteStore(directory)) as store:
        store.commit(1, [record_of(Change("producer_ids", None, 1000, version=2))])
        path, image = back_up(read_store(directory), tmp_path / "copies")
        assert path.name == "replog-metadata-the-cluster-2.sqlite"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, "it has the brokers' passwords"
        assert (image.version, image.next_producer_id) == (2, 1000)
        assert read_copy(path) == store.load()
        store.commit(2, [record_of(Change("producer_ids", None, 2000, version=3))])
    again, image = back_up(read_store(directory), tmp_path / "copies")
    assert (again.name, image.version) == ("replog-metadata-the-cluster-3.sqlite", 3), "of a store that is closed, too"
    assert sorted(each.name for each in (tmp_path / "copies").iterdir()) == [path.name, again.name]


def test_a_copy_has_what_only_a_later_release_knows_and_nobody_restores_without_it(directory, tmp_path, refused):
    unknown = MetadataRecord(version=2, key="delegation-token/7")
    with closing(SqliteStore(directory)) as store:
        store.commit(1, [unknown])
    path, image = back_up(read_store(directory), tmp_path)
    assert image.version == 2
    assert read_copy(path)[-1] == unknown
    with refused(ErrorCode.UNSUPPORTED_VERSION, "'delegation-token/7'", "a later release"):
        restored_store({}, random.Random(1), 0, path)


async def test_a_store_that_lost_a_topic_is_refused_while_nothing_else_is_lost(directory, refused):
    """Brokers would set the replicas of its partitions aside."""
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    stray = Change("partition", TopicPartition("nobody", 3), state, bytes(range(16)), version=2)
    with closing(SqliteStore(directory)) as store:
        store.commit(1, [record_of(stray)])
    config = ControllerConfig.parse({"metadata.log.dir": str(directory), "listeners": "127.0.0.1:0"}, "test")
    server = controller_server(config, H2Transport(), SystemClock(), random.Random(1))
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "partition nobody-3 has no topic", "replog controller restore"):
        await server.start()
    await server.stop()


def test_a_file_that_is_no_copy_is_refused_by_its_name(tmp_path, refused):
    (tmp_path / "notes.txt").write_text("no store\n" * 100)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, f"metadata store {tmp_path / 'notes.txt'} cannot open"):
        read_copy(tmp_path / "notes.txt")


def test_a_damaged_copy_is_refused(directory, tmp_path, refused):
    path, _ = back_up(read_store(directory), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"the-cluster", b"the-clutter"))
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "checksum"):
        read_copy(path)


def test_a_copy_of_an_open_store_without_its_log_is_no_copy_to_restore_from(directory, tmp_path, refused):
    with closing(SqliteStore(directory)) as store:
        part = tmp_path / "part.sqlite"
        part.write_bytes(store.path.read_bytes())
        with refused(ErrorCode.KAFKA_STORAGE_ERROR, "metadata.sqlite-wal"):
            read_copy(part)


def test_what_is_restored_is_a_history_of_its_own_above_all_that_is_known(directory, tmp_path):
    path, image = back_up(read_store(directory), tmp_path)
    outcome = restored_store({}, random.Random(1), 0, path)
    assert outcome.image.cluster_id == "the-cluster"
    assert outcome.image.lineage[0].begins == outcome.records[0].version == image.version + VERSIONS_AHEAD + 1


def test_disks_of_no_cluster_are_nothing_to_build_from(tmp_path, refused):
    with refused(ErrorCode.INCONSISTENT_CLUSTER_ID, "0 clusters"):
        restored_store({}, random.Random(1), 0)


def test_a_formatted_store_holds_the_cluster_id_and_nothing_else(tmp_path):
    cluster_id = format_cluster(tmp_path / "metadata", rng=random.Random(1))
    assert is_formatted(tmp_path / "metadata")
    store = SqliteStore(tmp_path / "metadata")
    assert [(r.version, r.cluster.cluster_id) for r in store.load()] == [(1, cluster_id)]
    store.close()


@pytest.mark.parametrize("wrong", ["-x", "a/b", "a" * 65, "a b"])
def test_a_cluster_id_has_only_usual_characters(tmp_path, refused, wrong):
    with refused(ErrorCode.INVALID_REQUEST, "cluster id"):
        format_cluster(tmp_path, wrong)
    assert not is_formatted(tmp_path)
