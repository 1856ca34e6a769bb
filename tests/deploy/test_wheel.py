"""What `pip install` puts beside the packages of others."""

import zipfile

from replog.kafka.versions import APIS
from tests.docs.tree import ROOT
from tests.spark_jobs.standalone import build_wheel


def test_no_generic_name_is_installed_and_the_contracts_are(tmp_path):
    """PyPI has a `cluster`, which would take the place of a package of ours of that name."""
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        files = set(wheel.namelist())
    names = {name.partition("/")[0] for name in files}
    metadata = {name for name in names if name.startswith("replog-") and name.endswith(".dist-info")}
    sources = {f"pyspark_replog{name}" for name in ("", "_batches", "_epochs", "_replicas")}
    assert names - metadata == {"replog", "leader", "follower", "spark_jobs", *sources}
    contracts = {
        f"replog/proto/{path.relative_to(ROOT / 'proto')}" for path in (ROOT / "proto/replog").rglob("*.proto")
    }
    assert contracts < files, "for clients in other languages"
    assert len(contracts) > 8
    assert {f"replog/kafka/schemas/{api.name}.txt" for api in APIS.values()} < files, "or no message could be made"
