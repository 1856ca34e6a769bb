"""Checks of a caller's arguments. An error names the argument in one sentence."""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, TypeVar

from replog.config.properties import MAX_INT, MAX_LONG
from replog.errors import ErrorCode
from replog.topic import TopicPartition

Partition = TopicPartition | tuple[str, int]
T = TypeVar("T")


def _wrong(name: str, value: object, right: str) -> TypeError:
    return TypeError(f"{name} must be {right}, not {type(value).__name__} ({value!r:.60})")


def check_record(topic: Any, value: Any, key: Any, partition: Any, timestamp_ms: Any, headers: Any) -> None:
    """Raises TypeError if a record is not of the right types, INVALID_REQUEST for numbers that there are not."""
    if not isinstance(topic, str):
        raise _wrong("topic", topic, "text")
    for name, data in (("value", value), ("key", key)):
        if data is not None and not isinstance(data, bytes | bytearray | memoryview):
            raise _wrong(name, data, "bytes or None" + ("; encode it" if isinstance(data, str) else ""))
    if partition is not None or timestamp_ms is not None:  # most records have neither, and each pays for this
        whole("partition", 0 if partition is None else partition)
        whole("timestamp_ms", 0 if timestamp_ms is None else timestamp_ms, MAX_LONG)
    if headers and (isinstance(headers, str | bytes) or not isinstance(headers, Sequence)):
        raise _wrong("headers", headers, "a list of (name, bytes)")
    for header in headers or ():
        match header:
            case (str(name), bytes() | bytearray() | memoryview() | None) if name.isascii() or _is_text(name):
                pass
            case _:
                raise _wrong("each of headers", header, "(text, bytes or None)")


def _is_text(name: str) -> bool:
    """Return False for half of a surrogate pair, which no UTF-8 has."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def check_settings(least: float, most: float = MAX_LONG, kind: Any = int | float, **settings: Any) -> None:
    """Raises TypeError or INVALID_CONFIG that names the first wrong setting."""
    for name, number in settings.items():
        if isinstance(number, bool) or not isinstance(number, kind):
            raise _wrong(name, number, "a whole number" if kind is int else "a number")
        if not least <= number <= most:  # refuses NaN, too
            raise ErrorCode.INVALID_CONFIG.error(f"{name}={_shown(number)}: choose {least} to {most}")


def check_timeout(timeout_s: Any) -> None:
    """Check a call's seconds as `check_settings` does: any number but nan."""
    check_settings(-math.inf, math.inf, timeout_s=timeout_s)


def check_type(kind: Any, right: str, /, **given: object) -> None:
    """Raises TypeError, naming the first that is of another kind."""
    for name, value in given.items():
        if not isinstance(value, kind):
            raise _wrong(name, value, right)


def whole(name: str, number: Any, most: int = MAX_INT) -> int:
    """Return `number` as an int. Raises TypeError, or INVALID_REQUEST if no field of the protocol holds it."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise _wrong(name, number, "a whole number")
    plain: int = index(number)  # takes numpy's integers, too
    if not -most - 1 <= plain <= most:
        raise ErrorCode.INVALID_REQUEST.error(f"{name}={_shown(plain)}: choose {-most - 1} to {most}")
    return plain


def wholes(name: str, numbers: Iterable[Any], most: int = MAX_INT) -> list[int]:
    """Apply `whole` to each number."""
    return [whole(f"each of {name}", number, most) for number in listed(name, numbers, "whole numbers")]


def listed(name: str, values: Iterable[T], of: str) -> Iterable[T]:
    """Return `values`. Raises TypeError for one thing instead of a list; text is one thing."""
    given: Any = values
    if isinstance(given, str | bytes | TopicPartition) or not isinstance(given, Iterable):
        raise _wrong(name, given, f"a list of {of}")
    return values


def _shown(number: float) -> str:
    """Format a number. Python raises for very long ones."""
    is_long = isinstance(number, int) and number.bit_length() > 256
    return f"(a number of {int(number).bit_length()} bits)" if is_long else str(number)


def each(kind: Any, right: str, name: str, values: Iterable[T], of: str) -> list[T]:
    """Return all of them. Raises as `listed`, and TypeError for one of another kind."""
    given = list(listed(name, values, of))
    for value in given:
        check_type(kind, right, **{f"each of {name}": value})
    return given


def changes(configs: Mapping[str, str], delete: Iterable[str], validate_only: bool) -> dict[str, Any]:
    """Make the fields of a request that changes settings. Raises TypeError."""
    check_type(bool, "True or False", validate_only=validate_only)
    names = each(str, "text", "delete", delete, "names")
    return {"set": texts(configs), "delete": names, "validate_only": validate_only}


def texts(configs: Mapping[str, str] | None) -> dict[str, str]:
    """Raises TypeError."""
    check_type(Mapping | None, "names with their values", configs=configs)
    for name, value in (configs or {}).items():
        check_type(str, "text", **{f"configs[{name!r}]": value})
    return dict(configs or {})


def partitions_of(partitions: Iterable[Partition]) -> list[TopicPartition]:
    """Raises TypeError."""
    return [partition_of(partition) for partition in listed("partitions", partitions, "(topic, number)")]


def by_partition(name: str, given: Mapping[TopicPartition, T]) -> dict[TopicPartition, T]:
    """Raises as `partition_of`."""
    check_type(Mapping, "partitions with their values", **{name: given})
    return dict(zip(partitions_of(given), given.values(), strict=True))


def partition_of(partition: Any) -> TopicPartition:
    """Raises TypeError."""
    match partition:
        case (str(topic), number):
            return TopicPartition(topic, whole(f"the partition of {topic!r}", number))
        case _:
            raise _wrong("a partition", partition, "(topic, number)")
