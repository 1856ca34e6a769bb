"""The time during which a controller may believe that it leads. Pure."""


class Leadership:
    """A lease counts from the request for it, less a tenth: clocks may differ in speed by so much. So at most one
    controller believes, unless a clock is worse; then the fence of the store holds (CT-25)."""

    def __init__(self) -> None:
        self.epoch = 0  # the create revision of the leader's key, which fences this controller's commits
        self.renew_ms = 0  # how long after a renewal the next one is due
        self._until_ms: int | None = None

    def elected(self, epoch: int, asked_ms: int, lease_ms: int) -> None:
        """This controller holds the leader's key, by a lease that it asked for at `asked_ms`."""
        self.epoch = epoch
        self._until_ms = 0
        self.renewed(asked_ms, lease_ms)

    def renewed(self, asked_ms: int, lease_ms: int) -> None:
        """The lease was renewed by a request at `asked_ms`. A leadership that has ended stays so."""
        if self._until_ms is not None:
            self._until_ms = max(self._until_ms, asked_ms + lease_ms * 9 // 10)
            self.renew_ms = lease_ms // 3

    def end(self) -> None:
        """The lease is lost or given up."""
        self._until_ms = None

    def left_ms(self, now_ms: int) -> int:
        """Return how long this controller may still believe that it leads; 0: it may not."""
        return 0 if self._until_ms is None else max(0, self._until_ms - now_ms)
