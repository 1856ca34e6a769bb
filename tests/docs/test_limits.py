"""Every limit in the docs is in the code with its number, and a test reaches it; and every limit is in the docs."""

import importlib
import re
from pathlib import Path

import pytest

from replog.config.properties import MAX_BATCH_BYTES
from replog.rpc.limits import LIMITS, MIB
from replog.topic import MAX_CLUSTER_PARTITIONS, MAX_PARTITIONS
from tests.docs.tree import ROOT, text_files
from tests.replog.processes.test_descriptors import DESCRIPTORS, PARTITIONS

LIMITS_MD = (ROOT / "docs/limits.md").read_text()
DIVERGENCES_MD = (ROOT / "docs/divergences.md").read_text()
SERVERS = (
    *("replog/*.py", "replog/common/*.py", "replog/config/*.py", "replog/log/**/*.py", "replog/log_tools/**/*.py"),
    *("replog/metadata/*.py", "replog/rpc/**/*.py", "replog/purgatory/*.py", "replog/kafka/*.py"),
    *("leader/*.py", "follower/*.py", "replog/controller/*.py", "replog/server/**/*.py"),
)
CONSTANTS = [
    (path, name)
    for pattern in SERVERS
    for path in ROOT.glob(pattern)
    for name in re.findall(r"^([A-Z][A-Z_]*) ?[:=]", path.read_text(), re.M)
]
BOUND = re.compile(r"MAX_\w+|MOST\w*|\w*AT_ONCE|LOT|LISTED_\w+|DELTA_\w+")
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
REACHED_WITHOUT_A_NAME = {  # by numbers, or as a whole: what no test mentions, and the test that reaches it
    "ALL_BYTES": "test_the_tails_of_all_files_are_bounded_and_the_least_recent_goes_first",
    "MAX_ACLS_PER_REQUEST": "test_a_request_that_lists_too_much_is_refused_before_it_is_parsed",
    "MAX_ADDRESS_LENGTH": "test_a_registration_is_checked_before_it_is_believed",
    "MAX_BYTES": "test_a_marker_of_any_content_says_that_the_stop_was_clean",
    "MAX_CHECKPOINT_BYTES": "test_a_damaged_or_lost_epoch_file_is_rebuilt",
    "MAX_CONFIGS_PER_REQUEST": "test_a_request_that_lists_too_much_is_refused_before_it_is_parsed",
    "MAX_CONFIG_LENGTH": "test_wrong_settings_are_refused_as_at_creation",
    "MAX_CONTROLLERS": "test_addresses_are_checked_one_by_one_and_bounded",
    "MAX_DIRECTORIES": "test_what_cannot_be_is_refused_by_its_line",
    "MAX_EXPANSION": "test_a_leader_looks_through_so_much_and_no_more",
    "MAX_INDEX_BYTES": "test_an_index_larger_than_a_segment_can_need_is_not_read",
    "MAX_LOG_DIRS": "test_log_dirs_that_would_meet_are_refused",
    "MAX_PEM_BYTES": "test_files_that_cannot_be_used_are_named_with_their_setting",
    "MAX_PRINCIPAL_LENGTH": "test_what_could_never_apply_is_refused_with_a_remedy",
    "MAX_PROPERTIES_BYTES": "test_a_directory_whose_identity_is_damaged_is_left_alone",
    "MAX_RACK_LENGTH": "test_a_registration_is_checked_before_it_is_believed",
    "MAX_RECORDS": "test_a_leader_looks_at_so_many_keys_and_no_more",
    "MAX_REPLICAS": "test_what_cannot_be_is_refused_by_its_line",
    "MAX_REPLICA_LIST_LENGTH": "test_wrong_settings_are_refused_as_at_creation",
    "MAX_SNAPSHOT_BYTES": "test_what_is_too_large_is_not_read",
    "MAX_TEXT_LENGTH": "test_a_report_that_makes_no_sense_is_refused",
    "MOST_OPEN": "test_several_hundred_logs_live_within_64_descriptors",
    "PIECE_BYTES": "test_file_readers_that_do_not_read",
    "STEP_S": "test_no_step_is_long_however_many_produces_come_at_once_and_they_keep_their_order",
    "TOMBSTONES_AT_ONCE": "test_the_oldest_deletions_up_to_a_version_until_they_are_collected",
}
TESTS = "\n".join(text for path, text in text_files(".py") if path.startswith("tests/") and "tests/docs/" not in path)
NAMED = [(name, line) for line in LIMITS_MD.splitlines() for name in re.findall(r"`([A-Z][A-Z_]+)`", line)]
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600}
RUN = re.findall(r"^\| ([^|]+) \| ([\d.,]+)(?: MiB)? \| [^|]*`([\w/]+\.py)`[^|]* \|$", LIMITS_MD, re.M)


def states(line: str, name: str, path: Path) -> bool:
    """Whether `line` states the value that `path` gives to `name`. A value that is no number is stated in any words."""
    value = getattr(importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)), name)
    if not isinstance(value, int | float):
        return True
    seconds = value / 1000 if name.endswith("_MS") else value
    forms = [f"{value:,}", *(f"{(value if size > 1000 else seconds) / size:,g} {unit}" for unit, size in UNITS.items())]
    return any(re.search(rf"(?<![\d.,]){form}(?!,?\d)", line) for form in forms)


def test_every_row_of_what_was_run_was_read():
    rows = LIMITS_MD.partition("| Run by |\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert len(RUN) == len(rows) > 5


@pytest.mark.parametrize(("name", "line"), NAMED)
def test_a_line_states_the_number_of_the_constant_that_it_names(name, line):
    paths = [path for path, other in CONSTANTS if other == name]
    assert paths, f"no broker or controller knows {name}"
    assert any(states(line, name, path) for path in paths), f"{line} does not state {name} of {paths}"


def test_no_bound_of_a_broker_or_a_controller_is_without_a_line():
    bounds = {(path, name) for path, name in CONSTANTS if BOUND.fullmatch(name) and name not in NOBODYS}
    assert len(bounds) > 80
    untold = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name in bounds
        if not any(states(line, name, path) for other, line in NAMED if other == name)
    ]
    assert not untold, untold


def test_a_test_reaches_each_bound():
    """It mentions the constant, or is known to reach it otherwise."""
    names = {name for name, _ in NAMED}
    assert names >= set(REACHED_WITHOUT_A_NAME)
    tests, words = set(re.findall(r"def (\w+)\(", TESTS)), set(re.findall(r"\w+", TESTS))
    unreached = [name for name in names if REACHED_WITHOUT_A_NAME.get(name) not in tests and name not in words]
    assert not unreached, unreached


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
    for path, each in numbers.items():
        text = (ROOT / path).read_text().replace("_", "").replace(",", " ")
        assert all(re.search(rf"\b{number}\b", text) for number in each), (path, each)
