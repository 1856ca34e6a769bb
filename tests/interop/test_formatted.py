"""Log directories as the storage tools of Kafka's newer releases make them: 4.3 keeps its first metadata in a file
beside the partitions, 4.4 in the quorum's own."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.log_tools.verify.paths import verify_log_directory
from replog.log_tools.verify.segment import Options, VerifiedTotals
from replog.topic import TopicPartition
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT
from spark_jobs.command_line import where_of
from tests.interop.broker import KafkaBroker, nodes
from tests.interop.conftest import of_version
from tests.interop.kafka import NEW, NEWEST
from tests.interop.our_logs import every_codec

pytestmark = [pytest.mark.processes, pytest.mark.spark]

CODECS = TopicPartition("codecs", 0)


@pytest.mark.parametrize("version", [NEW, NEWEST])
def test_directories_that_newer_tools_formatted_are_audited(spark, version, tmp_path, capsys):
    kafka, cluster = of_version(version), nodes(2)
    with ThreadPoolExecutor(2) as several:
        made = [several.submit(KafkaBroker, kafka, tmp_path / str(node.id), cluster, node.id) for node in cluster]
    directories = [broker.result().data for broker in made]
    written = every_codec(tmp_path / "codecs-0", 24)
    for directory in directories:
        formatted = {path.name for path in directory.iterdir()}
        own = "bootstrap.checkpoint" if version == NEW else "__cluster_metadata-0"
        assert formatted == {"meta.properties", own}
        assert list(verify_log_directory(directory, Options(deep=True), VerifiedTotals())) == []
        shutil.copytree(tmp_path / "codecs-0", directory / "codecs-0")
        OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write({CODECS: len(written)})

    result = audit(spark, where_of([f"1={directories[0]}", f"2={directories[1]}"], None, None), level="deep")
    assert (result.verdict, result.findings, result.compared) == (CONSISTENT, [], 1)
    assert {(replica.topic, replica.log_end) for replica in result.replicas} == {("codecs", len(written))}
    assert capsys.readouterr().err == ""
    where_of([f"1={directories[1]}", f"2={directories[0]}"], None, None)
    assert "meta.properties that it is broker 1's" in capsys.readouterr().err
