"""What a broker does on its own clock: ISR checks, checkpoints, retention, deletion of what is no longer needed."""

import asyncio
from collections.abc import Callable

import structlog
from replog.log.manager import LogManager

from cluster.broker.replica_manager import ReplicaManager
from replog.errors import ErrorCode, ReplogError

log = structlog.get_logger()

EXPIRED_FILES_INTERVAL_MS = 1000


class Housekeeping:
    """One task per chore. Fsyncs and deletions of files run off the loop; everything that reads a log's state on it."""

    def __init__(self, manager: ReplicaManager, logs: LogManager) -> None:
        self._manager = manager
        self._logs = logs

    async def run(self) -> None:
        """Until cancelled. A storage failure is reported as the broker's; any other defect ends the broker."""
        config, clock = self._manager.config, self._manager.clock
        chores: list[tuple[int, Callable[[], object]]] = [
            (config.replica_lag_time_max_ms // 2, self._manager.check_isrs),  # ISR-5
            (config.replica_high_watermark_checkpoint_interval_ms, self._logs.checkpoint_high_watermarks),  # HW-11
            (config.log_flush_offset_checkpoint_interval_ms, self._checkpoint),
            (config.log_retention_check_interval_ms, lambda: self._logs.enforce_retention(clock.wall_ms())),
            (EXPIRED_FILES_INTERVAL_MS, lambda: self._logs.delete_expired(clock.wall_ms())),
        ]
        async with asyncio.TaskGroup() as group:
            for interval_ms, chore in chores:
                group.create_task(self._every(interval_ms, chore))

    async def _every(self, interval_ms: int, chore: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                chore()
            except ReplogError as error:
                if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                self._manager.on_storage_error(error)

    def _checkpoint(self) -> None:
        self._logs.checkpoint_recovery_points()
        self._logs.checkpoint_log_starts()
