"""Counts of producers and consumers since they were made, under the names of Kafka's clients.

They count a batch or a request at a time. An average or a maximum of nothing is 0."""

from dataclasses import dataclass, field

Counts = dict[str, float]


@dataclass(slots=True)
class Times:
    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        if seconds > self.longest_s:
            self.longest_s = seconds

    def shown(self, name: str) -> Counts:
        """Return `name`-total, and average and maximum latency in ms."""
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
    batches: int = 0  # batches of the records sent
    bytes: int = 0  # size of the records sent, before compression
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
    records: int = 0  # returned by `fetch`
    bytes: int = 0  # size of the batches that were decoded, as they came
    fetches: Times = field(default_factory=Times)  # waits for new records included, like Kafka's

    def shown(self) -> Counts:
        own: Counts = {"records-consumed-total": self.records, "bytes-consumed-total": self.bytes}
        return own | self.fetches.shown("fetch")


def mean(total: float, count: int) -> float:
    return total / count if count else 0.0
