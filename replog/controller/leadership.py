"""When a controller may believe that it leads: the time of its lease, as it knows it. Pure."""


class Leadership:
    """A lease counts from before it was asked for, and less a tenth: clocks may differ in speed by so much. So who
    believes is the only one, unless a clock is worse; then the fence of the store holds (CT-25)."""

    def __init__(self) -> None:
        self.epoch = 0  # the create revision of the leader's key, which fences this controller's commits
        self.renew_ms = 0  # how long after a renewal the next one is due
        self._until_ms: int | None = None

    def elected(self, epoch: int, asked_ms: int, lease_ms: int) -> None:
        """The leader's key is this controller's, by a lease that was asked for at `asked_ms`."""
        self.epoch = epoch
        self._until_ms = 0
        self.renewed(asked_ms, lease_ms)

    def renewed(self, asked_ms: int, lease_ms: int) -> None:
        """Asked for then; a belief that is over stays so."""
        if self._until_ms is not None:
            self._until_ms = max(self._until_ms, asked_ms + lease_ms * 9 // 10)
            self.renew_ms = lease_ms // 3

    def end(self) -> None:
        """The lease is gone, or is given up."""
        self._until_ms = None

    def left_ms(self, now_ms: int) -> int:
        """How long it may go on believing; 0: it may not."""
        return 0 if self._until_ms is None else max(0, self._until_ms - now_ms)
