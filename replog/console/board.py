"""The state that viewers see, kept once: each asks what is new since the last tick that it got. Pure.

Nothing is queued for a viewer. A slow one asks later, and gets the newest state of what changed meanwhile."""

import json
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from replog.client.descriptions import (
    PartitionChange,
    PartitionChanges,
    PartitionDescription,
    ReplicaDescription,
    TopicDescription,
)
from replog.topic import TopicPartition

CHANGES_OF_EACH = 20  # changes kept of a partition; the controller keeps as many
CHANGES_SHOWN = 200  # changes in the timeline of all partitions
EPOCHS_SHOWN = 12  # newest epochs of a replica's lineage


class _Row(NamedTuple):
    tick: int  # when it changed last
    text: str  # JSON


class Board:
    """Rows of partitions, and parts: other things that are sent whole when they change."""

    def __init__(self) -> None:
        self.tick = 0  # grows by one with every `publish` that has something new
        self._rows: OrderedDict[TopicPartition, _Row] = OrderedDict()  # newest tick last
        self._parts: dict[str, _Row] = {}
        self._described: dict[TopicPartition, tuple[PartitionDescription, dict[str, Any]]] = {}
        self._replicas: dict[int, Mapping[TopicPartition, ReplicaDescription]] = {}
        self._changes: dict[TopicPartition, deque[dict[str, Any]]] = {}
        self._newest: deque[tuple[int, dict[str, Any]]] = deque(maxlen=CHANGES_SHOWN)
        self._shrunk = 0  # the last tick that removed a partition: viewers from before it get everything again
        self._touched: dict[TopicPartition, None] = {}
        self._news = False

    def put_topics(self, topics: Iterable[TopicDescription]) -> None:
        """Take in all topics."""
        known = self._described
        self._described = {}
        for topic in topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.topic, partition.partition)
                least = topic.min_insync_replicas(partition)
                was = known.pop(tp, None)
                if was is None or was[0] != partition or was[1]["min"] != least:
                    self._touched[tp] = None
                    was = partition, _facts(topic, partition, least)
                self._described[tp] = was
        for tp in known:
            self._rows.pop(tp, None)
            self._changes.pop(tp, None)
            self._touched.pop(tp, None)
            self._shrunk, self._news = self.tick + 1, True

    def put_replicas(self, broker: int, replicas: Mapping[TopicPartition, ReplicaDescription]) -> None:
        """Take in all replicas of a broker; none if it does not answer."""
        known = self._replicas.get(broker, {})
        for tp in known.keys() | replicas.keys():
            if known.get(tp) != replicas.get(tp):
                self._touched[tp] = None
        self._replicas[broker] = replicas

    def keep_brokers(self, brokers: Iterable[int]) -> None:
        """Forget all other brokers."""
        for gone in self._replicas.keys() - set(brokers):
            self.put_replicas(gone, {})
            del self._replicas[gone]

    def put_changes(self, changes: PartitionChanges) -> None:
        """Take in the changes since the last call, oldest first."""
        for change in changes.changes:
            tp, words = change.partition, told(change)
            self._changes.setdefault(tp, deque(maxlen=CHANGES_OF_EACH)).append(words)
            self._newest.append((self.tick + 1, words))
            self._touched[tp] = None

    def put_part(self, name: str, value: Any) -> None:
        text = json.dumps(value, separators=(",", ":"))
        if name not in self._parts or self._parts[name].text != text:
            self._parts[name] = _Row(self.tick + 1, text)
            self._news = True

    def publish(self) -> bool:
        """Make one tick of all that was put, and return True; False if nothing is new."""
        touched = [tp for tp in self._touched if tp in self._described]
        self._touched.clear()
        if not touched and not self._news:
            return False
        self.tick += 1
        self._news = False
        for tp in touched:
            self._rows[tp] = _Row(self.tick, json.dumps(self._row(tp), separators=(",", ":")))
            self._rows.move_to_end(tp)
        return True

    def since(self, tick: int) -> str:
        """Return as JSON what is new since `tick`; with `"all": true` everything."""
        everything = tick < self._shrunk or tick == 0
        tick = 0 if everything else tick
        rows = []
        for row in reversed(self._rows.values()):
            if row.tick <= tick:
                break
            rows.append(row.text)
        parts = [f'"{name}":{part.text}' for name, part in self._parts.items() if part.tick > tick]
        changes = json.dumps([words for at, words in self._newest if at > tick], separators=(",", ":"))
        all_ = json.dumps(everything)
        return (
            f'{{"tick":{self.tick},"all":{all_},"parts":{{{",".join(parts)}}},"changes":{changes},'
            f'"rows":[{",".join(rows)}]}}'
        )

    def detail(self, tp: TopicPartition) -> dict[str, Any] | None:
        """Return a partition's changes, and the epochs of its replicas side by side; None if it is not known."""
        if tp not in self._described:
            return None
        lineage = {
            broker: replicas[tp].epochs[-EPOCHS_SHOWN:]
            for broker, replicas in sorted(self._replicas.items())
            if tp in replicas
        }
        return {"changes": list(self._changes.get(tp, ())), "lineage": lineage}

    def _row(self, tp: TopicPartition) -> dict[str, Any]:
        partition, facts = self._described[tp]
        offsets = {}
        for broker in partition.replicas:
            replica = self._replicas.get(broker, {}).get(tp)
            if replica is not None:
                offsets[broker] = (replica.log_start_offset, replica.high_watermark, replica.log_end_offset)
        changes = self._changes.get(tp)
        return {**facts, "offsets": offsets, "last": changes[-1] if changes else None}


def _facts(topic: TopicDescription, partition: PartitionDescription, least: int) -> dict[str, Any]:
    return {
        "key": str(TopicPartition(topic.topic, partition.partition)),
        "topic": topic.topic,
        "partition": partition.partition,
        "state": state_of(topic, partition),
        "leader": partition.leader,
        "epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "elr": partition.elr,
        "adding": partition.adding_replicas,
        "removing": partition.removing_replicas,
        "min": least,
    }


def state_of(topic: TopicDescription, partition: PartitionDescription) -> str:
    """Return the worst state that is true of the partition."""
    if partition.leader < 0:
        return "offline"
    if len(partition.isr) < topic.min_insync_replicas(partition):
        return "below min"
    if partition.out_of_sync:
        return "out of sync"
    if partition.adding_replicas or partition.removing_replicas:
        return "moving"
    return "in sync" if partition.leader == partition.replicas[0] else "not preferred"


def told(change: PartitionChange) -> dict[str, Any]:
    """Return a change for the page: when, of which partition, why, and what it did, in words."""
    before, after = change.before, change.after
    did: list[tuple[str, str]] = []
    if after.leader != before.leader:
        leader = "no leader" if after.leader < 0 else f"leader {after.leader}"
        former = "" if before.leader < 0 else f", before it {before.leader}"
        did.append(("fault" if after.leader < 0 else "election", leader + former))
    elif after.leader_epoch != before.leader_epoch:
        did.append(("election", f"leader {after.leader} again, in epoch {after.leader_epoch}"))
    if after.recovering and not before.recovering:
        did.append(("fault", "an unclean election: committed records may be lost"))
    for word, old, new in (("in sync", before.isr, after.isr), ("eligible to lead", before.elr, after.elr)):
        left, joined = sorted(set(old) - set(new)), sorted(set(new) - set(old))
        kind = "isr" if joined or word != "in sync" else "fault"
        if left or joined:
            did.append(
                (kind, " ".join([word, *(f"−{broker}" for broker in left), *(f"+{broker}" for broker in joined)]))
            )
    if after.reassigning and (after.adding, after.removing) != (before.adding, before.removing):
        ways = [*(f"+{broker}" for broker in after.adding), *(f"−{broker}" for broker in after.removing)]
        did.append(("move", " ".join(["moving", *ways])))
    elif before.reassigning and not after.reassigning:
        did.append(("move", f"moved: replicas {','.join(map(str, after.replicas))}"))
    return {
        "version": change.version,
        "at": change.at_ms,
        "key": str(change.partition),
        "why": change.reason,
        "did": did or [("isr", "another partition epoch")],
    }
