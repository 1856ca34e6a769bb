"""Whether what was acknowledged is what can be read. Pure: plain records in, a verdict out.

A record's identity is its value: the caller gives every record a value of its own, and proves it with `Acknowledged`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

SHOWN = 5


class Acknowledged:
    """What the cluster promised: for each partition, offset to value."""

    def __init__(self) -> None:
        self.by_partition: dict[int, dict[int, bytes]] = {}
        self.somewhere: list[tuple[int, bytes]] = []  # acknowledged without an offset: partition and value
        self._promised: set[bytes] = set()
        self.count = 0
        self.faults: list[str] = []

    def add(self, partition: int, offset: int, value: bytes) -> None:
        """Note one acknowledgement; offset -1: it did not say where. Two for one offset, or one value twice, is a fault
        of its own."""
        offsets = self.by_partition.setdefault(partition, {})
        if offset in offsets:
            self.faults.append(f"partition {partition} offset {offset} was acknowledged twice")
        if value in self._promised:
            self.faults.append(f"partition {partition} offset {offset}: its record was acknowledged before")
        if offset < 0:
            self.somewhere.append((partition, value))
        else:
            offsets[offset] = value
        self._promised.add(value)
        self.count += 1

    def promises(self, value: bytes) -> bool:
        return value in self._promised


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the records read compare with those acknowledged. One that was not acknowledged may be there, once."""

    acknowledged: int
    read: int
    lost: int  # an acknowledged offset that cannot be read
    different: int  # an acknowledged offset with another value
    duplicates: int  # offsets beyond a value's first
    unacknowledged: int  # values read that were never acknowledged: sent, appended, the answer lost
    faults: list[str] = field(default_factory=list)  # what is wrong, the first few of each kind

    @property
    def holds(self) -> bool:
        """Acknowledged = readable, and once: nothing lost, nothing different, nothing twice."""
        return not (self.lost or self.different or self.duplicates or self.faults)


def compare(acknowledged: Acknowledged, read: Iterable[tuple[int, int, bytes]]) -> Verdict:
    """`read`: (partition, offset, value) of every readable record, each partition in order."""
    values: dict[tuple[int, int], bytes] = {}
    faults = acknowledged.faults[:SHOWN]
    last: dict[int, int] = {}
    for partition, offset, value in read:
        if offset <= last.get(partition, -1):
            faults.append(f"partition {partition}: offset {offset} was read after {last[partition]}")
        last[partition] = offset
        values[partition, offset] = value
    duplicates = []
    first: dict[bytes, tuple[int, int]] = {}
    for place, value in values.items():
        if first.setdefault(value, place) != place:
            duplicates.append(
                "partition {} offset {} holds the record of partition {} offset {} again".format(*place, *first[value])
            )
    lost, different = [], []
    for partition, offsets in sorted(acknowledged.by_partition.items()):
        for offset, value in sorted(offsets.items()):
            readable = values.get((partition, offset))
            if readable is None:
                lost.append(f"partition {partition} offset {offset} was acknowledged and cannot be read")
            elif readable != value:
                different.append(f"partition {partition} offset {offset} holds another value than acknowledged")
    for partition, value in acknowledged.somewhere:
        if value not in first or first[value][0] != partition:
            lost.append(f"partition {partition}: a record acknowledged without an offset cannot be read")
    return Verdict(
        acknowledged=acknowledged.count,
        read=len(values),
        lost=len(lost),
        different=len(different),
        duplicates=len(duplicates),
        unacknowledged=sum(not acknowledged.promises(value) for value in first),
        faults=[*faults[:SHOWN], *lost[:SHOWN], *different[:SHOWN], *duplicates[:SHOWN]],
    )
