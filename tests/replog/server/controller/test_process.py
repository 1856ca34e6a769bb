"""The controller as a real process."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest

from replog.errors import ReplogError
from replog.local_cluster.ports import free_port
from replog.rpc import methods
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.controller.formatting import format_cluster

pytestmark = pytest.mark.processes


@contextmanager
def controller(*settings):
    override = [word for setting in settings for word in ("--override", setting)]
    command = [sys.executable, "-m", "replog.cli", "controller", *override]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_controller_that_waits_for_its_etcd_can_be_stopped():
    with controller("metadata.store=etcd", f"metadata.etcd.endpoints=127.0.0.1:{free_port([])}") as process:
        assert any("cannot follow the metadata in etcd" in line for line in process.stdout)
        process.terminate()
        assert process.wait(300) == 0, process.stdout.read()


async def register(address):
    channel = H2Transport().connect(address)
    request = pb.RegisterBrokerRequest(incarnation_id=b"i" * 16, address="h:1", previous_broker_epoch=-1)
    try:
        await channel.call(methods.Controller["register_broker"], request, 60.0)
    finally:
        await channel.close()


def test_a_controller_whose_store_was_taken_over_ends_with_a_clear_error(tmp_path):
    format_cluster(tmp_path)
    with controller(f"metadata.log.dir={tmp_path}", "listeners=127.0.0.1:0", "log.format=json") as process:
        address = next(json.loads(line)["address"] for line in process.stdout if "controller listening" in line)
        with sqlite3.connect(tmp_path / "metadata.sqlite") as usurper:
            usurper.execute("UPDATE metadata SET version = 9 WHERE key = 'cluster'")
        usurper.close()
        with pytest.raises(ReplogError, match="NOT_CONTROLLER"):
            asyncio.run(register(address))
        assert process.wait(300) == 1
        assert "version 9, not 2" in process.stdout.read()
