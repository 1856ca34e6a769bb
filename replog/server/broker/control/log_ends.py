"""A broker's reports of its replicas: those that are missing, and the log ends of those without a leader (CT-29,
CT-30)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice

import structlog

from replog.log.directories.log_manager import LogManager
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_LEADER
from replog.rpc.limits import MAX_OFFLINE_PER_REQUEST
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.replicas.hosted_replicas import HostedReplicas

log = structlog.get_logger()


def missing_replicas(image: MetadataImage, broker_id: int, logs: LogManager) -> Mapping[bytes, Sequence[int]]:
    """Return, by topic id, the partitions that are placed on this broker and are in none of its log directories.

    Returns nothing while a log directory is offline, which may have them, and no replicas that cannot be loaded."""
    missing: defaultdict[bytes, list[int]] = defaultdict(list)
    for tp in () if logs.offline else image.index.on_broker(broker_id):
        topic_id = image.topics[tp.topic].topic_id
        if logs.topic_id(tp) != topic_id and tp not in logs.failed:
            missing[topic_id].append(tp.partition)
    if missing:
        log.warning(
            "replicas that the cluster places here are not on the disks; they will be copied",
            count=sum(map(len, missing.values())),
            log_dirs=[str(directory.path) for directory in logs.directories],
            remedy="if a disk is not mounted, stop this broker, mount it, and start it again",
        )
    return missing


class LogEnds:
    """Reports all replicas without a leader, some in each heartbeat, round after round."""

    def __init__(self, image: MetadataImage, replicas: HostedReplicas) -> None:
        self._image = image
        self._replicas = replicas
        self._told = 0  # replicas reported in this round

    def next(self) -> tuple[Sequence[pb.ReplicaLogEnd], bool]:
        """Return the reports for the next heartbeat, and True if this round has more."""
        leaderless = islice(self._image.index.led_by(NO_LEADER), self._told, None)
        looked_at = list(islice(leaderless, MAX_OFFLINE_PER_REQUEST))
        has_more = next(leaderless, None) is not None
        self._told = self._told + len(looked_at) if has_more else 0
        reports = []
        for tp in looked_at:
            hosted, epoch = self._replicas.hosted.get(tp), self._image.partitions[tp].leader_epoch
            if (topic_id := self._replicas.offline_id(tp)) is not None:
                it = pb.ReplicaLogEnd(topic_id=topic_id, partition=tp.partition, leader_epoch=epoch, is_offline=True)
                reports.append(it)
                continue
            if hosted is None or hosted.follower is None or hosted.leader_epoch != epoch:
                continue  # its role is not up to date: it may still take records from a leader
            end, last_epoch = hosted.log.log_end_offset, hosted.log.epochs.latest_epoch
            reports.append(
                pb.ReplicaLogEnd(
                    topic_id=hosted.topic_id,
                    partition=tp.partition,
                    leader_epoch=epoch,
                    last_epoch=-1 if last_epoch is None or end == 0 else last_epoch,
                    end_offset=end,
                )
            )
        return reports, has_more
