"""How much a consumer asks for at a time: less when answers do not get through in time. Pure."""

EASILY = 0.25  # of the time an answer may take: if it took less, one of twice the size will come in time too


class FetchSize:
    """Bytes, at most `most`. However few they are, a broker answers with one whole batch (FE-9)."""

    def __init__(self, most: int) -> None:
        self.bytes = most
        self._most = most

    def timed_out(self) -> None:
        """Ask for half: the same answer would not get through the next time either."""
        self.bytes = max(1, self.bytes // 2)

    def answered(self, took_s: float, allowed_s: float) -> None:
        """An answer came, after `took_s` of `allowed_s`."""
        if took_s < allowed_s * EASILY:
            self.bytes = min(self._most, self.bytes * 2)
