"""The simulator can fail: it catches protocols that are wrong on purpose, near the seeds that caught them before."""

from inspect import Parameter, isfunction, signature
from pathlib import Path

import pytest

from tests.replog.simulator.catch import catch, evidence
from tests.replog.simulator.variants import VARIANTS

SEEDS = 60  # from the known one on: the code changes, and with it what a seed does
KNOWN = {  # `tests/replog/models` finds others, without a seed
    "truncate-to-hw": 1,
    "no-leader-epoch-fencing": 1,
    "ack-before-append": 1,
}
REPORT = Path(__file__).with_name("variants.txt")


@pytest.mark.processes
@pytest.mark.parametrize(("name", "first_seed"), KNOWN.items())
def test_the_worst_of_protocols_are_caught(name, first_seed):
    caught, tried = catch(VARIANTS[name], SEEDS, first_seed)
    assert caught is not None, f"none of {tried} seeds from {first_seed} on catches {name}"
    print(f"seed {caught.seed}: {evidence(caught)}")


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=lambda variant: variant.name)
def test_what_a_variant_replaces_is_there_and_comes_back(variant):
    before = [owner.__dict__[name] for owner, name, _ in variant.changes]
    with variant.applied():
        assert [owner.__dict__[name] for owner, name, _ in variant.changes] != before
    assert [owner.__dict__[name] for owner, name, _ in variant.changes] == before


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=lambda variant: variant.name)
def test_what_a_variant_puts_in_takes_the_arguments_of_what_it_replaces(variant):
    """Otherwise every seed fails by a TypeError, which shows nothing."""
    for owner, name, new in variant.changes:
        old = owner.__dict__[name]
        if isfunction(old) and isfunction(new):
            taken = signature(old).parameters.values()
            in_order = [each for each in taken if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
            by_name = {each.name: each for each in taken if each.kind is Parameter.KEYWORD_ONLY}
            signature(new).bind(*in_order, **by_name)


def test_the_table_tells_of_every_variant_and_of_no_other():
    rows = [line.split(" | ") for line in REPORT.read_text().splitlines() if not line.startswith("#")]
    assert {len(row) for row in rows} == {6}
    told = [(row[0], row[3]) for row in rows]
    assert len(told) == len(dict(told))
    assert dict(told) == {name: variant.profile for name, variant in VARIANTS.items()}
