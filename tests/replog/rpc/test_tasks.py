"""Tasks that nobody waits for: what ends them is heard of, unless it may be missed."""

import asyncio
import gc
from typing import Any

from replog.rpc.tasks import for_good, may_fail_unheard


async def fail() -> None:
    raise ZeroDivisionError("a defect")


async def test_what_ends_work_that_should_go_on_is_logged_at_once_and_a_cancellation_is_not(caplog):
    task = for_good(fail(), "sweep")
    await asyncio.wait([task])
    assert "sweep: this goes on no more" in caplog.text
    assert "ZeroDivisionError: a defect" in caplog.text
    caplog.clear()
    task = for_good(asyncio.sleep(60), "rest")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert not caplog.text


async def test_what_may_be_missed_is_no_complaint():
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    await asyncio.wait([may_fail_unheard(fail())])
    gc.collect()
    assert not complaints
