"""Wrong ways for clients to go on when an answer is missing."""

from typing import Any

from replog.client.accumulator import Accumulator, Batch, PartitionQueue
from replog.client.metadata import Metadata
from tests.cluster.simulation.variants.variant import Variant

_land = Accumulator.land


def _number_anew(self: Accumulator, queue: PartitionQueue, landed: list[Batch]) -> Any:
    _land(self, queue, landed)
    if queue.sequences is not None and not queue.flying and queue.numbered():
        queue.sequences.broken = True
        for batch in queue.numbered():
            batch.sequence = None


def _begin_with_the_same(self: Metadata) -> None:
    """Whatever it answered."""


def _believe(self: Metadata, response: Any) -> bool:
    return False


VARIANTS = [
    Variant(
        "client-pinned-to-the-past",
        "a client asks the broker that answered last, first, however old what it says is",
        "live",
        "serving",
        ((Metadata, "ask_another", _begin_with_the_same), (Metadata, "_is_stale", _believe)),
    ),
    Variant(
        "retries-numbered-anew",
        "an idempotent producer sends a batch whose answer is missing again under another number",
        "PS-1 (KAFKA-14034)",
        "swarm",
        ((Accumulator, "land", _number_anew),),
    ),
]
