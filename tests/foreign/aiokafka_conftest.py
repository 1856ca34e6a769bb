"""Takes the place of aiokafka's own `tests/conftest.py`, whose broker is in a container."""

import asyncio
import gc
import os

import pytest

KAFKA_VERSION = os.environ["KAFKA_VERSION"]
TEST_TIMEOUT_S = 60  # theirs is 120, which those that wait for what is not there would take


def pytest_configure(config):
    config.addinivalue_line("markers", "ssl: needs certificates of the container")


@pytest.fixture(scope="class")
def loop():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    if not loop.is_closed():
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request, loop):
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request, loop):
    host, _, port = os.environ["KAFKA_BROKER"].partition(":")
    request.cls.loop = loop
    request.cls.kafka_host, request.cls.kafka_port = host, int(port)
    request.cls.hosts = [f"{host}:{port}"]
    request.cls.kafka_version = KAFKA_VERSION
    request.cls.TEST_TIMEOUT = TEST_TIMEOUT_S
    for listener in ("kafka_ssl_port", "kafka_sasl_plain_port", "kafka_sasl_ssl_port"):
        setattr(request.cls, listener, 1)
    for helper in ("ssl_folder", "acl_manager", "kerberos_utils", "kafka_config"):
        setattr(request.cls, helper, None)


@pytest.fixture
def ssl_folder():
    pytest.skip("needs certificates of the container")
