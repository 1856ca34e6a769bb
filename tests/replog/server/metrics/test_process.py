"""What every process shows of itself."""

from replog.server.metrics import process
from replog.server.metrics.process import process_metrics
from replog.server.metrics.times import Times
from replog.server.slow_steps import SlowSteps

ON_DISKS = {f"kafka_server_kafkaserver_linux_disk_{what}_bytes" for what in ("read", "write")}


def names() -> set[str]:
    return {sample.name for family in process_metrics(SlowSteps(), Times()) for sample in family.samples}


def test_where_the_kernel_does_not_count_what_goes_to_disks_the_rest_is_shown(tmp_path, monkeypatch):
    before = names()
    assert before > ON_DISKS
    monkeypatch.setattr(process, "DISKS", tmp_path / "gone")
    assert names() == before - ON_DISKS
