"""Waiting for a replica that moves to another log directory, and showing how far it has got."""

import asyncio

from cluster.cli.progress import status
from replog.client import Admin
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

LOOK_EVERY_S = 0.5


async def wait_for(admin: Admin, tp: TopicPartition, broker_id: int, log_dir: str, timeout_s: float) -> None:
    """Until the broker's replica of `tp` is in `log_dir`.

    Raises REQUEST_TIMED_OUT, the move going on; INVALID_REQUEST when somebody has called it off or redirected it.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    with status() as show:
        while True:
            directories = (await admin.describe_log_dirs([broker_id], [tp.topic]))[broker_id]
            replicas = [(found.log_dir, info) for found in directories for which, info in found.replicas if which == tp]
            copies = [info for _, info in replicas if info.is_future]
            if not copies:
                break
            if asyncio.get_running_loop().time() > deadline:
                raise ReplogError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{tp} still moves after {timeout_s:g} s, and goes on; see replog partition log-dirs",
                )
            show(f"{tp}: {copies[0].offset_lag:,} records to go")
            await asyncio.sleep(LOOK_EVERY_S)
    places = [place for place, _ in replicas]
    if places != [log_dir]:
        raise ReplogError(
            ErrorCode.INVALID_REQUEST,
            f"{tp} is in {', '.join(places) or 'no directory'} and moves no more: the move was called off",
        )
