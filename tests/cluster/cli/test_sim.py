"""`replog sim`: what is wrong is told before hours are spent, and an interrupt does not lose what was found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.cli import sim
from cluster.simulation.report import BEGIN, END
from cluster.simulation.simulation import Outcome
from replog.errors import ReplogError


def run(**options: Any) -> bool:
    defaults = {"seeds": 2, "first_seed": 1, "profile": "quick", "jobs": 2, "keep": None, "report": None}
    return sim.run_many(**{**defaults, "as_json": True, **options})


@pytest.fixture
def no_seed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Iterator[Outcome]:
        raise AssertionError("a seed was run")

    monkeypatch.setattr(sim, "run_seeds", refuse)


@pytest.mark.usefixtures("no_seed_runs")
def test_a_report_without_a_place_for_figures_is_refused_at_once(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nothing\n")
    with pytest.raises(ReplogError, match="has no place for figures"):
        run(report=page)
    with pytest.raises(ReplogError, match="has no place for figures"):
        run(report=tmp_path / "none.md")


@pytest.mark.usefixtures("no_seed_runs")
def test_a_place_to_keep_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        run(keep=tmp_path / "file" / "kept")


def test_an_interrupt_tells_what_was_found_until_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> Iterator[Outcome]:
        yield Outcome(1, "quick")
        yield Outcome(2, "quick", "INV-5", "what was seen")
        raise KeyboardInterrupt

    monkeypatch.setattr(sim, "run_seeds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(seeds=10)
    told = json.loads(capsys.readouterr().out)
    assert (told["seeds"], told["failed"]) == (2, [2])
    assert told["failures"][0]["text"] == "what was seen"


def outcomes(*_: Any, **__: Any) -> Iterator[Outcome]:
    yield Outcome(1, "quick")
    yield Outcome(2, "quick", "INV-5", "what was seen")


def test_without_a_terminal_a_line_now_and_then_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim, "run_seeds", outcomes)
    run()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sim, "LINE_EVERY_S", 0.0)
    run()
    assert capsys.readouterr().err == "1 of 2 seeds, 0 failed\n2 of 2 seeds, 1 failed\n"


def test_the_report_is_written_though_nobody_reads_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: Any) -> None:
        raise BrokenPipeError

    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    monkeypatch.setattr(sim, "run_seeds", outcomes)
    monkeypatch.setattr(sim, "_tell", closed)
    with pytest.raises(BrokenPipeError):
        run(report=page)
    assert "2 from 1 on" in page.read_text()
