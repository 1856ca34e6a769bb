"""What every process shows of itself, and the HTTP server: what it answers, and to whom; quantiles of what took how
long, lately."""

import asyncio
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from cryptography import x509
from prometheus_client.core import GaugeMetricFamily, Metric

from replog.errors import ErrorCode, ReplogError
from replog.rpc.peer import Peer, Role
from replog.server.metrics import endpoint, process
from replog.server.metrics.endpoint import AT_ONCE, MetricsEndpoint
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


ASKED: list[Peer] = []


async def families(asks: Peer) -> list[Metric]:
    ASKED.append(asks)
    return [GaugeMetricFamily("replog_test", "Of a test", value=7)]


@asynccontextmanager
async def listening(tls=None, families=families) -> AsyncIterator[str]:
    server = MetricsEndpoint("127.0.0.1:0", families, tls, allow_plaintext=False)
    try:
        yield await server.start()
    finally:
        await server.stop()


async def asked(url: str, context: ssl.SSLContext | None = None) -> str:
    def ask() -> str:
        with urllib.request.urlopen(url, timeout=30, context=context) as answer:
            return answer.read().decode()

    return await asyncio.to_thread(ask)


async def test_it_answers_in_prometheus_format():
    async with listening() as address:
        assert "# TYPE replog_test gauge\nreplog_test 7.0" in await asked(f"http://{address}/metrics")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            await asked(f"http://{address}/other")


async def test_who_may_not_see_it_is_told_why():
    async def refused(asks: Peer) -> list[Metric]:
        raise ReplogError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{asks.principal} may not")

    async with listening(families=refused) as address:
        with pytest.raises(urllib.error.HTTPError, match="403") as error:
            await asked(f"http://{address}/metrics")
        assert "User:ANONYMOUS may not" in error.value.read().decode()


async def test_with_tls_only_certificates_of_the_cluster_are_let_in_and_the_peer_is_known(tmp_path):
    authority = Authority(tmp_path / "tls")
    async with listening(authority.tls(Role.BROKER, "1")) as address:
        url = f"https://{address.replace('127.0.0.1', 'localhost')}/metrics"
        context = ssl.create_default_context(cafile=str(authority.truststore))
        with pytest.raises((OSError, urllib.error.URLError)):
            await asked(url, context)
        context.load_cert_chain(authority.keystore(Role.CLIENT, "ann"))
        assert "replog_test 7.0" in await asked(url, context)
        assert ASKED[-1].principal == "User:ann"


async def test_beyond_this_machine_it_has_tls_or_is_allowed_to_do_without():
    with pytest.raises(ReplogError, match=r"metrics.listener=0.0.0.0:0.*allow.plaintext=true"):
        await MetricsEndpoint("0.0.0.0:0", families, None, allow_plaintext=False).start()


async def test_to_start_asks_nobody_for_the_name_of_this_machine(monkeypatch):
    """Who answers may take its time, and the event loop would wait."""

    def asked_for(_: str = "") -> str:
        raise AssertionError("the resolver was asked")

    monkeypatch.setattr(socket, "getfqdn", asked_for)
    async with listening() as address:
        assert address


async def test_a_port_that_is_taken_is_an_error_that_names_the_setting():
    async with listening() as address:
        with pytest.raises(ReplogError, match=f"metrics.listener={address}"):
            await MetricsEndpoint(address, families, None, allow_plaintext=False).start()


@pytest.mark.parametrize("secure", [False, True], ids=["plaintext", "TLS"])
async def test_those_who_say_nothing_take_no_more_than_their_places_and_not_for_long(monkeypatch, tmp_path, secure):
    monkeypatch.setattr(endpoint, "REQUEST_S", 1.0)
    authority, context, tls = Authority(tmp_path / "tls"), None, None
    if secure:
        tls = authority.tls(Role.BROKER, "1")
        context = ssl.create_default_context(cafile=str(authority.truststore))
        context.load_cert_chain(authority.keystore(Role.CLIENT, "ann"))
    async with listening(tls) as address:
        host, port = address.split(":")
        url = f"https://localhost:{port}/metrics" if secure else f"http://{address}/metrics"
        silent = [socket.create_connection((host, int(port))) for _ in range(AT_ONCE)]
        begun = time.monotonic()
        while True:
            try:
                assert "replog_test" in await asked(url, context)
                break
            except OSError:
                assert time.monotonic() - begun < 60
                await asyncio.sleep(0.1)
        for connection in silent:
            connection.close()
