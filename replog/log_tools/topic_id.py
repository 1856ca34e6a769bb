"""Writes a replica's `partition.metadata` again for somebody who knows the topic's id."""

import os
import re
from base64 import urlsafe_b64decode
from contextlib import suppress
from pathlib import Path

from replog.errors import ErrorCode
from replog.log.directories.partition_metadata import (
    PARTITION_METADATA,
    DamagedTopicId,
    format_topic_id,
    read_topic_id,
    replace_topic_id,
)
from replog.log_tools.verify.paths import path_kind

_HEX, _BASE64 = re.compile(r"[0-9a-f]{32}"), re.compile(r"[A-Za-z0-9_-]{22}")


def parse_topic_id(text: str) -> bytes:
    """Parse an id as `replog topic describe` and Kafka show it. Raises INVALID_REQUEST."""
    topic_id = bytes.fromhex(text) if _HEX.fullmatch(text) else b""
    if _BASE64.fullmatch(text):
        topic_id = urlsafe_b64decode(text + "==")
    if topic_id in (b"", bytes(16)):
        raise ErrorCode.INVALID_REQUEST.error(
            f"topic id {text!r} is neither 32 hex digits nor 22 characters of base64; see replog topic describe"
        )
    return topic_id


def restore_topic_id(directory: Path, topic_id: bytes) -> None:
    """Write the file if none names a topic; a running broker then opens the replica. Raises LogStorageError, and
    INVALID_REQUEST if it is no partition's directory, or names another topic."""
    if path_kind(directory) != "partition":
        raise ErrorCode.INVALID_REQUEST.error(f"{directory} is not the directory of a partition")
    try:
        there = read_topic_id(directory)
    except DamagedTopicId:
        there = None
    if there not in (None, topic_id):
        raise ErrorCode.INVALID_REQUEST.error(
            f"{directory} belongs to topic {format_topic_id(there or b'')}; if that is wrong, move the directory away"
        )
    replace_topic_id(directory, topic_id)
    with suppress(PermissionError):  # otherwise root's file is not the broker's
        owner = directory.stat()
        os.chown(directory / PARTITION_METADATA, owner.st_uid, owner.st_gid)
