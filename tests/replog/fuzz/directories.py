"""A broker's log directory whose files are not what they were, and everything that reads one."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from leader.list_offsets import offset_for_timestamp
from replog.config.topic import TopicConfig
from replog.errors import ReplogError
from replog.log.directories.log_directory import LogDirectory
from replog.log.formats.batch import iterate_batches
from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from replog.log.formats.records import iterate_records
from replog.log.log import Log
from replog.log.offsets import AppendOrigin, Isolation
from replog.log.retention import delete_old_segments
from replog.log_tools.dump import dump_file
from replog.log_tools.verify.paths import verify
from replog.log_tools.verify.segment import Options, VerifiedTotals
from replog.topic import TopicPartition
from tests.replog.fuzz.mutations import mutated
from tests.replog.fuzz.targets import scratch
from tests.replog.log.batches import client_batch, config
from tests.replog.log.compaction.compacting import clean
from tests.replog.log.directories.moving import created
from tests.replog.log.producers.writes import batch, marker

Files = dict[str, bytes]
Changes = dict[str, bytes | None]  # by file name; None where there is no such file
Change = Callable[[Path], None]

PLAIN, COMPACTED = TopicPartition("t", 0), TopicPartition("c", 1)
SETTINGS = {"segment_bytes": 1200, "index_interval_bytes": 1}
SUFFIXES = (".log", ".index", ".timeindex", ".digest", ".txnindex", ".snapshot")
MORE_SUFFIXES = (".deleted", ".cleaned", ".swap", ".tmp", "")


def config_of(tp: TopicPartition) -> TopicConfig:
    return config(**SETTINGS, cleanup_policy="compact" if tp == COMPACTED else "delete")


@contextmanager
def manager(directory: Path) -> Iterator[LogDirectory]:
    opened = LogDirectory(directory, cluster_id="c", node_id=3, randbytes=os.urandom)
    try:
        yield opened
    finally:
        opened.abandon()


@cache
def whole() -> Files:
    """The files of a directory after a clean stop: batches of every kind, and a compacted log."""
    directory = scratch() / "whole"
    shutil.rmtree(directory, ignore_errors=True)
    with manager(directory) as logs:
        logs.load(config_of)
        for tp in (PLAIN, COMPACTED):
            log = created(logs, tp, tp.directory_name.encode().ljust(16), config_of(tp))
            sequences = [0, 0]
            for number in range(48):
                pid, origin = number % 2, AppendOrigin.CLIENT
                if number % 3 == 0:
                    keyed = (b"k%d" % (number % 4), b"v" * (number % 30))
                    data = client_batch(keyed, timestamps=[1000 + 20 * number], codec=pid)
                elif number % 6 == 5:
                    data, origin = marker(1, commit=number % 4 == 1), AppendOrigin.COORDINATOR
                else:
                    fields = {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequences[pid]}
                    pairs = (b"k5", b"data"), (b"k%d" % number, None)
                    data = client_batch(*pairs, timestamps=[1500, 1490], transactional=pid == 1, **fields)
                    sequences[pid] += 2
                log.append_as_leader(data, leader_epoch=number // 10, now_ms=2000, origin=origin)
            log.maybe_increment_high_watermark(log.log_end_offset)
            log.maybe_increment_log_start_offset(2)
        cleaned = clean(logs.logs[COMPACTED], 3000)
        OffsetCheckpoint(directory / CLEANER_CHECKPOINT).write({COMPACTED: cleaned})
        logs.close(7)
    return files_of(directory)


def files_of(directory: Path) -> Files:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def changes_of(files: Files) -> Changes:
    """From the whole directory to these files."""
    names = sorted(whole().keys() | files.keys())
    return {name: files.get(name) for name in names if files.get(name) != whole().get(name)}


def with_changes(changes: Changes) -> Files:
    files = {name: data for name, data in whole().items() if name not in changes}
    return files | {name: data for name, data in changes.items() if data is not None}


@st.composite
def changed(draw: st.DrawFn) -> Changes:
    """Some of the files: other bytes, other names, gone."""
    files = dict(whole())
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(files)))
        match draw(st.integers(0, 7)):
            case 0:
                if len(files) > 1:
                    del files[name]
            case 1:
                files[f"{name}{draw(st.sampled_from(MORE_SUFFIXES))}"] = files.pop(name)
            case 2:
                files[f"{name}{draw(st.sampled_from(MORE_SUFFIXES))}"] = files[draw(st.sampled_from(sorted(files)))]
            case 3:
                base = draw(st.sampled_from([0, 2, 5, 2**31, 2**62, 2**63 - 1, 10**20 - 1]))
                directory = draw(st.sampled_from([PLAIN, COMPACTED])).directory_name
                files[f"{directory}/{base:020d}{draw(st.sampled_from(SUFFIXES))}"] = files[name]
            case _:
                alike = [data for other, data in sorted(files.items()) if Path(other).suffix == Path(name).suffix]
                files[name] = draw(mutated([files[name], *alike]))
    return changes_of(files)


def write(files: Mapping[str, bytes]) -> Path:
    directory = scratch() / "changed"
    shutil.rmtree(directory, ignore_errors=True)
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


def read_everything(changes: Changes) -> None:
    """Verify, dump, load, read and go on: what does not work is refused with a typed error."""
    files = with_changes(changes)
    directory = write(files)
    list(verify([directory], Options(deep=True), VerifiedTotals()))
    for path in sorted(directory.rglob("*")):
        with suppress(ReplogError):
            list(dump_file(path, records=True))
    assert files_of(directory) == files, "verify and dump change nothing"
    for _ in range(2):
        with suppress(ReplogError), manager(directory) as logs:
            logs.load(config_of)
            for log in logs.logs.values():
                use(log)
            logs.close(8)


def use(log: Log) -> None:
    with suppress(ReplogError):
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
    for isolation in Isolation:
        with suppress(ReplogError):
            log.bound(isolation)
            read_all(log, isolation)
    for timestamp in (0, 1010, 1500, 10**6):
        with suppress(ReplogError):
            offset_for_timestamp(log, timestamp)
    for epoch in (-1, 0, 2, 9):
        log.end_offset_for_epoch(epoch)
    epoch = log.epochs.latest_epoch or 0
    with suppress(ReplogError):
        log.append_as_leader(client_batch((b"k", b"more")), leader_epoch=epoch, now_ms=2000)
        log.append_as_leader(batch(0, 99, pid=1), leader_epoch=epoch, now_ms=2000)
    with suppress(ReplogError):
        log.update_high_watermark(log.log_end_offset)
        if log.config.compacted:
            clean(log, 4000)
        delete_old_segments(log, 10**15)
    with suppress(ReplogError):
        log.truncate_to((log.log_start_offset + log.log_end_offset) // 2)


def read_all(log: Log, isolation: Isolation) -> None:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 300, isolation, min_one_message=True)
        following = offset
        for position, header in iterate_batches(data.records):
            with suppress(ReplogError):
                list(iterate_records(data.records, header, position))
            following = header.next_offset
        if following <= offset:
            return
        offset = following


DERIVED = (".index", ".timeindex", ".digest", "t-0/leader-epoch-checkpoint")  # holes hide where an epoch began


@st.composite
def derived_changed(draw: st.DrawFn) -> Changes:
    """Some of the files that follow from the `.log` files and are checked against them."""
    files = dict(whole())
    names = sorted(name for name in files if name.endswith(DERIVED))
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
        alike = [whole()[other] for other in names if Path(other).suffix == Path(name).suffix]
        content = draw(st.none() | mutated(alike))
        if content is None:
            del files[name]
        else:
            files[name] = content
    return changes_of(files)


def what_is_served(changes: Changes) -> dict[str, list[object]]:
    """Everything that clients and replicas are told of the records."""
    with manager(write(with_changes(changes))) as logs:
        logs.load(config_of)
        assert not logs.failed
        return {f"{tp}": served_by(log) for tp, log in logs.logs.items()}


def served_by(log: Log) -> list[object]:
    answers: list[object] = [log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset]
    answers += [
        log.epochs.entries,
        *(offset_for_timestamp(log, timestamp) for timestamp in (0, 1003, 1012, 1495, 1500)),
    ]
    for isolation in Isolation:
        for offset in range(log.log_start_offset, log.log_end_offset):
            data = log.read(offset, 300, isolation, min_one_message=True)
            answers.append((bytes(data.records), data.metadata.offset))
    return answers
