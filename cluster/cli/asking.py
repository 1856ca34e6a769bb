"""One question to the cluster's admin client."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cluster.cli.options import bootstrap_server

T = TypeVar("T")


def ask(bootstrap: str | None, question: Callable[[Any], Awaitable[T]]) -> T:
    """The answer of `question(admin)`."""
    import asyncio

    from cluster import logging
    from cluster.cli.topics import ADMIN_TIMEOUT_MS
    from replog.client import Admin

    logging.configure(30)

    async def run() -> T:
        async with Admin(bootstrap_server(bootstrap), timeout_ms=ADMIN_TIMEOUT_MS) as admin:
            return await question(admin)

    return asyncio.run(run())
