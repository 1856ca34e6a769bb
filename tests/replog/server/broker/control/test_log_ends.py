"""What a broker says of its replicas: which it lacks, and how far the others go where nobody leads (CT-29, CT-30)."""

import shutil

from structlog.testing import capture_logs

from replog.client.descriptions import ReplicaLogEnd
from replog.controller.evidence import LogEnd
from replog.errors import ErrorCode
from replog.server.broker.control import lifecycle
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, eventually

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
T0, T1, T2 = PARTITIONS


async def test_ct_29_replicas_are_asked_for_and_the_one_that_has_the_records_leads(cluster, monkeypatch):
    """CT-29, CT-30: both brokers are killed, and broker 1 comes back without t-0."""
    monkeypatch.setattr(lifecycle, "MAX_OFFLINE_PER_REQUEST", 2)
    await cluster.begin(2, partitions=3)
    for tp in (T0, T1):
        assert (await cluster.produce(tp, batch(b"x")))[0] is ErrorCode.NONE
    for broker in (2, 1):
        await cluster.crash_broker(broker)
        await eventually(lambda gone=broker: cluster.controller.state.image.brokers[gone].fenced)
    shutil.rmtree(cluster.directory / "broker-1" / "t-0")
    with capture_logs() as logs:
        broker = await cluster.start_broker(1)
    (warned,) = [event for event in logs if event["log_level"] == "warning" and "not on the disks" in event["event"]]
    assert (warned["count"], "mount" in warned["remedy"]) == (1, True)
    state = cluster.controller.state

    def said(tp: TopicPartition) -> object:
        return state.log_ends(tp).replicas[state.image.partitions[tp].replicas.index(1)]

    await eventually(lambda: all(said(tp)[2] is not None for tp in PARTITIONS), what=lambda: [*map(said, PARTITIONS)])
    epochs = [broker.manager.replicas.hosted[tp].log.epochs.latest_epoch for tp in PARTITIONS]
    assert epochs[0] is None
    assert [said(tp) for tp in PARTITIONS] == [
        (1, True, LogEnd(-1, 0)),
        (1, True, LogEnd(epochs[1], 1)),
        (1, True, LogEnd(-1, 0)),
    ]
    for most, pages in ((2, [2, 1]), (1, [1, 1, 1])):
        monkeypatch.setattr(lifecycle, "MAX_OFFLINE_PER_REQUEST", most)
        rounds = lifecycle.LogEnds(broker.context.image, broker.replicas)
        told = [rounds.next() for _ in (*pages, "the first again")]
        assert [len(reports) for reports, _ in told] == [*pages, most]
        assert [more for _, more in told] == [*(page < len(pages) for page in range(1, len(pages) + 1)), True]
        assert {report.partition for reports, _ in told[:-1] for report in reports} == {0, 1, 2}
    async with cluster.admin() as admin:
        known = (await admin.describe_log_ends([T0]))[T0]
        assert known.strategy == "BALANCED"
        assert {replica.broker_id: replica for replica in known.replicas} == {
            1: ReplicaLogEnd(1, True, -1, 0),
            2: ReplicaLogEnd(2, False, None, None),
        }
        await cluster.start_broker(2)
        await eventually(lambda: all(cluster.leader(tp) != -1 for tp in PARTITIONS))
        assert cluster.leader(T0) == 2
        assert await admin.describe_log_ends() == {}
    await cluster.led(T0)
    await eventually(lambda: cluster.log(1, T0).log_end_offset == 1, what=lambda: cluster.log(1, T0))
