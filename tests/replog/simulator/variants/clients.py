"""Wrong ways for clients to go on when an answer is missing."""

from typing import Any

from replog.client.consuming.fetch_stream import FetchStream
from replog.client.consuming.fetcher import Fetcher
from replog.client.consuming.subscription import AssignedPartition
from replog.client.producing.accumulator import Accumulator, PartitionQueue, ProducerBatch
from replog.errors import ReplogError
from tests.replog.simulator.variants import Variant

_land = Accumulator.land


def _number_anew(self: Accumulator, queue: PartitionQueue, landed: list[ProducerBatch]) -> Any:
    _land(self, queue, landed)
    if queue.sequences is not None and not queue.flying and queue.numbered():
        queue.sequences.broken = True
        for batch in queue.numbered():
            batch.sequence = None


def _stays_lost(_self: Fetcher, _stream: FetchStream, _states: list[AssignedPartition], _error: ReplogError) -> None:
    pass


VARIANTS = [
    Variant("retries-renumbered", "swarm", (Accumulator, "land", _number_anew)),
    Variant("lost-fetches-stay-lost", "network", (Fetcher, "lost", _stays_lost)),
]
