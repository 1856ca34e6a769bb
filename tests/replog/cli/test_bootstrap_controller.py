"""What brokers cannot be asked to mend, because none runs, the controller is asked to."""

import asyncio

from typer.testing import CliRunner

from replog.cli.main import app
from replog.metadata.values import Topic
from tests.replog.client.conftest import cluster
from tests.replog.server.broker.conftest import InProcessCluster

__all__ = ["cluster"]


async def test_topics_brokers_and_users_are_mended_while_no_broker_runs(cluster: InProcessCluster):
    await cluster.start_broker(1)
    for name in ("t", "u"):
        await cluster.create_topic(name, replication_factor=1, retention_ms="1000")
    await cluster.crash_broker(1)

    async def run(*words: str) -> str:
        command = [*words, "--bootstrap-controller", cluster.controller_address]
        done = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    image = cluster.controller.state.image
    assert "retention.ms=5" in await run("topic", "alter", "--topic", "t", "--config", "retention.ms=5")
    await run("topic", "alter", "--topic", "t", "--delete-config", "retention.ms")
    topic: Topic = image.topics["t"]
    assert dict(topic.configs) == {"min.insync.replicas": "1"}
    assert "deleted topic u" in await run("topic", "delete", "--topic", "u")
    assert list(image.topics) == ["t"]
    rate = "leader.replication.throttled.rate"
    assert f"{rate}=7" in await run("broker-config", "--broker", "1", "--config", f"{rate}=7")
    assert "producer_byte_rate=9" in await run("client-quota", "--config", "producer_byte_rate=9")
    assert "producer_byte_rate=9" in await run("client-quota")
    await cluster.start_broker(1)
    async with cluster.admin() as admin:
        assert await admin.list_topics() == ["t"]
