"""Wrong ways for a broker to serve Kafka's clients."""

from collections.abc import Iterator, Mapping
from typing import Any

from leader.fetch_session import CachedPartition
from replog.server.broker.clients.produce import Produce
from replog.server.broker.kafka.apis import produce
from replog.server.broker.kafka.fetch_requests import FetchRequests
from replog.topic import TopicPartition
from tests.replog.simulator.variants import Variant

_read = FetchRequests.read


def _of_one(manager: Any, acks: int, *rest: Any) -> Produce:
    return Produce(manager, abs(acks), *rest)


def _only_new(
    self: FetchRequests, message: Any, version: int, known: Mapping[TopicPartition, CachedPartition]
) -> Iterator[None]:
    yield from _read(self, message, version, known)
    self.named = {tp: fetch for tp, fetch in self.named.items() if tp not in known}


VARIANTS = [
    Variant("kafka-acks-of-one", "kafka", (produce, "Produce", _of_one)),
    Variant("kafka-session-keeps-offsets", "kafka", (FetchRequests, "read", _only_new)),
]
