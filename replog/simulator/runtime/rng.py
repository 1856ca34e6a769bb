"""Streams of random numbers, one for each purpose, otherwise one more draw would change all later decisions."""

import random


class Rng:
    """A seed's streams by name: the same seed and name draw the same numbers, in any process."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed

    def stream(self, name: str) -> random.Random:
        """Return a new stream, which begins with the first number of that name."""
        return random.Random(f"{self.seed}/{name}")

    def draw(self, name: str) -> float:
        """Return the first number of a stream, in [0, 1)."""
        return self.stream(name).random()


class Streams(dict[str, random.Random]):
    """Streams for one purpose, by the name of each who draws; one more draw changes nothing for the others."""

    def __init__(self, rng: Rng, purpose: str) -> None:
        super().__init__()
        self._rng = rng
        self._purpose = purpose

    def __missing__(self, who: str) -> random.Random:
        self[who] = stream = self._rng.stream(f"{self._purpose} of {who}")
        return stream
