"""The identity of an idempotent producer, and the sequence numbers of its batches. Pure (§7).

A log remembers the last five batches of each producer (PS-1), and takes a producer's next batch only if its sequence
is the next one. So a batch that is sent again with its old sequence is in the log once, whatever happened to the first
try, and up to five may be in flight without changing their order."""

from typing import NamedTuple

MAX_EPOCH = 2**15 - 1
SEQUENCES = 2**31  # they wrap to 0 (PS-2)
MAX_OUTSTANDING = 5  # batches of one partition, from the oldest without an outcome on


class ProducerId(NamedTuple):
    """The name under which batches are sent."""

    producer_id: int
    epoch: int


class Identity:
    """The producer's name, which all of its partitions share."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: ProducerId | None = None  # None: to be asked for

    def renew(self, worn: ProducerId) -> None:
        """Go on in a new epoch, or after the last one under a new id, unless that was done since `worn` was current."""
        if self.current == worn:
            self.current = None if worn.epoch == MAX_EPOCH else ProducerId(worn.producer_id, worn.epoch + 1)

    def give_up(self, taken: ProducerId) -> None:
        """Somebody else writes under this id, in a later epoch: go on under a new one."""
        if self.current is not None and self.current.producer_id == taken.producer_id:
            self.current = None


class Sequences:
    """Those of one partition. `broken` is set when a numbered batch was given up: what follows would not be taken.

    A log that does not know the producer takes any sequence (S-W-P5). So a new leader's, or that of one that restarted,
    gets one batch alone until it is `known` to know it."""

    __slots__ = ("_identity", "_next", "_stream", "acknowledged", "broken", "known", "producer")

    def __init__(self, identity: Identity) -> None:
        self.producer: ProducerId | None = None
        self.acknowledged = -1  # number of the newest batch under this name that is known to be in the log
        self.broken = False
        self.known = False  # by the log that the next batch goes to
        self._identity = identity
        self._next = 0
        self._stream: object = None  # to the leader

    def lead_to(self, stream: object) -> None:
        """The next batches go there."""
        if stream is not self._stream:
            self._stream, self.known = stream, False

    def begin_again(self) -> None:
        """The topic was made again: its log knows nothing of the producer. What has a number goes alone, then follows
        a new epoch."""
        self._stream, self.known, self.broken = None, False, self.producer is not None

    def known_by(self, stream: object) -> None:
        """The log there has taken a batch, or said that one is out of order."""
        self.known |= stream is self._stream

    @property
    def named(self) -> bool:
        """Whether a batch can be numbered at all."""
        return self._identity.current is not None

    @property
    def continuing(self) -> bool:
        """Whether a new batch may follow on those under way."""
        return self.known and not self.broken and self.producer == self._identity.current

    def mend(self) -> None:
        """Nothing numbered is left without an outcome: start again after the hole."""
        if self.producer is not None:
            self._identity.renew(self.producer)
        self.broken = False

    def lose_name(self) -> None:
        """The log knows a later epoch of this producer's id, so somebody else writes under it."""
        if self.producer is not None:
            self._identity.give_up(self.producer)

    def take(self, records: int) -> tuple[ProducerId, int]:
        """Name and base sequence for the next batch. A new name starts at 0, with nothing of the old one under way."""
        current = self._identity.current
        assert current is not None, "a batch is numbered before the producer has an id"
        if current != self.producer:
            self.producer, self._next, self.acknowledged, self.known = current, 0, -1, False
        sequence = self._next
        self._next = (sequence + records) % SEQUENCES
        return current, sequence
