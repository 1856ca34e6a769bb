"""A broker's directory with files that nobody meant: it loads, serves and goes on, or says why not."""

from hypothesis import HealthCheck, Phase, given, settings

from tests.replog.fuzz.directories import Files, changed, read_everything, whole
from tests.replog.fuzz.test_parsers import SOAK


def test_the_whole_directory_is_read() -> None:
    files = whole()
    assert {name.partition(".")[2] for name in files if name.startswith("t-0/")} >= {"log", "txnindex", "snapshot"}
    read_everything(files)


@settings(
    max_examples=SOAK or 60,
    deadline=5000,
    derandomize=not SOAK,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(changed())
def test_any_directory_is_loaded_or_refused(files: Files) -> None:
    read_everything(files)
