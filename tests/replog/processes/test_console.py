"""The console in a real browser: a broker is killed, and the page turns; it is back, and the page heals."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from replog.client.descriptions import BrokerStatus
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.ports import free_port, is_free
from tests.spark_jobs.audit.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
]

ARTIFACTS = Path(__file__).parents[3] / "artifacts" / "console"
WAIT_S = 120
HOSTILE = '"><img src=x onerror="document.title = 1"><script>document.title = 2</script>'
FINDING = {"class": "CORRUPT", "topic": "t", "partition": 0, "first_offset": 1, "last_offset": 2, "wrong_replica": 3}


@pytest.fixture
def audit(tmp_path):
    summary = {"verdict": "DIVERGED", "level": HOSTILE, "partitions_compared": 1, "complete": True}
    findings = [{**FINDING, "why": HOSTILE, "remedy": HOSTILE}]
    (tmp_path / "summary.json").write_text(json.dumps({**summary, "classes": {HOSTILE: 1}, "findings": findings}))
    return tmp_path


@pytest.fixture
def address(cluster, audit):
    """Of a console that runs as a process."""
    port = free_port(set())
    command = [sys.executable, "-m", "replog.cli", "console", "--bootstrap-server", cluster.bootstrap]
    console = subprocess.Popen([*command, "--listener", f"127.0.0.1:{port}", "--audit", str(audit)])
    try:
        deadline = time.monotonic() + WAIT_S
        while is_free(port):
            assert console.poll() is None, "the console has ended"
            assert time.monotonic() < deadline, "the console does not listen"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/"
    finally:
        console.terminate()
        assert console.wait(WAIT_S) == 0


def until(browser: Browser, expression: str, wanted: object) -> None:
    deadline = time.monotonic() + WAIT_S
    while (result := browser.js(expression)) != wanted:
        assert time.monotonic() < deadline, f"{expression}: {result}, not {wanted}; {browser.told}"
        time.sleep(0.1)


def words(place: str) -> str:
    return f"document.querySelector('{place}')?.textContent.trim()"


WITH_ONE = """(async () => {
  const modules = ["state", "overview", "brokers"].map((name) => import(`./${name}.js`));
  const [{ state }, overview, brokers] = await Promise.all(modules);
  const shown = state.parts.cluster.brokers;
  state.parts.cluster.brokers = shown.map((broker, at) => (at ? broker : { ...broker, state: "%s" }));
  overview.showOverview();
  brokers.showBrokers();
  const seen = [document.querySelector("#word").textContent, document.querySelector(".card .tag").textContent];
  state.parts.cluster.brokers = shown;
  return seen;
})()"""  # before anything else can come in between


def picture(browser: Browser, name: str) -> None:
    for scheme in ("light", "dark"):
        browser.media("screen", scheme)
        browser.js("new Promise((done) => setTimeout(done, 600))")  # until the colours have turned
        browser.screenshot(ARTIFACTS / f"{name}-{scheme}.png")


def test_the_page_turns_when_a_broker_is_killed_and_heals_when_it_is_back(
    cluster: LocalCluster, address, replog, tmp_path_factory
):
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    for topic, partitions in (("audit.log.v2", 1), ("flights", 6), ("payments", 4)):
        made = replog(
            *("topic", "create", "--topic", topic, "--partitions", partitions, "--bootstrap-server", cluster.bootstrap)
        )
        assert made.returncode == 0, made.stderr
    cluster.wait_for_full_isr()
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.size(1240, 900)
        browser("Page.navigate", url=address)
        until(browser, words("#word"), "IN SYNC")
        until(browser, "document.querySelectorAll('#rows > tbody').length", 11)
        until(browser, "document.querySelectorAll('.card meter').length", 3)
        until(browser, words("#audit .tag"), "≠ DIVERGED")
        picture(browser, "in-sync")

        words_of = {status: browser.js(WITH_ONE % status) for status in get_args(BrokerStatus)}
        assert words_of == {
            "active": ["IN SYNC", "✓ active"],
            "cordoned": ["IN SYNC", "⊘ cordoned"],
            "stopping": ["BROKER STOPPING", "→ stopping"],
            "fenced": ["BROKER DOWN", "✕ fenced"],
        }

        cluster.kill(2)
        until(browser, words("#word"), "OUT OF SYNC")
        assert "Broker 2 is fenced." in browser.js(words("#told"))
        until(browser, "document.querySelectorAll('#rows .s-out-of-sync').length", 11)
        until(browser, words("#changes li span"), "the process of broker 2 is gone")
        browser.js("document.querySelector('[data-key=flights-0] .name').focus()")
        browser(
            "Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
        )
        browser("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)
        until(browser, words(".detail .changes li span"), "the process of broker 2 is gone")
        picture(browser, "out-of-sync")
        browser.size(390, 844)
        assert browser.js("document.documentElement.scrollWidth") <= 390, "a phone need not scroll sideways"
        picture(browser, "phone")
        browser.size(1240, 900)

        cluster.start(2)
        cluster.wait_for_full_isr()
        until(browser, words("#word"), "IN SYNC")
        assert browser.js("document.activeElement.textContent") == "flights-0", "rows that stay keep their focus"
        until(
            browser,
            words(".detail tbody").replace("textContent", "textContent.includes('–')").replace(".trim()", ""),
            False,
        )
        browser.js("document.getElementById('words').value = 'payments'")
        browser.js("document.getElementById('words').dispatchEvent(new Event('input'))")
        until(browser, words("#shown"), "1–4 of 4")
        until(browser, "document.querySelectorAll('#rows > tbody').length", 4)

        assert HOSTILE in browser.js(words("#report")), "shown as it is, and not as a part of the page"
        assert browser.js("document.images.length + document.scripts.length") == 1
        assert browser.js("document.title") == "IN SYNC: replog console"
        assert [each for each in browser.told if not each.startswith(f"network: {address}")] == []
