"""What every process shows of itself; quantiles of what took how long, lately."""

import asyncio
import shutil
import threading
import time

import pytest
from cryptography import x509

from replog.rpc.peer import Role
from replog.server.metrics import process
from replog.server.metrics.families import BUCKETS, LEAST_MS, QUANTILES, STEP, WINDOW_S, Times
from replog.server.metrics.process import LAG_EVERY_S, Room, certificate_metrics, measure, process_metrics
from replog.server.slow_steps import SlowSteps
from tests.replog.rpc.secured import NOW, Authority

ON_DISKS = {f"kafka_server_kafkaserver_linux_disk_{what}_bytes" for what in ("read", "write")}


def names() -> set[str]:
    return {sample.name for family in process_metrics(SlowSteps(), Times()) for sample in family.samples}


def test_where_the_kernel_does_not_count_what_goes_to_disks_the_rest_is_shown(tmp_path, monkeypatch):
    before = names()
    assert before > ON_DISKS
    monkeypatch.setattr(process, "DISKS", tmp_path / "gone")
    assert names() == before - ON_DISKS


def by_directory(families):
    return {(sample.name, sample.labels["directory"]): sample.value for f in families for sample in f.samples}


async def test_each_directory_has_its_size_and_what_is_free(tmp_path):
    shown = by_directory(await Room().families([tmp_path, tmp_path / "gone"]))
    assert set(shown) == {(f"replog_directory_{what}_bytes", str(tmp_path)) for what in ("free", "size")}
    size = shown["replog_directory_size_bytes", str(tmp_path)]
    assert size == shutil.disk_usage(tmp_path).total
    assert 0 < shown["replog_directory_free_bytes", str(tmp_path)] < size


async def test_a_disk_that_hangs_is_not_shown_and_takes_one_thread(tmp_path, monkeypatch):
    asked, answers = [], threading.Event()
    real = shutil.disk_usage

    def hangs(path):
        asked.append(path)
        answers.wait(60)
        return real(path)

    monkeypatch.setattr(process, "ANSWER_S", 0.1)
    monkeypatch.setattr(shutil, "disk_usage", hangs)
    disks = Room()
    try:
        for _ in range(3):
            assert by_directory(await disks.families([tmp_path])) == {}
        assert len(asked) == 1
    finally:
        answers.set()
    async with asyncio.timeout(60):
        while not by_directory(await disks.families([tmp_path])):
            await asyncio.sleep(0.01)


HELD_S = 0.5


def hold():
    time.sleep(HELD_S)


async def test_what_is_due_while_a_step_runs_is_late_by_what_is_left_of_it():
    lag = Times()
    measuring = asyncio.create_task(measure(lag))
    await asyncio.sleep(LAG_EVERY_S / 10)
    hold()
    async with asyncio.timeout(60):
        while not lag.count:
            await asyncio.sleep(0)
    measuring.cancel()
    assert lag.sum_ms >= 1000 * (HELD_S - LAG_EVERY_S)


def test_the_ends_of_what_is_in_use_are_shown_by_file(tmp_path):
    authority = Authority(tmp_path / "tls")
    tls = authority.tls(Role.BROKER, "1")
    samples = certificate_metrics([tls, authority.tls(Role.BROKER, "1")]).samples
    shown = {sample.labels["file"]: sample.value for sample in samples}
    assert len(samples) == len(shown) == 2
    for file in (tls.files.keystore, tls.files.truststore):
        (certificate,) = x509.load_pem_x509_certificates(file.read_bytes())
        assert shown.pop(str(file)) == certificate.not_valid_after_utc.timestamp() > NOW.timestamp()
    assert not shown


def test_of_two_authorities_the_one_that_is_good_for_longer_counts(tmp_path):
    """As while an authority is exchanged."""
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    both = old.truststore.read_bytes() + new.truststore.read_bytes()
    old.truststore.write_bytes(both)
    ends = [each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(both)]
    shown = {sample.labels["file"]: sample.value for sample in certificate_metrics([old.tls()]).samples}
    assert shown[str(old.truststore)] == max(ends)


def test_without_tls_there_is_nothing_to_show():
    assert certificate_metrics([]).samples == []


def median(times: Times, now_s: float) -> float:
    return times.quantiles(now_s)[QUANTILES.index(0.5)]


@pytest.mark.parametrize("ms", [0.02, 0.5, 1.0, 7.3, 1000.0, 100_000.0])
def test_a_time_is_told_within_a_step(ms):
    times = Times()
    times.add(ms, 1.0)
    assert ms / STEP <= median(times, 2.0) <= ms * STEP


def test_quantiles_are_in_order_and_where_they_belong():
    times = Times()
    for ms in range(1, 1001):
        times.add(float(ms), 1.0)
    found = times.quantiles(1.0)
    assert found == sorted(found)
    for quantile, ms in zip(QUANTILES, found, strict=True):
        assert ms == pytest.approx(1000 * quantile, rel=0.06)
    assert times.count == 1000


def test_what_is_longer_ago_than_two_windows_counts_no_more():
    times = Times()
    times.add(100.0, 0.0)
    assert median(times, WINDOW_S) > 0
    assert median(times, 2 * WINDOW_S + 1) == 0
    assert times.count == 1
    times.add(100.0, 5 * WINDOW_S)
    assert median(times, 5 * WINDOW_S) > 0


def test_no_time_is_too_short_or_too_long():
    times = Times()
    for ms in (0.0, LEAST_MS, LEAST_MS * STEP ** (2 * BUCKETS)):
        times.add(ms, 0.0)
    assert times.quantiles(0.0)[0] == pytest.approx(LEAST_MS * STEP**0, rel=0.06)
