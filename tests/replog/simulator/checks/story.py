"""A history of clients, told line by line."""

from collections.abc import Iterable

from replog.client.producing.deliveries import DeliveryFailed, RecordMetadata
from replog.errors import ErrorCode
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.history import (
    Deletion,
    Drained,
    History,
    Latest,
    Outcome,
    Poll,
    ProducerSend,
    Read,
    Seek,
    Transaction,
)
from replog.topic import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


SENDS: dict[str, dict[str, object]] = {  # after `sent-`
    "": {},
    "2": {"client": "producer-2"},
    "plain": {"client": "producer-3", "acks": 1, "idempotent": False},
    "other": {"client": "producer-4", "partition": OTHER},
    "aborted": {"transaction": Transaction(False, 2.5)},
    "committed": {"transaction": Transaction(True, 2.5)},
    "decided_later": {"transaction": Transaction(True, 1e9)},
}


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

    def drained(self, offsets: Iterable[int], start: int = 0, end: int | None = None) -> Drained:
        records = tuple((offset, b"%d" % offset) for offset in offsets)
        last = records[-1][0] + 1 if records else start
        return Drained(TP, start, last if end is None else end, records)

    def deleted(self, offset: int, outcome: Outcome = Outcome.OK, low_watermark: int | None = None) -> None:
        told = -1 if outcome is not Outcome.OK else offset if low_watermark is None else low_watermark
        self.history.deletions.append(Deletion("admin-1", TP, offset, outcome, told))

    def told(self, story: str) -> None:
        """`sent 0@1 2`: values, and their offsets if acknowledged; `:a` gives it a key, `:a!` makes it its tombstone.
        Other senders are in `SENDS`; `failed 0` and `unknown 0` end so. `poll 0=1` or `poll-2`: offset and value;
        `poll-committed` for READ_COMMITTED. `latest 9:1-2` or `latest-2`: offset, and when it was asked for and told.
        `seek`, `deleted 3`, `deleted-failed 3`; `drained 0 1 end=3 start=0`, `drained-committed`. `history unclean` or
        `history retained`: what it says of the partition, or of its topic.
        """
        for verb, *words in map(str.split, story.split(";")):
            verb, _, kind = verb.partition("-")
            match verb:
                case "poll":
                    records = [(int(offset), int(value)) for offset, value in (word.split("=") for word in words)]
                    self.polled(*records, client=f"consumer-{kind or 1}", committed=kind == "committed")
                case "seek":
                    self.history.reads.append(Seek("consumer-1", TP))
                case "latest":
                    for offset, times in (word.split(":") for word in words):
                        asked_s, told_s = map(float, times.split("-"))
                        self.history.latest.append(Latest(f"client-{kind or 1}", TP, int(offset), asked_s, told_s))
                case "deleted":
                    self.deleted(int(words[0]), Outcome[kind.upper() or "OK"])
                case "drained":
                    bounds = {name: int(bound) for name, bound in (word.split("=") for word in words if "=" in word)}
                    drained = self.drained([int(word) for word in words if word.isdigit()], **bounds)
                    (self.history.drained_committed if kind else self.history.drained)[TP] = drained
                case "history":
                    getattr(self.history, words[0])[TP if words[0] == "unclean" else TP.topic] = None
                case "failed" | "unknown":
                    error = DeliveryFailed(ErrorCode.REQUEST_TIMED_OUT, "?", may_be_appended=verb == "unknown")
                    self.history.failed(self.sent(int(words[0])), error, self._tick())
                case _:
                    for word in words:
                        (value, _, offset), key = (word.partition(":")[0]).partition("@"), word.partition(":")[2]
                        of_key = {"key": key.rstrip("!").encode(), "tombstone": key.endswith("!")} if key else {}
                        self.sent(int(value), int(offset) if offset else None, **of_key, **SENDS[kind])

    @property
    def anomalies(self) -> list[str]:
        anomalies = find_anomalies(self.history)
        print("\n".join(map(str, anomalies)))
        return [anomaly.name for anomaly in anomalies]
