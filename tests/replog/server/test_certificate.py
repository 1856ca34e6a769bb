"""The end of a certificate is announced to a process that nobody starts again."""

import asyncio
import logging
import shutil
from dataclasses import replace
from datetime import timedelta

from replog.rpc.peer import Role
from replog.server import certificate
from tests.replog.rpc.secured import CLUSTER, NOW, Authority

BROKER = [f"replog://{CLUSTER}/broker/1"]


async def test_a_process_warns_each_day_from_thirty_days_before_until_there_is_another(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(certificate, "DAY_S", 0.02)
    authority = Authority(tmp_path / "tls")
    keystore = tmp_path / "mine.pem"
    shutil.copy(authority.signs(BROKER, NOW + timedelta(days=20, hours=1)), keystore)
    tls = authority.shows(keystore)
    assert tls.material.ends == (NOW + timedelta(days=20, hours=1)).replace(microsecond=0)
    said = f"the certificate of {keystore} ends in 20 days"
    async with asyncio.timeout(60), certificate.looked_at_daily(tls):
        while caplog.text.count(said) < 3:
            await asyncio.sleep(0.02)
        shutil.copy(authority.keystore(Role.BROKER, "1"), keystore)
        while "new certificates" not in caplog.text:
            await asyncio.sleep(0.02)
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
