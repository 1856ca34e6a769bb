import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.records import record_of
from replog.metadata.values import BrokerRegistration
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.controller.sqlite_store import SqliteStore
from replog.server.controller.store import VersionConflictError

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


def records(*values, after=0):
    """A record of each value: an int is a broker, a str of the form -key is a tombstone, another the cluster."""
    return [record(value, version) for version, value in enumerate(values, after + 1)]


def named(*keys):
    """Records of these keys, without values."""
    return [MetadataRecord(key=key, version=version) for version, key in enumerate(keys, 1)]


def record(value, version):
    if isinstance(value, int):
        broker = BrokerRegistration(value, value, b"i" * 16, f"h{value}:1", "", True, False)
        return record_of(Change("broker", value, broker, version=version))
    if value.startswith("-"):
        return MetadataRecord(key=value[1:], version=version)
    return record_of(Change("cluster", None, value, version=version))


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "metadata")
    yield opened
    opened.close()


def reopened(store):
    store.close()
    return SqliteStore(store.path.parent)


def test_a_new_store_is_empty_at_version_0(store):
    assert store.load() == []


def test_what_was_committed_is_there_after_reopening_newest_per_key_in_version_order(store):
    assert store.commit(0, records("c", 1, 2)) == 3
    assert store.commit(3, records(1, after=3)) == 4
    assert store.commit(4, records("-broker/2", after=4)) == 5
    again = reopened(store)
    loaded = again.load()
    assert [(r.version, r.key, r.WhichOneof("value")) for r in loaded] == [
        (1, "cluster", "cluster"),
        (4, "broker/1", "broker"),
        (5, "broker/2", None),
    ]
    assert loaded[1] == records(1, after=3)[0]
    again.close()


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_a_commit_against_another_version_writes_nothing(store, expected):
    store.commit(0, records("c", 1))
    with pytest.raises(VersionConflictError, match=f"at version 2, not {expected}"):
        store.commit(expected, records(9, after=expected))
    assert [r.key for r in store.load()] == ["cluster", "broker/1"]
    assert store.commit(2, records(9, after=2)) == 3


def test_a_commit_is_all_or_nothing_and_a_full_disk_leaves_the_version_as_it_was(store, refused):
    store.commit(0, records("c"))
    store._db.execute("PRAGMA max_page_count = 8")  # a real SQLITE_FULL
    many = records(*range(2000), after=1)
    with refused(STORAGE, str(store.path), "full"):
        store.commit(1, many)
    assert [r.key for r in store.load()] == ["cluster"]
    store._db.execute("PRAGMA max_page_count = 100000")
    assert store.commit(1, many) == 2001


def test_commits_survive_a_kill_and_an_unfinished_one_leaves_no_trace(tmp_path):
    """A real process, killed while it holds an open transaction and the lock."""
    script = """
import sys
from pathlib import Path
from replog.metadata.changes import Change
from replog.metadata.records import record_of
from replog.server.controller.sqlite_store import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
for i in range(20):
    store.commit(i, [record_of(Change("cluster", None, f"c{i}", version=i + 1))])
store._db.execute("BEGIN IMMEDIATE")
store._db.execute("DELETE FROM metadata")
print("ready", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    store = SqliteStore(tmp_path)
    assert [(r.version, r.cluster.cluster_id) for r in store.load()] == [(20, "c19")]
    store.close()


def test_commits_are_synced_and_in_a_write_ahead_log(store):
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_second_controller_on_the_same_directory_is_refused(store, refused):
    with refused(STORAGE, "another controller", str(os.getpid()), "metadata.log.dir"):
        SqliteStore(store.path.parent)
    again = reopened(store)
    again.close()


def test_a_writer_that_goes_round_the_lock_is_noticed_by_compare_and_set(store):
    store.commit(0, records("c"))
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE metadata SET version = 5")
    other.close()
    with pytest.raises(VersionConflictError, match="at version 5, not 1"):
        store.commit(1, records(1, after=1))


def test_a_database_locked_by_someone_else_is_a_clear_error(store, refused):
    store._db.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with refused(STORAGE, "locked", str(store.path)):
        store.commit(0, records("c"))
    other.execute("ROLLBACK")
    other.close()
    assert store.commit(0, records("c")) == 1


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, refused):
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"not a database at all\n" * 100)
    with refused(STORAGE, str(path), "not a database"):
        SqliteStore(tmp_path)
    assert path.read_bytes() == b"not a database at all\n" * 100


def test_somebody_elses_database_is_refused_and_left_alone(tmp_path, refused):
    path = tmp_path / "metadata.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE people (name TEXT)")
    other.close()
    before = path.read_bytes()
    with refused(STORAGE, "not a metadata store", "metadata.log.dir"):
        SqliteStore(tmp_path)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_release_is_refused(store, refused):
    store._db.execute("PRAGMA user_version = 2")
    store.close()
    with refused(STORAGE, "format 2", "newer release"):
        SqliteStore(store.path.parent)


@pytest.mark.parametrize("kept", [os.urandom, lambda _: b""], ids=["damaged pages", "truncated"])
def test_a_file_whose_second_half_is_gone_is_refused_on_opening(store, refused, kept):
    store.commit(0, records("c", *range(200)))
    store.close()
    content = store.path.read_bytes()
    half = len(content) // 2
    store.path.write_bytes(content[:half] + kept(half))
    with refused(STORAGE, str(store.path)):
        SqliteStore(store.path.parent)


def test_a_flipped_bit_in_a_record_is_found_by_its_checksum(store, refused):
    store.commit(0, records("cluster-of-mine"))
    store.close()
    content = store.path.read_bytes()
    assert content.count(b"cluster-of-mine") == 1
    store.path.write_bytes(content.replace(b"cluster-of-mine", b"cluster-of-mice"))
    again = SqliteStore(store.path.parent)
    with refused(STORAGE, "'cluster'", "checksum"):
        again.load()
    again.close()


def test_a_record_under_another_key_is_damage(store, refused):
    store.commit(0, records("c"))
    store._db.execute("UPDATE metadata SET key = 'broker/7'")
    with refused(STORAGE, "'broker/7'"):
        store.load()


def test_a_directory_that_cannot_be_used_is_a_clear_error(tmp_path, refused):
    (tmp_path / "file").write_text("")
    with refused(STORAGE, "metadata.log.dir", "file"):
        SqliteStore(tmp_path / "file" / "metadata")
    (tmp_path / "metadata.sqlite").mkdir()
    with refused(STORAGE, "cannot open"):
        SqliteStore(tmp_path)


def test_a_refused_store_is_let_go_of_so_that_it_can_be_mended_and_opened(tmp_path, refused):
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"x" * 5000)
    with refused(STORAGE):
        SqliteStore(tmp_path)
    path.unlink()
    SqliteStore(tmp_path).close()


def test_what_is_forgotten_goes_in_the_transaction_that_says_so(store):
    store.commit(0, records("c", "-topic/a", "-topic/b"))
    with pytest.raises(VersionConflictError):
        store.commit(1, records(1, after=1), ["topic/a"])
    assert [record.key for record in store.load()] == ["cluster", "topic/a", "topic/b"]
    assert store.commit(3, records(1, after=3), ["topic/a", "topic/b"]) == 4
    again = reopened(store)
    assert [record.version for record in again.load()] == [1, 4]
    again.close()


def test_all_keys_that_begin_with_what_is_forgotten_go_and_none_besides(store):
    kept = ["partition/s/0", "partition/t-0/0", "partition/t.x/0", "partition/t0/0", "partition/tt/0", "topic/t"]
    store.commit(0, named(*kept, "partition/t/0", "partition/t/9999"))
    store.commit(8, records(1, after=8), ["partition/t/"])
    assert [record.key for record in store.load()] == [*kept, "broker/1"]
