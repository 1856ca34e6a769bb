"""Whatever bit flips in whatever file of a replica, it is found; and told in few words."""

import random
from pathlib import Path

import pytest

from tests.replog.log.verify.directories import findings_in, flip

FLIPS = 15  # of each file; all of them take a minute
# What nothing else in the directory says: names and ids, and offsets that may lag behind.
UNKNOWABLE = {
    ".kafka_cleanshutdown",
    "meta.properties",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}
KINDS = ("log", "index", "timeindex", "txnindex", "digest", "snapshot")


@pytest.mark.parametrize("kind", [*KINDS, "others"])
def test_a_flipped_bit_is_found(data: Path, kind: str) -> None:
    chance = random.Random(kind)
    paths = [path for path in sorted(data.rglob("*")) if path.is_file() and path.name not in UNKNOWABLE]
    for path in paths:
        size = path.stat().st_size
        if not size or (path.suffix[1:] if path.suffix[1:] in KINDS else "others") != kind:
            continue
        for _ in range(FLIPS):
            position, bit = chance.randrange(size), 1 << chance.randrange(8)
            flip(path, position, bit)
            found = findings_in(data, deep=True)
            assert 0 < len(found) <= 5, f"{path.name}, byte {position}, bit {bit}: {found}"
            flip(path, position, bit)
    assert findings_in(data, deep=True) == []
