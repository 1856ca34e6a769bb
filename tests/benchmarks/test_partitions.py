"""The benchmark of many partitions runs, small, and what it reports adds up."""

import pytest

from benchmarks import partitions
from benchmarks.harness import marks, write
from benchmarks.partitions import Cell, shown
from benchmarks.peers.replog import ReplogPeer


def row(text: str, label: str) -> list[str]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    (cells,) = [cells for cells in lines if cells[0] == label]
    return cells[1:]


def test_the_table_has_medians_and_says_what_did_not_finish():
    one, two, nine, late = ({"create": {name: figure}} for name, figure in (
        ("seconds", 1.0), ("seconds", 2.0), ("seconds", 9.0), ("not_within_s", 60)
    ))  # fmt: skip
    text = shown({"replog, 6": [one, nine, two], "replog, 5,000": [one, late], "Kafka, 6": [two]})
    assert row(text, "") == ["replog, 6", "replog, 5,000", "Kafka, 6"]
    assert row(text, "created on every disk, s") == ["2.00", "not within 60 s", "2.00"]
    assert row(text, "p99, ms") == ["–", "–", "–"]


def test_the_report_replaces_what_is_between_its_marks_and_nothing_else(tmp_path):
    document = tmp_path / "performance.md"
    begin, end = marks("partitions")
    document.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    write(document, "partitions", "| new |")
    write(document, "partitions", "| newer |")
    assert document.read_text() == f"before\n{begin}\n\n| newer |\n\n{end}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(ValueError, match="has no lines"):
        write(document, "partitions", "| new |")


@pytest.mark.processes
async def test_partitions_of_two_topics_live_their_whole_life_beside_a_producer(tmp_path, monkeypatch):
    monkeypatch.setattr(partitions, "MAX_PARTITIONS", 4)  # of one topic
    for pause in ("WARM_UP_S", "SETTLE_S", "QUIET_S"):
        monkeypatch.setattr(partitions, pause, 1.0)
    told: list[str] = []
    phases = await Cell(ReplogPeer(tmp_path / "cluster"), 6, 1.0, 1.0, told.append).run(2400.0)
    for phase in ("start", "create", "fail_over", "restart", "delete"):
        assert phases[phase]["seconds"] > 0, told
    load = phases["load"]
    assert 0 < load["p50_ms"] <= load["p99_ms"] <= load["max_ms"], told
    assert load["failed_records"] == 0, told
    assert load["broker_mib"] > 20, told
    assert phases["fail_over"]["led_wait_s"] > 0, told
    for phase in ("quiet", "create", "delete"):
        assert 0 < phases[phase]["steady_p50_ms"] <= phases[phase]["steady_p99_ms"], told
    assert "not" not in "".join(row(shown({"replog, 6": [phases]}), "deleted on every disk, s")), told
