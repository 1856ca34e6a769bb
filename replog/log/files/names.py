"""Names of the files of a log (1.2)."""

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DIGEST_SUFFIX = ".digest"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
STRAY_SUFFIX = ".stray"  # files that a start has set aside, and nobody deletes (LD-6)
NEW_SUFFIX = ".tmp"  # a file whose name is not free yet


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Return the segment's base offset as 20 digits, and the suffix (1.2)."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """Return the base offset in a segment file's name, or None if it is no such name."""
    digits = name.partition(".")[0]
    if len(digits) != 20 or not digits.isascii() or not digits.isdigit():
        return None
    offset = int(digits)
    return offset if offset < 2**63 else None
