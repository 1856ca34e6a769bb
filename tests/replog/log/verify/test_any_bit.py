"""Whatever bit flips in whatever file of a segment, it is found; and told in few words."""

import random
from pathlib import Path

import pytest

from tests.replog.log.verify.directories import findings_in, flip

FLIPS = 15  # of each file; all of them take a minute


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex", "digest", "snapshot"])
def test_a_flipped_bit_is_found(data: Path, flights: Path, kind: str) -> None:
    chance = random.Random(kind)
    paths = [path for path in sorted(flights.glob(f"*.{kind}")) if path.stat().st_size]
    assert paths
    for path in paths:
        for _ in range(FLIPS):
            position, bit = chance.randrange(path.stat().st_size), 1 << chance.randrange(8)
            flip(path, position, bit)
            found = findings_in(data, deep=True)
            assert 0 < len(found) <= 5, f"{path.name}, byte {position}, bit {bit}: {found}"
            flip(path, position, bit)
    assert findings_in(data, deep=True) == []
