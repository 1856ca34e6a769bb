"""Whether a topic is there, asked before anything is read or sent, so that a wrong name is told at once."""

from replog.client import Admin
from replog.errors import ErrorCode, ReplogError

ADMIN_TIMEOUT_MS = 10_000


async def partitions_of(bootstrap: str, topic: str, wanted: int | None) -> list[int]:
    """The topic's partitions, or the one wanted. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    async with Admin(bootstrap, timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        description = await admin.describe_topic(topic)
    numbers = [partition.partition for partition in description.partitions]
    if wanted is None:
        return numbers
    if wanted not in numbers:
        raise ReplogError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has partitions 0 to {len(numbers) - 1}, not {wanted}",
        )
    return [wanted]
