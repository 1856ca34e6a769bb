"""One timer for many deadlines: each passes, in order, unless it was dropped."""

import asyncio

from replog.rpc.http2.shells.deadlines import Deadlines


async def test_deadlines_pass_in_their_order_except_those_that_were_dropped(monkeypatch):
    deadlines, passed, last = Deadlines(), [], asyncio.Event()
    loop = asyncio.get_running_loop()
    now = loop.time() - 0.02
    monkeypatch.setattr(loop, "time", lambda: now)  # all are set at one time, and two have passed at the first look
    deadlines.set("second", 0.02, passed.append)
    deadlines.set("first", 0.01, passed.append)
    deadlines.set("dropped", 0.005, passed.append)
    deadlines.set("last", 0.03, lambda _: last.set())
    deadlines.drop("dropped")
    monkeypatch.undo()
    async with asyncio.timeout(60):
        await last.wait()
    assert passed == ["first", "second"]


async def test_one_that_passes_may_drop_another_and_set_a_new_one():
    deadlines, passed, last = Deadlines(), [], asyncio.Event()

    asyncio.get_running_loop().set_exception_handler(lambda _, wrong: passed.append(wrong))

    def first(what: str) -> None:
        passed.append(what)
        deadlines.drop("second")
        deadlines.set("last", 0, lambda _: last.set())

    deadlines.set("first", 0, first)
    deadlines.set("second", 0, passed.append)
    async with asyncio.timeout(60):
        await last.wait()
    assert passed == ["first"]


async def test_none_passes_after_the_end():
    deadlines, passed = Deadlines(), []
    deadlines.set("late", 0, passed.append)
    deadlines.stop()
    await asyncio.sleep(0.01)
    assert passed == []
