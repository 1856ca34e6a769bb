"""An example of every public call of every client, in an order in which they work, on a topic t of one partition."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from replog.client import Admin, Consumer, ElectionType, Producer, SyncAdmin, SyncConsumer, SyncProducer
from replog.client.records import decode_fetched
from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.metadata.values import StandingAudit
from replog.topic import TopicPartition
from tests.docs.tree import ROOT

TP = TopicPartition("t", 0)
TWINS: dict[type, Any] = {Producer: SyncProducer, Consumer: SyncConsumer, Admin: SyncAdmin}
CLIENTS = (*TWINS,)


def public(client: type) -> list[str]:
    return [name for name in dir(client) if not name.startswith("_")]


def calls(client: type, broker_id: int = 1, log_dir: str = "d") -> dict[str, Callable[[Any], Any]]:
    """By the method's name; what each gives may have to be awaited. `close` and what begins are not among them."""
    acl = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:u", "*", Operation.READ, Permission.ALLOW)
    of_producer: dict[str, Callable[[Any], Any]] = {
        "start": lambda c: c.start(),
        "send": lambda c: c.send("t", b"x"),
        "send_and_wait": lambda c: c.send_and_wait("t", b"x"),
        "send_many": lambda c: c.send_many("t", [b"x", b"y"]),
        "flush": lambda c: c.flush(),
        "metrics": lambda c: c.metrics(),
    }
    of_consumer: dict[str, Callable[[Any], Any]] = {
        "assign": lambda c: c.assign([TP]),
        "assignment": lambda c: c.assignment,
        "seek": lambda c: c.seek(TP, 0),
        "seek_to_beginning": lambda c: c.seek_to_beginning(TP),
        "seek_to_end": lambda c: c.seek_to_end(TP),
        "topic_id": lambda c: c.topic_id("t"),
        "position": lambda c: c.position(TP),
        "partitions_for": lambda c: c.partitions_for("t"),
        "beginning_offsets": lambda c: c.beginning_offsets([TP]),
        "end_offsets": lambda c: c.end_offsets([TP]),
        "offsets_for_times": lambda c: c.offsets_for_times({TP: 0}),
        "fetch": lambda c: c.fetch(0.05),
        "fetch_decoded": lambda c: c.fetch_decoded(decode_fetched, 0.05),
        "pause": lambda c: c.pause(TP),
        "resume": lambda c: c.resume(TP),
        "fetch_many": lambda c: c.fetch_many(0.05),
        "give_back": lambda c: c.give_back([]),
        "metrics": lambda c: c.metrics(),
    }
    of_admin: dict[str, Callable[[Any], Any]] = {
        "create_topic": lambda c: c.create_topic("made", 1, 1),
        "create_partitions": lambda c: c.create_partitions("made", 2),
        "alter_topic_configs": lambda c: c.alter_topic_configs("made", {"retention.ms": "5000"}),
        "delete_topic": lambda c: c.delete_topic("made"),
        "list_topics": lambda c: c.list_topics(),
        "describe_topic": lambda c: c.describe_topic("t"),
        "describe_topics": lambda c: c.describe_topics(),
        "describe_cluster": lambda c: c.describe_cluster(),
        "alter_broker_configs": lambda c: c.alter_broker_configs(broker_id, {"log.cleaner.backoff.ms": "5000"}),
        "report_audit": lambda c: c.report_audit(StandingAudit("CONSISTENT", "deep", 1, (), 1, (), 0)),
        "describe_audit": lambda c: c.describe_audit(),
        "describe_log_ends": lambda c: c.describe_log_ends([TP]),
        "unregister_broker": lambda c: c.unregister_broker(99),
        "alter_client_quotas": lambda c: c.alter_client_quotas("User:u", {"producer_byte_rate": "1000000"}),
        "describe_client_quotas": lambda c: c.describe_client_quotas(),
        "list_offsets": lambda c: c.list_offsets({TP: -1}),
        "delete_records": lambda c: c.delete_records({TP: 0}),
        "describe_partition_changes": lambda c: c.describe_partition_changes(),
        "describe_replicas": lambda c: c.describe_replicas(broker_id),
        "elect_leaders": lambda c: c.elect_leaders(ElectionType.PREFERRED, [TP]),
        "alter_partition_reassignments": lambda c: c.alter_partition_reassignments({TP: [broker_id]}),
        "list_partition_reassignments": lambda c: c.list_partition_reassignments(),
        "create_acls": lambda c: c.create_acls([acl]),
        "delete_acls": lambda c: c.delete_acls([AclFilter()]),
        "describe_acls": lambda c: c.describe_acls(),
        "alter_replica_log_dirs": lambda c: c.alter_replica_log_dirs(broker_id, {TP: log_dir}),
        "describe_log_dirs": lambda c: c.describe_log_dirs([broker_id]),
    }
    return {Producer: of_producer, Consumer: of_consumer, Admin: of_admin}[client]


def awaited(client: type) -> Iterator[str]:
    """Those that can be cancelled."""
    return (name for name in calls(client) if inspect.iscoroutinefunction(getattr(client, name)))


async def outcome(called: Any) -> Any:
    """Return what a call gives, awaited if it has to be."""
    return await called if inspect.isawaitable(called) else called


async def run_apart(code: str) -> None:
    """Run a program in a process of its own, which has no other clients."""
    command = [sys.executable, "-c", code]
    run = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
