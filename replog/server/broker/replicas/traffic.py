"""What passes through a broker: counted by batch and request, never by record."""

from collections.abc import Collection
from dataclasses import dataclass, field

from replog.server.clock import Clock
from replog.server.metrics.times import Times

REQUESTS = ("Produce", "FetchConsumer", "FetchFollower")


@dataclass(slots=True)
class TopicTraffic:
    """Since the start, or since the topic was first seen."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    copied_in: int = 0  # bytes, from leaders
    copied_out: int = 0  # bytes, to followers
    failed_produces: int = 0


@dataclass(slots=True)
class Traffic:
    clock: Clock
    topics: dict[str, TopicTraffic] = field(default_factory=dict)
    gone: TopicTraffic = field(default_factory=TopicTraffic)  # of topics that are deleted
    requests: dict[str, Times] = field(default_factory=lambda: {name: Times() for name in REQUESTS})
    flushes: Times = field(default_factory=Times)  # of logs, those of a disk together
    isr_shrinks: int = 0
    isr_expands: int = 0

    def topic(self, name: str) -> TopicTraffic:
        known = self.topics.get(name)
        if known is None:
            known = self.topics[name] = TopicTraffic()
        return known

    def answered(self, request: str, begun_s: float) -> None:
        """`begun_s`: the clock's time."""
        now_s = self.clock.monotonic_s()
        self.requests[request].add((now_s - begun_s) * 1000, now_s)

    def forget(self, existing: Collection[str]) -> None:
        """Topics that are not among these have gone."""
        for name in self.topics.keys() - set(existing):
            was = self.topics.pop(name)
            for counter in TopicTraffic.__slots__:
                setattr(self.gone, counter, getattr(self.gone, counter) + getattr(was, counter))
