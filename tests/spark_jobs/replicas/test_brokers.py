"""Replicas read from running brokers: the same tables as from their directories. Real gRPC, in one process."""

import asyncio
import pickle
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from replog.errors import ErrorCode, ReplogError
from replog.log.formats.segment_file import Vanished
from replog.rpc.methods import Inspection
from replog.rpc.transports import GrpcTransport
from replog.topic import TopicPartition
from spark_jobs.audit.findings import AuditFinding, Evidence
from spark_jobs.audit.report import finding_record
from spark_jobs.audit.since import Saved, landmarks, list_replicas, take_over
from spark_jobs.explain_finding import explain
from spark_jobs.replicas import brokers
from spark_jobs.replicas.brokers import BrokerStore, broker_stores
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReplicaSegment, ReplicaStore
from spark_jobs.replicas.index_check import index_points
from spark_jobs.replicas.segment_check import check_segment, until_unread
from spark_jobs.replicas.sources import BatchesSource, ReplicaPartition
from tests.replog.log.batches import leader_batch
from tests.replog.server.broker.conftest import InProcessCluster, batch, cluster

__all__ = ["cluster"]

TP = TopicPartition("t", 0)
SMALL = {"segment_bytes": "2000", "index_interval_bytes": "300"}


async def filled(cluster: InProcessCluster, batches: int = 40) -> BrokerStore:
    """Topic t with some segments on a broker of its own; the store of that broker."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1, **SMALL)
    for number in range(batches):
        code, _, message = await cluster.produce(TP, batch(b"value %d" % number, b"x" * (number % 50)))
        assert code == ErrorCode.NONE, message
    (store,) = await asyncio.to_thread(broker_stores, cluster.brokers[1].address)
    return store


def everything(store: ReplicaStore) -> dict[str, Any]:
    """All that the tables would say, without the places."""
    contents: dict[str, Any] = {}
    try:
        for files in store.partitions(frozenset()):
            name = f"{files.partition}"
            contents[f"{name} bounds"] = replace(describe(files), leads=None, leader_epoch=None, high_watermark=None)
            contents[f"{name} epochs"] = files.epochs().entries
            for segment in files.segments:
                contents[f"{name} {segment.base} sums"] = (segment.size, segment.bytes_before, segment.digest_before)
                contents[f"{name} {segment.base} indexes"] = list(index_points(segment, files.log_start, [17, 90]))
                for crc in (False, True):
                    contents[f"{name} {segment.base} {crc}"] = list(check_segment(segment, files.log_start, crc=crc))
    finally:
        store.close()
    return contents


def check(segment: ReplicaSegment) -> list[Any]:
    return list(until_unread(segment, check_segment(segment, 0, crc=True)))


def segments(store: BrokerStore) -> tuple[ReplicaSegment, ...]:
    (files,) = store.partitions(frozenset({"t"}))
    assert files.error is None
    return files.segments


async def test_a_running_broker_tells_what_its_directory_tells(cluster):
    store = pickle.loads(pickle.dumps(await filled(cluster)))
    assert (store.replica, store.assigned) == (1, (TP,))
    directory = DirectoryStore(1, cluster.directory / "broker-1")
    for _ in range(10):  # a machine that is too slow lets the broker's session expire: then it leads in a new epoch
        before = await asyncio.to_thread(everything, directory)
        remote = await asyncio.to_thread(everything, store)
        local = await asyncio.to_thread(everything, directory)
        if before == local:
            break
    assert before == local, "it never stood still"
    assert len(local) > 10, local.keys()
    assert remote.keys() == local.keys()
    for name, value in local.items():
        assert remote[name] == value, name


async def test_a_broker_says_who_leads_and_what_else_it_is_assigned_does_not_go_with_a_segment(cluster):
    store = await filled(cluster, batches=3)
    source = BatchesSource({"bootstrap.servers": store.address})
    reader = await asyncio.to_thread(source.reader, StructType())
    (partition,) = pickle.loads(pickle.dumps(await asyncio.to_thread(reader.partitions)))
    assert isinstance(partition, ReplicaPartition)
    assert [work.segment.store for work in partition.work] == [BrokerStore(1, store.address, ())]
    (rows,) = await asyncio.to_thread(lambda: list(reader.read(partition)))
    assert rows.num_rows == 3
    hosted = cluster.brokers[1].manager.replicas.hosted[TP]
    since = hosted.leader_epoch
    (files,) = await asyncio.to_thread(store.partitions, frozenset())
    told = await asyncio.to_thread(describe, files)
    assert (told.log_start, told.high_watermark, told.log_end, told.fault) == (0, 6, 6, None)
    assert told.leads is not None
    assert told.leader_epoch is not None
    assert since <= told.leader_epoch <= hosted.leader_epoch  # it may be elected again at any time


async def test_a_segment_that_goes_while_it_is_read_vanished(cluster):
    store = await filled(cluster)
    first, second, *_ = await asyncio.to_thread(segments, store)

    def read_on() -> bytes:
        with second.open(".log") as file:
            cluster.brokers[1].manager.replicas.hosted[TP].log.directory.joinpath(f"{second.base:020d}.log").unlink()
            return file.read(0, 100)

    cluster.brokers[1].manager.replicas.hosted[TP].log.directory.joinpath(f"{first.base:020d}.log").unlink()
    (fault,) = await asyncio.to_thread(check, first)
    assert isinstance(fault, FileFault)
    assert (fault.fault, fault.first, fault.last) == ("VANISHED", first.base, second.base - 1)
    with pytest.raises(Vanished):
        await asyncio.to_thread(read_on)


async def test_a_file_that_is_shorter_than_the_broker_knows_is_damaged(cluster):
    """It did not vanish: the broker did not do that."""
    store = await filled(cluster)
    first, second, *_ = await asyncio.to_thread(segments, store)
    path = cluster.brokers[1].manager.replicas.hosted[TP].log.directory / f"{first.base:020d}.log"
    raw, removed = path.read_bytes(), (await asyncio.to_thread(check, first))[3]
    path.write_bytes(raw[: removed.position] + raw[removed.position + removed.size :])
    items = await asyncio.to_thread(check, first)
    gaps = [(item.first, item.last) for item in items if isinstance(item, FileFault) and item.fault == "GAP"]
    assert gaps == [(removed.base_offset, removed.last_offset)], items
    assert not [item for item in await asyncio.to_thread(check, second) if isinstance(item, FileFault)]


async def test_a_reader_waits_for_its_turn_when_a_broker_serves_as_many_as_it_can(cluster):
    """An audit of a large Spark cluster has more tasks than that."""
    cluster.transport = GrpcTransport()  # there, a call takes its place before it has asked for anything
    store = await filled(cluster)
    first, *_ = await asyncio.to_thread(segments, store)
    method, channel = Inspection["read_file"], cluster.channel(store.address)
    places = [channel.open(method) for _ in range(method.limit.calls)]
    refused = ""
    while "no more are taken" not in refused:
        one_more = channel.open(method)
        try:
            await one_more.receive(0.2)
        except ReplogError as error:
            refused = error.message
        places.append(one_more)
    reading = asyncio.create_task(asyncio.to_thread(check, first))
    await asyncio.wait([reading], timeout=0.3)
    for place in places:
        place.cancel()
    assert not [item for item in await reading if isinstance(item, FileFault)]


async def test_a_broker_that_is_down_is_told_for_each_of_its_partitions(cluster, monkeypatch):
    monkeypatch.setattr(brokers, "TRIES", 2)
    store = await filled(cluster, batches=1)
    await cluster.stop_broker(1)
    (files,) = await asyncio.to_thread(store.partitions, frozenset())
    assert files.partition == TP
    assert "cannot be reached" in (files.error or ""), files
    assert describe(files).fault == "UNREADABLE"
    with pytest.raises(OSError, match="no broker answers"):
        await asyncio.to_thread(broker_stores, store.address)


async def test_a_topic_or_an_address_that_is_none_is_told(cluster):
    store = await filled(cluster, batches=0)
    with pytest.raises(OSError, match="does not know topic 'nowhere'"):
        await asyncio.to_thread(broker_stores, store.address, frozenset({"nowhere"}))
    with pytest.raises(OSError, match="bootstrap"):
        broker_stores("localhost")
    assert await asyncio.to_thread(broker_stores, store.address, frozenset(), frozenset({7})) == []


async def test_epochs_that_a_broker_has_not_saved_yet_are_told_all_the_same(cluster):
    """EP-9: the thread that saves them comes a tenth of a second after the batches (divergence 31)."""
    store = await filled(cluster, batches=1)
    log = cluster.log(1, TP)
    log.epochs.on_unsaved = lambda: None  # it does not come
    log.append_as_follower(leader_batch(log.log_end_offset, 50, b"a"))
    assert (await asyncio.to_thread(store.epochs, TP)).entries[-1] == (50, log.log_end_offset - 1)
    store.close()


async def test_findings_of_a_running_cluster_are_explained_and_its_saved_audits_fit_when_it_goes_on(cluster):
    store = await filled(cluster)
    evidence = Evidence(1, "broker-1/t-0/00000000000000000000.index", 0, "this")
    finding = AuditFinding("INDEX_LIE", "t", 0, (1,), 5, 5, 1, "because", "do it", (evidence,))
    report = {"findings": [finding_record(finding)], "where": {"bootstrap_servers": store.address}}
    shown = await asyncio.to_thread(explain, report, 1)
    (column,), (index,) = shown["headers"], shown["indexes"]
    assert (column["note"], column["fields"]["isValid"]) == ("", True)
    assert column["fields"]["baseOffset"] <= 5 <= column["fields"]["lastOffset"]
    assert [entry["entry"] for entry in index["entries"] if entry["suspect"]] == [0]
    assert any(entry["covers"] for entry in shown["epochs"][0]["entries"]), shown["epochs"]
    saved = Saved("index", await asyncio.to_thread(lambda: landmarks(list_replicas([store], ["t"]), {TP: 10})))
    assert saved.partitions[TP].replicas[1].last_batch is not None
    await cluster.produce(TP, batch(b"more"))
    now = await asyncio.to_thread(list_replicas, [store], ["t"])
    assert (await asyncio.to_thread(take_over, saved, "index", now)).starts == {TP: 10}
    store.close()
