"""Every limit in the docs is in the code, and a test that is there reaches it; and every limit is in the docs."""

import importlib
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
NUMBERS = re.findall(r"^\| .+? \| (.+) \| `([\w/]+)\.py` `([A-Z]\w+)` \|.*$", LIMITS_MD, re.M)
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600}
IN_OTHER_WORDS = (  # or it is how something is counted
    *("after 1 s, and 200 a second", "a quarter of the event loop", "seven times", "as many as a cluster has"),
    "64 MiB | streams of produces",
)
RUN = re.findall(r"^\| ([^|]+) \| ([\d.,]+)(?: MiB)? \| [^|]*`([\w/]+\.py)`[^|]* \|$", LIMITS_MD, re.M)


def test_every_line_of_the_tables_was_read():
    lines = [line for line in LIMITS_MD.splitlines() if line.startswith("| ")]
    tables = len(re.findall(r"^\|---", LIMITS_MD, re.M))
    assert len(ROWS) + len(RUN) == len(lines) - tables > 10


@pytest.mark.parametrize(("limit", "path", "name", "test_path", "test"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_limit_and_its_test_exist(limit, path, name, test_path, test):
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), f"{path} does not know {name}: {limit}"
    assert f"def {test}(" in (ROOT / test_path).read_text(), f"{test_path} has no {test}: {limit}"


@pytest.mark.parametrize(("said", "module", "name"), NUMBERS, ids=[name for _, _, name in NUMBERS])
def test_a_limit_that_is_a_constant_has_the_number_that_its_line_says(said, module, name):
    value = getattr(importlib.import_module(module.replace("/", ".")), name)
    if not isinstance(value, int | float) or said.startswith(IN_OTHER_WORDS):
        return
    seconds = value / 1000 if name.endswith("_MS") else value
    forms = [f"{value:,}", *(f"{(value if size > 1000 else seconds) / size:,g} {unit}" for unit, size in UNITS.items())]
    assert any(re.search(rf"(?<![\d.,]){form}(?!,?\d)", said) for form in forms), f"{value} is none of: {said}"


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
