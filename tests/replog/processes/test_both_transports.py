"""A cluster of processes over both kinds of gRPC."""

import pytest

from replog.chaos.client import ASSIGNED
from replog.chaos.verdict import require_same_records
from replog.config.properties import load_properties
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.files.replacing import write_atomically
from tests.replog.processes.load import load_on

pytestmark = pytest.mark.processes


def test_brokers_of_both_kinds_are_killed_and_copy_from_each_other_and_nothing_is_lost(tmp_path):
    """Broker 1 speaks through grpcio, 2 and 3 through h2: each follows the other kind when it is back, and leads it."""
    files = {broker: tmp_path / f"broker-{broker}" / "broker.properties" for broker in (1, 2, 3)}
    for broker, file in files.items():
        file.parent.mkdir()
        write_atomically(file, f"rpc.transport={'grpcio' if broker == 1 else 'h2'}\n".encode())
    with LocalCluster(tmp_path, brokers=3) as cluster:
        assert [load_properties(file)["rpc.transport"] for file in files.values()] == ["grpcio", "h2", "h2"]
        with load_on(cluster, tmp_path) as load:
            for broker in (1, 2):
                cluster.kill(broker)
                load.serves(f"without broker {broker}")
                cluster.start(broker)
                load.goes_on(f"broker {broker} was killed and is back")
            load.ends_honest()
        cluster.wait_for_full_isr()
    homes = [cluster.data_directory(broker) for broker in (1, 2, 3)]
    require_same_records({tp: [home / tp.directory_name for home in homes] for tp in ASSIGNED})
