"""Whatever bit flips in whatever file of a segment, it is found; and told in few words."""

import random

import pytest

from tests.damage.vocabulary import flip
from tests.replog.log_tools.verify.directories import findings_in

FLIPS = 15  # of each file; all of them take a minute


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex", "digest", "snapshot"])
def test_a_flipped_bit_is_found(data, flights, kind):
    rng = random.Random(kind)
    paths = [path for path in sorted(flights.glob(f"*.{kind}")) if path.stat().st_size]
    assert paths
    for path in paths:
        for _ in range(FLIPS):
            position, bit = rng.randrange(path.stat().st_size), 1 << rng.randrange(8)
            flip(path, position, bit)
            findings = findings_in(data, deep=True)
            assert 0 < len(findings) <= 5, f"{path.name}, byte {position}, bit {bit}: {findings}"
            flip(path, position, bit)
    assert findings_in(data, deep=True) == []
