"""The path of a record as function calls, from a stream to a file, is that of a broker that runs, and what it copies;
who hosts, who reads and who commits each have few public attributes, and a table says which file uses which."""

import os
import random
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import replog.server.broker
from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode
from replog.log.files.tail import Tail
from replog.log.formats.batch import HEADER_SIZE
from replog.log.offsets import Isolation
from replog.metadata.image import MetadataImage
from replog.rpc import methods
from replog.rpc.codec import RecordsDecoder
from replog.rpc.v1 import log_pb2
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.clock import SystemClock
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import TP, batch, produce_request

ROOT = Path(__file__).parents[4]
OURS = tuple(f"{ROOT}/{package}/" for package in ("replog", "leader", "follower"))
TRANSPORT = f"{ROOT}/replog/rpc/"

# The leader's append, the read for the follower's fetch that waits, the follower's append.
CHAINS = """
Produce.append_records > Produce._append_to_local_log
    > PartitionLeader.append_records_to_leader > Log.append_as_leader > Segment.append > OpenFile.write_and_keep
    > OpenFile.write > write_exactly > pwritev

ReplicaManager._follow_up > FetchSessions.answer_some > FetchSessions.answer > FetchSession.on_moved
    > FollowerSession._ready > FetchSession.answer > FetchSession._read > FetchSession._look > FollowerSession._fetch
    > PartitionLeader.fetch_as_follower > read_log > Log.read > Segments.read > Segment.read > OpenFile.read > Tail.read

ReplicaFetcher._on_response > FetchSessionHandler.on_response > FetchSessionHandler._take_row
    > PartitionFollower.on_answer > PartitionFollower._take > PartitionFollower._append_records_to_follower
    > Log.append_as_follower > Log._write_replicated > Segment.write > OpenFile.write > write_exactly > pwritev"""


def calls_to(name: str) -> str:
    """Our functions that are being called, from the stream's on, with `name` behind them."""
    names, frame = [name], sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(OURS) and not frame.f_code.co_filename.startswith(TRANSPORT):
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back  # type: ignore[assignment]
    return " > ".join(reversed(names))


def watched(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> set[str]:
    """What calls `<owner>.<name>` from now on, for an owner that is a class or `os`."""
    real, seen = getattr(owner, name), set[str]()

    def called(*arguments: Any) -> Any:
        seen.add(calls_to(getattr(real, "__qualname__", name)))
        return real(*arguments)

    monkeypatch.setattr(owner, name, called)
    return seen


async def test_the_path_of_a_record_is_these_calls(cluster, monkeypatch):
    """A produce while the follower's fetch waits takes all three."""
    writes, reads = watched(monkeypatch, os, "pwritev"), watched(monkeypatch, Tail, "read")
    await cluster.begin(2)
    tp = TopicPartition("t", 0)
    stream = cluster.to_leader(tp).open(methods.Log["produce"])
    for _ in range(50):  # the follower's fetch may not wait yet, or not just then
        await stream.send(produce_request(tp, batch(b"x")))
        await stream.receive()
        missing = {" ".join(chain.split()) for chain in CHAINS.split("\n\n")} - writes - reads
        if not missing:
            break
    stream.cancel()
    assert not missing, writes | reads


READ_AT_ONCE, IN_PIECES = 100_000, 900_000  # bytes


def records_of(size: int) -> bytes:
    return batch(random.Random(2).randbytes(size))


@pytest.mark.parametrize("size", [READ_AT_ONCE, IN_PIECES])
async def test_what_followers_read_of_a_new_batch_is_the_message_that_brought_it(cluster, size):
    await cluster.begin(1)
    records = records_of(size)
    assert (await cluster.produce(TP, records, acks=1))[0] is ErrorCode.NONE
    read = cluster.log(1, TP).read(0, 1 << 20, Isolation.LOG_END, min_one_message=True).records
    message = memoryview(read).obj
    request = RecordsDecoder(log_pb2.ProduceRequest)(message)
    assert request.head.acks == 1
    assert request.records[0][HEADER_SIZE:] == records[HEADER_SIZE:]


MOST = 8
USERS = """
replicas.hosted            describe_producers housekeeping inspection_service lifecycle log_cleaner log_dirs_service
                           log_flusher metrics moves replica_manager role_changes
replicas.started           broker cluster_rows log_service
replicas.unreachable       metrics role_changes
replicas.gone              reopening role_changes
replicas.missing           lifecycle role_changes
replicas.failure_detector  broker housekeeping log_service produce replica_manager replica_service
replicas.copying           broker
sessions.watching          metrics
sessions.shared            replica_service
sessions.cold_reads        broker
sessions.answers           fetch log_service metrics
manager.context            consume housekeeping log_cleaner log_flusher log_service metrics moves offsets produce
                           replica_service role_changes service
manager.replicas           consume housekeeping log_cleaner log_flusher log_service metrics moves offsets produce
                           replica_service role_changes service
manager.sessions           broker consume fetch log_service metrics replica_service
manager.produces           metrics produce
manager.record_deletions   metrics offsets
manager.waiting_produces   dispatch log_service metrics produce produce_stream
manager.dirty              housekeeping log_cleaner moves role_changes
"""


@pytest.fixture(scope="module")
def owners(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    config = BrokerConfig(node_id=1, log_dirs=tmp_path_factory.mktemp("logs"))
    context = BrokerContext(config, MetadataImage(), SystemClock(), lambda _: None)
    manager = ReplicaManager(context, HostedReplicas(context), lambda *_: True)
    return {"replicas": manager.replicas, "sessions": manager.sessions, "manager": manager}


def public(owner: object) -> list[str]:
    return [name for name in vars(owner) if not name.startswith("_")]


def test_each_owner_has_few_public_attributes(owners):
    assert {name: len(public(owner)) for name, owner in owners.items() if len(public(owner)) > MOST} == {}
    assert len(BrokerContext.__slots__) <= MOST


def test_who_uses_which_is_this_table(owners):
    users = defaultdict[str, set[str]](set)
    names = {f"{name}.{attribute}" for name, owner in owners.items() for attribute in public(owner)}
    for path in Path(replog.server.broker.__path__[0]).rglob("*.py"):
        for owner, attribute in re.findall(r"(?=\b_?(replicas|sessions|manager)\.(\w+))", path.read_text()):
            if f"{owner}.{attribute}" in names:
                users[f"{owner}.{attribute}"].add(path.stem)
    table = dict(re.findall(r"^(\w+\.\w+)((?:\s+\w+(?!\.))+)$", USERS, re.MULTILINE))
    assert {name: sorted(found) for name, found in users.items()} == {
        name: sorted(found.split()) for name, found in table.items()
    }
