"""A broker waits for all of the metadata, however many messages it comes in."""

import asyncio
import random

from cluster.broker.metadata_watch import MetadataWatch
from cluster.controller import controller
from cluster.metadata_image import MetadataImage
from replog.backoff import Backoff
from replog.rpc.v1 import controller_pb2

from .conftest import InProcessCluster


async def test_the_first_of_several_messages_is_not_taken_for_all_of_the_metadata(
    cluster: InProcessCluster, monkeypatch
) -> None:
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=20, replication_factor=1)
    monkeypatch.setattr(controller, "DELTA_RECORDS", 3)
    image = MetadataImage()
    deltas: list[controller_pb2.MetadataDelta] = []
    channel = cluster.channel(cluster.controller_address)
    watch = MetadataWatch(channel, image, deltas.append, Backoff(random.Random(1)))
    watching = asyncio.create_task(watch.run())
    await watch.wait_for_version(1, 5)
    assert len(image.partitions) == 20
    assert len(deltas) > 1
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
