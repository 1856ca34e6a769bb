"""A broker's directory with files that nobody meant: it loads, serves and goes on, or says why not."""

from hypothesis import HealthCheck, Phase, given, settings

from tests.cases import SOAK
from tests.replog.fuzz.directories import changed, derived_changed, read_everything, what_is_served, whole


def test_the_whole_directory_is_read():
    files = whole()
    assert {name.partition(".")[2] for name in files if name.startswith("t-0/")} >= {"log", "txnindex", "snapshot"}
    read_everything({})


@settings(
    max_examples=SOAK or 60,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(changed())
def test_any_directory_is_loaded_or_refused(changes):
    read_everything(changes)


@settings(max_examples=SOAK or 60, phases=[Phase.generate, Phase.shrink])
@given(derived_changed())
def test_damage_to_what_follows_from_the_log_changes_no_answer(changes):
    """Divergence 4: an index or an epoch file in doubt is rebuilt; an entry that nobody checked is not trusted."""
    for partition, answers in what_is_served({}).items():
        served = what_is_served(changes)[partition]
        wrong = [(a, b) for a, b in zip(served, answers, strict=True) if a != b]
        assert not wrong, f"{partition}: {wrong[0]}"
