"""Limits power losses, lost disks and flipped bits to what breaks no promise.

docs/simulator.md says what is promised. One broker at a time is harmed: the next when the one before has registered
again and every ISR is full. Where every topic has flush.messages=1, power losses cost nothing and are not limited."""

from collections.abc import Callable

from replog.metadata.image import MetadataImage


class DurabilityBudget:
    """Knows which broker is harmed, if any."""

    def __init__(self, fsync: bool, irreplaceable: Callable[[int], bool] = lambda _: False) -> None:
        """`irreplaceable` returns True for a broker that may be the only one with an acknowledged record."""
        self._fsync = fsync
        self._irreplaceable = irreplaceable
        self.harmed: int | None = None
        self._epoch_then = -1  # the harmed broker's registration is to be newer than this

    def may_harm(self, broker_id: int, *, by_power_loss: bool = False) -> bool:
        if by_power_loss and self._fsync:
            return True
        return self.harmed in (None, broker_id) and not self._irreplaceable(broker_id)

    def harm(self, broker_id: int, image: MetadataImage, *, by_power_loss: bool = False) -> None:
        """Note a loss; `image` is the controller's."""
        if by_power_loss and self._fsync:
            return
        broker = image.broker(broker_id)
        self.harmed = broker_id
        self._epoch_then = max(self._epoch_then, broker.broker_epoch if broker is not None else -1)

    def observe(self, image: MetadataImage) -> None:
        """Forget the harmed broker once everything is whole again. Call it now and then."""
        if self.harmed is None:
            return
        broker = image.broker(self.harmed)
        if broker is None or broker.broker_epoch <= self._epoch_then or not broker.active:
            return
        if all(set(state.isr) == set(state.replicas) for state in image.partitions.values()):
            self.harmed = None
