"""The console over HTTP, with a real cluster behind it."""

import asyncio
import json
from pathlib import Path

import pytest

from replog.client.admin import Admin
from replog.console import app
from replog.console import watcher as watching
from replog.console.board import Board
from replog.console.watcher import Watcher
from replog.metadata.values import StandingAudit
from tests.replog.client.conftest import TP
from tests.replog.server.broker.conftest import batch

KEY = str(TP)


async def test_what_happens_to_the_cluster_is_heard_as_it_happens(cluster, console):
    await cluster.begin(2, partitions=3)
    async with console() as page, page.viewer() as viewer:
        await viewer.hear_until(lambda v: "cluster" in v.parts and len(v.rows) == 3)
        assert viewer.states() <= {"in sync", "not preferred"}
        assert [(b["id"], b["state"]) for b in viewer.parts["cluster"]["brokers"]] == [(1, "active"), (2, "active")]
        await viewer.hear_until(lambda v: all(len(row["offsets"]) == 2 for row in v.rows.values()))
        await viewer.hear_until(lambda v: all(b["disks"] for b in v.parts["cluster"]["brokers"]))
        cluster.brokers[2].inspection.longest_step_s = lambda: 0.25
        await viewer.hear_until(lambda v: [b["step_ms"] for b in v.parts["cluster"]["brokers"]] == [0, 250])
        viewer.told.clear()
        await cluster.produce(TP, batch(b"one", b"two"))
        await viewer.hear_until(lambda v: {end for _, _, end in v.rows[KEY]["offsets"].values()} == {2})
        assert set(viewer.told) == {KEY}, "the other partitions are not told of"
        await cluster.crash_broker(2)
        await viewer.hear_until(lambda v: all(row["isr"] == [1] for row in v.rows.values()) and len(v.changes) >= 3)
        await viewer.hear_until(lambda v: v.rows[KEY]["offsets"].keys() == {"1"} and v.rows[KEY]["last"])
        assert viewer.rows[KEY]["last"]["why"] == "the process of broker 2 is gone"
        status, _, content = await page.get(f"/partition?topic={TP.topic}&partition={TP.partition}")
        detail = json.loads(content)
        assert (status, detail["changes"][-1]["why"]) == (200, "the process of broker 2 is gone")
        assert detail["lineage"]["1"][0][1] == 0
        await cluster.start_broker(2)
        await viewer.hear_until(lambda v: all(len(row["isr"]) == 2 for row in v.rows.values()))


async def test_pages_come_with_a_policy_that_lets_nothing_else_in(cluster, console):
    await cluster.begin(1, partitions=1)
    async with console() as page:
        assert b"no replica is known to have everything: it waits until all" in (await page.get("/partitions.js"))[2]
        for path, kind in (("/", "text/html"), ("/console.js", "text/javascript"), ("/console.css", "text/css")):
            status, headers, content = await page.get(path)
            assert (status, headers["content-type"].partition(";")[0]) == (200, kind)
            assert content
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; ")
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
        for path, wanted in (
            ("/nothing", 404),
            ("/../process.py", 404),
            ("/partition?topic=t&partition=x", 400),
            ("/partition?topic=none&partition=0", 404),
        ):
            assert (await page.get(path))[0] == wanted, path


async def test_other_sites_are_refused(cluster, console):
    """A name of theirs that points to this machine, or their page in the same browser."""
    await cluster.begin(1, partitions=1)
    async with console() as page:
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""):
            assert (await page.get("/", host=host))[0] == 403, host
        for host in ("localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080"):
            assert (await page.get("/", host=host))[0] == 200, host
        assert (await page.get("/partition", sec_fetch_site="cross-site", sec_fetch_mode="no-cors"))[0] == 403
        assert (await page.get("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate"))[0] == 200, "a link"
        assert (await page.get("/", sec_fetch_site="same-origin"))[0] == 200


async def test_viewers_are_bounded_and_one_that_leaves_makes_room(cluster, console, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "MAX_VIEWERS", 1)
    await cluster.begin(1, partitions=1)
    async with console() as page:
        async with page.viewer() as first:
            assert await first.status() == 200
            assert (await page.get("/events"))[0] == 503
        status = 503
        while status == 503:
            async with page.viewer() as second:
                status = await second.status()
        assert status == 200


async def test_nothing_is_asked_of_the_cluster_while_nobody_looks(cluster, console):
    await cluster.begin(1, partitions=1)
    async with console() as page:
        assert (await page.get("/partition?topic=t&partition=0"))[0] == 404, "nothing was asked yet"
        async with page.viewer() as viewer:
            await viewer.hear_until(lambda v: bool(v.rows))
        assert (await page.get("/partition?topic=t&partition=0"))[0] == 200


async def test_that_no_broker_answers_is_told(cluster, console):
    await cluster.begin(1, partitions=1)
    async with console() as page, page.viewer() as viewer:
        await viewer.hear_until(lambda v: v.parts.get("trouble") == "")
        await cluster.crash_broker(1)
        await viewer.hear_until(lambda v: "no broker answers" in v.parts["trouble"])
        assert viewer.rows, "what was known stays"


async def test_the_report_of_an_audit_is_shown(cluster, console, tmp_path):
    await cluster.begin(1, partitions=1)
    finding = {"class": "CORRUPT", "topic": "t", "partition": 0, "first_offset": 1, "last_offset": 2}
    finding |= {"wrong_replica": 3, "why": "its CRC is wrong", "remedy": "copy it again", "evidence": []}
    summary = {"verdict": "DIVERGED", "level": "deep", "partitions_compared": 1, "complete": True}
    async with console(tmp_path) as page, page.viewer() as viewer:
        await viewer.hear_until(lambda v: "audit" in v.parts)
        assert "there is no" in viewer.parts["audit"]["trouble"]
    (tmp_path / "summary.json").write_text(json.dumps({**summary, "classes": {"CORRUPT": 1}, "findings": [finding]}))
    async with console(tmp_path) as page, page.viewer() as viewer:
        await viewer.hear_until(lambda v: "audit" in v.parts)
        audit = viewer.parts["audit"]
        assert (audit["verdict"], audit["count"], audit["findings"][0]["why"]) == ("DIVERGED", 1, "its CRC is wrong")
        assert audit["explain"] == f"replog audit explain --report-dir {tmp_path}"


async def test_what_the_audit_that_goes_on_said_last_is_shown(cluster, console):
    await cluster.begin(1, partitions=1)
    async with cluster.admin() as admin:
        await admin.report_audit(StandingAudit("DIVERGED", "deep", 9_000, (), 3, ("t-0",), 1))
    async with console() as page, page.viewer() as viewer:
        await viewer.hear_until(lambda v: v.parts.get("standing"))
        standing = viewer.parts["standing"]
        assert (standing["verdict"], standing["diverged"], standing["consistent_at_ms"]) == ("DIVERGED", ["t-0"], 0)


async def test_a_viewer_that_takes_nothing_holds_nobody_up_and_is_dropped(monkeypatch):
    monkeypatch.setattr(app, "SEND_S", 0.05)

    async def silent(message: dict[str, str] | None = None) -> None:
        if message is None or message["type"] != "http.response.start":
            await asyncio.Event().wait()

    async with Admin("127.0.0.1:1") as admin, asyncio.timeout(30):
        await app.Events(Watcher(admin, Board()))({}, silent, silent)


async def test_a_poll_that_fails_by_a_defect_is_shown_and_the_next_one_comes(cluster, monkeypatch, tmp_path):
    await cluster.start_broker(1)
    polls = []

    def report(directory: Path) -> dict[str, str]:
        polls.append(directory)
        raise ValueError("nobody foresaw this")

    monkeypatch.setattr(watching, "audit_report", report)
    monkeypatch.setattr(watching, "POLL_S", 0.01)
    monkeypatch.setattr(watching, "DISKS_S", 0.0)
    async with Admin(cluster.brokers[1].address) as admin, asyncio.timeout(60):
        watcher = Watcher(admin, Board(), tmp_path)
        watcher.come()
        running = asyncio.create_task(watcher.run())
        while len(polls) < 2 or "nobody foresaw this" not in watcher.board.since(0):
            await asyncio.sleep(0.01)
            assert not running.done(), running.result()
        running.cancel()
