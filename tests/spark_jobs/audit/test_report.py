"""The page, its plots, the summary, and the files they are stored in; without Spark and without a browser."""

import base64
import hashlib
import itertools
import json
import re
import resource
import signal
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_jobs.audit import overview, report
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, unsettled
from spark_jobs.audit.overview import STATES, SYMBOLS, Lane, Mark, plots, states
from spark_jobs.audit.report import FINDINGS_SCHEMA, finding_record, html_report, summary, write_findings, write_report
from spark_jobs.audit.report import SYMBOLS as VERDICT_SYMBOLS
from spark_jobs.audit.text import MAX_TEXT, printable
from spark_jobs.replicas.describe import Replica
from tests.spark_jobs.audit import samples
from tests.spark_jobs.audit.page import Element, check

MADE = datetime(2026, 11, 21, 14, 30, tzinfo=UTC)
HOSTILE = [
    '"><script>alert(1)</script>',
    "</title></style></script><h1>CONSISTENT</h1>",
    "' onmouseover='alert(1)' style='display:none",
    "{{ 7 * 7 }}{% raw %}&lt;<!--",
    "nul \0 half \udcff mirrored \u202etxt.exe \x1b[31m new\nline",
    "x" * 100_000,
]


def page_of(name: str) -> Element:
    return check(html_report(getattr(samples, name)(), Path("/tmp/audit"), MADE))


@pytest.mark.parametrize(
    ("name", "verdict", "steps"),
    [
        ("sample", DIVERGED, ["Do not elect", "keep every copy", "one broker at a time", "Audit again"]),
        ("consistent", CONSISTENT, ["Nothing: every byte was read."]),
        ("inconclusive", INCONCLUSIVE, ["what could not be read", "give those of the other brokers", "Audit again"]),
    ],
)
def test_the_verdict_stands_at_the_top_with_what_it_means_and_what_to_do(name, verdict, steps):
    (header,) = page_of(name).all("header")
    (title,) = header.all("h1")
    assert title.text == f"{VERDICT_SYMBOLS[verdict]} {verdict}"
    listed = [step.text for step in header.all("li")]
    assert all(any(word in step for step in listed) for word in steps), listed
    assert "2026-11-21 14:30 UTC" in header.text


def map_of(page: Element) -> dict[str, list[list[Element]]]:
    """The rows of each topic's table."""
    tables = page.id("map").all("table")
    return {
        table.all("caption")[0].text: [row.all("td") for row in table.all("tbody")[0].all("tr")] for table in tables
    }


def test_the_map_shows_every_replica_of_every_partition_in_its_state_and_leads_to_its_finding():
    result = samples.sample()
    topics = map_of(page_of("sample"))
    assert {topic: [len(row) for row in rows] for topic, rows in topics.items()} == {
        "audit.log.v2": [1, 1, 1],
        "flights": [6, 6, 6],
        "payments": [2, 2, 2],
    }
    shown = {topic: [[cell.attributes["class"] for cell in row] for row in rows] for topic, rows in topics.items()}
    assert shown["flights"][0][2:4] == ["fault", "lagging"]
    assert shown["audit.log.v2"][2] == ["absent"]
    assert shown["payments"][1][1] == "unreadable"
    cells = [cell for rows in topics.values() for row in rows for cell in row]
    for cell in cells:
        state, tip = str(cell.attributes["class"]), cell.attributes.get("title") or ""
        assert cell.text == f"{SYMBOLS[state]} {state}"
        assert state == "absent" or tip.startswith(state)
        for link in cell.all("a"):
            assert result.findings[int((link.attributes["href"] or "").rpartition("-")[2]) - 1].kind in tip
    blamed = [cell for cell in cells if cell.attributes["class"] in ("fault", "unreadable")]
    assert len(blamed) == sum(len(cell.all("a")) for cell in cells) == 7
    assert len(set(SYMBOLS.values())) == len(STATES), "states are told apart without colours"


def test_a_partition_that_never_stood_still_is_unreadable_in_all_replicas():
    result = samples.consistent()
    result.findings = [unsettled("flights", 1, "its log was cut")]
    assert {place[1]: state for place, state in states(result).items()} == {0: "ok", 1: "unreadable"}
    assert result.verdict == INCONCLUSIVE
    check(html_report(result))


def test_what_an_unreadable_directory_may_hold_is_unreadable_not_absent():
    page = page_of("inconclusive")
    topics = {topic: [[cell.text for cell in row] for row in rows] for topic, rows in map_of(page).items()}
    assert topics == {"whole log directory": [["– absent"], ["? unreadable"]], "flights": [["✓ ok"], ["? unreadable"]]}
    assert [link.attributes["href"] for link in page.id("map").all("a")] == ["#finding-1", "#finding-1"]


def test_the_offsets_say_how_far_each_replica_is_behind():
    rows = [
        [cell.text for cell in row.all("td")] for row in page_of("sample").id("replicas").all("tbody")[-1].all("tr")
    ]
    lagging = [(row[0], row[5]) for row in rows if row[1].endswith("lagging")]
    assert lagging == [("1", "12 400"), ("2", "3")], rows


def test_each_diverged_partition_has_a_plot_of_its_findings_and_epochs():
    articles = page_of("sample").id("divergence").all("article")
    assert [article.all("h3")[0].text for article in articles] == ["flights-1", "flights-2", "flights-4", "payments-0"]
    plot = articles[0].all("svg")[0]
    marks = [link.attributes["href"] for link in plot.all("a")]
    assert marks == ["#finding-1", "#finding-1", "#finding-2", "#finding-1"]
    assert len(plot.all("rect", class_="blamed")) == 2, "replica 2 alone is blamed, of two findings"
    epochs = " ".join(text.text for text in plot.all("text", class_="epochs"))
    assert epochs == "e1 e2 e4 e5 e1 e2 e3 e5 e1 e2 e4 e5"


def test_each_finding_has_evidence_reason_remedy_and_the_command_that_shows_the_bytes():
    result = samples.sample()
    page = check(html_report(result, Path("/tmp/an audit"), MADE))
    for count, finding in enumerate(result.findings, 1):
        row = page.id(f"finding-{count}")
        for told in (finding.kind, finding.why, finding.remedy, *(evidence.file for evidence in finding.evidence)):
            assert told in row.text, told
        (command,) = row.all("code", class_="command")
        assert command.text == f"replog audit explain --report-dir '/tmp/an audit' {count}"


def test_what_was_taken_over_from_a_saved_audit_where_it_was_read_level_time_and_bytes_are_told():
    page = page_of("sample")
    assert "Only what is new" in page.all("header")[0].text
    assert "flights-0: compared from offset 1000 on" in page.id("made").text
    assert "flights-1: compared as a whole: of another" in page.id("made").text
    assert "the running cluster at broker-1:9092" in page.id("replicas").text
    for told in ("Level index.", "indexes 6.31 5.3 MB 0.21 %", "Not looked at: payload, headers"):
        assert told in page.id("made").text, told


@pytest.mark.parametrize("text", HOSTILE, ids=["script", "end tags", "attributes", "template", "unprintable", "long"])
def test_what_is_hostile_is_text(text):
    page = html_report(samples.sample(hostile=text), Path(f"/tmp/{text[:50]}"), MADE)
    page.encode()
    root = check(page)
    assert not root.all("script")
    assert len(root.all("h1")) == 1
    assert not re.search("[\0\x1b\u202e]", page)
    assert len(page) < 300_000
    shown = root.id("finding-1").text
    assert text in shown or printable(text)[:60].strip() in shown, shown
    if len(text) > MAX_TEXT:
        assert "more characters: see findings.parquet" in shown


def test_the_page_loads_nothing_and_runs_nothing():
    page = html_report(samples.sample(), Path("/tmp/audit"), MADE)
    root = check(page)
    (policy,) = [meta.attributes["content"] or "" for meta in root.all("meta") if "http-equiv" in meta.attributes]
    assert policy.startswith("default-src 'none'; ")
    (inline,) = root.all("style")
    source = "".join(inline.texts)
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "script-src" not in policy
    assert "http:" not in source
    assert "url(" not in source
    assert "http" not in page.replace("http-equiv", "")


def test_whatever_is_left_out_is_counted(monkeypatch):
    monkeypatch.setattr(overview, "MAX_CELLS", 15)
    for name, bound in {"LISTED": 4, "DRAWN": 2, "BOUNDS_LISTED": 10, "EVIDENCE_LISTED": 2}.items():
        monkeypatch.setattr(report, name, bound)
    page = page_of("sample")
    told = page.id("content").text
    for left in (
        "the 5 partitions that stand worst. Left out, by the state of their worst replica: 1 lagging, 3 ok.",
        "The first 2 of 4 partitions that diverge",
        "The first 4 of 9; findings.parquet has all",
        "and 1 more in findings.parquet",
        "10 of 26 replicas of partitions, those first that are not ok; summary.json has all",
    ):
        assert left in told, left
    assert "in findings.parquet" in (page.id("map").all("td", class_="fault")[-1].attributes["title"] or "")


def test_ten_thousand_partitions_and_a_thousand_findings_make_a_page_of_bounded_size():
    page = html_report(samples.large(), Path("/tmp/audit"), MADE)
    assert len(page.encode()) < 8_000_000, len(page.encode())
    assert page.count('<tbody id="finding-') == 1000
    cells = re.findall(r'<td class="(ok|lagging|fault|unreadable|absent)', page)
    assert len(cells) == 30_000
    assert "Left out" not in page


def test_the_summary_has_the_states_of_all_replicas():
    told = json.loads(json.dumps(summary(samples.sample())))
    assert (told["verdict"], len(told["replicas"])) == (DIVERGED, 26)
    assert {replica["state"] for replica in told["replicas"]} == {"ok", "lagging", "fault", "unreadable"}


# -- colours


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def colours() -> list[dict[str, str]]:
    (style,) = re.findall(r"<style>(.*?)</style>", html_report(samples.sample()), re.DOTALL)
    roots = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    light, dark, *ours, paper = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})\b", root)) for root in roots)
    light, dark = light | ours[0], dark | ours[1]
    paper = {name: "#" + "".join(2 * digit for digit in colour[1:]) for name, colour in paper.items()}
    return [light, dark, {**light, **paper}]


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_everything_that_is_written_can_be_read_and_states_differ_in_grey(scheme):
    """WCAG AA: a contrast of 4.5."""
    palette = colours()[scheme]
    names = [{"lagging": "warn"}.get(state, state) for state in STATES]
    pairs = [(f"{name}-ink", name) for name in names] + [("unreadable-ink", "unreadable-2")]
    pairs += [("ink", "card"), ("soft", "card"), ("soft", "page"), ("link", "card"), ("link", "page"), ("soft", "band")]
    pairs += [("tag-ink", "data"), ("tag-ink", "lie"), ("tag-ink", "unread"), ("data", "card"), ("lie", "card")]
    pairs += [("epoch-ink", "epoch-0"), ("epoch-ink", "epoch-1")]
    poor = [(*pair, round(contrast(palette[pair[0]], palette[pair[1]]), 2)) for pair in pairs]
    assert not [pair for pair in poor if pair[2] < 4.5]
    greys = sorted(luminance(palette[state]) for state in ("ok", "warn", "fault"))
    assert all((b + 0.05) / (a + 0.05) > 1.3 for a, b in itertools.pairwise(greys)), greys


def replica(end: int) -> Replica:
    return Replica(1, "t", 0, 0, end, end, 1000, 1)


@pytest.mark.parametrize(
    ("marks", "shown"),
    [
        ([(500_000, 500_019)], [(0, 1_000_000), (499_990, 500_030)]),
        ([(0, 800_000)], [(0, 1_000_000)]),
        ([], [(0, 1_000_000)]),
    ],
)
def test_a_close_up_is_shown_only_of_what_would_be_a_line(marks, shown):
    found = tuple(Mark(1, "GAP", first, last, True) for first, last in marks)
    lane = Lane(1, replica(1_000_000), (), found)
    assert [(plot.low, plot.high) for plot in plots("t-0", [lane])] == shown


def test_boxes_that_would_hide_each_other_are_one_that_leads_to_who_is_blamed():
    marks = (Mark(1, "GAP", 100, 109, False), Mark(2, "BIT_ROT", 112, 113, True), Mark(3, "GAP", 900, 909, True))
    lane = Lane(1, replica(1000), ((3, 500),), marks)
    (plot, *_) = plots("t-0", [lane])
    assert [(box.first, box.last, box.lead.number) for box in plot.boxes(lane)] == [(100, 113, 2), (900, 909, 3)]
    assert list(plot.epochs(lane)) == [(None, 0, 500), (3, 500, 1000)]


def test_findings_are_stored_under_the_names_of_the_summary(tmp_path):
    findings = samples.sample().findings
    write_findings(findings, tmp_path / "findings.parquet")
    stored = pq.read_table(tmp_path / "findings.parquet")
    assert stored.schema == FINDINGS_SCHEMA
    assert stored.to_pylist() == [finding_record(finding) for finding in findings]


def test_what_does_not_fit_on_the_disk_replaces_nothing(tmp_path):
    write_report(samples.consistent(), tmp_path)
    before = {name: (tmp_path / name).read_text() for name in ("summary.json", "report.html")}
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_report(samples.large(2000, 200), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert {name: (tmp_path / name).read_text() for name in before} == before
    pq.read_table(tmp_path / "findings.parquet" / "findings.parquet")
