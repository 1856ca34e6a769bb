"""The search for garbage looks at what is new, at everything now and then; a certificate's end is announced."""

import asyncio
import gc
import logging
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from replog.rpc.peer import Role
from replog.server import process
from tests.replog.rpc.secured import CLUSTER, NOW, Authority


class Ring:
    """Refers to itself, so that only the search finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def searching() -> Iterator[None]:
    usual = gc.get_threshold()
    process.search_what_is_new()
    yield
    gc.callbacks.pop()
    gc.set_threshold(*usual)
    gc.unfreeze()
    gc.collect()


@pytest.mark.usefixtures("searching")
def test_what_a_search_has_left_is_not_looked_at_again():
    ring = Ring()
    gc.collect()
    assert gc.get_freeze_count() > 1000, "with all that the tests have"
    assert not any(each is ring for each in gc.get_objects()), "which are those that a search looks at"
    gone = weakref.ref(ring)
    del ring
    gc.collect()
    assert gone() is not None


@pytest.mark.usefixtures("searching")
def test_new_garbage_is_found():
    gc.collect()
    gone = weakref.ref(Ring())
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("searching")
def test_everything_is_looked_at_when_much_has_come_since(monkeypatch):
    """So what hides among it is bounded."""
    monkeypatch.setattr(process, "UNSEEN", 5000)
    ring = Ring()
    gc.collect()
    gone = weakref.ref(ring)
    del ring
    kept = [Ring() for _ in range(5000)]
    gc.collect()
    assert gone() is not None
    gc.collect()
    assert gone() is None
    assert len(kept) == 5000


BROKER = [f"replog://{CLUSTER}/broker/1"]


async def test_a_process_warns_each_day_from_thirty_days_before_until_there_is_another(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(process, "DAY_S", 0.02)
    authority = Authority(tmp_path / "tls")
    keystore = tmp_path / "mine.pem"
    shutil.copy(authority.signs(BROKER, NOW + timedelta(days=20, hours=1)), keystore)
    tls = authority.shows(keystore)
    assert tls.material.ends == (NOW + timedelta(days=20, hours=1)).replace(microsecond=0)
    said = f"the certificate of {keystore} ends in 20 days"
    looking = asyncio.create_task(process.look_daily(tls))
    async with asyncio.timeout(60):
        while caplog.text.count(said) < 3:
            await asyncio.sleep(0.02)
        shutil.copy(authority.keystore(Role.BROKER, "1"), keystore)
        while "new certificates" not in caplog.text:
            await asyncio.sleep(0.02)
    looking.cancel()
    caplog.clear()
    tls.warn_of_end()
    assert not caplog.text


def test_one_that_has_ended_while_it_was_in_use_is_told_of(tmp_path, caplog):
    authority = Authority(tmp_path / "tls")
    tls = authority.shows(authority.signs(BROKER))
    assert "ends in 0 days" in caplog.text
    tls.material = replace(tls.material, ends=NOW - timedelta(minutes=1))
    tls.warn_of_end()
    assert "ended on 2" in caplog.text
