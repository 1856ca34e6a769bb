"""The simulator can fail: it catches protocols that are wrong on purpose, near the seeds that caught them before."""

from pathlib import Path

import pytest

from tests.cluster.simulation.catch import BEGIN, END, catch, evidence
from tests.cluster.simulation.variants import VARIANTS
from tests.cluster.simulation.variants.variant import Variant

SEEDS = 60  # from the known one on: the code changes, and with it what a seed does
KNOWN = {
    "truncate-to-hw": 4,
    "kip-101-only": 14,
    "no-leader-epoch-fencing": 3,
    "hw-from-committed-isr": 7,
    "delayed-produce-without-epoch": 4,
    "ack-before-append": 2,
}
REPORT = Path(__file__).parents[3] / "docs" / "simulator.md"


@pytest.mark.processes
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "first_seed"), KNOWN.items())
def test_the_worst_of_protocols_are_caught(name: str, first_seed: int) -> None:
    caught, tried = catch(VARIANTS[name], SEEDS, first_seed)
    assert caught is not None, f"none of {tried} seeds from {first_seed} on catches {name}"
    print(f"seed {caught.seed}: {evidence(caught)}")


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=lambda variant: variant.name)
def test_what_a_variant_replaces_is_there_and_comes_back(variant: Variant) -> None:
    before = [owner.__dict__[name] for owner, name, _ in variant.changes]
    with variant.applied():
        assert [owner.__dict__[name] for owner, name, _ in variant.changes] != before
    assert [owner.__dict__[name] for owner, name, _ in variant.changes] == before


def test_the_document_tells_what_became_of_every_variant() -> None:
    table = REPORT.read_text().partition(BEGIN)[2].partition(END)[0]
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == [
        *(name for name, variant in VARIANTS.items() if not variant.unseen),
        *(name for name, variant in VARIANTS.items() if variant.unseen),
    ]
