"""The event loop of the clients: one for the life of the process, in its own thread.

Spark calls from threads without a loop. With a loop for each call, gRPC might call back into one that is closed. And
with this one, the next batches arrive while the last ones are decoded."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from replog.common.buffers import tune_allocator
from replog.errors import ReplogError
from spark_jobs.records.options import NAMES

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    tune_allocator()  # batches come in messages of a MiB
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="replog-clients", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for the result of a coroutine; errors name options, not clients' arguments. Do not call it on a loop."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()
    except ReplogError as error:
        for argument, option in NAMES.items():
            error.message = error.message.replace(f"{argument}=", f"{option}=")
        raise
