"""Which faults come, and which of them together."""

import itertools
import random

from replog.chaos.faults import FAULTS, clients, deal, disks, links, machines  # noqa: F401 (modules register faults)


def dealt(seed: int, count: int, with_volumes: bool = True) -> list[tuple[str, ...]]:
    return list(itertools.islice(deal(random.Random(seed), with_volumes), count))


def test_a_seed_deals_every_fault_once_before_any_comes_again():
    assert dealt(1, 100) == dealt(1, 100)
    assert dealt(1, 100) != dealt(2, 100)
    assert {names[0] for names in dealt(1, len(FAULTS))} == set(FAULTS)


def test_two_disks_are_never_hurt_at_once_and_some_faults_come_alone():
    pairs = [names for names in dealt(1, 3000) if len(names) > 1]
    assert len(pairs) > 500
    for names in pairs:
        assert len(set(names)) == 2
        assert sum(FAULTS[name].on_a_volume for name in names) <= 1
        assert not any(FAULTS[name].alone for name in names)
    assert any(FAULTS[name].on_a_volume for names in pairs for name in names)


def test_without_volumes_no_disk_is_hurt():
    assert not any(FAULTS[name].on_a_volume for names in dealt(1, 500, with_volumes=False) for name in names)
