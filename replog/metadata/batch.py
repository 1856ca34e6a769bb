"""Changes that are put into an image in one step, which is short however many partitions a new topic has."""

from collections.abc import Iterable

from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage


class Batch:
    """Puts topics that the image does not know into an image of their own, which is taken over whole.

    Nothing else changes the image between the first `add` and `put`."""

    def __init__(self, image: MetadataImage, changes: Iterable[Change] = ()) -> None:
        self.changes: list[Change] = []
        self._image = image
        self._new = MetadataImage()
        self._others: list[Change] = []
        for change in changes:
            self.add(change)

    def add(self, change: Change) -> None:
        """Add changes in version order. Those older than the image are ignored."""
        if change.version <= self._image.version:
            return
        self.changes.append(change)
        match change.kind:
            case "partition":
                topic = change.name.topic
            case "topic":
                topic = change.name
            case _:
                topic = None
        if topic is None or self._image.knows(topic):
            self._others.append(change)
        else:
            self._new.put(change)

    def put(self) -> None:
        """Put all of them, with the same result as `MetadataImage.put` of each."""
        for change in self._others:
            self._image.put(change)
        self._image.take_over(self._new)
