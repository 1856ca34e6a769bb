"""The second cluster of docs/tour.md, run as it stands: a host and two disks are lost, and no record."""

import re

import pytest

from tests.docs.shell import run
from tests.docs.tree import ROOT
from tests.replog.server.controller.etcds import path_with_etcd


@pytest.mark.processes
@pytest.mark.plaintext("it makes certificates of its own")
def test_hosts_are_killed_and_two_disks_are_lost_and_every_record_is_there(tmp_path):
    home = tmp_path / "three"
    script = "".join(re.findall(r"^```bash\n(.*?)^```", (ROOT / "docs/tour.md").read_text(), re.M | re.S))
    script = script.replace("/tmp/replog-three", str(home))
    printed = run(script, ("1909", "1919", "2379", "2380"), home, path_with_etcd(tmp_path / "bin"))
    assert re.search(r"^ *300$", printed, re.M), printed
