"""The identity of an idempotent producer, and the sequence numbers of its batches. Pure (§7).

A log remembers the last five batches of each producer (PS-1), and takes only the next sequence. So a batch that is sent
again with its old sequence is in the log once, and up to five may be in flight without changing their order."""

from dataclasses import dataclass
from typing import NamedTuple

MAX_EPOCH = 2**15 - 1
SEQUENCES = 2**31  # sequences start at 0 again after the last one (PS-2)
MAX_OUTSTANDING = 5  # batches of a partition, from the oldest without an outcome on


class ProducerId(NamedTuple):
    """The name under which a producer sends batches."""

    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class Identity:
    """The producer's name, which all of its partitions share."""

    current: ProducerId | None = None  # None: a broker must be asked for one

    def renew(self, worn: ProducerId) -> None:
        """Go on in a new epoch, or after the last epoch under a new id, if `worn` is still current."""
        if self.current == worn:
            self.current = None if worn.epoch == MAX_EPOCH else ProducerId(worn.producer_id, worn.epoch + 1)

    def give_up(self, taken: ProducerId) -> None:
        """Go on under a new id: another producer writes under this one, in a later epoch."""
        if self.current is not None and self.current.producer_id == taken.producer_id:
            self.current = None


@dataclass(slots=True, eq=False)
class Sequences:
    """A partition's sequences. `broken`: a numbered batch was given up, so the log would refuse the next ones.

    A log that does not know the producer takes any sequence (S-W-P5). So a leader that is new or restarted gets one
    batch alone until the producer is `known` to it, otherwise later batches could be appended before the first."""

    _identity: Identity
    producer: ProducerId | None = None
    acknowledged: int = -1  # number of the newest batch under this name that is known to be in the log
    broken: bool = False
    known: bool = False  # the log that the next batch goes to knows the producer
    _next: int = 0
    _stream: object = None  # leads to the leader

    def lead_to(self, stream: object) -> None:
        """Send the next batches by this stream."""
        if stream is not self._stream:
            self._stream, self.known = stream, False

    def begin_again(self) -> None:
        """Start again after the topic was made again: its log does not know the producer. Numbered batches go alone,
        then a new epoch begins."""
        self._stream, self.known, self.broken = None, False, self.producer is not None

    def known_by(self, stream: object) -> None:
        """Note that the log at this stream has taken a batch, or said that one is out of order."""
        self.known |= stream is self._stream

    @property
    def named(self) -> bool:
        """True if there is a producer id to number batches with."""
        return self._identity.current is not None

    @property
    def continuing(self) -> bool:
        """True if a new batch may be sent while others are in flight."""
        return self.known and not self.broken and self.producer == self._identity.current

    def mend(self) -> None:
        """Start again after the hole: every numbered batch has its outcome."""
        if self.producer is not None:
            self._identity.renew(self.producer)
        self.broken = False

    def lose_name(self) -> None:
        """Give the name up: the log knows a later epoch of this producer's id, so another producer writes under it."""
        if self.producer is not None:
            self._identity.give_up(self.producer)

    def take(self, records: int) -> tuple[ProducerId, int]:
        """Return name and base sequence of the next batch. A new name starts at 0, with none of the old in flight."""
        current = self._identity.current
        assert current is not None, "a batch is numbered before the producer has an id"
        if current != self.producer:
            self.producer, self._next, self.acknowledged, self.known = current, 0, -1, False
        sequence = self._next
        self._next = (sequence + records) % SEQUENCES
        return current, sequence
