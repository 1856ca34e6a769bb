"""Every random decision comes from a stream of its own, so that one more draw here changes nothing there."""

import random


class Chance:
    """A seed's streams by name: the same seed and name draw the same numbers, in any process."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed

    def stream(self, name: str) -> random.Random:
        """A new stream that starts from its beginning; its user keeps it."""
        return random.Random(f"{self.seed}/{name}")

    def draw(self, name: str) -> float:
        """One number of [0, 1), of a stream that is nobody else's."""
        return self.stream(name).random()


class Streams(dict[str, random.Random]):
    """For one purpose a stream for each who draws for it: one that draws once more changes nothing for the others."""

    def __init__(self, chance: Chance, purpose: str) -> None:
        super().__init__()
        self._chance = chance
        self._purpose = purpose

    def __missing__(self, who: str) -> random.Random:
        self[who] = stream = self._chance.stream(f"{self._purpose} of {who}")
        return stream
