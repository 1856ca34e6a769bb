"""What producers and consumers count of themselves, and tell if they are asked. The names are those of Kafka's clients.

Counted since the client was made, a batch or a request at a time. An average or a maximum of nothing is 0."""

from dataclasses import dataclass, field

Counts = dict[str, float]


@dataclass(slots=True)
class Times:
    """Of requests that were answered."""

    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0

    def took(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        if seconds > self.longest_s:
            self.longest_s = seconds

    def shown(self, name: str) -> Counts:
        """As `name`-total, and its latency in ms."""
        return {
            f"{name}-total": self.count,
            f"{name}-latency-avg": mean(self.total_s * 1000, self.count),
            f"{name}-latency-max": self.longest_s * 1000,
        }


@dataclass(slots=True)
class ProducerCounts:
    sent: int = 0  # records that were acknowledged, or with acks=0 handed over
    failed: int = 0  # records that were given up
    retried: int = 0  # records that were tried once more, each time
    batches: int = 0  # of those that were sent
    bytes: int = 0  # of their records, before compression
    requests: Times = field(default_factory=Times)

    def shown(self) -> Counts:
        return {
            "record-send-total": self.sent,
            "record-error-total": self.failed,
            "record-retry-total": self.retried,
            "records-per-batch-avg": mean(self.sent, self.batches),
            "batch-size-avg": mean(self.bytes, self.batches),
            **self.requests.shown("request"),
        }


@dataclass(slots=True)
class ConsumerCounts:
    records: int = 0  # that `fetch` returned
    bytes: int = 0  # of batches as they came, decoded
    fetches: Times = field(default_factory=Times)  # their waits for news are in it, as Kafka's

    def shown(self) -> Counts:
        return {
            "records-consumed-total": self.records,
            "bytes-consumed-total": self.bytes,
            **self.fetches.shown("fetch"),
        }


def mean(total: float, count: int) -> float:
    return total / count if count else 0.0
