"""Copies of the store, taken while it is open."""

import random
import stat
from contextlib import closing

import pytest

from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.records import record_of
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.controller.formatting import format_cluster, is_formatted
from replog.server.controller.restoring import VERSIONS_AHEAD, back_up, read_copy, read_store, restored_store
from replog.server.controller.sqlite_store import SqliteStore


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
