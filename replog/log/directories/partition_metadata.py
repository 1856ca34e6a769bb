"""`partition.metadata`: the id of the topic that a partition directory belongs to (1.4)."""

import base64
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from replog.errors import ErrorCode
from replog.log.errors import LogStorageError, storage_errors
from replog.log.files.opening import read_regular, write_atomically
from replog.topic import parse_directory_name

PARTITION_METADATA = "partition.metadata"
MAX_BYTES = 4096
_CONTENT = re.compile(rb"version: (?P<version>[0-9]{1,9})\ntopic_id: (?P<id>[A-Za-z0-9_-]{22})\n?")
_HEX, _BASE64 = re.compile(r"[0-9a-f]{32}"), re.compile(r"[A-Za-z0-9_-]{22}")


class DamagedTopicId(LogStorageError):
    """The file does not name a topic id. `blank`: it has no content at all, as power losses leave files."""

    blank = False


def format_topic_id(topic_id: bytes) -> str:
    """Return 16 bytes as 22 characters of URL-safe base64, as Kafka prints them."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def read_topic_id(directory: Path) -> bytes | None:
    """Read the topic id of a partition directory; None without such a file. Raises DamagedTopicId, LogStorageError."""
    path = directory / PARTITION_METADATA
    with storage_errors(path):
        try:
            content = read_regular(path, MAX_BYTES)
        except FileNotFoundError:
            return None
    match = _CONTENT.fullmatch(content)
    topic_id = base64.urlsafe_b64decode(match["id"] + b"==") if match else bytes(16)
    if topic_id == bytes(16):
        damage = DamagedTopicId(f"{path} does not name a topic id; see replog log set-topic-id --help", path)
        damage.blank = not content.strip(b"\0\r\n\t ")
        raise damage
    return topic_id


def write_topic_id(directory: Path, topic_id: bytes, write: Callable[[Path, bytes], None] = write_atomically) -> None:
    """Replace the file, durably unless by another `write`. ValueError unless the id is 16 bytes that are not all
    zero."""
    if len(topic_id) != 16 or topic_id == bytes(16):
        raise ValueError(f"topic id {topic_id.hex()!r} is not 16 bytes, or all zero")
    path = directory / PARTITION_METADATA
    with storage_errors(path):
        write(path, f"version: 0\ntopic_id: {format_topic_id(topic_id)}".encode())


def parse_topic_id(text: str) -> bytes:
    """Parse an id as `replog topic describe` and Kafka show it. Raises INVALID_REQUEST."""
    topic_id = bytes.fromhex(text) if _HEX.fullmatch(text) else b""
    if _BASE64.fullmatch(text):
        topic_id = base64.urlsafe_b64decode(text + "==")
    if topic_id in (b"", bytes(16)):
        raise ErrorCode.INVALID_REQUEST.error(
            f"topic id {text!r} is neither 32 hex digits nor 22 characters of base64; see replog topic describe"
        )
    return topic_id


def restore_topic_id(directory: Path, topic_id: bytes) -> None:
    """Write the file if none names a topic; a running broker then opens the replica. Raises LogStorageError, and
    INVALID_REQUEST if it is no partition's directory, or names another topic."""
    for path in (directory.absolute(), directory.resolve()) if directory.is_dir() else ():
        with suppress(ValueError):  # the name of a link, or of what it leads to
            parse_directory_name(path.name)
            break
    else:
        raise ErrorCode.INVALID_REQUEST.error(f"{directory} is not the directory of a partition")
    try:
        there = read_topic_id(directory)
    except DamagedTopicId:
        there = None
    if there not in (None, topic_id):
        raise ErrorCode.INVALID_REQUEST.error(
            f"{directory} belongs to topic {format_topic_id(there or b'')}; if that is wrong, move the directory away"
        )
    write_topic_id(directory, topic_id)
    with suppress(PermissionError):  # otherwise root's file is not the broker's
        owner = directory.stat()
        os.chown(directory / PARTITION_METADATA, owner.st_uid, owner.st_gid)
