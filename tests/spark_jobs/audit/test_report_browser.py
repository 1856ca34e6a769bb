"""The page in a real browser: what it shows, where it leads, how it prints. Pictures are kept in `artifacts/`."""

import re
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


def test_a_cell_of_the_map_leads_to_its_finding(browser, pages):
    browser.open(pages / "sample.html")
    browser.js("document.querySelector('.map a[href=\"#finding-4\"]').click()")
    shown = "(() => { const box = document.getElementById('finding-4').getBoundingClientRect(); return box.top; })()"
    assert 0 <= browser.js(shown) < 900


def test_print_has_everything_whatever_is_folded(browser, pages):
    browser.open(pages / "sample.html")
    browser.media("print", "dark")
    assert browser.js(UNSEEN_ON_PAPER) == []
    assert browser.js("document.querySelector('nav').checkVisibility()") is False
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    printed = browser.pdf(ARTIFACTS / "sample.pdf")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


def test_nothing_hostile_runs(browser, pages):
    browser.open(pages / "hostile.html")
    assert browser.js("document.title").startswith("DIVERGED")
    assert browser.js("document.querySelectorAll('img').length") == 0
    assert browser.js("document.querySelectorAll('script').length") == 0
