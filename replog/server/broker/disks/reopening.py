"""Replicas that failed on a disk that works are opened again with a backoff, until they work (D57)."""

import asyncio

import structlog

from replog.common.backoff import Backoff
from replog.errors import ReplogError
from replog.log.directories.log_directory import PlacedHere
from replog.log.directories.log_manager import LogManager
from replog.server.broker.control.role_changes import RoleChanges
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.logging import tell_each

log = structlog.get_logger()

FIRST_MS, LAST_MS = 1000, 60_000  # the waits between tries


class Reopening:
    """Opens failed replicas again while the broker runs."""

    def __init__(
        self, replicas: HostedReplicas, logs: LogManager, roles: RoleChanges, placed: PlacedHere, backoff: Backoff
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._roles = roles
        self._placed = placed
        self._backoff = backoff

    async def run(self) -> None:
        """Try until cancelled."""
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
                if await self._roles.reopen(tp, self._placed):
                    back.append({"partition": str(tp)})
            except ReplogError as error:
                left.append({"partition": str(tp), "reason": error.message})
        tell_each(log.info, "replica works again", back)
        tell_each(log.warning, "replica still offline", left)
        return len(back) < len(lost)
