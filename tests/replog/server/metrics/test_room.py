"""How much room there is on disks, also on one that hangs."""

import asyncio
import shutil
import threading

from replog.server.metrics import room
from replog.server.metrics.room import Room


def by_directory(families):
    return {(sample.name, sample.labels["directory"]): sample.value for f in families for sample in f.samples}


async def test_each_directory_has_its_size_and_what_is_free(tmp_path):
    shown = by_directory(await Room().families([tmp_path, tmp_path / "gone"]))
    assert set(shown) == {(f"replog_directory_{what}_bytes", str(tmp_path)) for what in ("free", "size")}
    size = shown["replog_directory_size_bytes", str(tmp_path)]
    assert size == shutil.disk_usage(tmp_path).total
    assert 0 < shown["replog_directory_free_bytes", str(tmp_path)] < size


async def test_a_disk_that_hangs_is_not_shown_and_takes_one_thread(tmp_path, monkeypatch):
    asked, answers = [], threading.Event()
    real = shutil.disk_usage

    def hangs(path):
        asked.append(path)
        answers.wait(60)
        return real(path)

    monkeypatch.setattr(room, "ANSWER_S", 0.1)
    monkeypatch.setattr(shutil, "disk_usage", hangs)
    disks = Room()
    try:
        for _ in range(3):
            assert by_directory(await disks.families([tmp_path])) == {}
        assert len(asked) == 1
    finally:
        answers.set()
    async with asyncio.timeout(60):
        while not by_directory(await disks.families([tmp_path])):
            await asyncio.sleep(0.01)
