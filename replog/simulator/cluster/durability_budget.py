"""What may be destroyed without breaking a promise: the rule for power losses, lost disks and flipped bits.

The promise: a record acknowledged with acks=all survives any number of kills, and the loss of unflushed data, of a
whole disk or of the truth of its bytes, on one replica at a time. So the next replica may be harmed once every
partition is whole again: the one harmed before has registered again and every ISR has all of its replicas.
Where every topic has flush.messages=1, power losses cost nothing and are not limited; lost disks and bits are.

Where `min.insync.replicas` is 1 one replica alone may have what was acknowledged: none is harmed that is the only one
in an ISR, or while the controller cannot say. Without eligible leader replicas the last one in sync stays in the ISR
and leads again whatever it lost (ISR-19), so there only kills are survived, and nothing is harmed.

One thing more than a single loss can break the promise, for a controller cannot tell a killed broker, which lost
nothing, from one that did: when all who are eligible were killed while one is harmed, the last known leader is
elected (an unclean election, marked RECOVERING), and that may be the harmed one. The checks know such elections, and
forgive what they lost.
"""

from collections.abc import Callable

from replog.metadata.image import MetadataImage


class DurabilityBudget:
    """Which replica is harmed, if any."""

    def __init__(self, fsync: bool, irreplaceable: Callable[[int], bool] = lambda _: False) -> None:
        """`irreplaceable` says of a broker whether it may be the only one that has what was acknowledged."""
        self._fsync = fsync
        self._irreplaceable = irreplaceable
        self.harmed: int | None = None
        self._epoch_then = -1  # the harmed broker's registration is to be newer than this

    def may_harm(self, broker_id: int, *, by_power_loss: bool = False) -> bool:
        if by_power_loss and self._fsync:
            return True
        return self.harmed in (None, broker_id) and not self._irreplaceable(broker_id)

    def harm(self, broker_id: int, image: MetadataImage, *, by_power_loss: bool = False) -> None:
        """Take note of a loss; `image` is the controller's."""
        if by_power_loss and self._fsync:
            return
        broker = image.broker(broker_id)
        self.harmed = broker_id
        self._epoch_then = max(self._epoch_then, broker.broker_epoch if broker is not None else -1)

    def observe(self, image: MetadataImage) -> None:
        """Called now and then: whether everything is whole again."""
        if self.harmed is None:
            return
        broker = image.broker(self.harmed)
        if broker is None or broker.broker_epoch <= self._epoch_then or not broker.active:
            return
        if all(set(state.isr) == set(state.replicas) for state in image.partitions.values()):
            self.harmed = None
