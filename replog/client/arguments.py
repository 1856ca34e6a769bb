"""What callers get wrong, in one sentence that names the argument."""

from collections.abc import Iterable, Mapping
from typing import Any

from replog.topic import TopicPartition

Partition = TopicPartition | tuple[str, int]


def _wrong(name: str, value: object, right: str) -> TypeError:
    return TypeError(f"{name} must be {right}, not {type(value).__name__} ({value!r:.60})")


def check_record(topic: Any, value: Any, key: Any, partition: Any, timestamp_ms: Any, headers: Any) -> None:
    """Raises TypeError if a record is not of the right types."""
    if not isinstance(topic, str):
        raise _wrong("topic", topic, "text")
    for name, data in (("value", value), ("key", key)):
        if data is not None and not isinstance(data, bytes | bytearray | memoryview):
            raise _wrong(name, data, "bytes or None" + ("; encode it" if isinstance(data, str) else ""))
    for name, number in (("partition", partition), ("timestamp_ms", timestamp_ms)):
        if number is not None and not isinstance(number, int):
            raise _wrong(name, number, "a whole number")
    if isinstance(headers, Mapping | str | bytes):
        raise _wrong("headers", headers, "a list of (name, bytes)")
    for header in headers:
        match header:
            case (str(), bytes() | bytearray() | memoryview() | None):
                pass
            case _:
                raise _wrong("each of headers", header, "(text, bytes or None)")


def check_numbers(**numbers: Any) -> None:
    """Raises TypeError naming the first that is none."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise _wrong(name, number, "a number")


def texts(configs: Mapping[str, str] | None) -> dict[str, str]:
    """Raises TypeError."""
    wrong: dict[Any, Any] = {name: value for name, value in (configs or {}).items() if not isinstance(value, str)}
    for name, value in wrong.items():
        raise _wrong(f"configs[{name!r}]", value, "text")
    return dict(configs or {})


def partitions_of(partitions: Iterable[Partition]) -> list[TopicPartition]:
    """Raises TypeError."""
    given: Any = partitions
    if isinstance(given, str | TopicPartition):
        raise _wrong("partitions", given, "a list of (topic, number)")
    return [partition_of(partition) for partition in partitions]


def partition_of(partition: Any) -> TopicPartition:
    """Raises TypeError."""
    match partition:
        case (str(topic), int(number)):
            return TopicPartition(topic, number)
        case _:
            raise _wrong("a partition", partition, "(topic, number)")
