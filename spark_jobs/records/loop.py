"""The event loop that clients run on: one for the life of the process, in a thread of its own.

Spark calls from threads without a loop. A loop for each call would not do: gRPC may still have news of a channel when
the loop that it was opened on is closed. And so the next batches arrive while the last ones are decoded.
"""

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from replog.errors import ReplogError
from replog.rpc.allocator import tune_allocator
from spark_jobs.records.options import NAMES

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    tune_allocator()  # batches come in messages of a MiB
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="replog-clients", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Its result, waiting for it; errors name options, not arguments of clients. Not to be called on an event loop."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()
    except ReplogError as error:
        for argument, option in NAMES.items():
            error.message = error.message.replace(f"{argument}=", f"{option}=")
        raise
