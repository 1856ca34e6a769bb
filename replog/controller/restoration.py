"""Metadata from an older copy, or none, and from the log directories of brokers. Pure.

Records may have been acknowledged since the copy, so nobody may lead by it alone: they would be lost (docs/backup.md).
The replicas know more: their topic ids, leader epochs and log ends. A committed record is in every in-sync replica. So
the replica whose last record has the highest leader epoch, and of those the longest, has every record that any of them
had committed. Only it and its equals may lead first.

Nothing is deleted before the operator says so: the settings of a copy may be old, and those of a topic in no copy are
not known. Otherwise brokers would delete records by them within minutes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from replog.config.properties import MAX_LONG
from replog.config.topic import topic_config
from replog.controller.broker_events import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_LEADER, PartitionState, Topic
from replog.topic import TopicPartition

LEADER_EPOCHS_AHEAD = 1000  # beyond all that is known: perhaps nobody read the disk of the last leader
PARTITION_EPOCHS_AHEAD = 1 << 20  # beyond the copy's, for each restoration: no disk has partition epochs
PRODUCER_IDS_AHEAD = 1 << 32  # beyond all that is known: a producer that has written nothing is in no log
CLEANUP_POLICY = "cleanup.policy"
UNKNOWN = {MIN_INSYNC_REPLICAS: "2"}  # stored, as a new topic's: brokers and controllers must go by the same number


class Held(NamedTuple):
    """One replica in a log directory."""

    broker_id: int
    partition: TopicPartition
    topic_id: bytes
    last_epoch: int  # leader epoch of its last record; -1: it has none
    log_end_offset: int
    seen_epoch: int  # the highest leader epoch that it knows
    producer_id: int = -1  # the highest that has written to it; -1: none
    compacted: bool = False  # its files show that its topic is compacted
    metadata_version: int = 0  # the newest that its broker knows


class Restored(NamedTuple):
    """All metadata, as changes that are not numbered yet, and remarks on what is not known or is gone."""

    changes: list[Change]
    remarks: list[str]


def restored(copy: MetadataImage, held: Iterable[Held], read: Set[int], restorations: int = 0) -> Restored:
    """Return the metadata that follow from `copy`, empty if there is none, and from all replicas on the brokers `read`.

    `restorations` is the number of earlier ones; the copy may be older than they. No broker is registered: each that
    comes counts as stopped uncleanly. No partition has a leader until a broker comes that may lead it."""
    replicas = list(held)
    restoration = _Restoration(copy, read, restorations)
    topics = restoration.topics(replicas)
    by_topic: dict[str, dict[TopicPartition, list[Held]]] = defaultdict(lambda: defaultdict(list))
    for replica in replicas:
        topic = topics.get(replica.partition.topic)
        if topic is not None and topic.topic_id == replica.topic_id:
            by_topic[topic.name][replica.partition].append(replica)
    changes = [Change("cluster", None, copy.cluster_id)] if copy.cluster_id else []
    changes += [Change("broker_config", broker, configs) for broker, configs in copy.broker_configs.items()]
    changes += [Change("client_quota", user, quota) for user, quota in copy.client_quotas.items()]
    changes += [Change("acl", acl_id, acl) for acl_id, acl in copy.acls.by_id.items()]
    for name, topic in sorted(topics.items()):
        changes.append(Change("topic", name, topic))
        changes += restoration.partitions(topic, by_topic[name])
    highest = max([copy.next_producer_id - 1, *(replica.producer_id for replica in replicas)])
    changes.append(Change("producer_ids", None, highest + 1 + PRODUCER_IDS_AHEAD))
    return Restored(changes, restoration.remarks)


class _Restoration:
    def __init__(self, copy: MetadataImage, read: Set[int], restorations: int) -> None:
        self.remarks: list[str] = []
        self._copy = copy
        self._read = read
        self._compacted: set[bytes] = set()  # topic ids
        # Perhaps no disk shows the epochs of the last restoration; a second leader of such an epoch would lose records.
        self._least_leader_epoch = (restorations + 1) * LEADER_EPOCHS_AHEAD
        self._least_partition_epoch = (restorations + 1) * PARTITION_EPOCHS_AHEAD

    def topics(self, replicas: Iterable[Held]) -> dict[str, Topic]:
        """Return the topic that each name stands for now."""
        versions: dict[str, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
        for replica in replicas:
            versions[replica.partition.topic][replica.topic_id].append(replica.metadata_version)
            if replica.compacted:
                self._compacted.add(replica.topic_id)
        topics = {name: self._topic(name, ids) for name, ids in versions.items() if not self._is_deleted(name, ids)}
        for name, topic in self._copy.topics.items():
            if name in topics:
                continue
            states = (self._copy.partitions[tp] for tp in self._copy.index.of_topic(name))
            if {broker_id for state in states for broker_id in state.replicas} - self._read:
                topics[name] = self._holding_back(topic)
            else:
                self.remarks.append(f"topic {name} of the copy is on no disk: it was deleted since, and is left out")
        return topics

    def _is_deleted(self, name: str, found: Mapping[bytes, Sequence[int]]) -> bool:
        """Return True if the topic was deleted before the copy: every broker that has it knows only older metadata."""
        versions = [version for versions in found.values() for version in versions]
        if name in self._copy.topics or min(versions) == 0 or max(versions) > self._copy.version:
            return False
        self.remarks.append(f"topic {name} was deleted before the copy: it is left out, and brokers keep it as stray")
        return True

    def _topic(self, name: str, found: Mapping[bytes, Sequence[int]]) -> Topic:
        """Return the topic that the newest metadata name, the copy's or those of a broker that has a replica. A broker
        that was down while a topic was made again still has the old one."""
        known = self._copy.topics.get(name)
        known_id = known.topic_id if known is not None else None
        newer = {topic_id: versions for topic_id, versions in found.items() if topic_id != known_id}
        topic_id = max(found, key=lambda each: (max(found[each]), len(found[each]), each in newer, each))
        if known_id is not None and max(map(max, newer.values()), default=0) <= self._copy.version:
            topic_id = known_id
        if others := newer.keys() - {topic_id}:
            self.remarks.append(
                f"topic {name} was made more than once: {len(others) + 1} topic ids are on the disks or in the copy; "
                "the one of the newest metadata is taken, and brokers keep the others as stray"
            )
        if known is None:
            compacted = topic_id in self._compacted
            configs = as_on_disk(UNKNOWN, compacted=compacted)
            held_back = holding_back(name, configs)
            self.remarks.append(
                f"topic {name} is {'younger than the' if self._copy.version else 'in no'} copy: its settings are not "
                f"known. {'It is compacted, by what is on the disks. ' if compacted else ''}Defaults count, except "
                f"that nothing is deleted until you say so: {alter_command(name, configs, held_back)}"
            )
            return Topic(name, topic_id, configs | held_back)
        if topic_id == known_id:
            return self._holding_back(known)
        self.remarks.append(f"topic {name} was deleted and made again since the copy: its settings may be others")
        return self._holding_back(
            Topic(name, topic_id, as_on_disk(known.configs, compacted=topic_id in self._compacted))
        )

    def _holding_back(self, topic: Topic) -> Topic:
        held_back = holding_back(topic.name, topic.configs)
        if held_back:
            self.remarks.append(
                f"topic {topic.name}: nothing is deleted until you say so, as the copy may be older than its settings. "
                f"To go by the copy: {alter_command(topic.name, topic.configs, held_back)}"
            )
        return replace(topic, configs={**topic.configs, **held_back})

    def partitions(self, topic: Topic, held: Mapping[TopicPartition, Collection[Held]]) -> Iterable[Change]:
        known = self._copy.topics.get(topic.name)
        states: dict[TopicPartition, PartitionState] = {}
        if known is not None and known.topic_id == topic.topic_id:
            states = {tp: self._copy.partitions[tp] for tp in self._copy.index.of_topic(topic.name)}
        count = 1 + max(tp.partition for tp in [*states, *held])
        factor = max([*(len(state.replicas) for state in states.values()), *map(len, held.values())])
        for number in range(count):
            tp = TopicPartition(topic.name, number)
            state = self._partition(tp, states.get(tp), held.get(tp, ()), factor)
            yield Change("partition", tp, state, topic.topic_id)

    def _partition(
        self, tp: TopicPartition, known: PartitionState | None, held: Collection[Held], factor: int
    ) -> PartitionState:
        """Return the partition's state; it has `factor` replicas if the copy does not say."""
        holders = {replica.broker_id for replica in held}
        if known is not None:
            replicas = self._placed(known.replicas, holders)
        else:
            replicas = self._filled(tp, tuple(sorted(holders)), factor)
        unread = tuple(broker_id for broker_id in replicas if broker_id not in self._read)
        without = {*known.isr, *known.elr} & self._read - holders if known is not None else set()
        if without:
            self.remarks.append(
                f"{tp}: by the copy {brokers_named(without)} had all of it, and there is none in the directories "
                "named: if one of theirs was left out, name it, too"
            )
        best = max(((replica.last_epoch, replica.log_end_offset) for replica in held), default=None)
        if best is not None:
            candidates = {r.broker_id for r in held if (r.last_epoch, r.log_end_offset) == best}
            if unread:
                self.remarks.append(
                    f"{tp}: what only {brokers_named(unread)} had is lost, and is cut off there, too, if it comes "
                    "back: it was not read"
                )
        elif unread and known is not None:
            candidates = set(unread) & {*known.isr, *known.elr} or set(unread)
            self.remarks.append(
                f"{tp}: only {brokers_named(candidates)} may have it: it has no leader until that comes"
            )
        else:
            candidates = set(replicas)
            self.remarks.append(f"{tp}: no replica of it is on any disk: it begins empty, on {brokers_named(replicas)}")
        epochs = [replica.seen_epoch for replica in held]
        candidates_in_order = tuple(broker_id for broker_id in replicas if broker_id in candidates)
        leader_epoch, partition_epoch = (0, 0) if known is None else (known.leader_epoch, known.partition_epoch)
        return PartitionState(
            replicas=replicas,
            isr=(),
            leader=NO_LEADER,
            leader_epoch=max(self._least_leader_epoch, max([leader_epoch, *epochs]) + LEADER_EPOCHS_AHEAD),
            partition_epoch=max(self._least_partition_epoch, partition_epoch + PARTITION_EPOCHS_AHEAD),
            elr=candidates_in_order,
            last_known_leader=candidates_in_order[0],
        )

    def _filled(self, tp: TopicPartition, holders: tuple[int, ...], factor: int) -> tuple[int, ...]:
        """Return the holders, and other brokers up to `factor`: a disk that was lost may have had it."""
        others = sorted(self._read - set(holders))
        first = tp.partition % max(len(others), 1)  # otherwise the first brokers would get every partition
        added = (*others[first:], *others[:first])[: factor - len(holders)]
        if holders and added:
            self.remarks.append(
                f"{tp}: only {brokers_named(holders)} had it, and others of its topic have {factor} replicas: it comes "
                f"to {brokers_named(added)}, too"
            )
        return (*holders, *added)

    def _placed(self, known: tuple[int, ...], holders: Set[int]) -> tuple[int, ...]:
        """Return as many replicas as there were, in the known order: those that hold it or were not read, new holders,
        then those that lost it."""
        stay = [broker_id for broker_id in known if broker_id in holders or broker_id not in self._read]
        new = sorted(holders - set(known))
        lost = [broker_id for broker_id in known if broker_id not in stay]
        missing = max(0, len(known) - len(stay) - len(new))
        return (*stay, *new, *lost[:missing])


def brokers_named(ids: Iterable[int]) -> str:
    names = [str(broker_id) for broker_id in sorted(ids)]
    return f"broker{'s' if len(names) > 1 else ''} {', '.join(names)}"


def as_on_disk(configs: Mapping[str, str], *, compacted: bool) -> dict[str, str]:
    """Return the settings with a cleanup.policy that fits the files: those of a compacted topic have holes (CL-8)."""
    if topic_config("", configs).compacted == compacted:
        return dict(configs)
    others = {name: value for name, value in configs.items() if name != CLEANUP_POLICY}
    return others | {CLEANUP_POLICY: "compact"} if compacted else others


def holding_back(topic: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Return the settings beside `configs` without which records would be deleted or cleaned away, or lost because the
    first broker that comes is elected uncleanly."""
    config = topic_config(topic, configs)
    wanted: dict[str, str] = {}
    if config.deletes_by_retention:
        wanted |= {"retention.ms": "-1", "retention.bytes": "-1"}
    if config.compacted:
        wanted["min.compaction.lag.ms"] = str(MAX_LONG)
    wanted[UNCLEAN_LEADER_ELECTION] = "false"
    safe = topic_config(topic, {**configs, **wanted})
    fields = {name: name.replace(".", "_") for name in wanted}
    return {
        name: value for name, value in wanted.items() if getattr(safe, fields[name]) != getattr(config, fields[name])
    }


def alter_command(topic: str, configs: Mapping[str, str], held_back: Iterable[str]) -> str:
    """Return the command that gives a topic back the settings that were held back."""
    words = (f"--config {name}={configs[name]}" if name in configs else f"--delete-config {name}" for name in held_back)
    return f"replog topic alter --topic {topic} {' '.join(words)}"
