"""Topic names and partitions: what a name may be, and where a partition's directory is (FN-1)."""

import re
from typing import NamedTuple

from replog.errors import ErrorCode, ReplogError

MAX_TOPIC_NAME_LENGTH = 249  # Kafka's: leaves room for "-<partition>.<32 hex>-delete" in a 255-character file name
MAX_PARTITIONS = 10_000  # one topic's: as many as Kafka makes in one request; more would stop a controller for long
MAX_CLUSTER_PARTITIONS = 20_000  # also a broker's replicas: as many as were run on three of them
MAX_PARTITION = 2**31 - 1
DELETE_SUFFIX = "-delete"  # ends the directory of a replica that waits for its deletion
STRAY_SUFFIX = "-stray"  # ends the directory of a replica that no topic there wants, and that is kept
FUTURE_SUFFIX = "-future"  # ends the directory of an unfinished copy, in another log directory
SET_ASIDE = re.compile(r"(?P<replica>.+)\.(?P<id>[0-9a-f]{32})(?P<suffix>-delete|-future|-stray)")  # FN-1
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>0|[1-9][0-9]{0,9})")


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts and hashes as the pair it is."""

    topic: str
    partition: int

    @property
    def directory_name(self) -> str:
        """`<topic>-<partition>`, the name of every replica's directory (FN-1)."""
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return self.directory_name


def validate_topic_name(name: str) -> str:
    """Return `name` if it is a legal topic name, else raise INVALID_TOPIC_EXCEPTION. It becomes a directory name."""
    if not isinstance(name, str):
        raise TypeError(f"topic must be text, not {type(name).__name__} ({name!r:.60})")
    reason = None
    if not name:
        reason = "is empty"
    elif name in (".", ".."):
        reason = "is a reserved directory name"
    elif len(name) > MAX_TOPIC_NAME_LENGTH:
        reason = f"has {len(name)} characters, more than {MAX_TOPIC_NAME_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = "has characters other than the legal ones"
    if reason:
        shown = name if len(name) <= 60 else name[:57] + "..."
        raise ErrorCode.INVALID_TOPIC_EXCEPTION.error(
            f"topic name {shown!r} {reason}; "
            f"choose 1 to {MAX_TOPIC_NAME_LENGTH} ASCII letters, digits, '.', '_' and '-'"
        )
    return name


def parse_directory_name(name: str) -> TopicPartition:
    """Return the partition of a directory of this name, split at the last '-' (FN-1); ValueError if it has none."""
    match = _DIRECTORY.fullmatch(name)
    if match is None or int(match["partition"]) > MAX_PARTITION:
        raise ValueError(f"{name!r} is not <topic>-<partition>")
    try:
        topic = validate_topic_name(match["topic"])
    except ReplogError as error:
        raise ValueError(f"{name!r} is not <topic>-<partition>: {error.message}") from None
    return TopicPartition(topic, int(match["partition"]))
