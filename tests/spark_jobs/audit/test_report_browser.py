"""The page in a real browser: what it shows, how its search works, how it prints. Pictures are kept in `artifacts/`."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.audit.report import html_report
from tests.spark_jobs.audit import samples
from tests.spark_jobs.audit.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
]

ARTIFACTS = Path(__file__).parents[3] / "artifacts" / "audit-report"
VISIBLE = "[...document.querySelectorAll('#found > tbody')].filter((one) => one.checkVisibility()).map((one) => one.id)"
UNSEEN_ON_PAPER = """
  [...document.querySelectorAll('#found > tbody, #found > tbody *, .map td, .plot, #replicas tr')]
    .filter((one) => !one.closest('summary') && !one.checkVisibility({ contentVisibilityAuto: true }))
    .map((one) => one.outerHTML.slice(0, 100))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page for each sample."""
    directory = tmp_path_factory.mktemp("pages")
    for name in ("sample", "consistent", "inconclusive"):
        page = html_report(getattr(samples, name)(), Path("/tmp/audit"), datetime(2026, 11, 21, 14, 30, tzinfo=UTC))
        (directory / f"{name}.html").write_text(page)
    hostile = samples.sample(hostile='"><script>document.title = "ran"</script><img src=x onerror=alert(1)>')
    (directory / "hostile.html").write_text(html_report(hostile))
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture(autouse=True)
def nothing_is_complained_of(browser: Browser) -> Iterator[None]:
    """No error, no warning, no request: whatever a test does with the page."""
    browser.told.clear()
    browser.media()
    browser.size(1200, 900)
    yield
    assert browser.told == []


def search(browser: Browser, words: str = "") -> list[str]:
    """Search as a person does; returns the findings that are left."""
    browser.js(f"document.getElementById('words').value = {words!r}")
    browser.js("document.getElementById('words').dispatchEvent(new Event('input', { bubbles: true }))")
    visible: list[str] = browser.js(VISIBLE)
    assert browser.js("document.getElementById('shown').textContent").startswith(f"{len(visible)} of ")
    return [name.removeprefix("finding-") for name in visible]


def until(browser: Browser, expression: str, wanted: object) -> None:
    deadline = time.monotonic() + 60
    while (result := browser.js(expression)) != wanted:
        assert time.monotonic() < deadline, result
        time.sleep(0.05)


@pytest.mark.parametrize("name", ["sample", "consistent", "inconclusive"])
def test_a_page_is_shown_by_day_and_by_night_and_is_never_wider_than_its_window(browser, pages, name):
    for scheme, colour in (("light", "rgb(243, 245, 248)"), ("dark", "rgb(15, 21, 29)")):
        browser.media("screen", scheme)
        for width in (390, 768, 1200):
            browser.size(width, 900)
            browser.open(pages / f"{name}.html")
            assert browser.js("document.documentElement.scrollWidth") <= width
        browser.screenshot(ARTIFACTS / f"{name}-{scheme}.png")
        assert browser.js("getComputedStyle(document.body).backgroundColor") == colour


def test_a_search_narrows_the_findings_and_the_map_leads_to_each_whatever_was_searched_for(browser, pages):
    browser.open(pages / "sample.html")
    assert len(search(browser)) == 9
    assert search(browser, "bit_rot") == ["4", "5"]
    assert search(browser, "bit_rot 78120") == ["5"], "numbers are found as they are written without spaces"
    for _ in range(2):
        assert search(browser, "nothing has this") == []
        browser.js("document.querySelector('.map a[href=\"#finding-4\"]').click()")
        until(
            browser,
            """(() => { const row = document.getElementById('finding-4'), box = row.getBoundingClientRect();
              return [location.hash, row.checkVisibility(), box.top >= 0 && box.top < innerHeight]; })()""",
            ["#finding-4", True, True],
        )


def test_print_has_everything_whatever_is_filtered_or_folded(browser, pages):
    browser.open(pages / "sample.html")
    assert search(browser, "bit_rot") == ["4", "5"]
    browser.media("print", "dark")
    assert browser.js(UNSEEN_ON_PAPER) == []
    assert browser.js("document.querySelector('nav').checkVisibility()") is False
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    printed = browser.pdf(ARTIFACTS / "sample.pdf")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


def test_without_scripts_everything_is_there(browser, pages):
    browser("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages / "sample.html")
        root = browser("DOM.getDocument")["root"]["nodeId"]
        shown, form = (
            len(browser("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])
            for selector in ("#found > tbody:not([hidden])", "#search[hidden]")
        )
    finally:
        browser("Emulation.setScriptExecutionDisabled", value=False)
    assert (shown, form) == (9, 1)


def test_nothing_hostile_runs(browser, pages):
    browser.open(pages / "hostile.html")
    assert browser.js("document.title").startswith("DIVERGED")
    assert browser.js("document.querySelectorAll('img').length") == 0
    assert browser.js("document.querySelectorAll('script').length") == 1
