"""Copies of the metadata store: taken at any time, checked, and read again. A store from an older copy, or none, and
from the log directories of brokers (docs/backup.md).

That begins a new history, far above every version that a broker can know. So all brokers follow it (CT-24), get
everything, and register again."""

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

from replog.controller.decision import numbered
from replog.controller.restoration import Held, brokers_named, restored
from replog.errors import ErrorCode, ReplogError
from replog.log.errors import storage_errors
from replog.log.files.opening import fsync_directory
from replog.log_tools.survey import Survey, read_survey_file, survey
from replog.metadata.changes import Change
from replog.metadata.image import HISTORY_ID_SIZE, History, MetadataImage
from replog.metadata.records import all_known, change_of, record_of
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.controller.sqlite_store import DATABASE_NAME, WAL_SUFFIX, SqliteStore, create_store
from replog.topic import MAX_CLUSTER_PARTITIONS

VERSIONS_AHEAD = 1 << 32  # beyond all that is known: brokers whose disks were not read know more
OLD_MS = 3_600_000  # an older survey may be of a broker that has run since


@dataclass(frozen=True)
class Outcome:
    """The store's records, and remarks on what is not known or is gone."""

    records: Sequence[MetadataRecord]
    image: MetadataImage
    remarks: Sequence[str]


def restored_store(
    replicas: Mapping[int, Sequence[Path]],
    rng: Random,
    now_ms: int,
    copy: Path | None = None,
    without: Set[int] = frozenset(),
) -> Outcome:
    """Return the store that follows from `copy`, if given, and from all log directories of brokers, or surveys of them.

    Neither the brokers nor the controller run. `now_ms` is the wall clock's. `without` has brokers of the copy that are
    given up. Raises KAFKA_STORAGE_ERROR if a copy, a directory or a file cannot be read; INVALID_REQUEST,
    INCONSISTENT_CLUSTER_ID if they do not belong together, or if a broker of the copy is missing."""
    known = _image(map(all_known, read_copy(copy))) if copy is not None else MetadataImage()
    _check_complete(known, replicas.keys(), without)
    surveys, remarks = _surveys(replicas, known, now_ms)
    if copy is None:
        remarks += (
            f"without a copy no brokers are known except those that were read, {brokers_named(replicas)}: what only "
            "others have is lost",
            "without a copy there are no ACLs and no quotas: only super.users may do anything, or everybody everything "
            "with allow.everyone.if.no.acl.found=true, until they are made again (docs/backup.md)",
        )
    else:
        remarks.append(
            f"ACLs and quotas are those of the copy, {len(known.acls.by_id)} and {len(known.client_quotas)} of them: "
            "what was revoked or denied since is allowed again; look at them before clients connect (docs/backup.md)"
        )
    if not known.cluster_id:
        ids = {each.cluster_id for each in surveys}
        if len(ids) != 1:
            raise ErrorCode.INCONSISTENT_CLUSTER_ID.error(
                f"the directories are of {len(ids)} clusters, {sorted(ids)}; name one's"
            )
        (known.cluster_id,) = ids
    versions: dict[int, int] = defaultdict(int)
    for each in surveys:
        versions[each.broker_id] = max(versions[each.broker_id], each.metadata_version)
    newest = max([known.version, *versions.values()])
    held = [
        Held(each.broker_id, *replica, metadata_version=versions[each.broker_id])
        for each in surveys
        for replica in each.replicas
    ]
    result = restored(known, held, replicas.keys(), newest // VERSIONS_AHEAD)
    before = newest + VERSIONS_AHEAD
    new_history = [
        Change("collected", None, before + 1),  # otherwise brokers would keep what was deleted meanwhile
        Change("lineage", None, (History(rng.randbytes(HISTORY_ID_SIZE), before + 1),)),
    ]
    changes = [change for change in numbered(chain(result.changes, new_history), before) if change is not None]
    remarks += chain(result.remarks, *(each.passed_over for each in surveys))
    return Outcome(list(map(record_of, changes)), _image(changes), remarks)


def _check_complete(known: MetadataImage, read: Set[int], without: Set[int]) -> None:
    """Raises INVALID_REQUEST if a broker is left out: it may be the only one that has acknowledged records. Another
    would lead, and the one left out would cut its log when it comes back."""
    brokers = known.brokers.keys() | {broker_id for state in known.partitions.values() for broker_id in state.replicas}
    if wrong := without - (brokers - read):
        raise _invalid(
            f"--without-broker {min(wrong)}: it is no broker of the copy, or a log directory of it is named; give up "
            "only brokers whose disks are lost"
        )
    if missing := brokers - read - without:
        raise _invalid(
            f"{brokers_named(missing)} of the copy: no log directory is named. Name all with --replica; or give up "
            f"what nobody else has: {' '.join(f'--without-broker {broker_id}' for broker_id in sorted(missing))}"
        )


def _surveys(
    replicas: Mapping[int, Sequence[Path]], known: MetadataImage, now_ms: int
) -> tuple[list[Survey], list[str]]:
    """Read all log directories. Return their surveys, and remarks on what may be wrong with them."""
    surveys: list[Survey] = []
    remarks: list[str] = []
    for broker_id, paths in replicas.items():
        count, log_dirs = len(surveys), 0
        for path in paths:
            of_path = _surveyed(broker_id, path, known)
            surveys += of_path
            log_dirs = max(log_dirs, *(each.log_dirs for each in of_path))
            written_ms = of_path[0].written_ms
            age_ms = 0 if written_ms is None else now_ms - written_ms
            if age_ms > OLD_MS:
                remarks.append(
                    f"{path} is {age_ms // 3_600_000} hours old: if broker {broker_id} ran since, it is wrong; write "
                    "it again"
                )
        if log_dirs > len(surveys) - count:
            remarks.append(
                f"broker {broker_id} had {log_dirs} log directories when it stopped, and {len(surveys) - count} is "
                "named: what only the others have is lost"
            )
    return surveys, remarks


def _surveyed(broker_id: int, path: Path, known: MetadataImage) -> list[Survey]:
    if not path.exists():
        raise _invalid(
            f"--replica {broker_id}={path}: it is not there; name a log directory of the broker, or a file with what "
            "replog log survey printed of it"
        )
    surveys = read_survey_file(path) if path.is_file() else [survey(path)]
    for each in surveys:
        if each.broker_id != broker_id:
            raise _invalid(f"{path} belongs to broker {each.broker_id}, not to {broker_id}")
        if known.cluster_id and each.cluster_id != known.cluster_id:
            raise ErrorCode.INCONSISTENT_CLUSTER_ID.error(
                f"{path} belongs to cluster {each.cluster_id!r}, and the copy is of {known.cluster_id!r}"
            )
        for replica in each.replicas:
            if replica.partition.partition >= MAX_CLUSTER_PARTITIONS:
                raise _invalid(f"{path} has {replica.partition}; a cluster has at most {MAX_CLUSTER_PARTITIONS}")
    return surveys


def _invalid(why: str) -> ReplogError:
    return ErrorCode.INVALID_REQUEST.error(why)


def _image(changes: Iterable[Change]) -> MetadataImage:
    image = MetadataImage()
    for change in changes:
        image.put(change)
    return image


def read_store(directory: Path) -> list[MetadataRecord]:
    """Read the store as of one moment, also while a controller runs on it. Raises KAFKA_STORAGE_ERROR."""
    with closing(SqliteStore(directory, read_only=True)) as opened:
        return opened.load()


def back_up(records: list[MetadataRecord], target: Path) -> tuple[Path, MetadataImage]:
    """Copy a store to a file in `target`, read it back, and return its path and content. Its name has the cluster id
    and the version. Raises KAFKA_STORAGE_ERROR."""
    image = _image(map(change_of, records))
    path = target / f"replog-metadata-{image.cluster_id}-{image.version}.sqlite"
    with storage_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    with storage_errors(target), tempfile.TemporaryDirectory(prefix=".backup-", dir=target) as scratch:
        create_store(Path(scratch), records)
        if read_copy(Path(scratch) / DATABASE_NAME) != records:
            raise ErrorCode.KAFKA_STORAGE_ERROR.error(f"{path} reads otherwise than it was written")
        (Path(scratch) / DATABASE_NAME).rename(path)
        fsync_directory(target)
    return path, image


def read_copy(path: Path) -> list[MetadataRecord]:
    """Read the copy of a store. Nothing is written beside it. Raises KAFKA_STORAGE_ERROR."""
    if not path.is_file():
        what = "is a directory; name a file in it" if path.is_dir() else "is not there; name the file"
        raise ErrorCode.KAFKA_STORAGE_ERROR.error(f"{path} {what}: a copy by replog controller backup")
    with storage_errors(path), tempfile.TemporaryDirectory(prefix="replog-copy-") as scratch:
        shutil.copy(path, Path(scratch) / DATABASE_NAME)
        wal = path.with_name(path.name + WAL_SUFFIX)
        if wal.exists():
            shutil.copy(wal, Path(scratch) / (DATABASE_NAME + WAL_SUFFIX))
        try:
            with closing(SqliteStore(Path(scratch))) as opened:
                return opened.load()
        except ReplogError as error:
            message = error.message.replace(str(Path(scratch) / DATABASE_NAME), str(path))
            raise ReplogError(error.code, message) from None
