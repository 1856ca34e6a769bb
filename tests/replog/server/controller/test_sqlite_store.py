"""What is SQLite's own; what every store promises is in test_stores.py."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from replog.errors import ErrorCode
from replog.server.controller.sqlite_store import SqliteStore, create_store
from replog.server.controller.store import LeadershipLostError, VersionConflictError
from tests.replog.server.controller.stores import records

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def store(tmp_path):
    create_store(tmp_path / "metadata", [])
    with closing(SqliteStore(tmp_path / "metadata")) as opened:
        yield opened


def reopened(store):
    store.close()
    return SqliteStore(store.path.parent)


def test_a_commit_is_all_or_nothing_and_a_full_disk_leaves_the_version_as_it_was(store, refused):
    store.commit(0, records("c"))
    store._db.execute("PRAGMA max_page_count = 8")  # a real SQLITE_FULL
    many = records(*range(2000), after=1)
    with refused(STORAGE, str(store.path), "full"):
        store.commit(1, many)
    assert [r.key for r in store.load()] == ["cluster"]
    store._db.execute("PRAGMA max_page_count = 100000")
    assert store.commit(1, many) == 2001


class Failing:
    """A connection whose COMMIT comes through, and whose disk then fails with this code."""

    def __init__(self, db, code):
        self._db, self._code = db, code

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, *arguments):
        answer = self._db.execute(*arguments)
        if arguments == ("COMMIT",):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self._code
            raise error
        return answer


def test_a_commit_that_fails_at_its_fsync_may_be_there_and_no_other_follows_it(store):
    """A controller that took it for not written would make another version 2, and be told of this one by a start."""
    store.commit(0, records(0))
    sound, store._db = store._db, Failing(store._db, sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(LeadershipLostError, match="in the middle of a commit"):
        store.commit(1, records(1, after=1))
    store._db = sound
    with closing(reopened(store)) as again:
        assert [record.version for record in again.load()] == [1, 2]


def test_commits_survive_a_kill_and_an_unfinished_one_leaves_no_trace(tmp_path):
    """A real process, killed while it holds an open transaction and the lock."""
    script = """
import sys
from pathlib import Path
from replog.metadata.changes import Change
from replog.metadata.records import record_of
from replog.server.controller.sqlite_store import SqliteStore, create_store
create_store(Path(sys.argv[1]), [])
store = SqliteStore(Path(sys.argv[1]))
for i in range(20):
    store.commit(i, [record_of(Change("cluster", None, f"c{i}", version=i + 1))])
store._db.execute("BEGIN IMMEDIATE")
store._db.execute("DELETE FROM metadata")
print("ready", flush=True)
sys.stdin.read()"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    with closing(SqliteStore(tmp_path)) as store:
        assert [(r.version, r.cluster.cluster_id) for r in store.load()] == [(20, "c19")]


def test_nobody_but_its_owner_may_read_it_it_has_the_passwords_of_brokers_ct_3(store):
    """CT-3. The files of SQLite beside it, too."""
    store.commit(0, records("c"))
    modes = {path.name: f"{path.stat().st_mode:o}"[-3:] for path in store.path.parent.glob(f"{store.path.name}*")}
    assert len(modes) > 1, modes
    assert set(modes.values()) == {"600"}, modes


def test_commits_are_synced_and_in_a_write_ahead_log(store):
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_second_controller_on_the_same_directory_is_refused(store, refused):
    with refused(STORAGE, "another controller", str(os.getpid()), "metadata.log.dir"):
        SqliteStore(store.path.parent)
    reopened(store).close()


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
    store._db.execute("PRAGMA user_version = 3")
    store.close()
    with refused(STORAGE, "format 3", "newer release"):
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
    with closing(SqliteStore(store.path.parent)) as again, refused(STORAGE, "'cluster'", "checksum"):
        again.load()


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
    create_store(tmp_path, [])
    SqliteStore(tmp_path).close()


def test_a_directory_without_a_store_is_refused_and_nothing_is_made_there(tmp_path, refused):
    with refused(STORAGE, "is not there", "not mounted", "replog controller format"):
        SqliteStore(tmp_path / "metadata")
    assert not list(tmp_path.iterdir())


def test_what_an_interrupted_making_left_is_replaced(tmp_path):
    (tmp_path / "metadata.sqlite.tmp").write_bytes(b"half of it")
    create_store(tmp_path, records("c"))
    with closing(SqliteStore(tmp_path)) as store:
        assert [record.key for record in store.load()] == ["cluster"]


def copied(store, directory, *suffixes):
    directory.mkdir()
    for suffix in suffixes:
        shutil.copy(f"{store.path}{suffix}", directory)
    return directory


def test_a_store_is_not_made_beside_what_another_left_which_would_count_as_its_changes(store, tmp_path, refused):
    """SQLite goes by the name alone: what opened then was the old store."""
    store.commit(0, records("of the old store"))
    left = store.path.with_name("metadata.sqlite-wal")
    kept = left.read_bytes()
    store.close()
    store.path.unlink()
    left.write_bytes(kept)
    with refused(STORAGE, str(left), "another store"):
        create_store(store.path.parent, records("new"))
    assert not store.path.exists()
    assert left.read_bytes() == kept
    left.unlink()
    create_store(store.path.parent, records("new"))


def test_a_copy_put_beside_what_a_killed_controller_left_is_refused(store, tmp_path, refused):
    store.commit(0, records("of the old store", 1, 2))
    left = store.path.with_name("metadata.sqlite-wal")
    kept = left.read_bytes()
    store.close()
    create_store(tmp_path / "copy", records("of the copy"))
    shutil.copy(tmp_path / "copy" / "metadata.sqlite", store.path)
    left.write_bytes(kept)
    for read_only in (False, True):
        with refused(STORAGE, "whole by itself", "metadata.sqlite-wal"):
            SqliteStore(store.path.parent, read_only=read_only)
    assert left.read_bytes() == kept
    left.unlink()
    with closing(SqliteStore(store.path.parent)) as opened:
        assert opened.load() == records("of the copy")


def test_a_copy_of_an_open_store_without_its_newest_changes_is_refused(store, tmp_path, refused):
    store.commit(0, records("c", 1, 2))
    part = copied(store, tmp_path / "part", "")
    for _ in range(2):  # the first try leaves nothing that would let the second pass
        with refused(STORAGE, "metadata.sqlite-wal", "replog controller backup"):
            SqliteStore(part)
    with closing(SqliteStore(copied(store, tmp_path / "whole", "", "-wal"))) as whole:
        assert len(whole.load()) == 3
    store.close()
    with closing(SqliteStore(copied(store, tmp_path / "closed", ""))) as alone:
        assert len(alone.load()) == 3


def test_a_store_closed_while_somebody_reads_it_is_whole_when_it_is_opened_again(store):
    store.commit(0, records("c"))
    store._db.execute("PRAGMA busy_timeout = 10")
    reader = sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)
    reader.execute("SELECT count(*) FROM metadata").fetchone()
    store.close()
    reader.close()
    with closing(SqliteStore(store.path.parent)) as again:
        assert [record.key for record in again.load()] == ["cluster"]


def test_newest_changes_that_somebody_removes_are_written_again_at_the_next_commit(store):
    store.commit(0, records(0))
    for suffix in ("-wal", "-shm"):
        (store.path.parent / f"metadata.sqlite{suffix}").unlink()
    store.commit(1, records(1, after=1))
    found = store.path.parent.parent / "as a SIGKILL leaves it"
    shutil.copytree(store.path.parent, found, ignore=shutil.ignore_patterns(".lock"))
    with closing(SqliteStore(found)) as started:
        assert [record.version for record in started.load()] == [1, 2]


@pytest.mark.parametrize("done", ["removed", "replaced"])
def test_nothing_is_committed_to_a_store_that_somebody_has_taken_away(store, refused, done):
    store.commit(0, records(0))
    away = store.path.rename(store.path.with_name("away"))
    if done == "replaced":
        shutil.copy(away, store.path)
    with refused(STORAGE, str(store.path), "removed or replaced while it was open; put it back"):
        store.commit(1, records(1, after=1))
    away.rename(store.path)
    assert store.commit(1, records(1, after=1)) == 2
