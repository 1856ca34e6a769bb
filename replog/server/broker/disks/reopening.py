"""Replicas that are not there: perhaps a disk is not mounted. Those that failed on a disk that works are opened again
with a backoff, until they work (D57)."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from replog.common.backoff import Backoff
from replog.config.topic import topic_config
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import META_PROPERTIES
from replog.log.directories.log_directory import PlacedHere
from replog.log.directories.log_manager import LogManager
from replog.metadata.image import MetadataImage
from replog.server.broker.control.role_changes import RoleChanges
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.logging import log_each
from replog.server.work import in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

FIRST_MS, LAST_MS = 1000, 60_000  # the waits between tries


def check_known(directories: Sequence[Path], placed: Collection[TopicPartition], *, required: bool) -> None:
    """Warn of each directory without an identity, if others have one or the cluster has `placed` replicas on this
    broker. Raises INVALID_CONFIG instead if identities are `required`."""
    names = dict[Path, frozenset[str]]()
    for directory in directories:
        with suppress(OSError):  # a disk that fails goes offline when it is loaded (CT-27)
            names[directory] = frozenset(os.listdir(directory) if directory.exists() else ())
    unknown = [directory for directory in names if META_PROPERTIES not in names[directory]]
    if not placed and len(unknown) == len(names):
        return
    present = {name for each in names.values() for name in each}
    missing = sum(tp.directory_name not in present for tp in placed)
    for directory in unknown:
        what = f"{directory} is empty, and the cluster places {missing} replicas on it; is its disk mounted?"
        if required:
            raise ErrorCode.INVALID_CONFIG.error(f"{what} To begin with an empty one, set log.dirs.require.known=false")
        log.warning("log directory is new", directory=str(directory), reason=what)


def missing_replicas(image: MetadataImage, broker_id: int, logs: LogManager) -> Mapping[bytes, Sequence[int]]:
    """Return, by topic id, the partitions that are placed on this broker and are in none of its log directories.

    Returns nothing while a log directory is offline, which may have them, and no replicas that cannot be loaded."""
    missing: defaultdict[bytes, list[int]] = defaultdict(list)
    for tp in () if logs.offline else image.index.on_broker(broker_id):
        topic = image.topics.get(tp.topic)
        if topic is not None and logs.topic_id(tp) != topic.topic_id and tp not in logs.failed:
            missing[topic.topic_id].append(tp.partition)
    if missing:
        log.warning(
            "replicas that the cluster places here are not on the disks; they will be copied",
            count=sum(map(len, missing.values())),
            log_dirs=[str(directory.path) for directory in logs.directories],
            remedy="if a disk is not mounted, stop this broker, mount it, and start it again",
        )
    return missing


@dataclass(eq=False)
class Reopening:
    """Opens failed replicas again while the broker runs."""

    _image: MetadataImage
    _replicas: HostedReplicas
    _logs: LogManager
    _roles: RoleChanges
    _placed: PlacedHere
    _backoff: Backoff

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._backoff.next_s())
            if not await self._try_all():
                self._backoff.reset()

    async def _try_all(self) -> bool:
        """Try each failed replica once. Return True if one still fails."""
        lost = [tp for tp, _ in self._replicas.lost() if self._logs.reopening(tp) is not None]
        back, left = list[dict[str, object]](), list[dict[str, object]]()
        for tp in lost:
            try:
                if await self.reopen(tp):
                    back.append({"partition": str(tp)})
            except ReplogError as error:
                left.append({"partition": str(tp), "reason": error.message})
        log_each(log.info, "replica works again", back)
        log_each(log.warning, "replica still offline", left)
        return len(back) < len(lost)

    async def reopen(self, tp: TopicPartition) -> bool:
        """Return False while the cluster still counts on the replica: its files may have lost committed records. Raises
        ReplogError while the cause lasts."""
        async with self._roles.turn:
            directory = self._logs.reopening(tp)
            if tp not in self._image.partitions or directory is None or self._replicas.is_counted_on(tp):
                return False
            config = topic_config(tp.topic, self._image.topics[tp.topic].configs)
            opened = await in_thread(partial(directory.reopen, tp, config, self._placed, _report))
            if opened is None and self._replicas.is_remembered(tp):
                self._replicas.gone.add(tp)  # created again now, an election could take it for the complete one
                return False
            directory.reopened(tp, opened)
            try:
                await in_thread(directory.checkpoints.write_all)
            except ReplogError:
                if opened is not None:
                    opened.log.abandon()
                raise
            self._replicas.forget_lost(tp)
            await self._roles.again([tp])
        return True


def _report(line: str) -> None:
    log.info("loading a replica again", progress=line)
