"""`replog sim`: what is wrong is told before hours are spent, and an interrupt does not lose what was found."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from replog.cli import sim
from replog.simulator.simulation import SeedOutcome


def run(**options: Any) -> int:
    defaults = {"seeds": 2, "first_seed": 1, "profile": "quick", "jobs": 2, "keep": None}
    return sim.run_many(**{**defaults, "as_json": True, **options})


def test_a_place_to_keep_that_cannot_be_made_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("replog.simulator.runner.run_seeds", pytest.fail)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        run(keep=tmp_path / "file" / "kept")


def test_an_interrupt_tells_what_was_found_until_then(monkeypatch, capsys):
    def interrupted(*_: Any, **__: Any) -> Iterator[SeedOutcome]:
        yield SeedOutcome(1, "quick")
        yield SeedOutcome(2, "quick", "INV-5", "what was seen")
        raise KeyboardInterrupt

    monkeypatch.setattr("replog.simulator.runner.run_seeds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(seeds=10)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["seeds"], shown["failed"]) == (2, [2])
    assert shown["failures"][0]["text"] == "what was seen"


def outcomes(*_: Any, **__: Any) -> Iterator[SeedOutcome]:
    yield SeedOutcome(1, "quick")
    yield SeedOutcome(2, "quick", "INV-5", "what was seen")


def test_without_a_terminal_a_line_now_and_then_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr("replog.simulator.runner.run_seeds", outcomes)
    run()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("replog.command.output.PRINT_EVERY_S", 0.0)
    run()
    assert capsys.readouterr().err == "1 of 2 seeds, 0 failed\n2 of 2 seeds, 1 failed\n"
