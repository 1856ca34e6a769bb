"""The first cluster of docs/tour.md, run as it stands."""

import re
import shutil

import pytest

from tests.docs.shell import run
from tests.docs.tree import blocks

HOME = "/tmp/replog-hour"


def script(with_prometheus: bool) -> str:
    lines = blocks("docs/tour.md")
    assert sum("replog " in line for line in lines) >= 15
    assert any("prometheus" in line for line in lines)
    if not with_prometheus:
        lines = [line for line in lines if not re.search("prometheus|alerts", line)]
    return "\n".join(lines)


@pytest.mark.processes
@pytest.mark.spark
@pytest.mark.plaintext("it shows a first cluster, without certificates")
def test_damage_is_found_and_no_record_is_lost_by_a_kill_a_move_a_new_disk_and_an_upgrade(tmp_path):
    with_prometheus = shutil.which("prometheus") is not None
    printed = run(script(with_prometheus).replace(HOME, str(tmp_path)), ("1909", "1919", "1929"), tmp_path)
    assert re.findall("^CONSISTENT$|^DIVERGED$", printed, re.M) == ["DIVERGED", "CONSISTENT"], printed
    assert "BIT_ROT" in printed
    assert ("ReplogUnderReplicatedPartitions" in printed) is with_prometheus
    assert "acknowledged, 0 failed" in printed
