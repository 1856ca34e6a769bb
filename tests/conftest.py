"""Tests that start processes, on several workers at once (`--dist loadfile`): they share a machine, and no more.

A file's tests stay together, for the cluster that they have in common; so do those that ask Apache Kafka. A worker has
one Spark at most, and no test stops it: what stops a Spark is tested in a process of its own.
"""

import gc
import logging
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
import structlog
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.cases import load_profile
from tests.replog.log.eviction import evicted_is_cold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["evicted_is_cold"]  # for tests of any package

TOGETHER = "tests/interop/"
LONGEST = (  # begun first: at the end each would keep one worker alone
    TOGETHER,
    "tests/replog/processes/test_chaos.py",
    "tests/replog/processes/test_upgrade.py",
    "tests/audit/test_wrong_replicas.py",
    "tests/audit/test_compacted.py",
    "tests/spark_jobs/test_command_line.py",
    "tests/replog/simulator/test_runs.py",
    "tests/replog/cli/test_bad_input.py",
    "tests/replog/local_cluster/test_local_cluster.py",
    "tests/docs/test_tour_secured.py",
    "tests/docs/test_tour.py",
    "tests/docs/test_readme.py",
    "tests/benchmarks/test_logs.py",
    "tests/replog/chaos/test_chaos_run.py",
    "tests/benchmarks/test_peers.py",
    "tests/replog/processes/test_older_store.py",
    "tests/replog/processes/test_restored_store.py",
    "tests/benchmarks/test_partitions.py",
    "tests/replog/processes/test_alerts.py",
    "tests/deploy/test_dockerfile.py",
)

load_profile()
# A shell that started us in the background ignores SIGINT, `nohup` SIGHUP; children would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class _ByFile(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if longest := next(filter(self.workqueue.__contains__, LONGEST), None):
            self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    return _ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is collected stays, so no search for garbage need look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Who takes `spark` is marked so, and what PySpark itself does is no error of ours."""
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(autouse=True)
def logs_as_usual() -> Iterator[None]:
    """A command that a test runs in this process decides what is logged, and where; not for the tests after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.setLevel(level)
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from spark_jobs.session import spark_session  # not for those who need no Spark: it takes a second

    session = spark_session("tests", "local[2]")
    yield session
    session.stop()
