"""Kafka's DumpLogSegments: what it says of files, and what it complains of."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.interop.kafka import Kafka
from tests.interop.our_logs import Expected

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_FORMS = (
    r"Dumping (?P<file>.+)",
    r"Log starting offset: \d+",
    r"(?P<batch>baseOffset: \d+ .* isvalid: true)",
    r"(?P<control>\| offset: \d+ .* endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: -?\d+)",
    r"(?P<record>\| offset: .*)",
    r"offset: \d+ position: \d+",
    r"timestamp: -?\d+ offset: \d+",
    r"version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+",
    r"producerId: \d+ producerEpoch: \d+ coordinatorEpoch: -?\d+ currentTxnFirstOffset: .*",
    r".+ is empty\.",
    r".+ passed sanity check\.",
)
_LINE = re.compile("|".join(f"(?:{form})" for form in _FORMS))
_RECORD = re.compile(
    r"\| offset: (\d+) (?:CreateTime|LogAppendTime): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -?\d+ "
    r"headerKeys: \[(.*?)\](?: key: (.*?))?(?: payload: (.*))?"
)

# 4.3 and later take the first batch of a file to follow offset -1. That is no complaint, nor is its headline alone.
_FIRST = re.compile(r"(Non-consecutive offsets in .*\n)  -1 is followed by \d+\n")
_FOLLOWS_NOTHING = re.compile(r"Non-consecutive offsets in .*\n(?!  )")


class Batch(NamedTuple):
    """A batch's header in Kafka's words; absent numbers are -1."""

    base_offset: int
    last_offset: int
    count: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    delete_horizon: int
    position: int
    timestamp: int
    size: int
    codec: str
    crc: int


class Dump(NamedTuple):
    """Complaints are all lines that sound files do not bring about."""

    complaints: list[str]
    batches: dict[Path, list[Batch]]
    records: dict[Path, list[Expected]]  # their headers are just the names


# What the tool says of every compacted log, Kafka's own too: of holes, and of batches whose records are all gone, which
# keep their timestamp (CL-7) and in the index are compared with the -1 of no records.
NORMAL_IN_COMPACTED = re.compile(
    r"Non-consecutive offsets in .*compacted-0/.*|  \d+ is followed by \d+|"
    r"Found timestamp mismatch in :.*compacted-0/.*|  Index timestamp: (?P<timestamp>\d+), log timestamp: -1"
)


def abnormal(dumped: "Dump") -> list[str]:
    """The complaints that remain without those of compacted logs."""
    emptied = {str(batch.timestamp) for batches in dumped.batches.values() for batch in batches if batch.count == 0}
    remain = []
    for line in dumped.complaints:
        normal = NORMAL_IN_COMPACTED.fullmatch(line)
        if normal is None or (normal["timestamp"] and normal["timestamp"] not in emptied):
            remain.append(line)
    return remain


def segment_files(directories: Iterable[Path]) -> list[Path]:
    """All files in them that the tool understands."""
    return sorted(path for directory in directories for path in directory.iterdir() if path.suffix in SUFFIXES)


def dump(kafka: Kafka, files: Iterable[Path], *options: str) -> Dump:
    """Run the tool over the files, once."""
    names = ",".join(map(str, files))
    assert names, "there is nothing to dump"
    done = kafka.try_run(kafka.dumper, *options, "--files", names)
    result = Dump(_FOLLOWS_NOTHING.sub("", _FIRST.sub(r"\1", done.stderr)).splitlines(), {}, {})
    if done.returncode != 0:
        result.complaints.append(f"exit code {done.returncode}")
    file = Path()
    for line in done.stdout.splitlines():
        parts = _LINE.fullmatch(line)
        if parts is None:
            result.complaints.append(f"{file}: {line}")
        elif parts["file"]:
            file = Path(parts["file"])
            result.batches[file], result.records[file] = [], []
        elif parts["batch"]:
            result.batches[file].append(_batch(line))
        elif parts["record"] and "--print-data-log" in options:
            result.records[file].append(_record(line))
    return result


def _batch(line: str) -> Batch:
    fields = dict(re.findall(r"(\w+): (\S+)", line))
    horizon = re.fullmatch(r"OptionalLong\[(\d+)\]", fields["deleteHorizonMs"])
    return Batch(
        int(fields["baseOffset"]),
        int(fields["lastOffset"]),
        int(fields["count"]),
        int(fields["partitionLeaderEpoch"]),
        int(fields["producerId"]),
        int(fields["producerEpoch"]),
        int(fields["baseSequence"]),
        fields["isTransactional"] == "true",
        fields["isControl"] == "true",
        int(horizon[1]) if horizon else -1,
        int(fields["position"]),
        int(fields.get("CreateTime", fields.get("LogAppendTime", "-1"))),
        int(fields["size"]),
        fields["compresscodec"],
        int(fields["crc"]),
    )


def _record(line: str) -> Expected:
    match = _RECORD.fullmatch(line)
    assert match is not None, line
    offset, timestamp, key_size, value_size, headers, key, value = match.groups()
    return Expected(
        int(timestamp),
        int(offset),
        headers,
        "null" if key_size == "-1" else key or "",
        "null" if value_size == "-1" else value or "",
    )
