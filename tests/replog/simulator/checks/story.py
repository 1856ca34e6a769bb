"""A history of clients, told line by line."""

from collections.abc import Iterable

from replog.client.producing.deliveries import RecordMetadata
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.history import Deletion, Drained, History, Latest, Outcome, Poll, ProducerSend, Read, Seek
from replog.topic import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


class Story:
    """A history told line by line. Record n has the value `b"n"`."""

    def __init__(self) -> None:
        self.history = History()
        self._now_s = 0.0

    def _tick(self) -> float:
        self._now_s += 1.0
        return self._now_s

    def sent(self, value: int, offset: int | None = None, **changes: object) -> ProducerSend:
        """Acknowledged at `offset`, if there is one."""
        details = {"client": "producer-1", "acks": -1, "idempotent": True, "partition": TP, **changes}
        send = ProducerSend(value=b"%d" % value, invoked_s=self._tick(), **details)  # type: ignore[arg-type]
        self.history.sends.append(send)
        if offset is not None:
            self.history.acknowledged(send, RecordMetadata(TP.topic, TP.partition, offset, 0), self._tick())
        return send

    def all_sent(self, count: int) -> None:
        for number in range(count):
            self.sent(number, number)

    def polled(self, *records: tuple[int, int], client: str = "consumer-1", committed: bool = False) -> None:
        """(offset, value) of each."""
        reads = tuple(Read(TP, offset, b"%d" % value) for offset, value in records)
        self.history.reads.append(Poll(client, reads, self._tick(), committed))

    def seek(self, client: str = "consumer-1") -> None:
        self.history.reads.append(Seek(client, TP))

    def drained(self, offsets: Iterable[int], start: int = 0, end: int | None = None) -> None:
        records = tuple((offset, b"%d" % offset) for offset in offsets)
        last = records[-1][0] + 1 if records else start
        self.history.drained[TP] = Drained(TP, start, last if end is None else end, records)

    def deleted(self, offset: int, outcome: Outcome = Outcome.OK, low_watermark: int | None = None) -> None:
        told = -1 if outcome is not Outcome.OK else offset if low_watermark is None else low_watermark
        self.history.deletions.append(Deletion("admin-1", TP, offset, outcome, told))

    def latest(self, offset: int, invoked_s: float, completed_s: float, client: str = "client-1") -> None:
        self.history.latest.append(Latest(client, TP, offset, invoked_s, completed_s))

    def told(self, story: str) -> None:
        """`sent 0@1 2`: values, and their offsets if acknowledged; by another producer with `sent-2`, with acks=1 by
        `sent-plain`, to another partition by `sent-other`. `poll 0=1` or `poll-2`: offset and value. `latest 9:1-2`:
        offset, and when it was asked for and told. `seek`, `deleted 3`, `drained 0 1 end=3 start=0`. `history unclean`
        or `history retained`: what it says of the partition, or of its topic.
        """
        kinds: dict[str, dict[str, object]] = {
            "sent": {},
            "sent-2": {"client": "producer-2"},
            "sent-plain": {"client": "producer-3", "acks": 1, "idempotent": False},
            "sent-other": {"client": "producer-4", "partition": OTHER},
        }
        for verb, *words in map(str.split, story.split(";")):
            match verb:
                case "poll" | "poll-2":
                    records = [(int(offset), int(value)) for offset, value in (word.split("=") for word in words)]
                    self.polled(*records, client="consumer-1" if verb == "poll" else "consumer-2")
                case "seek":
                    self.seek()
                case "latest":
                    for offset, times in (word.split(":") for word in words):
                        self.latest(int(offset), *map(float, times.split("-")))
                case "deleted":
                    self.deleted(int(words[0]))
                case "drained":
                    bounds = dict(word.split("=") for word in words if "=" in word)
                    offsets = [int(word) for word in words if word.isdigit()]
                    self.drained(offsets, **{name: int(bound) for name, bound in bounds.items()})
                case "history":
                    getattr(self.history, words[0])[TP if words[0] == "unclean" else TP.topic] = None
                case _:
                    for value, _, offset in (word.partition("@") for word in words):
                        self.sent(int(value), int(offset) if offset else None, **kinds[verb])

    @property
    def anomalies(self) -> list[str]:
        anomalies = find_anomalies(self.history)
        print("\n".join(map(str, anomalies)))
        return [anomaly.name for anomaly in anomalies]
