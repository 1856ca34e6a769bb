"""Every random decision comes from a stream of its own, so that one more draw here changes nothing there."""

import random


class Chance:
    """A seed's streams by name: the same seed and name draw the same numbers, in any process."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed

    def stream(self, name: str) -> random.Random:
        """A new stream that starts from its beginning; its user keeps it."""
        return random.Random(f"{self.seed}/{name}")
