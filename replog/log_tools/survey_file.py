"""Surveys as files: a broker's disks, surveyed on its host and read where a metadata store is restored.

One JSON object a line: first the broker, then each directory with as many lines as it announces, so that a cut file is
noticed."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from replog.errors import ErrorCode, ReplogError
from replog.log.errors import storage_errors
from replog.log_tools.survey import Survey, SurveyedReplica
from replog.topic import parse_directory_name

FORMAT = 2
MAX_LINE = 4096  # characters
MAX_DIRECTORIES = 1000
MAX_REPLICAS = 200_000  # one directory's, with those passed over
_MAX = {"broker_id": (1 << 31) - 1, "last_epoch": 1 << 30, "seen_epoch": 1 << 30}
_MAX_OTHERS = 1 << 62  # a restored store needs room above these limits
_NUMBERS = ("last_epoch", "log_end_offset", "seen_epoch", "producer_id")


def survey_lines(surveys: Sequence[Survey], now_ms: int) -> Iterator[str]:
    """Write all log directories of one broker, at a wall clock time. Raises INVALID_REQUEST if they are of several."""
    first = surveys[0]
    if len(brokers := {(each.cluster_id, each.broker_id) for each in surveys}) > 1:
        raise ErrorCode.INVALID_REQUEST.error(f"the directories are of {len(brokers)} brokers; name those of one")
    broker = {"cluster_id": first.cluster_id, "broker_id": first.broker_id, "written_ms": now_ms}
    yield json.dumps({"replog_survey": FORMAT, **broker, "directories": len(surveys)})
    for each in surveys:
        count = {"replicas": len(each.replicas), "passed_over": len(each.passed_over)}
        yield json.dumps({"metadata_version": each.metadata_version, "log_dirs": each.log_dirs, **count})
        for replica in each.replicas:
            numbers = {name: getattr(replica, name) for name in _NUMBERS}
            name, topic_id = str(replica.partition), replica.topic_id.hex()
            yield json.dumps({"replica": name, "topic_id": topic_id, **numbers, "compacted": replica.compacted})
        for words in each.passed_over:
            yield json.dumps({"passed_over": words[: MAX_LINE // 8]})


def read_survey_file(path: Path) -> list[Survey]:
    """Read a survey. Raises KAFKA_STORAGE_ERROR if that fails, INVALID_REQUEST if it is not a whole survey file."""
    with storage_errors(path), path.open(encoding="utf-8", errors="replace") as file:
        lines = _Lines(path, file)
        broker = lines.next()
        lines.check(broker.get("replog_survey") == FORMAT, f"does not begin with replog_survey {FORMAT}")
        cluster_id, broker_id = broker.get("cluster_id"), lines.number(broker, "broker_id")
        lines.check(isinstance(cluster_id, str) and 0 < len(cluster_id) <= 64, "has no cluster_id")
        count = lines.number(broker, "directories")
        lines.check(1 <= count <= MAX_DIRECTORIES, f"has not 1 to {MAX_DIRECTORIES} directories")
        written_ms = lines.number(broker, "written_ms")
        surveys = [_directory(lines, str(cluster_id), broker_id, written_ms) for _ in range(count)]
        lines.check(not file.read(1), "goes on after its end")
    return surveys


def _directory(lines: "_Lines", cluster_id: str, broker_id: int, written_ms: int) -> Survey:
    head = lines.next()
    version, log_dirs = lines.number(head, "metadata_version"), lines.number(head, "log_dirs")
    replicas, passed_over = lines.number(head, "replicas"), lines.number(head, "passed_over")
    lines.check(replicas + passed_over <= MAX_REPLICAS, f"has more than {MAX_REPLICAS} replicas in a directory")
    held = [_replica(lines) for _ in range(replicas)]
    lines.check(len({replica.partition for replica in held}) == replicas, "has a replica twice")
    words = [str(lines.next().get("passed_over", "?")) for _ in range(passed_over)]
    return Survey(cluster_id, broker_id, held, words, version, log_dirs, written_ms)


def _replica(lines: "_Lines") -> SurveyedReplica:
    row = lines.next()
    try:
        partition, topic_id = parse_directory_name(row["replica"]), bytes.fromhex(row["topic_id"])
    except (KeyError, TypeError, ValueError):
        raise lines.error("names no replica and topic id") from None
    lines.check(len(topic_id) == 16, "has a topic id that is not of 16 bytes")
    compacted = row.get("compacted")
    if not isinstance(compacted, bool):
        raise lines.error("does not say whether a replica is compacted")
    numbers = (lines.number(row, name, least=-1) for name in _NUMBERS)
    return SurveyedReplica._make((partition, topic_id, *numbers, compacted))


class _Lines:
    """Reads the lines of a file that may be anything."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._number = 0

    def next(self) -> dict[str, Any]:
        self._number += 1
        line = self._file.readline(MAX_LINE + 1)
        self.check(line.endswith("\n") and len(line) <= MAX_LINE, "is cut off, or too long")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self.error("is no JSON object")
        return row

    def number(self, row: dict[str, Any], name: str, least: int = 0) -> int:
        value = row.get(name)
        if type(value) is not int or not least <= value <= _MAX.get(name, _MAX_OTHERS):
            raise self.error(f"has a {name} that is none")
        return value

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            raise self.error(what)

    def error(self, what: str) -> ReplogError:
        return ErrorCode.INVALID_REQUEST.error(
            f"{self._path} {what} (line {self._number}); write it again: replog log survey --help"
        )
