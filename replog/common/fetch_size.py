"""Says how much to ask for in one fetch: less when answers do not come in time."""

EASILY = 0.25  # if an answer took less of its time than this, one of twice the size will come in time too


class FetchSize:
    """A size in bytes, at most `most`. However small it is, a broker answers with one whole batch (FE-9)."""

    def __init__(self, most: int) -> None:
        self.bytes = most
        self._most = most

    @property
    def is_reduced(self) -> bool:
        return self.bytes < self._most

    def timed_out(self, most: int) -> None:
        """An answer of `most` bytes or less did not come: ask for half, otherwise the next will not come either."""
        self.bytes = max(1, min(self.bytes, most) // 2)

    def answered(self, size: int, elapsed: float, allowed: float) -> None:
        """An answer of `size` bytes took `elapsed` of the time `allowed`. A small one says little of a large one."""
        if size >= self.bytes // 2 and elapsed < allowed * EASILY:
            self.bytes = min(self._most, self.bytes * 2)
