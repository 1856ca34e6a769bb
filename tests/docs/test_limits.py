"""Every limit in the docs is in the code, and a test that is there reaches it; and every limit is in the docs."""

import re

import pytest

from replog.config import MAX_BATCH_BYTES
from replog.rpc.limits import LIMITS, MIB
from replog.topic import MAX_CLUSTER_PARTITIONS, MAX_PARTITIONS
from tests.docs.tree import ROOT
from tests.replog.processes.test_descriptors import DESCRIPTORS, PARTITIONS

LIMITS_MD = (ROOT / "docs/limits.md").read_text()
DIVERGENCES_MD = (ROOT / "docs/divergences.md").read_text()
SERVERS = (
    *("replog/*.py", "replog/log/**/*.py", "replog/metadata/*.py", "replog/rpc/**/*.py", "replog/purgatory/*.py"),
    *("leader/*.py", "follower/*.py", "replog/controller/*.py", "replog/server/**/*.py"),
)
BOUND = re.compile(r"^(MAX_\w+|MOST\w*|\w*AT_ONCE|LOT|LISTED_\w+|DELTA_\w+) ?[:=]", re.M)
NOBODYS = {  # that no client, broker or operator can reach
    "MAX_PROPOSALS",  # of a leader's own requests,
    "MAX_NAMED",  # and of a follower's
    "MAX_SILENCE_MS",  # a time
    "MAX_SHOWN",  # of a name in a message
    "MAX_ANSWER_BYTES",  # of what servers make: larger than any answer
    *("MAX_SENT_FRAME", "MAX_PIECES"),  # of what they write at once
    # of formats, and of what holds their numbers
    *("MAX_INT", "MAX_LONG", "MAX_PARTITION", "MAX_OFFSET", "MAX_BASE_OFFSET", "MAX_RELATIVE_OFFSET", "MAX_TIMESTAMP"),
    *("MAX_SEQUENCE", "MAX_PRODUCER_ID", "MAX_CODEC", "MAX_LOG_BYTES", "MAX_FILE_NAME"),
    *("MAX_WINDOW", "MAX_HEADER_LIST_SIZE"),
    "MAX_BATCHES",  # that are remembered of a producer (PS-1)
}
ROWS = re.findall(r"^\| (.+?) \| .+ \| `([\w/.]+)` `(\w+)` \| `([\w/.]+)` `(\w+)` \|$", LIMITS_MD, re.M)
RUN = re.findall(r"^\| ([^|]+) \| ([\d.,]+)(?: MiB)? \| [^|]*`([\w/]+\.py)`[^|]* \|$", LIMITS_MD, re.M)


def test_every_line_of_the_tables_was_read():
    lines = [line for line in LIMITS_MD.splitlines() if line.startswith("| ")]
    tables = len(re.findall(r"^\|---", LIMITS_MD, re.M))
    assert len(ROWS) + len(RUN) == len(lines) - tables > 10


@pytest.mark.parametrize(("limit", "path", "name", "test_path", "test"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_limit_and_its_test_exist(limit, path, name, test_path, test):
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), f"{path} does not know {name}: {limit}"
    assert f"def {test}(" in (ROOT / test_path).read_text(), f"{test_path} has no {test}: {limit}"


def test_no_bound_of_a_broker_or_a_controller_is_without_a_line():
    bounds = {
        (str(path.relative_to(ROOT)), name)
        for pattern in SERVERS
        for path in ROOT.glob(pattern)
        for name in BOUND.findall(path.read_text())
    }
    assert len(bounds) > 80
    told = {(path, name) for _, path, name, _, _ in ROWS}
    assert {bound for bound in bounds - told if bound[1] not in NOBODYS} == set()


def test_a_limit_that_is_a_divergence_too_is_the_same_there():
    (topics, cluster) = re.findall(
        r"A topic has at most ([\d,]+) partitions, .+, and a cluster ([\d,]+)\.", DIVERGENCES_MD
    )[0]
    assert (topics, cluster) == (f"{MAX_PARTITIONS:,}", f"{MAX_CLUSTER_PARTITIONS:,}")


def test_what_is_said_to_have_been_run_is_what_is_run():
    """As far as that can be read: numbers are in the file, or follow from limits that the test there reaches."""
    numbers = {path: [number.replace(",", "") for _, number, where in RUN if where == path] for _, _, path in RUN}
    clients = [str(LIMITS[method].calls) for method in ("Log/Produce", "Log/Fetch")]
    assert numbers.pop("tests/replog/processes/test_many_clients.py") == [*clients, str(MAX_BATCH_BYTES // MIB)]
    assert numbers.pop("tests/replog/processes/test_descriptors.py") == [f"{PARTITIONS * 4 / DESCRIPTORS:g}"]
    assert numbers.pop("benchmarks/most_partitions.py") == [str(MAX_CLUSTER_PARTITIONS), "2000"]  # by its option
    for path, each in numbers.items():
        text = (ROOT / path).read_text().replace("_", "").replace(",", " ")
        assert all(re.search(rf"\b{number}\b", text) for number in each), (path, each)
