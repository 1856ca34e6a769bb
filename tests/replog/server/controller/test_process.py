"""The controller as a real process."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from replog.errors import ReplogError
from replog.local_cluster.ports import free_port
from replog.rpc import methods
from replog.rpc.http2.shells.transport import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.controller.formatting import format_cluster

pytestmark = pytest.mark.processes

SCRIPT = """
import asyncio, sys
from pathlib import Path
from replog.server.controller.process import run_controller
from replog.config.processes import ControllerConfig
from replog.errors import ReplogError
from replog.server.slow_steps import SlowSteps
config = ControllerConfig.parse({"metadata.log.dir": sys.argv[1], "listeners": "127.0.0.1:0"}, "test")
try:
    asyncio.run(run_controller(config, lambda: config, SlowSteps(), lambda address: print(address, flush=True)))
except ReplogError as error:
    sys.exit(str(error))"""


def test_a_controller_that_waits_for_its_etcd_can_be_stopped(tmp_path):
    command = [sys.executable, "-m", "replog.cli", "controller", "--override", "metadata.store=etcd"]
    command += ["--override", f"metadata.etcd.endpoints=127.0.0.1:{free_port([])}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert any("cannot follow the metadata in etcd" in line for line in process.stdout)
            process.terminate()
            assert process.wait(300) == 0, process.stdout.read()
        finally:
            process.kill()


@pytest.fixture
def start(tmp_path):
    format_cluster(tmp_path / "metadata")
    started = []

    def launch():
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "metadata")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill()
        process.communicate()


def address_of(process):
    """The first line that is not a log line."""
    for line in process.stdout:
        if line.startswith("127.0.0.1:"):
            return line.strip()
    raise AssertionError(process.stderr.read())


async def register(address, broker_id):
    channel = H2Transport().connect(address)
    try:
        request = pb.RegisterBrokerRequest(
            broker_id=broker_id, incarnation_id=os.urandom(16), address="h:1", previous_broker_epoch=-1
        )
        return await channel.call(methods.Controller["register_broker"], request, 60.0)
    finally:
        await channel.close()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_told_to_stop_and_exits_cleanly_though_somebody_watches(start, stop):
    process = start()
    address = address_of(process)

    async def watch_and_stop():
        channel = H2Transport().connect(address)
        watch = channel.watch(methods.Controller["watch_metadata"], pb.WatchMetadataRequest())
        assert (await asyncio.wait_for(anext(watch), 60)).version == 2
        process.send_signal(stop)
        with pytest.raises((StopAsyncIteration, ReplogError)):
            while True:
                await asyncio.wait_for(anext(watch), 60)
        await channel.close()

    asyncio.run(watch_and_stop())
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def test_a_killed_controller_comes_back_with_everything_it_had_answered(start):
    process = start()
    first = asyncio.run(register(address_of(process), 1))
    process.kill()
    process.wait(300)
    second = asyncio.run(register(address_of(start()), 2))
    assert second.cluster_id == first.cluster_id
    assert second.broker_epoch == first.broker_epoch + 2, "and a history of its own"


def test_a_controller_whose_store_was_taken_over_ends_with_a_clear_error(start, tmp_path):
    process = start()
    address = address_of(process)
    with sqlite3.connect(tmp_path / "metadata" / "metadata.sqlite") as usurper:
        usurper.execute("UPDATE metadata SET version = 9 WHERE key = 'cluster'")
    usurper.close()
    with pytest.raises(ReplogError, match="NOT_CONTROLLER"):
        asyncio.run(register(address, 1))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "version 9, not 2" in errors
