"""Wrong ways to hear of the metadata."""

from replog.metadata.image import MetadataImage
from tests.replog.simulator.variants.variant import Variant

_leave = MetadataImage._leave


def _leave_when_told(image: MetadataImage, topic: str, topic_id: bytes | None) -> None:
    if topic_id is None:
        _leave(image, topic, topic_id)


VARIANTS = [
    Variant("missed-deletion-unnoticed", "many", (MetadataImage, "_leave", _leave_when_told)),
]
